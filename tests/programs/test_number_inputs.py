"""Python numbers of exported functions: inputs where they are declared, and else frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, DTypeError
from tests.programs.runner import CProgram, ProgramFailure

SCALE = 3.0


class Settings:
    """Numbers in attributes."""

    def __init__(self) -> None:
        self.offset, self.deep = 2, True


SETTINGS = Settings()


def mixed(x, count, rate, fixed=None):
    y = x * SCALE * rate + SETTINGS.offset
    if count > 3:
        y = y - count
    return {"y": y, "count": count, "rate": rate}


def test_numbers_that_are_inputs(tmp_path: Path) -> None:
    x = np.asarray([1.0, 2.5, -3.0], np.float32)
    table = {"count": True, "rate": True, "x": {0: hy.Dim("n", 1, 5)}}
    hy.export({"mixed": (mixed, hy.asarray(x), 2, 0.5, 7)}, tmp_path / "m", dynamic=table)
    c, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")["mixed"]
    for count, rate, n in ((2, 0.5, 3), (4, 0.1, 1), (-7, 1e300, 2), (2**40, -0.0, 3)):
        given = hy.asarray(x[:n])
        expected, found = mixed(given, count, rate, 7), loaded(given, count, rate, 7)
        assert found["y"].numpy().tobytes() == expected["y"].numpy().tobytes()
        assert (found["count"], found["rate"]) == (count, rate)
        assert type(found["count"]) is int and type(found["rate"]) is float
        y, *numbers = c("mixed", x[:n], np.asarray(count), np.asarray(rate))
        assert y.tobytes() == expected["y"].numpy().tobytes()
        assert numbers == [count, rate]
    assert repr(loaded).startswith("mixed(x: f32[n], count: i64[], rate: f64[]) -> ")


def test_numbers_in_trees(tmp_path: Path) -> None:
    def f(x, rates):
        return x * rates["a"] + rates["b"][0]

    x = hy.ones(3)
    hy.export({"f": (f, x, {"a": 0.5, "b": [1.5]})}, tmp_path / "m", dynamic={"rates": True})
    loaded = hy.load_exported(tmp_path / "m")["f"]
    assert [value.name for value in loaded.inputs] == ["x", "rates['a']", "rates['b'][0]"]
    for a, b in ((0.5, 1.5), (2.0, -1.0)):
        rates = {"a": a, "b": [b]}
        assert loaded(x, rates).tolist() == f(x, rates).tolist()


def test_numbers_that_are_frozen(tmp_path: Path) -> None:
    hy.export({"mixed": (mixed, hy.ones(3), 2, 0.5)}, tmp_path / "m", dynamic={"rate": True})
    program = hy.load_exported(tmp_path / "m")
    notes = [row["value"] for row in program.about()["notes"]]
    line = mixed.__code__.co_firstlineno
    assert f"count = 2 (test_number_inputs.py:{line})" in notes
    assert f"SCALE = 3.0 (test_number_inputs.py:{line + 1})" in notes
    assert any(
        note.endswith(f".offset = 2 (test_number_inputs.py:{line + 1})") for note in notes
    ), notes
    with pytest.raises(ArgumentTypeError, match="mixed was exported with 2 for 3"):
        program["mixed"](hy.ones(3), 3, 0.5)


# Bad input ----------------------------------------------------------------------------------------


def test_numbers_of_another_kind(tmp_path: Path) -> None:
    hy.export({"mixed": (mixed, hy.ones(3), 2, 0.5)}, tmp_path / "m", dynamic={"rate": True})
    loaded = hy.load_exported(tmp_path / "m")["mixed"]
    with pytest.raises(DTypeError, match=r"^mixed: input rate is 1, no float$"):
        loaded(hy.ones(3), 2, 1)
    with pytest.raises(ProgramFailure, match=r"^mixed: input rate is i64\[\], not f64\[\]$"):
        CProgram(tmp_path / "m")("mixed", np.ones(3, np.float32), np.asarray(1))


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"x": True}, "dynamic makes x an input, which is a Tensor"),
        ({"fixed": True}, "dynamic makes fixed an input, which is a bool"),
    ],
)
def test_what_is_no_number(tmp_path: Path, table: Any, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text):
        hy.export({"f": (mixed, hy.ones(3), 2, 0.5, True)}, tmp_path / "m", dynamic=table)
