"""Transforms of functions, and inside of them, on arguments of many sizes: one capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.nn import functional
from tests.calls.test_open_families import captures
from tests.staging.harness import describe

SIZES = (5, 9, 12, 17, 5, 33)


def draw(n: int, *shape: int, seed: int = 0) -> hy.Tensor:
    values = np.random.default_rng(100 * n + seed).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


def rows(n: int) -> tuple[Any, ...]:
    return (draw(n, n, 3),)


def lengths(n: int) -> tuple[Any, ...]:
    return (draw(n, 3, n),)


def with_tangents(n: int) -> tuple[Any, ...]:
    return draw(n, n, 3), draw(n, n, 3, seed=1)


def settled(row: Any) -> Any:
    """A row may go round more often than others: captured functions alone may do that."""
    while hy.sum(row * row) < 10:
        row = row * 2 + 0.1
    return row if row[0] > 0 else -row


WEIGHT = draw(0, 3, 3)
Made = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]

# What is hybridized, what becomes of it, and the arguments of each size.
OUTSIDE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], Any]] = {
    "vmap": (lambda x: hy.softmax(x, axis=-1) * x.sum(), hy.vmap, lengths),
    "vmap_of_gradients": (lambda x: hy.tanh(x).sum(), lambda f: hy.vmap(hy.grad(f)), lengths),
    "gradient_of_vmap": (
        lambda x: hy.tanh(x).sum(),
        lambda f: hy.grad(lambda x: (hy.vmap(f)(x) ** 2).sum()),
        lengths,
    ),
    "jvp": (
        lambda x: hy.tanh(x).sum(axis=0),
        lambda f: lambda x, v: hy.jvp(f, (x,), (v,)),
        with_tangents,
    ),
    "vjp": (
        lambda x: hy.tanh(x @ WEIGHT),
        lambda f: lambda x, ct: hy.vjp(f, x)[1](ct),
        with_tangents,
    ),
    "hvp": (
        lambda x: (hy.tanh(x) ** 2).sum(),
        lambda f: lambda x, v: hy.hvp(f, (x,), (v,)),
        with_tangents,
    ),
    "jacobian": (lambda x: hy.tanh(x).sum(axis=1), hy.jacobian, rows),
    "hessian": (lambda x: (hy.tanh(x) ** 2).sum(), hy.hessian, lambda n: (draw(n, n),)),
}

# What is hybridized as a whole.
INSIDE: dict[str, tuple[Callable[..., Any], Any]] = {
    "vmap": (lambda x: hy.vmap(lambda r: hy.softmax(r, axis=-1) * r.sum())(x), rows),
    "vmap_of_lengths": (lambda x: hy.vmap(lambda r: hy.sort(r) / r.shape[0])(x), lengths),
    "vmap_of_products": (lambda x: hy.vmap(lambda r: hy.tanh(r @ WEIGHT))(x), rows),
    "vmap_of_two": (lambda x, y: hy.vmap(lambda a, b: a @ b)(x, y), with_tangents),
    "vmap_along_other_axes": (lambda x: hy.vmap(hy.sort, in_axes=1, out_axes=1)(x), rows),
    "vmap_row_by_row": (
        lambda x: hy.vmap(lambda r: hy.linalg.inv(r[:, None] * r + hy.eye(3)))(x),
        rows,
    ),
    "gradients_of_samples": (
        lambda x, y: hy.vmap(
            hy.grad(lambda w, a, b: functional.mse_loss(a @ w, b)), in_axes=(None, 0, 0)
        )(WEIGHT, x, y),
        with_tangents,
    ),
    "jvp": (
        lambda x, v: hy.jvp(lambda x: hy.tanh(x).sum(axis=0), (x,), (v,)),
        with_tangents,
    ),
    "hvp": (
        lambda x, v: hy.hvp(lambda x: (hy.tanh(x) ** 2).sum(), (x,), (v,)),
        with_tangents,
    ),
    "jacobian_by_weights": (
        lambda x: hy.jacobian(lambda w: hy.tanh(x @ w).sum(axis=0))(WEIGHT),
        rows,
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_transforms_of_functions(name: str) -> None:
    function, transform, arguments = OUTSIDE[name]
    hybridized = hy.hybridize(function)
    for n in SIZES:
        given = arguments(n)
        assert describe(transform(hybridized)(*given)) == describe(transform(function)(*given)), n
    assert captures(hybridized) == 1


@pytest.mark.parametrize("name", INSIDE)
def test_transforms_inside(name: str) -> None:
    function, arguments = INSIDE[name]
    hybridized = hy.hybridize(function)
    for n in SIZES:
        assert describe(hybridized(*arguments(n))) == describe(function(*arguments(n))), n
    assert captures(hybridized) == 1


def test_rows_that_part() -> None:
    def function(x: Any) -> Any:
        return hy.vmap(settled)(x)

    hybridized, closed = hy.hybridize(function), hy.hybridize(function, dynamic=False)
    for n in SIZES:
        assert describe(hybridized(*rows(n))) == describe(closed(*rows(n))), n
    assert captures(hybridized) == 1


def test_few_captures_for_many_numbers_of_rows() -> None:
    hybridized = hy.hybridize(lambda x: hy.softmax(x, axis=-1))
    for n in range(1, 33):
        found = hy.vmap(hybridized)(*rows(n))
        assert describe(found) == describe(hy.softmax(*rows(n), axis=-1))
    assert len(hybridized.plans) == 6  # for at most 1, 2, 4, 8, 16 and 32


def test_sizes_that_differ_are_told() -> None:
    hybridized = hy.hybridize(lambda x, y: hy.vmap(lambda a, b: a + b)(x, y))
    for n in SIZES:
        hybridized(*with_tangents(n))
    with pytest.raises(hy.errors.ShapeError, match=r"has 7 rows.*has 8 rows"):
        hybridized(draw(7, 7, 3), draw(8, 8, 3))
