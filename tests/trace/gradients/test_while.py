"""Gradients through while: any number of iterations, kept on stacks or computed again."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import config, ops
from hybrid.core.types import float64, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.trace.gradients.budget import LEAST_ROWS, MOST_ROWS, capacity
from tests.trace.gradients.control import bits, f64, if_, loop, loop_while

X = f64([0.5, -1.5, 2.5])
W = f64([-1.0, 0.25, 0.75])
PLENTY = config.RESIDUAL_NBYTES
BUDGETS = [PLENTY, 800, 1]  # rows for all iterations, for some, for the fewest


@pytest.fixture(params=BUDGETS, ids=["plenty", "some", "least"])
def budget(request, monkeypatch) -> int:
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", request.param)
    return request.param


def escape(x: Tensor, y: Tensor) -> Tensor:
    return loop_while(lambda x, y: x < y, lambda x, _y: x * x + 1.0, [x], [y])[1]


def step(h: Tensor, w: Tensor) -> Tensor:
    return ops.sin(h * w) + h * 0.9


def counted(limit: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """So many steps as a tensor says."""

    def test(k, _h, _w, limit):
        return k < limit

    def body(k, h, w, _limit):
        return k + 1, step(h, w)

    _, _, h = loop_while(test, body, [np.array(0), x], [w, limit])
    return ops.sum(h * h)


def counted_by_for(limit: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """The same by a ``for`` whose count only the run knows; the index counts."""
    (h,) = loop(limit, lambda i, h, w: step(h, w) + ops.astype(i, float64), [x], [w])
    return ops.sum(h * h)


def backwards_by_for(limit: Tensor, x: Tensor, w: Tensor) -> Tensor:
    def body(i, h, w):
        return step(h, w) + ops.astype(i, float64)

    (h,) = loop(limit, body, [x], [w], reverse=True)
    return ops.sum(h * h)


def unrolled(function):
    def plain(limit: Tensor, x: Tensor, w: Tensor) -> Tensor:
        h, n = x, limit.item()
        for i in reversed(range(n)) if function is backwards_by_for else range(n):
            h = step(h, w) if function is counted else step(h, w) + float(i)
        return ops.sum(h * h)

    return plain


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-6), ("float32", 1e-6)])
def test_known_values(dtype, rtol) -> None:
    x, y = (hy.asarray(v, dtype=dtype) for v in (1.1, 8.0))
    for f in (escape, hy.hybridize(escape, mode="trace")):
        dx, dy = hy.grad(f, (0, 1))(x, y)
        np.testing.assert_allclose(dx.item(), 114.433983, rtol=rtol)
        assert dy.item() == 0


def test_second_derivative_in_closed_form() -> None:
    x, first, second = 1.1, 1.0, 0.0
    while x < 8:
        first, second = 2 * x * first, 2 * (first * first + x * second)
        x = x * x + 1
    y = f64(8.0)
    for f in (escape, hy.hybridize(escape, mode="trace")):
        found = hy.grad(lambda x, f=f: hy.grad(lambda x: f(x, y))(x))(f64(1.1)).item()
        np.testing.assert_allclose(found, second, rtol=1e-13)
        along = hy.jvp(hy.grad(lambda x, f=f: f(x, y)), (f64(1.1),), (f64(1.0),))[1].item()
        np.testing.assert_allclose(along, second, rtol=1e-13)


@pytest.mark.parametrize("function", [counted, counted_by_for, backwards_by_for])
@pytest.mark.parametrize("trips", [0, 1, 2, LEAST_ROWS, LEAST_ROWS + 1, 100, 700])
def test_bits_of_the_unrolled_loop_under_any_budget(function, trips, budget) -> None:
    limit = hy.asarray(trips)
    expected = bits(hy.value_and_grad(unrolled(function), (1, 2))(limit, X, W))
    assert bits(hy.value_and_grad(function, (1, 2))(limit, X, W)) == expected
    captured = hy.hybridize(function, mode="trace")
    assert bits(hy.value_and_grad(captured, (1, 2))(limit, X, W)) == expected


def test_a_long_loop(budget) -> None:
    def f(limit, x):
        def body(k, x, _limit):
            return k + 1, x + ops.sin(x) * 1e-3

        return loop_while(lambda k, _x, limit: k < limit, body, [np.array(0), x], [limit])[2]

    x, slope = 0.3, 1.0
    for _ in range(10_000):
        x, slope = x + np.sin(x) * 1e-3, slope * (1 + np.cos(x) * 1e-3)
    captured = hy.hybridize(f, mode="trace")
    found = hy.grad(captured, 1)(hy.asarray(10_000), f64(0.3)).item()
    np.testing.assert_allclose(found, slope, rtol=1e-9)


def test_no_iteration_lets_the_gradient_through(budget) -> None:
    def f(x, y):
        return escape(x, y) * 3.0

    for g in (f, hy.hybridize(f, mode="trace")):
        assert hy.grad(g, (0, 1))(f64(9.0), f64(8.0))[0].item() == 3.0


def test_derivatives_of_both_orders(budget) -> None:
    limit = hy.asarray(20)
    for f in (counted, counted_by_for, hy.hybridize(counted, mode="trace")):
        hy.check_grads(lambda x, w, f=f: f(limit, x, w), X, W, order=2, eps=1e-5, rtol=1e-4)


def test_stacks_of_the_author(budget) -> None:
    """Rows that the loop stacks have gradients; iterations past them leave none."""

    def f(limit, x, w):
        def body(k, h, w, _limit):
            return k + 1, step(h, w), h * w

        def test(k, _h, _w, limit):
            return k < limit

        _, k, h, rows = loop_while(test, body, [np.array(0), x], [w, limit], length=20)
        there = ops.reshape(ops.less(ops.arange(20), k), (20, 1))
        return ops.sum(h) + ops.sum(ops.where(there, rows * rows, 0.0))

    def plain(limit, x, w):
        h, total = x, ops.sum(x) * 0.0
        for i in range(limit.item()):
            if i < 20:
                total = total + ops.sum((h * w) * (h * w))
            h = step(h, w)
        return ops.sum(h) + total

    for trips in (0, 3, 20, 33):
        limit = hy.asarray(trips)
        expected = hy.grad(plain, (1, 2))(limit, X, W)
        for g in (f, hy.hybridize(f, mode="trace")):
            for a, b in zip(hy.grad(g, (1, 2))(limit, X, W), expected, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def deep(x: Tensor, w: Tensor) -> Tensor:
    """A cond in a for in a while."""

    def inner(i, h, w):
        return if_(
            ops.greater(ops.sum(h), ops.astype(i, float64)),
            [h, w],
            lambda h, w: ops.tanh(h * w) + h,
            lambda h, w: ops.sin(h) - w,
        )

    def body(h, k, w):
        (h,) = loop(3, inner, [h], [w])
        return h, k + 1

    return ops.sum(loop_while(lambda _h, k, _w: k < 7, body, [x, np.array(0)], [w])[1] * w)


def deep_unrolled(x: Tensor, w: Tensor) -> Tensor:
    h = x
    for _ in range(7):
        for i in range(3):
            h = ops.tanh(h * w) + h if ops.sum(h).item() > i else ops.sin(h) - w
    return ops.sum(h * w)


def while_in_for(x: Tensor, w: Tensor) -> Tensor:
    """The inner loop is run again: its stacks would be rows of the outer one's."""

    def body(i, h, w):
        limit = ops.astype(i, float64) + 2.0

        def double(h, w, _limit):
            return h * 1.5 + ops.sin(w)

        def test(h, _w, limit):
            return ops.sum(h * h) < limit

        return ops.tanh(loop_while(test, double, [h], [w, limit])[1])

    (h,) = loop(5, body, [x], [w])
    return ops.sum(h * w)


