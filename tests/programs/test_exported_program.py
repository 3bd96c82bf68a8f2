"""Programs that Python loads: bits, state and gradients are those of the author's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import optim
from hybrid.errors import ArgumentTypeError, DTypeError, ProgramError, ShapeError
from tests.programs.digits import Digits, trained
from tests.programs.runner import CProgram

DRAW = np.random.default_rng(1)
X, Y = hy.asarray(DRAW.standard_normal((16, 64), np.float32)), hy.asarray(DRAW.integers(0, 10, 16))


def bits(value: Any) -> bytes:
    return value.numpy().tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    hy.random.seed(3)
    model = Digits(0.2)
    step = trained(model, optim.Adam(model.parameters()))
    hy.export({"predict": (model, X), "step": (step, X, Y)}, tmp_path / "m.hyb")
    return tmp_path / "m.hyb"


def test_a_loaded_program_trains_as_c_does(path: Path) -> None:
    program, c = hy.load_exported(path), CProgram(path)
    for _ in range(5):
        assert bits(program["step"](X, Y)) == c("step", X.numpy(), Y.numpy())[0].tobytes()
    state = c.state()
    assert {name: bits(cell) for name, cell in program.state.items()} == {
        name: cell.tobytes() for name, cell in state.items()
    }
    assert bits(program["predict"](X)) == c("predict", X.numpy())[0].tobytes()


def test_it_is_saved_with_its_state(path: Path, tmp_path: Path) -> None:
    program = hy.load_exported(path)
    program["step"](X, Y)
    program.save(tmp_path / "n.hyb")
    other, c = hy.load_exported(tmp_path / "n.hyb"), CProgram(tmp_path / "n.hyb", 1)
    expected = bits(program["step"](X, Y))
    assert bits(other["step"](X, Y)) == expected == c("step", X.numpy(), Y.numpy())[0].tobytes()
    program.save(path)  # over the file that it is mapped from
    assert bits(hy.load_exported(path)["predict"](X)) == bits(program["predict"](X))


def test_it_is_differentiable_and_goes_into_hybridized_functions(tmp_path: Path) -> None:
    model = Digits()
    hy.export(model, tmp_path / "m", X)
    predict = hy.load_exported(tmp_path / "m")["predict"]
    model.eval()

    def loss(call: Any) -> Any:
        return lambda x: hy.sum(hy.tanh(call(x)) ** 2)

    expected = hy.grad(loss(model))(X)
    assert bits(hy.grad(loss(predict))(X)) == bits(expected)
    for _ in range(2):
        assert bits(hy.hybridize(loss(predict))(X)) == bits(loss(model)(X))


def test_trees_of_arguments_and_results(tmp_path: Path) -> None:
    def mixed(batch, pair, scale, name=None):
        x, (y, z) = batch["x"], pair
        return {"sum": x + y * scale, "rest": [z, (x, 1.5)], "count": int(hy.sum(z)), "none": None}

    batch, pair = {"x": hy.ones(3), "y": hy.zeros(2)}, (hy.ones(3) * 2, hy.arange(4))
    hy.export({"mixed": (mixed, batch, pair, 0.5)}, tmp_path / "m")
    found, expected = (
        hy.load_exported(tmp_path / "m")["mixed"](batch, pair, 0.5),
        mixed(batch, pair, 0.5),
    )
    assert bits(found["sum"]) == bits(expected["sum"])
    assert bits(found["rest"][0]) == bits(expected["rest"][0])
    assert found["rest"][1][0] is batch["x"] and found["rest"][1][1] == 1.5
    assert found["count"] == 6 and type(found["count"]) is int and found["none"] is None


def test_arrays_of_numpy_among_the_arguments(tmp_path: Path) -> None:
    x = np.arange(3, dtype=np.float32)
    batch = hy.Dim("batch")
    hy.export(
        lambda x, y: x * y[0], tmp_path / "m", x, [x], dynamic={"x": {0: batch}, 1: {0: batch}}
    )
    [function] = hy.load_exported(tmp_path / "m").values()
    longer = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(function(longer, [longer]).numpy(), longer * longer)


def test_what_it_says_of_itself(path: Path) -> None:
    program = hy.load_exported(path)
    assert list(program) == ["predict", "step"] and len(program) == 2
    assert repr(program["predict"]) == "predict(x: f32[16,64]) -> f32[16,10]"
    assert repr(program["step"]) == "step(x: f32[16,64], y: i64[16]) -> f32[]"
    assert "optimizer/adam/first.weight/exp_avg" in program.state


def test_tied_weights_are_one_cell(tmp_path: Path) -> None:
    model = Digits()
    model.again = model.first
    hy.export(model, tmp_path / "m", X)
    state = hy.load_exported(tmp_path / "m").state
    assert state["first.weight"] is state["again.weight"]


# Bad input ----------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit(path: Path, tmp_path: Path) -> None:
    program = hy.load_exported(path)
    with pytest.raises(ShapeError, match=r"predict: input x is f32\[16,65\], not f32\[16,64\]"):
        program["predict"](hy.zeros((16, 65)))
    with pytest.raises(DTypeError, match=r"predict: input x is f64\[16,64\], not f32\[16,64\]"):
        program["predict"](hy.zeros((16, 64), dtype=hy.float64))
    with pytest.raises(ArgumentTypeError, match="predict takes 1 argument, not 2"):
        program["predict"](X, Y)
    with pytest.raises(KeyError) as caught:
        program["evaluate"]
    said = f"{path} has no function 'evaluate'\nThere are predict, step."
    assert str(caught.value).startswith(said.rstrip("."))
    hy.export({"f": (lambda x, n: x[0] * n, [X], 2)}, tmp_path / "f")
    f = hy.load_exported(tmp_path / "f")["f"]
    with pytest.raises(ArgumentTypeError, match="f was exported with 2 for 3"):
        f([X], 3)
    with pytest.raises(ArgumentTypeError, match="f takes a list of 1"):
        f((X,), 2)


def test_files_that_are_no_programs(path: Path, tmp_path: Path) -> None:
    content = bytearray(path.read_bytes())
    cases = {
        "empty": (b"", "it has not even a header"),
        "text": (b"graph" * 100, "does not begin as a program does"),
        "cut": (bytes(content[:-1]), "it is cut off"),
        "newer": (
            bytes(content[:8] + b"\x02" + content[9:]),
            "it has version 2.0, and this library",
        ),
        "flipped": (bytes(content[:70] + b"\xff" + content[71:]), "its hash is another one"),
    }
    for name, (damaged, text) in cases.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ProgramError, match=text) as raised:
            hy.load_exported(tmp_path / name)
        assert str(tmp_path / name) in str(raised.value)
    with pytest.raises(FileNotFoundError):
        hy.load_exported(tmp_path / "gone")
