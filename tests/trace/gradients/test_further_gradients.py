"""Gradients of gradients of loops whose length only a run knows: the bits of eager code, in memory
of the size that a run needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.trace.gradients import budget

# The last way back has a budget of 256 MiB at each of its places: a run touches what it needs.
MOST_NBYTES = 1 << 31


def counted(x, n):
    y = x
    for _ in range(n):
        y = hy.sin(y) * 1.1
    return y.sum()


def while_below(x, n):
    y, i = x, 0
    while i < n:
        y = hy.sin(y) * 1.1
        i = i + 1
    return y.sum()


def stopped(x, n):
    y = x
    for _ in range(n):
        y = hy.sin(y) * 1.1
        if y.sum() > 3.5:
            break
    return y.sum()


def nested(x, n):
    y, i = x, 0
    while i < n:
        z, j = y, 0
        while j < i and z.sum() < 100:
            z = hy.sin(z) * 1.1
            j = j + 1
        y = y + z * 0.1
        i = i + 1
    return y.sum()


def of_order(order: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of that order, which sums up those before it."""
    gradient = hy.grad(function)
    if order == 1:
        return gradient
    return of_order(order - 1, lambda x, n: gradient(x, n).sum())


def penalized(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a function and of what its gradient measures."""
    return hy.grad(lambda x, n: function(x, n) + (hy.grad(function)(x, n) ** 2).sum())


X = hy.linspace(0.1, 1.0, 4).reshape(2, 2)


def check(gradient: Callable[..., Any], *lengths: int) -> None:
    hybridized = hy.hybridize(gradient, ledger=False)
    for length in lengths:
        n = hy.asarray(length)
        assert hybridized(X, n).tolist() == gradient(X, n).tolist(), length
    (plan,) = hybridized.plans
    assert plan.arena_nbytes < MOST_NBYTES


@pytest.mark.parametrize("function", [counted, while_below, stopped])
def test_second_gradients(function: Callable[..., Any]) -> None:
    check(of_order(2, function), 0, 1, 5, 40, 130)
    check(penalized(function), 0, 3, 20)


def test_second_gradients_of_loops_in_loops() -> None:
    check(of_order(2, nested), 0, 3, 6, 13)
    check(penalized(nested), 7)


@pytest.mark.parametrize("function", [counted, while_below])
def test_third_gradients(function: Callable[..., Any]) -> None:
    check(of_order(3, function), 0, 3, 30)


def test_more_iterations_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, from checkpoints."""
    few = ((8, 1), (4, 1), (2, 1))
    monkeypatch.setattr(budget, "FURTHER", {False: few, True: few})
    monkeypatch.setattr(budget, "LEAST_ROWS", 2)
    gradient = of_order(2, while_below)
    hybridized = hy.hybridize(gradient, ledger=False)
    for length in (3, 9, 30):
        n = hy.asarray(length)
        wanted = gradient(X, n)
        np.testing.assert_allclose(hybridized(X, n).numpy(), wanted.numpy(), rtol=1e-4)


def test_orders_end_with_what_raises() -> None:
    def fails(_x):
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            hy.grad(fails)(X)
    assert budget.further_gradients() == budget.is_recording()
