"""Axes that are declared to vary are open from the first call on, within their ranges."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    CaptureError,
    HybridError,
    ShapeError,
)
from tests.calls.test_open_families import captures, conditions, t
from tests.staging.harness import describe

BATCH = hy.Dim("batch", 1, 512)


def scaled(x: Any, y: Any = None, *, scale: Any = 2.0) -> Any:
    found = x.sum(axis=0) / x.shape[0] * scale
    return found if y is None else found + y.sum(axis=0)


def test_the_first_call_opens() -> None:
    for table in ({"x": {0: BATCH}}, {0: {0: True}}, {"x": {-2: hy.Dim("rows")}}):
        hybridized = hy.hybridize(scaled, dynamic=table)
        for n in (7, 5, 300, 1, 2):
            x = t(n, 4)
            assert describe(hybridized(x)) == describe(scaled(x))
        assert captures(hybridized) == 1
        family = next(iter(hybridized._table.open_families.values()))
        assert (
            family.captures[0].capture.open_axes.sizes.symbols[0].value == 7
        )  # that of the first call


def test_one_name_is_one_symbol() -> None:
    def function(x: Any, y: Any) -> Any:
        return x * 2 + y

    width = hy.Dim("width")
    table = {"x": {0: BATCH, 1: width}, "y": {0: BATCH, 1: width}}
    hybridized = hy.hybridize(function, dynamic=table)
    for n in (5, 9):
        assert hybridized(t(n, 3), t(n, 3)).shape == (n, 3)
    capture = next(iter(hybridized._table.open_families.values())).captures[0].capture
    assert str(capture.graph).startswith("graph @function<batch = 5 to 512, width = 3>")
    assert conditions(hybridized) == [[]]


def test_axes_that_are_not_declared_open_by_themselves() -> None:
    hybridized = hy.hybridize(scaled, dynamic={"x": {0: BATCH}})
    for n in (5, 6, 7, 8):
        assert hybridized(t(n, n + 2)).shape == (n + 2,)
    assert captures(hybridized) == 2


def test_trees_keywords_modules_and_copies() -> None:
    def function(xs: Any, *, mask: Any) -> Any:
        return [x * 2 for x in xs], mask.sum()

    hybridized = hy.hybridize(function, dynamic={"xs": {0: True}, "mask": {0: hy.Dim("m")}})
    for n in (3, 5):
        hybridized([t(n, 2), t(n + 1, 2)], mask=t(n))
    assert captures(hybridized) == 1
    module = nn.Linear(4, 3).hybridize(dynamic={"input": {0: BATCH}})
    assert [module(t(n, 4)).shape[0] for n in (5, 9)] == [5, 9]
    assert captures(module._hybridized) == 1
    hybridized = hy.hybridize(scaled, dynamic={0: {0: BATCH}})
    for other in (copy.deepcopy(hybridized), pickle.loads(pickle.dumps(hybridized))):
        other(t(5, 4))
        assert captures(other) == 1


def test_never() -> None:
    hybridized = hy.hybridize(scaled, dynamic=False)
    for n in (5, 9, 12):
        assert hybridized(t(n, 4)).shape == (4,)
    assert captures(hybridized) == 0


WRONG_TABLES: list[tuple[Any, type[HybridError], str]] = [
    ("x", ArgumentError, "dynamic is 'x'"),
    (True, ArgumentError, "dynamic is True"),
    ({"z": {0: True}}, ArgumentError,
     "dynamic names the argument 'z', which there is not\nFix: use one of: x, y, scale."),
    ({2: {0: True}}, ArgumentError,
     "dynamic names the argument 2, which there is not\nFix: use one of: 0 (x), 1 (y)."),
    ({None: {0: True}}, ArgumentTypeError, "dynamic names the argument None"),
    ({"x": 0}, ArgumentTypeError, "dynamic has 0 for the argument 'x'"),
    ({"x": {}}, ArgumentTypeError, "dynamic has {} for the argument 'x'"),
    ({"x": {0: 5}}, ArgumentTypeError, "dynamic has {0: 5} for the argument 'x'"),
    ({"x": {"a": True}}, ArgumentTypeError, "dynamic has {'a': True} for the argument 'x'"),
    ({"x": {0: BATCH}, "y": {0: hy.Dim("batch", 1, 4)}}, ArgumentError,
     "batch is declared as Dim(name='batch', low=1, high=512) and as "
     "Dim(name='batch', low=1, high=4)"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "error", "text"), WRONG_TABLES)
def test_wrong_tables(table: Any, error: type[HybridError], text: str) -> None:
    with pytest.raises(error) as caught:
        hy.hybridize(scaled, dynamic=table)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("two words",), "Dim got the name 'two words'"),
        ((3,), "Dim got the name 3"),
        (("n", 5, 4), "n is declared from 5 to 4"),
        (("n", -1), "n is declared from -1 to 2147483647"),
        (("n", 1.0), "n is declared from 1.0 to 2147483647"),
    ],
)
def test_wrong_dims(given: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        hy.Dim(*given)
    assert str(caught.value).startswith(text)


def test_functions_that_take_anything() -> None:
    size = hy.Dim("size")
    table = {1: {0: size}, "y": {0: size}}
    hybridized = hy.hybridize(lambda *xs, **others: xs[1] + others["y"], dynamic=table)
    assert hybridized(t(3), t(4), y=t(4)).shape == (4,)


def test_sizes_out_of_their_range() -> None:
    hybridized = hy.hybridize(scaled, dynamic={"x": {0: hy.Dim("batch", 2, 8)}})
    for n in (5, 8):
        hybridized(t(n, 4))
    for n in (9, 1):
        with pytest.raises(ShapeError) as caught:
            hybridized(t(n, 4))
        assert str(caught.value) == (
            f"batch is {n} (axis 0 of x)\nIt is declared from 2 to 8.\n"
            "Fix: call it with a size in that range, or declare another one."
        )
    assert hybridized(t(3, 4)).shape == (4,)


def test_sizes_of_one_name_that_differ() -> None:
    hybridized = hy.hybridize(scaled, dynamic={"x": {0: BATCH}, "y": {0: BATCH}})
    with pytest.raises(ShapeError) as caught:
        hybridized(t(5, 4), t(6, 4))
    assert str(caught.value) == (
        "batch is 5 (axis 0 of x) and 6 (axis 0 of y)\nAxes of one name have one size.\n"
        "Fix: give these axes two names, or tensors that fit."
    )


def test_arguments_that_do_not_have_the_axis() -> None:
    hybridized = hy.hybridize(scaled, dynamic={"x": {2: BATCH}})
    with pytest.raises(AxisError, match=r"dynamic declares axis 2 of x, which is f32\[5,4\]"):
        hybridized(t(5, 4))
    hybridized = hy.hybridize(scaled, dynamic={"scale": {0: BATCH}})
    with pytest.raises(ArgumentTypeError, match="dynamic declares axes of scale, which is a float"):
        hybridized(t(5, 4), scale=0.5)


def test_a_declared_axis_that_the_function_fixes() -> None:
    def function(x: Any) -> Any:
        weights = [1.0] * x.shape[0]  # the line
        return x * hy.asarray(weights)[:, None]

    hybridized = hy.hybridize(function, dynamic={"x": {0: BATCH}})
    with pytest.raises(CaptureError) as caught:
        hybridized(t(5, 4))
    text = str(caught.value)
    assert text.startswith(
        "axis 0 of x is declared to vary, and the function fixes it: batch == 5 ("
    )
    assert "weights = [1.0] * x.shape[0]  # the line" in text
    assert "Fix: compute with the size, or with tensors, instead" in text


def test_graphs_of_declared_axes() -> None:
    hybridized = hy.hybridize(scaled, dynamic={"x": {0: BATCH}})
    assert str(hybridized.graph(t(5, 4))).startswith("graph @scaled<batch = 5 to 512>(")
    assert "<" not in str(hybridized.graph(t(1, 4))).splitlines()[0]
    fixed = hy.hybridize(lambda x: x * len([0] * x.shape[0]), dynamic={0: {0: True}})
    with pytest.raises(CaptureError, match="axis 0 of x is declared to vary, and the function"):
        fixed.graph(t(5))


def test_what_cannot_be_captured_for_all_sizes_raises() -> None:
    def function(x: Any) -> Any:
        x.shape[0].to_bytes(4, "big")
        return x * np.float32(2)

    with pytest.raises(CaptureError, match="batch == 5"):
        hy.hybridize(function, dynamic={"x": {0: BATCH}})(t(5, 4))
