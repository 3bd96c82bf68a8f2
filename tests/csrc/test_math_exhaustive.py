"""The largest errors of the vector mathematics: samples always, all 2^32 float32 values on demand.

``pytest -m exhaustive -s tests/csrc/test_math_exhaustive.py`` prints the table of errors.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hybrid._native import ffi, lib

SOURCE = Path(__file__).with_name("math_exhaustive.c")
CSRC = Path(__file__).resolve().parents[2] / "csrc"
COMPILER = shutil.which("cc")
PARTS = ("baseline", "avx2", "avx512", "neon")  # instruction sets with mathematics of their own
SUPPORTED = [x for x in ffi.string(lib.hyb_isa_supported()).decode().split() if x in PARTS]
FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-ffp-contract=fast", "-Wall", "-Wextra"]
FUNCTIONS = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "tan",
    "gelu",
    "silu",
    "softplus",
    "log10",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "trunc",
    "round",
    "pow",
    "atan2",
]
SAMPLED = 9973  # a prime: the samples meet every exponent and many patterns of the low bits

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``math_exhaustive`` with a part for each instruction set of this machine."""
    folder = tmp_path_factory.mktemp("math_exhaustive")
    command = [str(COMPILER), *FLAGS, f"-I{CSRC}", f"-I{CSRC / 'include'}", "-Wno-unused-function"]
    objects = [folder / f"{isa}.o" for isa in SUPPORTED]
    for isa, output in zip(SUPPORTED, objects, strict=True):
        subprocess.run([*command, f"-DPART_{isa}", "-c", "-o", output, SOURCE], check=True)
    program = folder / "math_exhaustive"
    subprocess.run([*command, "-o", program, SOURCE, *objects, "-lm"], check=True)
    return program


def measure(program: Path, function: str, stride: int) -> None:
    result = subprocess.run(
        [program, function, str(stride), *SUPPORTED], capture_output=True, text=True
    )
    print(result.stdout, end="")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sampled_errors_are_within_their_limits(program: Path, function: str) -> None:
    measure(program, function, SAMPLED)


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_of_every_value_are_within_their_limits(program: Path, function: str) -> None:
    measure(program, function, 1)
