"""The examples in C, with nothing but a C compiler and what is installed: the bits of Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from tests.programs import digits
from tests.programs.runner import CProgram

EXAMPLES = Path(hy.include_dir()).parent / "examples"

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


def built(name: str, folder: Path) -> Path:
    made, lib = folder / name, hy.lib_dir()
    subprocess.run(
        ["cc", "-std=gnu11", f"-I{hy.include_dir()}", EXAMPLES / f"{name}.c", f"-L{lib}",
         "-lhybrid", f"-Wl,-rpath,{lib}", "-o", made],
        check=True, cwd=folder,
    )  # fmt: skip
    return made


def printed(*command: object, given: bytes = b"") -> list[str]:
    done = subprocess.run(
        [str(word) for word in command], input=given, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def test_training(tmp_path: Path) -> None:
    x, y = digits.write(tmp_path)
    before, after = tmp_path / "digits.hyb", tmp_path / "after.hyb"
    rows = tmp_path / "x.npy", tmp_path / "y.npy"
    *losses, right = printed(built("train_digits", tmp_path), before, *rows, 200, after)
    program = CProgram(before)
    for i, line in enumerate(losses):
        at = 16 * (i % 4)
        [expected] = program("train_step", x[at : at + 16], y[at : at + 16])
        number, loss = line.split()
        assert (int(number), float.fromhex(loss)) == (i, float(expected))
    assert len(losses) == 200 and right == "64 of 64 are right"
    saved = CProgram(after, 1)
    assert {name: cell.tobytes() for name, cell in saved.state().items()} == {
        name: cell.tobytes() for name, cell in program.state().items()
    }


def test_predicting(tmp_path: Path) -> None:
    x, _ = digits.write(tmp_path)
    program = built("predict", tmp_path)
    found = printed(program, tmp_path / "digits.hyb", given=x.tobytes())
    predict = hy.load_exported(tmp_path / "digits.hyb")["predict"]
    parts = [predict(hy.asarray(x[at : at + 16])).numpy() for at in range(0, 64, 16)]
    assert found == [str(row) for row in np.concatenate(parts).argmax(1)]
    for arguments, text in (((), "usage: predict FILE < rows"), (("gone",), "gone: No such file")):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and text in done.stderr
