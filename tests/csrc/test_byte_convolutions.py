"""Convolutions of bytes by instruction sets that this machine may lack: emulated."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("byte_convolutions.c")
CSRC = Path(__file__).resolve().parents[2] / "csrc"
COMPILER = shutil.which("cc")
FLAGS = ["-std=gnu11", "-O0", "-fwrapv", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-function"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

VARIANTS = {
    "plain, 16 bytes, two at a time": ["-DWIDTH=16", "-DPLAIN"],
    "plain, 64 bytes, two at a time": ["-DWIDTH=64", "-DPLAIN"],
    "emulated AVX-VNNI": ["-DWIDTH=32", "-DDOT", "-DPLAIN"],
    "emulated AVX-512 VNNI": ["-DWIDTH=64", "-DDOT", "-DPLAIN"],
}
if platform.machine() == "x86_64":
    VARIANTS["SSE2"] = ["-DWIDTH=16"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_shape_is_exact(tmp_path: Path, variant: str) -> None:
    program = tmp_path / "byte_convolutions"
    includes = [f"-I{CSRC}", f"-I{CSRC / 'include'}"]
    command = [str(COMPILER), *FLAGS, *VARIANTS[variant], *includes]
    subprocess.run([*command, "-o", program, SOURCE, "-lm"], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "40 convolutions, 0 wrong\n"), done.stderr