def while_in_for_unrolled(x: Tensor, w: Tensor) -> Tensor:
    h = x
    for i in range(5):
        while ops.sum(h * h) < i + 2.0:
            h = h * 1.5 + ops.sin(w)
        h = ops.tanh(h)
    return ops.sum(h * w)


@pytest.mark.parametrize(
    ("function", "plain"), [(deep, deep_unrolled), (while_in_for, while_in_for_unrolled)]
)
def test_nested(function, plain, budget) -> None:
    expected = bits(hy.value_and_grad(plain, (0, 1))(X, W))
    captured = hy.hybridize(function, mode="trace")
    for f in (function, captured):
        assert bits(hy.value_and_grad(f, (0, 1))(X, W)) == expected
        hy.check_grads(f, X, W, order=2, eps=1e-5, rtol=1e-4)


def test_the_test_has_no_gradient() -> None:
    def f(x, y):
        _, x = loop_while(lambda x, y: ops.sum(x) < ops.exp(y), lambda x, _y: x * 2.0, [x], [y])
        return ops.sum(x)

    for g in (f, hy.hybridize(f, mode="trace")):
        gx, gy = hy.grad(g, (0, 1))(f64([1.0, 2.0]), f64(3.0))
        assert gx.tolist() == [8.0, 8.0]
        assert gy.item() == 0.0


def test_capacity(monkeypatch) -> None:
    row = tensor_type(float64, (4,))
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", 6400)
    assert capacity([row, row]) == 100
    assert capacity([tensor_type(float64, (400,))]) == LEAST_ROWS
    assert capacity([]) == 6400
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", 1 << 40)
    assert capacity([row]) == MOST_ROWS


def test_stacks_of_stacks_are_short() -> None:
    def stopped(x, n):
        y = x
        for _ in range(n):
            z = y
            for _ in range(n):
                z = hy.sin(z) * 1.1
                if z < 0.5:
                    break
            y = y + z * 0.1
            if y > 8:
                break
        return y

    twice = hy.grad(hy.grad(stopped))
    x, n = hy.asarray(1.0), hy.asarray(3)
    np.testing.assert_allclose(hy.hybridize(twice)(x, n).numpy(), twice(x, n).numpy(), rtol=1e-5)
