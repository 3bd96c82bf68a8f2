"""``hybrid-run``: functions of programs on arrays in files, without Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ProgramError
from tests.programs import digits
from tests.programs.runner import CProgram

PROGRAM = Path(hy.lib_dir()).parent / "bin" / "hybrid-run"


def run(folder: Path, *arguments: object, **environment: str) -> str:
    """What it prints."""
    done = call(folder, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def refused(folder: Path, *arguments: object, **environment: str) -> str:
    """The one line that it ends with."""
    done = call(folder, *arguments, **environment)
    assert done.returncode in (1, 2) and not done.stdout
    name, text = done.stderr.rstrip("\n").split(": ", 1)
    assert name == "hybrid-run" and "\n" not in text
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run")
    x, y = digits.write(made)
    np.save(made / "xb.npy", x[:16])
    np.save(made / "yb.npy", y[:16])
    return made


def test_two_hundred_steps_have_the_bits_of_the_library(folder: Path, tmp_path: Path) -> None:
    x, y = np.load(folder / "xb.npy"), np.load(folder / "yb.npy")
    program = CProgram(folder / "digits.hyb")
    for _ in range(200):
        [loss] = program("train_step", x, y)
    printed = run(
        folder, "digits.hyb", "train_step", "--input", "xb.npy", "--input", "yb.npy",
        "--output", tmp_path / "loss.npy", "--repeat", 200, "--save", tmp_path / "trained.hyb",
    )  # fmt: skip
    assert printed.startswith("200 runs: the first ") and printed.count("\n") == 1
    found = np.load(tmp_path / "loss.npy")
    assert found.tobytes() == loss.tobytes() and found.shape == ()
    saved = CProgram(tmp_path / "trained.hyb", 1)
    assert {name: cell.tobytes() for name, cell in saved.state().items()} == {
        name: cell.tobytes() for name, cell in program.state().items()
    }


def test_what_is_not_written_is_printed(folder: Path) -> None:
    [expected] = CProgram(folder / "digits.hyb")("predict", np.load(folder / "xb.npy"))
    name, type_, *values, dots = run(folder, "digits.hyb", "predict", "-i", "xb.npy").split()
    assert (name, type_, dots) == ("result0:", "f32[16,10]", "...")
    np.testing.assert_array_equal(np.array(values, np.float32), expected.ravel()[:8])


def test_list(folder: Path) -> None:
    assert run(folder, "digits.hyb", "--list").splitlines() == [
        "train_step(x: f32[16,64], y: i64[16]) -> (result0: f32[])",
        "predict(x: f32[16,64]) -> (result0: f32[16,10])",
        "20 cells, 28984 bytes",
    ]


def test_a_list_has_the_names_of_open_axes(tmp_path: Path) -> None:
    def f(x, y):
        return x.sum(axis=1), hy.concat([x, x], axis=0), y * x.shape[0], x.shape[1]

    batch, width = hy.Dim("batch", 1, 64), hy.Dim("width", 2, 9)
    table = {"x": {0: batch, 1: width}, "y": {1: batch}}
    hy.export({"f": (f, hy.ones((4, 3)), hy.ones((2, 4)))}, tmp_path / "m.hyb", dynamic=table)
    assert run(tmp_path, "m.hyb", "--list").splitlines() == [
        "f(x: f32[batch,width], y: f32[2,batch]) -> (result0: f32[batch], result1: f32[?,width], "
        "result2: f32[2,batch], result3: i64[]), batch from 1 to 64, width from 2 to 9",
        "0 cells, 0 bytes",
    ]


def test_files_of_every_format_order_and_dtype(tmp_path: Path) -> None:
    names = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
    draw = np.random.default_rng(0)
    arrays = [draw.integers(0, 2, (3, 4, 5)).astype(name) for name in names]

    def turned(*given):
        return [hy.permute_dims(x, (2, 0, 1)) for x in given]

    hy.export({"turned": (turned, *map(hy.asarray, arrays))}, tmp_path / "m.hyb")
    for version, order in (((1, 0), "C"), ((2, 0), "F")):
        given: list[object] = []
        for name, array in zip(names, arrays, strict=True):
            with (tmp_path / f"{name}.npy").open("wb") as file:
                np.lib.format.write_array(file, np.asarray(array, order=order), version)
            given += ["-i", f"{name}.npy", "-o", f"{name}_out.npy"]
        assert run(tmp_path, "m.hyb", "turned", *given) == ""
        for name, array in zip(names, arrays, strict=True):
            found = np.load(tmp_path / f"{name}_out.npy")
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array.transpose(2, 0, 1))


def test_bfloat16_and_numbers(tmp_path: Path) -> None:
    def half(x, n):
        return hy.astype(x, hy.float32) / 2, x, n + 1, True

    x = hy.asarray(np.array([1.5, -2, 3e38, 0], np.float32))
    hy.export({"half": (half, hy.astype(x, hy.bfloat16), 4)}, tmp_path / "m.hyb")
    bits = np.array([0x3FC0, 0xC000, 0x7F62, 0], np.uint16)
    np.save(tmp_path / "x.npy", bits.view("V2"))
    printed = run(tmp_path, "m.hyb", "-i", "x.npy").splitlines()
    assert printed[0] == "result0: f32[4] 0.75 -1 1.50202764e+38 0"
    assert printed[1] == "x: bf16[4] 1.5 -2 3.004e+38 0"
    run(tmp_path, "m.hyb", "-i", "x.npy", "-o", "half.npy", "-o", "y.npy")
    assert np.load(tmp_path / "y.npy").view(np.uint16).tolist() == bits.tolist()


def test_it_prints_and_raises_as_python_does(tmp_path: Path) -> None:
    def tell(x):
        print("the sum is", hy.sum(x))
        if hy.sum(x) < 0:
            raise ValueError("it is negative")
        return hy.sum(x)

    hy.export({"tell": (tell, hy.ones(2))}, tmp_path / "m.hyb")
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    np.save(tmp_path / "y.npy", -np.ones(2, np.float32))
    assert run(tmp_path, "m.hyb", "-i", "x.npy") == (
        "the sum is tensor(2., dtype=float32)\nresult0: f32[] 2\n"
    )
    done = call(tmp_path, "m.hyb", "-i", "y.npy")
    assert done.returncode == 1 and done.stdout == "the sum is tensor(-2., dtype=float32)\n"
    assert done.stderr.startswith("hybrid-run: tell: ValueError: it is negative (")


def test_the_script_finds_the_package(folder: Path) -> None:
    """The one on the path is a script: the package is elsewhere under each Python."""
    script = Path(sys.executable).parent / "hybrid-run"
    if not script.exists():
        pytest.skip("hybrid is not installed, but built in place")
    done = subprocess.run(
        [script, "digits.hyb", "--list"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == run(folder, "digits.hyb", "--list")


# Loops that do not end ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("endless")

    def spin(x):
        while x[0] >= 0:
            x = x + 1
        return x

    hy.export({"spin": (spin, hy.ones(2))}, made / "m.hyb")
    np.save(made / "x.npy", np.ones(2, np.float32))
    np.save(made / "y.npy", -np.ones(2, np.float32))
    return made


def test_a_time_limit_ends_a_loop(endless: Path) -> None:
    assert refused(endless, "m.hyb", "-i", "x.npy", "--seconds", 0.2) == (
        "it took longer than the 0.2 seconds of --seconds"
    )
    assert run(endless, "m.hyb", "-i", "y.npy", "--seconds", 60) == "result0: f32[2] -1 -1\n"


def test_a_budget_of_iterations_ends_a_loop(endless: Path) -> None:
    text = refused(endless, "m.hyb", "-i", "x.npy", "--iterations", 1000)
    assert text.startswith("spin: its loops go round more than 1000 times (")
    assert text.endswith(f"{Path(__file__).name}:{spin_line()})")


def spin_line() -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.strip() == "while x[0] >= 0:")


# Bad input ----------------------------------------------------------------------------------------


def test_commands_that_do_not_fit(folder: Path) -> None:
    cases = {
        ("gone.hyb",): "gone.hyb: No such file or directory",
        ("xb.npy",): "xb.npy: it does not begin as a program does",
        ("digits.hyb",): "there are several functions: there are train_step, predict",
        ("digits.hyb", "fit"): "there is no function fit: there are train_step, predict",
        ("digits.hyb", "predict"): "predict takes 1 input, and --input names 0",
        ("digits.hyb", "predict", "-i", "xb.npy", "-o", "a", "-o", "b"): (
            "predict has 1 output, and --output names 2"
        ),
        ("digits.hyb", "predict", "-i", "yb.npy"): (
            "predict: input x is i64[16], not f32[16,64]"
        ),
        ("digits.hyb", "predict", "-i", "gone.npy"): (
            "--input gone.npy: it cannot be read: No such file or directory"
        ),
        ("digits.hyb", "predict", "-i", "."): "--input .: it is no regular file",
        ("digits.hyb", "predict", "-i", "xb.npy", "-o", "gone/y.npy"): (
            "--output gone/y.npy: it cannot be written: No such file or directory"
        ),
        ("digits.hyb", "predict", "-i", "xb.npy", "-o", "/dev/full"): (
            "--output /dev/full: it cannot be written: it is no regular file"
        ),
        ("digits.hyb", "--repeat", "0"): "--repeat 0: not a whole number from 1 on",
        ("digits.hyb", "--seconds", "nan"): "--seconds nan: not a number of seconds",
        ("digits.hyb", "--max-bytes", "1k"): "--max-bytes 1k: not a whole number from 1 on",
    }  # fmt: skip
    for arguments, text in cases.items():
        assert refused(folder, *arguments) == text
    assert Path("/dev/full").exists()  # a device is not taken away
    for arguments in ((), ("a", "b", "c"), ("digits.hyb", "--fast")):
        done = call(folder, *arguments)
        assert done.returncode == 2 and "usage: hybrid-run FILE [FUNCTION] [options]" in done.stderr


def test_a_limit_of_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("digits.hyb", "predict", "-i", "xb.npy")
    assert refused(folder, *given, "--max-bytes", 100).startswith("digits.hyb: its cells take ")
    text = refused(folder, *given, HYBRID_PROGRAM_MAX_BYTES="30000")
    assert "digits.hyb: function train_step takes " in text
    assert text.endswith("more than the 30000 that HYBRID_PROGRAM_MAX_BYTES allows")
    assert refused(folder, *given, HYBRID_PROGRAM_MAX_BYTES="much") == (
        "digits.hyb: HYBRID_PROGRAM_MAX_BYTES=much: not a number of bytes"
    )
    assert run(folder, *given, "--max-bytes", 10**6)
    monkeypatch.setenv("HYBRID_PROGRAM_MAX_BYTES", "100")
    with pytest.raises(ProgramError, match="its cells take 8192 bytes beside the file, more than"):
        hy.load_exported(folder / "digits.hyb")


def header(text: str, version: int = 1) -> bytes:
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


DESCR, ORDER, ENDS = "'descr': '<f4'", "'fortran_order': False", "its header is not understood"
FILES = {
    "empty": (b"", "it is no .npy file"),
    "text": (b"numbers, numbers", "it is no .npy file"),
    "format": (header("", 3), "it has format 3, and 1 and 2 are known"),
    "length": (b"\x93NUMPY\x01\x00", "it is no .npy file"),
    "wide length": (b"\x93NUMPY\x02\x00\x10\x00", "it is cut off"),
    "cut": (header("{" * 50)[:-1], "it is cut off"),
    "long": (
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100,
        "its header has 4294967295 bytes, more than the 65536 there may be",
    ),
    "no dict": (header("[]"), ENDS),
    "open": (header("{'descr': '<f4'"), ENDS),
    "quote": (header("{'descr"), ENDS),
    "long key": (header("{'" + "x" * 100 + "': 1}"), ENDS),
    "other key": (header(f"{{{DESCR}, 'kind': 1}}"), ENDS),
    "twice": (header(f"{{{DESCR}, {DESCR}, {ORDER}, 'shape': (1,)}}"), ENDS),
    "missing": (header(f"{{{DESCR}, 'shape': (1,)}}"), ENDS),
    "behind": (header(f"{{{DESCR}, {ORDER}, 'shape': (1,)}} x"), ENDS),
    "order": (header(f"{{{DESCR}, 'fortran_order': 0, 'shape': ()}}"), ENDS),
    "negative": (header(f"{{{DESCR}, {ORDER}, 'shape': (-1,)}}"), ENDS),
    "no comma": (header(f"{{{DESCR}, {ORDER}, 'shape': (1 1)}}"), ENDS),
    "big": (header("{'descr': '>f4'}"), "its bytes are in the other order (>f4)"),
    "object": (header("{'descr': '|O'}"), "its elements are |O, which hybrid does not have"),
    "records": (
        header("{'descr': [('a', '<f4')]}"), "its elements are records, which hybrid does not have",
    ),
    "size": (
        header(f"{{{DESCR}, {ORDER}, 'shape': ({2**70},)}}"),
        "an axis of it is larger than any there is",
    ),
    "product": (
        header(f"{{{DESCR}, {ORDER}, 'shape': (0, {2**40}, {2**40})}}"),
        "it has more than the 70368744177664 bytes there may be",
    ),
    "rank": (
        header(f"{{{DESCR}, {ORDER}, 'shape': ({'1,' * 33})}}"),
        "it has more than the 32 axes there may be",
    ),
    "fewer": (
        header(f"{{{DESCR}, {ORDER}, 'shape': (4,)}}") + bytes(15),
        "its header says that 16 bytes follow, and 15 do",
    ),
    "more": (
        header(f"{{{DESCR}, {ORDER}, 'shape': (4,)}}") + bytes(17),
        "its header says that 16 bytes follow, and 17 do",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_arrays_that_nobody_vouches_for(folder: Path, tmp_path: Path, name: str) -> None:
    content, text = FILES[name]
    (tmp_path / "x.npy").write_bytes(content)
    found = refused(folder, "digits.hyb", "predict", "-i", tmp_path / "x.npy")
    assert found == f"--input {tmp_path / 'x.npy'}: {text}"


def test_bools_are_ones_and_zeros(tmp_path: Path) -> None:
    hy.export({"count": (lambda x: hy.sum(x), hy.asarray([True] * 3))}, tmp_path / "m.hyb")
    array = np.array([0, 1, 7], np.uint8).view(np.bool_)
    np.save(tmp_path / "x.npy", array)
    assert run(tmp_path, "m.hyb", "-i", "x.npy") == "result0: i64[] 2\n"
