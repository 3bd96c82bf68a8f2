"""Second derivatives inside captured functions have the bits that they have in eager code.

Eagerly the cotangents of a value are added up before they go on.  What the way back of a loop or
branch reads of the forward part, and could make anew, is one value with that of the forward part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy

BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda y, x: y * x,
    "sine of a product": lambda y, x: hy.sin(y * x),
    "and the value": lambda y, x: hy.sin(y * x) + y,
    "difference": lambda y, x: hy.tanh(y - x * y),
    "square": lambda y, x: hy.sin((y * x) ** 2 * -0.5) + y * 0.5,
    "choice": lambda y, x: hy.where(y * x > 0.1, hy.sin(y * x), y * x * x),
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
WAYS = [(by_for, False), (by_while, False), (by_while, True), (by_branches, True)]


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
