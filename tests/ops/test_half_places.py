"""Half precision in every place that holds tensors: eagerly, and in plans with the same bits."""

# ruff: noqa: SIM105, SIM108, RUF100  the programs are about these

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import DTYPES
from tests.helpers import value_bits
from tests.staging.harness import compare, f32, side

FLOATS = [d for d in DTYPES if d.is_floating]
NARROW = [d for d in FLOATS if d.is_stored]
VALUES = [0.5, -1.25, 3.0]


def cast_all(y, s, k):
    return [y.astype(d) for d in DTYPES] + [y.astype(d).astype(y.dtype) for d in DTYPES]


def branch(y, s, k):
    if s > 0:
        y = y * 2
    else:
        y = -y
    return y


def comparison_as_half(y, s, k):
    return (y > s).astype(y.dtype) + hy.where(y > 0, y, 1.0) + hy.where(y > 0, 0.5, y)


def loop(y, s, k):
    rows = []
    for row in hy.stack([y, y * 2, -y]):
        y = y * 0.5 + row
        rows.append(y)
    while hy.sum(y) < 4.0:
        y = y + 1
    return y, hy.stack(rows), rows[-1]


def numbers(y, s, k):
    return y * k + k, y[k % 3], y - k / 4


def printed(y, s, k):
    print(y, f"{hy.sum(y)}", y[0])
    return y


def asserted(y, s, k):
    assert hy.all(y < 100), y
    return y + 1


def stored(y, s, k):
    kept = {"a": y * 2, "b": [y]}
    kept["b"].append(y + s.astype(y.dtype))
    if s > 0:
        kept["a"] = kept["a"] + 1
    return kept


def raised(y, s, k):
    if s > 0:
        raise ValueError(f"of {y}")
    return y * 2


def written(y, s, k):
    z = y * 1.0
    z[1] = 2.0
    z[y > 0] = 0.25
    z += y
    return z, z[::-1], hy.take(z, hy.asarray([2, 0]))


def reduced(y, s, k):
    return (
        hy.sum(y),
        hy.mean(y),
        hy.max(y),
        hy.sort(y),
        hy.argmax(y),
        hy.cumulative_sum(y),
        hy.any(y),
    )


def constants(y, s, k):
    return hy.concat([y, hy.zeros(2, dtype=y.dtype)]), hy.full(2, 1.5, dtype=y.dtype) * y[:2]


def missing(y, s, k):
    z = None
    if s > 0:
        z = y * 3
    return y if z is None else z


PLACES: list[Callable[..., Any]] = [
    cast_all, branch, comparison_as_half, loop, numbers, printed, asserted, stored, raised, written,
    reduced, constants, missing,
]  # fmt: skip
CALLS = [(1.0, 1), (-1.0, 2), (1.0, 3), (0.25, 1)]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("place", PLACES, ids=lambda f: f.__name__)
def test_a_plan_has_the_bits_of_eager_code(place: Callable[..., Any], dtype: Any) -> None:
    eager, fast = side(place, False, False), side(place, False, True)
    for grad in (False, True):
        for s, k in CALLS:
            args = (f32(VALUES).astype(dtype), f32(s), k)
            expected, found = (one.call(args, grad, True) for one in (eager, fast))
            expected.pop("error", None)
            compare(expected, found, found.pop("error", None), f"s = {s}, k = {k}, grad = {grad}")


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_stores_before_an_error_of_the_run_are_kept(dtype: Any) -> None:
    def store(st, y, s):
        st.v = y * 2
        st.items[0] = y + 1
        if s > 0:
            raise ZeroDivisionError("of the author's")

    fast = hy.hybridize(store)
    for s in (1.0, -1.0, 1.0):
        left = []
        for function in (store, fast):
            st = SimpleNamespace(v=None, items=[None])
            try:
                function(st, f32(VALUES).astype(dtype), f32(s))
            except ZeroDivisionError:
                pass
            left.append([value_bits(st.v), value_bits(st.items[0])])
        assert left[0] == left[1]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_what_is_done_before_an_error_of_the_capture_is_done(dtype: Any, capsys: Any) -> None:
    def fail(st, y, s):
        st.v = y * 2
        print(y, f"{y[0]}")
        if s > 0:
            print(y + 1)
        raise ZeroDivisionError("of the author's")

    told = []
    for function in (fail, hy.hybridize(fail)):
        st = SimpleNamespace(v=None)
        with pytest.raises(ZeroDivisionError, match="of the author's"):
            function(st, f32(VALUES).astype(dtype), f32(1.0))
        told.append((value_bits(st.v), capsys.readouterr().out))
    assert told[0] == told[1]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_it_is_copied_and_pickled(dtype: Any) -> None:
    y = f32(VALUES).astype(dtype)
    for made in (copy.copy(y), copy.deepcopy(y), pickle.loads(pickle.dumps(y)), hy.asarray(y)):
        assert value_bits(made) == value_bits(y)


@pytest.mark.parametrize("target", NARROW, ids=lambda d: d.name)
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.name)
def test_every_dtype_is_cast_to_half_and_back(source: Any, target: Any) -> None:
    made = f32([0.0, 1.0, 2.0, 100.0]).astype(source)
    there = made.astype(target)
    assert there.dtype is target
    assert value_bits(there.astype(source)) == value_bits(made)


def test_functions_of_the_authors_get_no_bits_of_bfloat16() -> None:
    def call(y):
        return hy.py_call(np.negative, y, result=y.type)

    for function in (call, hy.hybridize(call)):
        with pytest.raises(hy.errors.DTypeError, match="bfloat16"):
            function(f32(VALUES).astype(hy.bfloat16))
