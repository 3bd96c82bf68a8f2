"""Kernels of bytes for instruction sets that this machine may lack: the same source, emulated."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CSRC = HERE.parents[1] / "csrc"
COMPILER = shutil.which("cc")
FLAGS = ["-std=gnu11", "-O0", "-fwrapv", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-function"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

PROGRAMS = {"byte_products": "640 products", "byte_convolutions": "40 convolutions"}
VARIANTS = {
    "plain, 16 bytes, two at a time": ["-DWIDTH=16", "-DDOT=0", "-DPLAIN"],
    "plain, 64 bytes, two at a time": ["-DWIDTH=64", "-DDOT=0", "-DPLAIN"],
    "emulated AVX-VNNI": ["-DWIDTH=32", "-DDOT=2", "-DPLAIN"],
    "emulated AVX-512 VNNI": ["-DWIDTH=64", "-DDOT=2", "-DPLAIN"],
}
if platform.machine() == "x86_64":
    VARIANTS["SSE2"] = ["-DWIDTH=16", "-DDOT=0"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_that_is_tried_is_exact(tmp_path: Path, name: str, variant: str) -> None:
    program = tmp_path / name
    includes = [f"-I{CSRC}", f"-I{CSRC / 'include'}"]
    command = [str(COMPILER), *FLAGS, *VARIANTS[variant], *includes]
    subprocess.run([*command, "-o", program, HERE / f"{name}.c", "-lm"], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{PROGRAMS[name]}, 0 wrong\n"), done.stderr
