"""Gradients taken in a capture require gradients where the path of a run leads beyond their own.

``hy.grad(loss)(x)`` requires a gradient where ``loss`` depends on another variable, ``w`` here,
which may be so on some paths only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import f32, i64

X = [1.0, 2.0, 3.0]
# What a variable holds before a branch or loop, and what that makes of it.
FIRST: dict[str, Callable[..., Any]] = {
    "own": lambda x, w: x * 1.0,
    "other": lambda x, w: w * 1.0,
    "none": lambda x, w: hy.ones(3),
    "x itself": lambda x, w: x,
    "w itself": lambda x, w: w,
}
THEN: dict[str, Callable[..., Any]] = {
    "own": lambda v, x, w: x,
    "other": lambda v, x, w: w * 2,
    "none": lambda v, x, w: hy.ones(3),
    "own beside": lambda v, x, w: v * x,
    "other beside": lambda v, x, w: v + w,
    "the same": lambda v, x, w: v * 2,
    "detached": lambda v, x, w: v.detach(),
}


def looped(first: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    def function(x, w, n):
        def loss(x):
            v, i = first(x, w), hy.asarray(0)
            while i < n:
                v = then(v, x, w)
                i = i + 1
            return (v * v).sum() + (x * x).sum()

        return hy.grad(loss)(x)

    return function


def branched(first: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    def function(x, w, n):
        def loss(x):
            v = first(x, w)
            if n > 1:
                v = then(v, x, w)
            return (v * v).sum() + (x * x).sum(), v

        return hy.value_and_grad(loss, has_aux=True)(x)

    return function


def outcome(function: Callable[..., Any], n: int, x_requires: bool, w_requires: bool) -> list[Any]:
    x, w = f32(X), f32([0.5, -1.0, 2.0])
    x.requires_grad, w.requires_grad = x_requires, w_requires
    found = function(x, w, i64(n))
    tensors = [found] if isinstance(found, hy.Tensor) else [*found[0], found[1]]
    seen: list[Any] = [(t.tolist(), t.requires_grad) for t in tensors]
    with_history = [t for t in tensors if t.requires_grad]
    if with_history:
        sum(hy.sum(t * (k + 1.5)) for k, t in enumerate(with_history)).backward()
    return [*seen, *[None if t.grad is None else t.grad.tolist() for t in (x, w)]]


@pytest.mark.parametrize("make", [looped, branched])
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("then", THEN)
def test_gradients_require_gradients_by_the_path(
    make: Callable[..., Any], first: str, then: str
) -> None:
    function = make(FIRST[first], THEN[then])
    hybridized = hy.hybridize(function)
    for x_requires, w_requires in itertools.product((False, True), repeat=2):
        for n in (0, 3, 1, 0):
            wanted = outcome(function, n, x_requires, w_requires)
            assert outcome(hybridized, n, x_requires, w_requires) == wanted, (n, x_requires)


def test_what_a_loop_has_overwritten_in_the_state() -> None:
    def made(hybridized: bool) -> list[Any]:
        state = SimpleNamespace(v=hy.ones(3))

        def loss(x, s, n):
            for _ in range(n):
                state.v = hy.stack([s, hy.sum(x), s])
            y = x * 2 + state.v
            return hy.sum(y * y)

        derivative = hy.grad(loss)
        derivative = hy.hybridize(derivative) if hybridized else derivative
        found = []
        for n in (2, 0, 3, 2, 0):
            result = derivative(f32(X), f32(0.5), i64(n))
            found.append((result.tolist(), result.requires_grad, state.v.requires_grad))
        return found

    assert made(True) == made(False)


def test_what_is_certain_costs_nothing() -> None:
    def function(x, w, n):
        def loss(x):
            v = x * w
            while v.sum() < n:
                v = v * 2
            return v.sum()

        return hy.grad(loss)(x)

    graphs = []
    for w_requires in (False, True):
        w = f32(X)
        w.requires_grad = w_requires
        hybridized = hy.hybridize(function)
        hybridized(f32(X), w, f32(20.0))
        graphs.append(hybridized.graph(f32(X), w, f32(20.0)))
    assert [sum(n.op.name == "cond" for n in graph.walk()) for graph in graphs] == [0, 0]
