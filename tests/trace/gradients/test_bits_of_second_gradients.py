"""Second derivatives inside captured functions have the bits that they have in eager code.

Eagerly the cotangents of a value are added up before they go on.  What the way back of a loop or
branch reads of the forward part, and could make anew, is one value with that of the forward part;
so is the result of an iteration that it reads, and what the next iteration begins with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy

BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda y, x: y * x,
    "sine of a product": lambda y, x: hy.sin(y * x),
    "and the value": lambda y, x: hy.sin(y * x) + y,
    "difference": lambda y, x: hy.tanh(y - x * y),
    "square": lambda y, x: hy.sin((y * x) ** 2 * -0.5) + y * 0.5,
    "choice": lambda y, x: hy.where(y * x > 0.1, hy.sin(y * x), y * x * x),
    "its own result": lambda y, x: 1 / (y * y + 1),
    "its own result and a value": lambda y, x: hy.tanh(y * y * x + y * x),
}


def by_for(body: Callable[[Any, Any], Any], x: Any, n: Any) -> Any:
    y = x * 1.0
    for _ in range(n):
        y = body(y, x)
    return hy.sum(y)


def by_while(body: Callable[[Any, Any], Any], x: Any, n: Any) -> Any:
    y, i = x * 1.0, 0
    while i < n:
        y, i = body(y, x), i + 1
    return hy.sum(y)


def by_branches(body: Callable[[Any, Any], Any], x: Any, n: Any) -> Any:
    y = body(x * 1.0, x)
    if n > 1:
        y = body(y, x) if hy.sum(y) > 0 else y * y
    return hy.sum(y)


def second(of: Callable[..., Any], body: Callable[[Any, Any], Any], norm: bool) -> Any:
    def inner(x: Any, n: Any) -> Any:
        gradient = hy.grad(lambda x: of(body, x, n))(x)
        return hy.sum(gradient * gradient) if norm else hy.sum(gradient)

    return lambda x, n: hy.grad(lambda x: inner(x, n))(x)


# What is known of the number of iterations: all, or nothing before the graph runs.
WAYS = [
    (by_for, False), (by_for, True), (by_while, False), (by_while, True), (by_branches, True)
]  # fmt: skip


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("of", "unknown"), WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_bits(name: str, of: Callable[..., Any], unknown: bool, norm: bool) -> None:
    eager = second(of, BODIES[name], norm)
    captured = [hy.hybridize(eager, ledger=False) for _ in range(4)]
    for n, call in zip((1, 2, 3, 5), captured, strict=True):  # a plan for each, if it is known
        for values in ([0.3, 0.7], [0.21, 0.33], [0.1, 0.9], [-0.4, 0.8]):
            x = hy.asarray(values)
            given = hy.asarray(n) if unknown else n
            assert call(x, given).tolist() == eager(x, given).tolist(), (n, values)


def cell(y: Any, x: Any, w: Any) -> Any:
    return hy.tanh(w @ y + x * y * y)


def gate(y: Any, x: Any, w: Any) -> Any:
    z = hy.sigmoid(w @ (y * y))
    return z * y + (1 - z) * hy.tanh(w @ (x * y))


def over_count(cell: Callable[..., Any], y: Any, x: Any, w: Any, n: Any) -> Any:
    for _ in range(n):
        y = cell(y, x[0], w)
    return y


def over_rows(cell: Callable[..., Any], y: Any, x: Any, w: Any, _n: Any) -> Any:
    for row in x:
        y = cell(y, row, w)
    return y


def with_a_break(cell: Callable[..., Any], y: Any, x: Any, w: Any, n: Any) -> Any:
    for i in range(6):
        y = cell(y, x[0], w)
        if i + 1 >= n:
            break
    return y


def penalty(run: Callable[..., Any], cell: Callable[..., Any], order: int) -> Any:
    """The gradients by the start, the inputs and the weights, of so high an order."""

    def loss(x: Any, w: Any, y: Any, n: Any) -> Any:
        y = run(cell, y * 1.0, x, w, n)
        return hy.sum(y * y)

    def squared(function: Callable[..., Any]) -> Callable[..., Any]:
        def norm(*args: Any) -> Any:
            gradient = hy.grad(function)(*args)
            return hy.sum(gradient * gradient)

        return norm

    for _ in range(order - 1):
        loss = squared(loss)
    return hy.grad(loss, argnums=(0, 1, 2))


RECURRENCES = [
    *[(run, each, 2) for run in (over_count, over_rows, with_a_break) for each in (cell, gate)],
    (over_rows, cell, 3), (over_rows, gate, 3),
]  # fmt: skip


@pytest.mark.parametrize(("run", "each", "order"), RECURRENCES)
def test_a_recurrence(run: Callable[..., Any], each: Callable[..., Any], order: int) -> None:
    """What is read of a value, as a result and as a start, is added up term by term."""
    eager = penalty(run, each, order)
    call = hy.hybridize(eager, ledger=False)
    random = np.random.default_rng(5)
    for n in (1, 2, 4):
        for _ in range(4):
            shapes = ((4, 3), (3, 3), (3,))
            x, w, y = [hy.asarray(random.uniform(0.3, 1.2, s).astype("f")) for s in shapes]
            expected, found = eager(x, w, y, hy.asarray(n)), call(x, w, y, hy.asarray(n))
            assert [t.numpy().tobytes() for t in found] == [t.numpy().tobytes() for t in expected]


def begins_with_what_it_reads(x: Any, w: Any, n: Any) -> Any:
    y = x
    for _ in range(n):
        y = hy.tanh(y * y * w + x)
    return y


def begins_with_two_of_one(x: Any, w: Any, n: Any) -> Any:
    y = z = x
    for _ in range(n):
        y, z = hy.sin(y * z) + x, 1 / (z * y + w * w + 1)
    return y * z


def hands_values_on(x: Any, w: Any, _n: Any) -> Any:
    a, b = w, w * x
    for _ in hy.arange(3):
        a, b = b, 1 / (x * b + 1.5)
    return a * a + b * b


def hands_values_on_twice(x: Any, w: Any, n: Any) -> Any:
    a, b, c = x * 1.0, x * 2.0, w * 1.0
    for _ in range(n):
        a, b, c = b, c, hy.tanh(c * c + x * c)
    return a * a + b * b + c * c


def sums_beside(x: Any, w: Any, n: Any) -> Any:
    y, total = x, x * 0.5
    for i in range(6):
        y = hy.sigmoid(x + w + hy.sin(y))
        total = total + y * x
        if i + 1 >= n:
            break
    return y * y + total * total


LOOPS = [
    begins_with_what_it_reads,
    begins_with_two_of_one,
    hands_values_on,
    hands_values_on_twice,
    sums_beside,
]


@pytest.mark.parametrize("loop", LOOPS)
def test_values_with_several_names(loop: Callable[..., Any]) -> None:
    """What a loop begins with, and what it hands on, is one value with what it is elsewhere."""

    def norm(x: Any, w: Any, n: Any) -> Any:
        gradient = hy.grad(lambda x: hy.sum(loop(x, w, n)))(x)
        return hy.sum(gradient * gradient)

    eager = hy.grad(norm, argnums=(0, 1))
    call = hy.hybridize(eager, ledger=False)
    random = np.random.default_rng(7)
    for n in (0, 1, 2, 3, 5):
        for _ in range(4):
            x, w = [hy.asarray(random.uniform(-1.2, 1.2, 3).astype("f")) for _ in range(2)]
            expected, found = eager(x, w, hy.asarray(n)), call(x, w, hy.asarray(n))
            assert [t.numpy().tobytes() for t in found] == [t.numpy().tobytes() for t in expected]
