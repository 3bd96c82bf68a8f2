"""``hybrid export``, ``run``, ``inspect`` and ``verify``: programs from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid.cli.app import build
from tests.programs.broken import Broken

SOURCE = """
import hybrid as hy

hy.random.seed(0)
network = hy.nn.Sequential(hy.nn.Linear(4, 3), hy.nn.ReLU())
total = hy.zeros(3)

def add(x):
    total.assign(total + x)
    return total * 2

def tell(x):
    hy.py_call(print, x)
"""
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model_for_export.py").write_text(SOURCE, encoding="utf-8")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "three.npy", np.ones(3, np.float32))
    return tmp_path


def text_of(*args: object) -> str:
    """What the command prints when all goes well."""
    done = CliRunner().invoke(build(), [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.stdout


def failure(*args: object) -> str:
    """The one line that the command prints when it cannot do what was asked."""
    done = CliRunner().invoke(build(), [str(arg) for arg in args])
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line


def test_a_module(folder: Path) -> None:
    file, out = folder / "m.hyb", folder / "y.npy"
    told = text_of("export", f"{folder}/model_for_export.py:network", "-i", "f32[2,4]", "-o", file)
    assert told == f"{file}: {file.stat().st_size:,} bytes\n"
    assert text_of("run", file, "-i", folder / "x.npy", "-o", out) == ""
    shown = text_of("run", file, "predict", "-i", folder / "x.npy")
    assert shown.splitlines()[0] == "result0: f32[2,3]"
    assert str(np.load(out)) in shown
    assert "3 cells" not in text_of("verify", file)
    assert text_of("verify", file).startswith(f"{file} is whole: 1 function, 2 cells, ")


def test_what_is_in_it(folder: Path) -> None:
    file = folder / "m.hyb"
    text_of("export", f"{folder}/model_for_export.py:network", "-i", "f32[2,4]", "-o", file)
    about = json.loads(text_of("inspect", file, "--json"))
    assert about["functions"] == [
        {"name": "predict", "inputs": "input: f32[2,4]", "outputs": "f32[2,3]"}
    ]
    assert [(c["name"], c["type"], c["role"], c["bytes"]) for c in about["cells"]] == [
        ("0.weight", "f32[3,4]", "parameter", 48),
        ("0.bias", "f32[3]", "parameter", 12),
    ]
    assert sum(row["bytes"] for row in about["sections"]) <= file.stat().st_size
    shown = text_of("inspect", file)
    assert "0.weight" in shown and "predict" in shown and "matmul" in shown
    assert text_of("inspect", file, "--graph", "predict").startswith("graph @")


def test_state_that_goes_on(folder: Path) -> None:
    file, after = folder / "add.hyb", folder / "after.hyb"
    text_of(
        "export", f"{folder}/model_for_export.py:add", "-i", "f32[3]", "-o", file, "--name", "sum"
    )
    three = folder / "three.npy"
    assert "[6. 6. 6.]" in text_of("run", file, "sum", "-i", three, "--repeat", 3, "--save", after)
    assert "[8. 8. 8.]" in text_of("run", after, "-i", three)
    assert "[2. 2. 2.]" in text_of("run", file, "-i", three)


def test_open_axes(folder: Path) -> None:
    file, target = folder / "m.hyb", f"{folder}/model_for_export.py:network"
    text_of("export", target, "-i", "f32[batch,4]", "--size", "batch=1:9", "-o", file)
    np.save(folder / "ten.npy", np.ones((10, 4), np.float32))
    assert text_of("run", file, "-i", folder / "x.npy").startswith("result0: f32[2,3]\n")
    told = failure("run", file, "-i", folder / "ten.npy")
    assert "input input is f32[10,4], not f32[batch,4] with batch from 1 to 9" in told
    about = json.loads(text_of("inspect", file, "--json"))
    assert about["functions"][0]["inputs"] == "input: f32[batch,4]"
    assert about["functions"][0]["outputs"] == "f32[batch,3]"
    assert about["sizes"] == [{"function": "predict", "size": "batch", "from": 1, "to": 9}]
    assert {row["sizes"] for row in about["plans"]} >= {"batch 1"}
    assert "batch" in text_of("inspect", file)
    shown = text_of("inspect", file, "--graph", "predict")
    assert shown.count("graph @") == 2 and "<batch = 9 to 9>" in shown
    assert text_of("verify", file).startswith(f"{file} is whole")
    for size, text in (
        ("batch=9:1", "batch is declared from 9 to 1"),
        ("batch", "'batch' is no range of a size; write it as batch=1:64"),
        ("n=1:2", "--size n is of no axis of an --input"),
    ):
        args = "export", target, "-i", "f32[batch,4]", "--size", size, "-o", folder / "n.hyb"
        assert text in failure(*args)


def test_a_kernel_that_is_not_there(folder: Path) -> None:
    file = folder / "m.hyb"
    text_of("export", f"{folder}/model_for_export.py:network", "-i", "f32[2,4]", "-o", file)
    broken = Broken(file.read_bytes())
    at = broken.section("strings")[0] + int(broken.rows("kernels")[0]["name"]["offset"])
    broken.content[at] = ord("Z")
    file.write_bytes(broken.repaired())
    assert "this library does not have the kernels Z" in failure("verify", file)
    text_of("run", file, "-i", folder / "x.npy")


def test_bad_input(folder: Path) -> None:
    file, x = folder / "m.hyb", folder / "x.npy"
    target = f"{folder}/model_for_export.py"
    assert "tell cannot be exported: it calls Python while it runs" in failure(
        "export", f"{target}:tell", "-i", "f32[3]", "-o", file
    )
    assert "network: no memory for 16000000000000 bytes" in failure(
        "export", f"{target}:network", "-i", "f32[1000000000000,4]", "-o", file
    )
    assert not file.exists()
    text_of("export", f"{target}:network", "-i", "f32[2,4]", "-o", file)
    assert "predict takes 1 input, and --input names 0" in failure("run", file)
    assert "has no function 'train': there are predict" in failure("run", file, "train")
    assert "input input is f32[3], not f32[2,4]" in failure("run", file, "-i", folder / "three.npy")
    assert "is no .npy file" in failure("run", file, "-i", f"{target}")
    assert "gone.npy cannot be read" in failure("run", file, "-i", folder / "gone.npy")
    assert "1 output, and --output names 2" in failure("run", file, "-i", x, "-o", x, "-o", x)
    gone = folder / "gone" / "y.npy"
    assert f"{gone} cannot be written" in failure("run", file, "-i", x, "-o", gone)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    text_of("inspect", file)
    assert "section data is damaged" in failure("verify", file)
    assert "gone.hyb cannot be read" in failure("verify", folder / "gone.hyb")
    assert "does not begin as a program does" in failure("inspect", x)


def test_a_program_that_stands_alone(folder: Path) -> None:
    file, alone = folder / "m.hyb", folder / "alone"
    source = f"{folder}/model_for_export.py:network"
    told = text_of("export", source, "-i", "f32[2,4]", "-o", file, "--standalone", alone)
    written, sources = told.splitlines()
    assert written == f"{file}: {file.stat().st_size:,} bytes"
    assert sources.startswith(f"{alone}: ") and sources.endswith("makes the program.")
    assert (alone / "program.hyb").read_bytes() == file.read_bytes()
    again = folder / "again"
    assert text_of("export", file, "--standalone", again).startswith(f"{again}: ")
    assert (again / "isa/selection.h").read_text() == (alone / "isa/selection.h").read_text()

    assert failure("export", source) == (
        "hybrid: nothing is to be written. Fix: give --output FILE, or --standalone FOLDER."
    )
    assert failure("export", file, "-o", folder / "n.hyb") == (
        f"hybrid: {file} is a file already: --standalone alone goes with it."
    )
    assert failure("export", file, "--standalone", alone) == (
        f"hybrid: --standalone {alone}: {alone} is not empty. Fix: give a folder that is not there."
    )
    assert "does not begin as a program does" in failure(
        "export", folder / "x.npy", "--standalone", folder / "other"
    )
    assert "--standalone" in failure("export", file, "--standalone", folder / "x.npy")
    into = ("export", source, "-i", "f32[2,4]", "-o", "/dev/null", "--standalone", folder / "other")
    assert failure(*into) == (
        "hybrid: --output /dev/null is no regular file, from which --standalone could be made."
    )


def test_a_library_that_cannot_be_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    done = CliRunner().invoke(build(), ["library", str(folder / "lib")])
    assert done.exit_code == 1 and done.stderr.startswith("hybrid: make ended with code 2: make")
    monkeypatch.setenv("PATH", str(folder))
    assert failure("library", folder / "lib") == (
        "hybrid: there is no make, which builds the library. Fix: install it, and a C compiler."
    )
