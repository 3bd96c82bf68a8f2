"""The library without Python: what the Makefile builds and exports, and a program that uses it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hybrid._native import ffi, lib

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

pytestmark = pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("cc")), reason="needs make and a C compiler"
)


def call(*arguments: str | Path, **environment: str) -> str:
    result = subprocess.run(
        [str(a) for a in arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the library once per sanitizer; returns its folder."""
    folders: dict[str, Path] = {}

    def make(sanitize: str) -> Path:
        if sanitize not in folders:
            folder = tmp_path_factory.mktemp("library")
            jobs = f"-j{len(os.sched_getaffinity(0))}"
            # Quick to compile: the kernels' own tests are about their optimised form.
            variables = [f"BUILD={folder}", f"SANITIZE={sanitize}", "CFLAGS=-O0"]
            call("make", "-s", jobs, "-C", CSRC, *variables)
            folders[sanitize] = folder
        return folders[sanitize]

    return make


def test_the_shared_library_exports_the_header_and_nothing_else(
    build: Callable[[str], Path],
) -> None:
    lines = call("nm", "-D", "--defined-only", build("") / "libhybrid.so").splitlines()
    exported = {line.split()[-1] for line in lines}
    header = (CSRC / "include" / "hybrid.h").read_text()
    declared = set(re.findall(r"\b(hyb_\w+)\(", header[header.index("/* cffi: begin */") :]))
    assert exported == declared
    assert len(declared) > 20


@pytest.mark.parametrize(
    "sanitize",
    [
        "",
        pytest.param("address,undefined", marks=pytest.mark.exhaustive),
        pytest.param("thread", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("linking", ["shared", "static"])
def test_a_program_in_c(build: Callable[[str], Path], sanitize: str, linking: str) -> None:
    folder = build(sanitize)
    program = folder / f"driver-{linking}"
    library = folder / ("libhybrid.so" if linking == "shared" else "libhybrid.a")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{CSRC / 'include'}"]
    if sanitize:
        flags += ["-g", f"-fsanitize={sanitize}"]
    source = Path(__file__).with_name("driver.c")
    call("cc", *flags, source, library, f"-Wl,-rpath,{folder}", "-lm", "-pthread", "-o", program)
    isa = call(
        program,
        ASAN_OPTIONS="allocator_may_return_null=1",
        UBSAN_OPTIONS="halt_on_error=1",
        TSAN_OPTIONS="die_after_fork=0",
    )
    assert isa.strip() == ffi.string(lib.hyb_isa_name()).decode()
