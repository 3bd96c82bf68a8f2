"""The library without Python: what the Makefile builds and exports, and programs that use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hybrid._native import ffi, lib

import hybrid as hy
from tests.programs import digits
from tests.programs.runner import CProgram

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

pytestmark = pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("cc")), reason="needs make and a C compiler"
)


def call(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> str:
    result = subprocess.run(
        [str(a) for a in arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the library once per sanitizer; returns its folder.

    The one without comes from ``hybrid library``, as users have it.
    """
    folders: dict[str, Path] = {}

    def make(sanitize: str) -> Path:
        if sanitize not in folders:
            folder = tmp_path_factory.mktemp("library")
            jobs = f"-j{len(os.sched_getaffinity(0))}"
            # Quick to compile: the kernels' own tests are about their optimised form.
            if sanitize:
                variables = [f"BUILD={folder}", f"SANITIZE={sanitize}", "CFLAGS=-O0"]
                call("make", "-s", jobs, "-C", CSRC, *variables)
            else:
                call(sys.executable, "-m", "hybrid", "library", folder, CFLAGS="-O0", cwd=folder)
            folders[sanitize] = folder
        return folders[sanitize]

    return make


def test_the_shared_library_exports_the_header_and_nothing_else(
    build: Callable[[str], Path],
) -> None:
    header = (CSRC / "include" / "hybrid.h").read_text()
    declared = set(re.findall(r"\b(hyb_\w+)\(", header[header.index("/* cffi: begin */") :]))
    assert len(declared) > 20
    for folder in (build(""), Path(hy.lib_dir())):
        lines = call("nm", "-D", "--defined-only", folder / "libhybrid.so").splitlines()
        assert {line.split()[-1] for line in lines} == declared


SANITIZED = pytest.mark.parametrize(
    "sanitize",
    [
        "",
        pytest.param("address,undefined", marks=pytest.mark.exhaustive),
        pytest.param("thread", marks=pytest.mark.exhaustive),
    ],
)
LINKED = pytest.mark.parametrize("linking", ["shared", "static"])


def run_program(
    folder: Path, source: Path, sanitize: str, linking: str, *arguments: str | Path
) -> str:
    """What ``source`` prints, linked with the library in ``folder``."""
    program = folder / f"{source.stem}-{linking}"
    library = folder / ("libhybrid.so" if linking == "shared" else "libhybrid.a")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{CSRC / 'include'}"]
    if sanitize:
        flags += ["-g", f"-fsanitize={sanitize}"]
    call("cc", *flags, source, library, f"-Wl,-rpath,{folder}", "-lm", "-pthread", "-o", program)
    return call(
        program,
        *arguments,
        ASAN_OPTIONS="allocator_may_return_null=1",
        UBSAN_OPTIONS="halt_on_error=1",
        TSAN_OPTIONS="die_after_fork=0",
    )


@SANITIZED
@LINKED
def test_a_program_in_c(build: Callable[[str], Path], sanitize: str, linking: str) -> None:
    isa = run_program(build(sanitize), Path(__file__).with_name("driver.c"), sanitize, linking)
    assert isa.strip() == ffi.string(lib.hyb_isa_name()).decode()


def layers(x: list[list[float]], times: int) -> np.ndarray:
    """What the plan of ``csrc/examples/plan_from_c.c`` computes; these numbers stand there, too."""
    weight = np.array([[1, 0.5, 0], [-1, 1, 0.5], [0, -0.5, 1]], np.float32)
    bias = np.array([0.5, -1, 0.25], np.float32)
    result = np.array(x, np.float32)
    for _ in range(times):
        result = np.maximum(result @ weight + bias, 0)
    return result


@SANITIZED
@LINKED
def test_the_example(build: Callable[[str], Path], sanitize: str, linking: str) -> None:
    source = CSRC / "examples" / "plan_from_c.c"
    refused, arena, *runs = run_program(build(sanitize), source, sanitize, linking).splitlines()
    assert refused == "refused: slot 7: bytes 128 + 24 are not within the 128 of the arena"
    assert arena == "arena: 192 bytes"
    inputs = {1: [[1, 2, 3], [4, 5, 6]], 3: [[8, 0, -1], [-2, 4, 16]]}
    assert len(runs) == 3 * len(inputs)
    for (times, x), first in zip(inputs.items(), range(0, len(runs), 3), strict=True):
        assert runs[first] == f"{times} times:"
        found = np.array([line.split() for line in runs[first + 1 : first + 3]], np.float32)
        # All of them are fractions that float32 holds, whatever the order of the sums.
        np.testing.assert_array_equal(found, layers(x, times))


@SANITIZED
@LINKED
def test_training_in_c(
    build: Callable[[str], Path], sanitize: str, linking: str, tmp_path: Path
) -> None:
    """The losses are those of Python, but for how the library was compiled here."""
    x, y = digits.write(tmp_path)
    before, after = tmp_path / "digits.hyb", tmp_path / "after.hyb"
    source = CSRC / "examples" / "train_digits.c"
    given = before, tmp_path / "x.npy", tmp_path / "y.npy", "200", after
    *losses, right = run_program(build(sanitize), source, sanitize, linking, *given).splitlines()
    program, found = CProgram(before), [float.fromhex(line.split()[1]) for line in losses]
    expected = [
        program("train_step", x[at : at + 16], y[at : at + 16])[0]
        for i in range(200)
        for at in (16 * (i % 4),)
    ]
    np.testing.assert_allclose(found[:20], expected[:20], rtol=1e-5)
    assert len(found) == 200 and found[-1] < 0.1 < found[0]
    assert right == "64 of 64 are right"
    assert CProgram(after, 1)("predict", x[:16])[0].argmax(1).tolist() == y[:16].tolist()


@SANITIZED
@LINKED
def test_many_threads(
    build: Callable[[str], Path], sanitize: str, linking: str, tmp_path: Path
) -> None:
    digits.write(tmp_path)
    source = Path(__file__).with_name("program_threads.c")
    assert (
        run_program(build(sanitize), source, sanitize, linking, tmp_path / "digits.hyb") == "done\n"
    )


def test_damaged_files_under_sanitizers(build: Callable[[str], Path], tmp_path: Path) -> None:
    """What fuzzing starts from, each file as it is and damaged in a thousand ways.

    Kernels are those of the library, which no sanitizer watches: `make fuzz` does.
    """
    tried = ["cc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", str(tmp_path / "none")]
    if subprocess.run(tried, input=b"int main(void) { return 0; }", capture_output=True).returncode:
        pytest.skip("needs a compiler that has sanitizers")
    variables = [
        f"BUILD={tmp_path}", "SANITIZE=address,undefined", f"KERNELS={build('')}/libhybrid.a",
        "CFLAGS=-O1 -g -fno-sanitize-recover=all", "TIMES=1000",
    ]  # fmt: skip
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    found = call("make", "-s", jobs, "-C", CSRC, *variables, "replay").splitlines()
    seeds = sorted((CSRC / "fuzz" / "seeds").iterdir())
    counts = [len(list(folder.iterdir())) for folder in seeds]
    assert found == [f"{count * 1001} executions" for count in counts] and min(counts) > 5


@pytest.mark.skipif(not find_spec("setuptools"), reason="needs setuptools")
def test_the_library_is_compiled_without_the_examples() -> None:
    script = "import runpy, sys; print(*runpy.run_path(sys.argv[1])['sources'](), sep='\\n')"
    files = call(sys.executable, "-c", script, CSRC / "build_library.py").splitlines()
    assert {Path(file).relative_to(CSRC).parts[0] for file in files} == {"isa", "runtime"}
