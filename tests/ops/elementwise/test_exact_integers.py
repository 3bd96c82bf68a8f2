"""Ints of Python's in 64 bits: exact, or NumberRangeError with the author's line."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import DTypeError, NumberRangeError, ShapeError
from hybrid.ops.elementwise.exact_integers import (
    add_exact,
    multiply_exact,
    quotient,
    subtract_exact,
)

MIN, MAX = -(2**63), 2**63 - 1
OPS = {add_exact: operator.add, subtract_exact: operator.sub, multiply_exact: operator.mul}
EDGES = (0, 1, -1, 2, 2**31, -(2**31) - 1, 3037000500, 2**62, -(2**62), MAX - 1, MAX, MIN + 1, MIN)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_results_and_errors_at_the_edges(op: Any) -> None:
    for a in EDGES:
        for b in EDGES:
            exact = OPS[op](a, b)
            x, y = hy.asarray(a), hy.asarray(b)
            if MIN <= exact <= MAX:
                assert op(x, y).item() == exact
                continue
            with pytest.raises(NumberRangeError) as caught:
                op(x, y)
            assert caught.value.what == f"an int grew to {exact.bit_length()} bits"
            with pytest.raises(NumberRangeError, match=caught.value.what):
                op.reference_rule(np.asarray(a), np.asarray(b))


def test_quotients_are_rounded_once() -> None:
    draw = np.random.default_rng(3)
    bits = draw.integers(0, 63, (2, 3000))
    a, b = draw.integers(MIN, MAX, (2, 3000), endpoint=True) >> bits
    a, b = np.append(a, EDGES), np.append(b, EDGES[::-1])
    found = quotient(a, b).numpy()
    for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        assert np.isnan(z) or np.isinf(z) if y == 0 else z.hex() == (x / y).hex()
    for x in EDGES:
        for y in EDGES:
            assert y == 0 or quotient(hy.asarray(x), hy.asarray(y)).item().hex() == (x / y).hex()


COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def test_ints_compare_with_floats_as_they_are() -> None:
    @hy.hybridize
    def compared(n, x):
        n, x = n.item(), x.item()
        return [f(n, x) for f in COMPARISONS] + [f(x, n) for f in COMPARISONS]

    text = str(compared.graph(hy.asarray(1), hy.asarray(1.0, dtype=hy.float64)))
    assert "py_call" not in text
    floats = [float(n) for n in EDGES] + [0.5, -0.5, -0.0, 2.0**63, -(2.0**63), 1e300, -1e300]
    floats += [np.inf, -np.inf, np.nan, 2.0**53 + 2, -(2.0**62) - 1024, np.nextafter(2.0**63, 0)]
    for n in (*EDGES, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**62 + 1):
        for x in floats:
            expected = [f(n, x) for f in COMPARISONS] + [f(x, n) for f in COMPARISONS]
            assert compared(hy.asarray(n), hy.asarray(x, dtype=hy.float64)) == expected, (n, x)


def test_one_element_of_many() -> None:
    x = np.full(10_000, MAX - 1)
    assert (add_exact(x, np.ones(10_000, np.int64)).numpy() == MAX).all()
    y = np.ones(10_000, np.int64)
    y[7777] = 5
    for threads in (1, 4):
        hy.set_num_threads(threads)
        with pytest.raises(NumberRangeError, match="an int grew to 64 bits"):
            add_exact(x, y)


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(DTypeError, match=r"add_exact cannot take f32\[\] as a"):
        add_exact(hy.ones(()), hy.asarray(1))
    with pytest.raises(ShapeError, match=r"multiply_exact cannot take i64\[2\] as b"):
        multiply_exact(hy.asarray([1]), hy.asarray([1, 2]))


def counted(x, limit, n):
    while hy.sum(x) < limit:
        x = x + 1.0
        n = n * 2 + 1
    return n


def test_a_counter_is_one_node_and_no_call_of_python() -> None:
    hybridized = hy.hybridize(counted)
    x = hy.zeros(1)
    text = str(hybridized.graph(x, hy.asarray(3.0), 1))
    assert "add_exact" in text and "multiply_exact" in text and "py_call" not in text
    assert hybridized(x, hy.asarray(3.0), 1) == counted(x, hy.asarray(3.0), 1) == 15
    assert hybridized(x, hy.asarray(61.0), 1) == 2**62 - 1
    with pytest.raises(NumberRangeError) as caught:
        hybridized(x, hy.asarray(70.0), 1)
    assert caught.value.what == "an int grew to 64 bits"
    assert caught.value.at.line == counted.__code__.co_firstlineno + 3


class Meter:
    def __init__(self) -> None:
        self.seen = hy.zeros(())


def test_what_a_run_writes_before_it_grows_too_large_is_not_kept() -> None:
    meter = Meter()

    @hy.hybridize
    def noted(x):
        n = x.item()
        meter.seen = meter.seen + 1.0
        return n + n

    assert noted(hy.asarray(2)) == 4
    with pytest.raises(NumberRangeError):
        noted(hy.asarray(2**62))
    assert meter.seen.item() == 1.0


@pytest.mark.parametrize(
    ("function", "number"),
    [
        (lambda n: -n, MIN), (abs, MIN), (lambda n: n // -1, MIN), (lambda n: 1 - n, MIN + 1),
        (lambda n: n - n // 3, 5), (lambda n: abs(n) + 1, -5), (lambda n: n // -1, 7),
    ],
)  # fmt: skip
def test_other_arithmetic(function: Any, number: int) -> None:
    @hy.hybridize
    def computed(x):
        return function(x.item())

    exact = function(number)
    assert computed(hy.asarray(3)) == function(3)
    if MIN <= exact <= MAX:
        assert computed(hy.asarray(number)) == exact
        return
    with pytest.raises(NumberRangeError, match=f"an int grew to {exact.bit_length()} bits"):
        computed(hy.asarray(number))


def test_rows_of_vmap() -> None:
    rows = hy.vmap(lambda a, b: multiply_exact(add_exact(a, b), b), in_axes=(0, None))
    assert rows(hy.asarray([1, 2, 3]), hy.asarray(4)).tolist() == [20, 24, 28]
