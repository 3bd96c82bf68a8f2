"""Gradients through for: the bits of the unrolled loop, eager and captured; its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.eager.tensor import Tensor
from tests.trace.gradients.control import bits, f64, if_, loop

random = np.random.default_rng(3)
X = f64(random.standard_normal(3))
W = f64(random.standard_normal(3))
M = f64(random.standard_normal((3, 3)))
XS = f64(random.standard_normal((4, 3)))


@dataclass(frozen=True)
class Case:
    """A function with a loop op, the same unrolled, and what both take."""

    name: str
    looped: Callable[..., Tensor]
    unrolled: Callable[..., Tensor]
    args: tuple[Tensor, ...]

    def __str__(self) -> str:
        return self.name


def rnn_cell(h: Tensor, x: Tensor, m: Tensor) -> Tensor:
    return ops.tanh(ops.matmul(m, h) + x * h)


def rnn(x: Tensor, m: Tensor, xs: Tensor) -> Tensor:
    def body(_i, h, s, r, m):
        h = rnn_cell(h, r, m)
        return h, s + h * 2.0, h

    h, s, hs = loop(4, body, [x, np.zeros(3)], [m], [xs], length=4)
    return ops.sum(h + s * 3.0 + ops.sum(hs * hs, axis=0))


def rnn_unrolled(x: Tensor, m: Tensor, xs: Tensor) -> Tensor:
    h, s, hs = x, f64(np.zeros(3)), []
    for i in range(4):
        h = rnn_cell(h, xs[i], m)
        s = s + h * 2.0
        hs.append(h)
    stack = ops.stack(hs)
    return ops.sum(h + s * 3.0 + ops.sum(stack * stack, axis=0))


def backwards(x: Tensor, xs: Tensor) -> Tensor:
    def body(i, h, r):
        h = ops.sin(h * r) + h * ops.astype(i, hy.float64)
        return h, h * r

    h, rows = loop(4, body, [x], [], [xs], length=4, reverse=True)
    return ops.sum(h) + ops.sum(rows * rows)


def backwards_unrolled(x: Tensor, xs: Tensor) -> Tensor:
    h, rows = x, [None] * 4
    for i in reversed(range(4)):
        r = xs[i]
        h = ops.sin(h * r) + h * float(i)
        rows[i] = h * r
    rows = ops.stack(rows)
    return ops.sum(h) + ops.sum(rows * rows)


def shared_start(x: Tensor) -> Tensor:
    """The carried value is at first the invariant."""
    (y,) = loop(5, lambda _i, y, x: ops.tanh(y * x) + y * 0.5, [x], [x])
    return ops.sum(y * x)


def shared_start_unrolled(x: Tensor) -> Tensor:
    y = x
    for _ in range(5):
        y = ops.tanh(y * x) + y * 0.5
    return ops.sum(y * x)


def two_of_one(x: Tensor) -> Tensor:
    """Two carried values are one at first."""
    a, b = loop(4, lambda _i, a, b: (a * b + ops.sin(a), b + a * 0.1), [x, x])
    return ops.sum(a * b + x * x)


def two_of_one_unrolled(x: Tensor) -> Tensor:
    a = b = x
    for _ in range(4):
        a, b = a * b + ops.sin(a), b + a * 0.1
    return ops.sum(a * b + x * x)


def one_for_two(x: Tensor, w: Tensor) -> Tensor:
    """The body returns one value for two carried ones."""

    def body(_i, a, b, w):
        c = ops.tanh(a * w + ops.sin(b) * b)
        return c, c

    a, b = loop(4, body, [x, w], [w])
    return ops.sum(a * w + b * b)


def one_for_two_unrolled(x: Tensor, w: Tensor) -> Tensor:
    a, b = x, w
    for _ in range(4):
        a = b = ops.tanh(a * w + ops.sin(b) * b)
    return ops.sum(a * w + b * b)


def used_after(x: Tensor, w: Tensor) -> Tensor:
    """What the loop starts from has uses after it, and several in the first iteration."""
    (y,) = loop(3, lambda _i, y, w: y * w + ops.sin(y) * ops.cos(y), [x], [w])
    return ops.sum(y * x + ops.exp(x))


def used_after_unrolled(x: Tensor, w: Tensor) -> Tensor:
    y = x
    for _ in range(3):
        y = y * w + ops.sin(y) * ops.cos(y)
    return ops.sum(y * x + ops.exp(x))


def fibonacci(x: Tensor, w: Tensor) -> Tensor:
    a, b = loop(6, lambda _i, a, b: (b, a * 0.3 + b * b * 0.1), [x, w])
    return ops.sum(a * b)


def fibonacci_unrolled(x: Tensor, w: Tensor) -> Tensor:
    a, b = x, w
    for _ in range(6):
        a, b = b, a * 0.3 + b * b * 0.1
    return ops.sum(a * b)


def mixed(x: Tensor, w: Tensor) -> Tensor:
    """Integers and bools are carried too; the index is read."""

    def body(i, h, k, even, w):
        h = ops.where(even, h * w, ops.sin(h)) + ops.astype(k, hy.float64) * 0.1
        return h, k * 2 + i, ops.logical_not(even)

    h, k, _ = loop(5, body, [x, np.array(1), np.array(True)], [w])
    return ops.sum(h) * ops.astype(k, hy.float64)


def mixed_unrolled(x: Tensor, w: Tensor) -> Tensor:
    h, k, even = x, 1, True
    for i in range(5):
        h = ops.where(hy.asarray(even), h * w, ops.sin(h)) + float(k) * 0.1
        k, even = k * 2 + i, not even
    return ops.sum(h) * float(k)


def nested(x: Tensor, w: Tensor) -> Tensor:
    def inner(_j, h, w):
        return ops.tanh(h * w), h * w

    def outer(_i, h, w):
        h, rows = loop(3, inner, [h], [w], length=3)
        return h + ops.sum(rows, axis=0)

    (h,) = loop(4, outer, [x], [w])
    return ops.sum(h * w)


def nested_unrolled(x: Tensor, w: Tensor) -> Tensor:
    h = x
    for _ in range(4):
        rows = []
        for _ in range(3):
            old, h = h, ops.tanh(h * w)
            rows.append(old * w)
        h = h + ops.sum(ops.stack(rows), axis=0)
    return ops.sum(h * w)


def overwritten(x: Tensor, w: Tensor) -> Tensor:
    """Only the last iteration counts."""
    (y,) = loop(4, lambda i, _y, w: ops.exp(w) * ops.astype(i, hy.float64), [x], [w])
    return ops.sum(y)


def overwritten_unrolled(x: Tensor, w: Tensor) -> Tensor:
    y = x
    for i in range(4):
        y = ops.exp(w) * float(i)
    return ops.sum(y)


def dropped(x: Tensor, w: Tensor) -> Tensor:
    """The last value of one carried value is not used."""
    s, _ = loop(4, lambda _i, s, y, w: (s + ops.sin(y), y * w), [np.zeros(3), x], [w])
    return ops.sum(s)


def dropped_unrolled(x: Tensor, w: Tensor) -> Tensor:
    s, y = f64(np.zeros(3)), x
    for _ in range(4):
        s, y = s + ops.sin(y), y * w
    return ops.sum(s)


def branching(x: Tensor, w: Tensor) -> Tensor:
    def body(i, h, w):
        even = ops.equal(ops.remainder(i, 2), 0)
        return if_(even, [h, w], lambda h, w: h * w + ops.sin(h), lambda h, _w: ops.exp(h * 0.1))

    (h,) = loop(5, body, [x], [w])
    return ops.sum(h * h)


def branching_unrolled(x: Tensor, w: Tensor) -> Tensor:
    h = x
    for i in range(5):
        h = h * w + ops.sin(h) if i % 2 == 0 else ops.exp(h * 0.1)
    return ops.sum(h * h)


CASES = [
    Case("rnn", rnn, rnn_unrolled, (X, M, XS)),
    Case("backwards", backwards, backwards_unrolled, (X, XS)),
    Case("shared start", shared_start, shared_start_unrolled, (X,)),
    Case("two of one", two_of_one, two_of_one_unrolled, (X,)),
    Case("one for two", one_for_two, one_for_two_unrolled, (X, W)),
    Case("used after", used_after, used_after_unrolled, (X, W)),
    Case("fibonacci", fibonacci, fibonacci_unrolled, (X, W)),
    Case("mixed", mixed, mixed_unrolled, (X, W)),
    Case("nested", nested, nested_unrolled, (X, W)),
    Case("overwritten", overwritten, overwritten_unrolled, (X, W)),
    Case("dropped", dropped, dropped_unrolled, (X, W)),
    Case("branching", branching, branching_unrolled, (X, W)),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


def numbers(args: tuple) -> tuple[int, ...]:
    return tuple(range(len(args)))


@cases
def test_bits_of_the_unrolled_loop(case: Case) -> None:
    expected = bits(hy.value_and_grad(case.unrolled, numbers(case.args))(*case.args))
    assert bits(hy.value_and_grad(case.looped, numbers(case.args))(*case.args)) == expected


@cases
def test_bits_of_the_captured_loop(case: Case) -> None:
    expected = bits(hy.value_and_grad(case.unrolled, numbers(case.args))(*case.args))
    outside = hy.hybridize(case.looped, mode="trace")
    assert bits(hy.value_and_grad(outside, numbers(case.args))(*case.args)) == expected
    inside = hy.hybridize(hy.value_and_grad(case.looped, numbers(case.args)), mode="trace")
    assert bits(inside(*case.args)) == expected


@cases
def test_derivatives_of_both_orders(case: Case) -> None:
    hy.check_grads(case.looped, *case.args, order=2, eps=1e-5, rtol=1e-4)
    captured = hy.hybridize(case.looped, mode="trace")
    hy.check_grads(captured, *case.args, order=2, eps=1e-5, rtol=1e-4)


def test_facts_of_rows_stay_right_beside_tangents() -> None:
    """Slices of tangents come before the invariants that facts of the loop count on."""

    def f(x: Tensor, w: Tensor) -> Tensor:
        (y,) = loop(3, lambda _i, y, x, w: ops.tanh(y * y * w + x), [x], [x, w])
        return ops.sum(y * y)

    def unrolled(x: Tensor, w: Tensor) -> Tensor:
        y = x
        for _ in range(3):
            y = ops.tanh(y * y * w + x)
        return ops.sum(y * y)

    def mixed(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def along(x: Tensor, w: Tensor) -> Tensor:
            tangent = hy.jvp(lambda x: hy.grad(of)(x, w), (x,), (W,))[1]
            return ops.sum(tangent * tangent)

        return hy.grad(along, argnums=(0, 1))

    for found, wanted in zip(mixed(f)(X, W), mixed(unrolled)(X, W), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9)
