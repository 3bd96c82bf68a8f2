"""A tuple that a captured function puts in several places is one tuple there, as in eager code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hybrid as hy


class Pair(NamedTuple):
    first: Any
    second: Any


class State:
    """Outlives the calls."""

    held: Any
    other: Any


STATE = State()
PLAIN = (1.0, 2.0)
WITH_TENSOR = (hy.ones(2), 3.0)


def returned_and_stored(x: hy.Tensor) -> Any:
    pair = (x * 2, x)
    STATE.held = pair
    return pair


def named(x: hy.Tensor) -> Any:
    pair = Pair(x * 2, x)
    STATE.held = pair
    return pair


def returned_twice(x: hy.Tensor) -> Any:
    pair = (x * 2, x)
    STATE.held = pair
    return pair, [pair]


def stored_twice(x: hy.Tensor) -> Any:
    pair = (x * 2, x)
    STATE.held, STATE.other = pair, pair
    return x


def in_containers(x: hy.Tensor) -> Any:
    pair = (x * 2,)
    STATE.held = {"pair": pair, "list": [pair]}
    return pair


def in_tuples(x: hy.Tensor) -> Any:
    inner = (x,)
    outer = (inner, inner)
    STATE.held = outer
    return (outer, inner)


def of_paths(x: hy.Tensor) -> Any:
    if x.sum() > 0:  # noqa: SIM108  a statement
        pair = (x, x * 2)
    else:
        pair = (x * 3, x)
    STATE.held = pair
    return pair


def of_a_loop(x: hy.Tensor) -> Any:
    pair = (x, 0)
    for i in range(3):
        pair = (pair[0] * 2, i)
    STATE.held = pair
    return pair


def from_outside(x: hy.Tensor) -> Any:
    STATE.held, STATE.other = PLAIN, WITH_TENSOR
    return PLAIN, WITH_TENSOR, [PLAIN]


# By function: what is one object after a call, given its result.
SAME: dict[Any, Any] = {
    returned_and_stored: lambda r: [STATE.held is r],
    named: lambda r: [STATE.held is r, type(r) is Pair],
    returned_twice: lambda r: [r[0] is STATE.held, r[1][0] is STATE.held],
    stored_twice: lambda r: [STATE.held is STATE.other],
    in_containers: lambda r: [STATE.held["pair"] is r, STATE.held["list"][0] is r],
    in_tuples: lambda r: [r[0] is STATE.held, r[1] is r[0][0], r[0][0] is r[0][1]],
    of_paths: lambda r: [STATE.held is r],
    of_a_loop: lambda r: [STATE.held is r, r[1] == 2],
    from_outside: lambda r: [
        r[0] is PLAIN, r[1] is WITH_TENSOR, STATE.held is PLAIN, STATE.other is WITH_TENSOR
    ],
}  # fmt: skip


@pytest.mark.parametrize("function", SAME, ids=lambda function: function.__name__)
def test_one_tuple_stays_one(function: Any) -> None:
    STATE.held = STATE.other = None
    hybridized = hy.hybridize(function)
    before: list[Any] = []
    for sign in (1.0, -1.0, 1.0):
        x = hy.full((2,), sign)
        result = hybridized(x)
        assert all(SAME[function](result))
        held = STATE.held
        if function is not from_outside:
            assert all(held is not other for other in before), "each run makes another"
        before.append(held)
        expected = function(x)
        assert str(result) == str(expected) and all(SAME[function](expected))
    assert len(hybridized.plans) <= 2  # where there was nothing, and where there is a tuple


def test_a_global_tuple_is_returned_itself() -> None:
    function = hy.hybridize(lambda x: PLAIN)
    assert [function(hy.ones(2)) is PLAIN for _ in range(3)] == [True] * 3


def test_programs_have_them_in_each_place(tmp_path: Path) -> None:
    def twice(x: hy.Tensor) -> Any:
        pair = (x * 2, x + 1)
        return pair, [pair, PLAIN]

    hy.export(twice, tmp_path / "m.hyb", hy.ones(2))
    found = hy.load_exported(tmp_path / "m.hyb")["twice"](hy.ones(2))
    assert str(found) == str(twice(hy.ones(2)))
    hy.onnx.export(twice, tmp_path / "m.onnx", hy.ones(2))
    outputs = hy.onnx.load(tmp_path / "m.onnx")(hy.ones(2))
    assert [t.tolist() for t in outputs[:4]] == [[2.0, 2.0]] * 2 + [[2.0, 2.0]] * 2


def test_vmap_over_a_function_that_returns_one_twice() -> None:
    @hy.hybridize
    def twice(x: hy.Tensor) -> Any:
        pair = (x * 2, x)
        return pair, pair

    one, other = hy.vmap(twice)(hy.ones((3, 2)))
    assert [t.shape for t in (*one, *other)] == [(3, 2)] * 4
