"""Programs in which sizes depend on values: masks, counts, lists and slices of unknown length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy

Draw = np.random.Generator
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[Draw], tuple[Any, ...]]]] = {}


def program(arguments: Callable[[Draw], tuple[Any, ...]]) -> Callable[[Any], Any]:
    def enter(function: Any) -> Any:
        PROGRAMS[function.__name__] = function, arguments
        return function

    return enter


def floats(draw: Draw, *shape: int) -> hy.Tensor:
    return hy.asarray(draw.standard_normal(shape).astype(np.float32))


def whole(draw: Draw, low: int, high: int) -> hy.Tensor:
    return hy.asarray(int(draw.integers(low, high)))


def row(draw: Draw) -> tuple[Any, ...]:
    return (floats(draw, 12),)


def matrix(draw: Draw) -> tuple[Any, ...]:
    return (floats(draw, 5, 4),)


def varying(draw: Draw) -> tuple[Any, ...]:
    return (floats(draw, int(draw.integers(2, 9)), 4),)


def digits(draw: Draw) -> tuple[Any, ...]:
    return (hy.asarray(draw.integers(0, 4, size=9)),)


def counted(draw: Draw) -> tuple[Any, ...]:
    return floats(draw, 12), whole(draw, 0, 12)


# Masks --------------------------------------------------------------------------------------------


@program(row)
def selected_sum(x):
    return x[x > 0].sum()


@program(row)
def selected_mean(x):
    return x[x > 0].mean()


@program(row)
def times_length(x):
    y = x[x > 0]
    return y * len(y)


@program(lambda draw: (floats(draw, 6) - 1,))
def compared_length(x):
    y = x[x > 0]
    if y.shape[0] == 0:
        return hy.zeros(()) - 1
    if len(y) == 1:
        return y[0] * 10
    return y.max()


@program(varying)
def selected_rows(x):
    return x[x[:, 0] > 0] @ hy.ones((4, 3))


@program(varying)
def beside_open_axes(x):
    return x[x[:, 0] > 0].sum(axis=0), x * 2


@program(matrix)
def two_masks(x):
    return hy.concat([x[x > 0], x[x <= 0]])


@program(matrix)
def equal_masks(x):
    return x[x > 0] + (x * 2)[x > 0]


@program(matrix)
def along_second_axis(x):
    return x[:, x[0] > 0]


@program(matrix)
def beside_an_index(x):
    return x[1, x[0] > 0]


@program(lambda draw: (floats(draw, 4, 5, 3),))
def over_two_axes(x):
    return x[x[:, :, 0] > 0]


@program(row)
def scalar_mask(x):
    return x[x.sum() > 0]


@program(matrix)
def mask_of_a_selection(x):
    y = x[x > 0]
    z = y[y > 0.5]
    return z.sum(), z * 2, y


@program(matrix)
def after_a_masked_write(x):
    x = x + 0
    x[x > 0] = 0.5
    return x[x < 0.2]


@program(row)
def loop_over_the_length(x):
    y = x[x > 0]
    total = hy.zeros(())
    for i in range(len(y)):
        total = total + y[i] * i
    return total


@program(row)
def loop_over_the_rows(x):
    total = hy.zeros(())
    for value in x[x > 0]:
        total = total * 0.5 + value
    return total


@program(row)
def softmax_of_some(x):
    y = x[x > 0]
    return hy.softmax(y) if len(y) else y


@program(row)
def outer_product(x):
    y = x[x > 0]
    return y.reshape(-1, 1) * y.reshape(1, -1)


@program(row)
def branch_behind(x):
    y = x[x > 0]
    if y.sum() > 3:
        return y * 2
    return y


@program(row)
def sorted_and_summed_up(x):
    y = hy.sort(x[x > 0])
    return hy.cumulative_sum(y, axis=0)


# Sets and places ----------------------------------------------------------------------------------


@program(matrix)
def places(x):
    return hy.nonzero(x > 0)


@program(matrix)
def rows_of_places(x):
    return hy.argwhere(x > 0)


@program(digits)
def distinct_values(x):
    return hy.unique_values(x)


@program(digits)
def distinct_counts(x):
    found = hy.unique_counts(x)
    return found.values * found.counts


@program(digits)
def distinct_inverse(x):
    return tuple(hy.unique_inverse(x))


@program(digits)
def distinct_all(x):
    return tuple(hy.unique_all(x))


@program(lambda draw: (floats(draw, 4, 2), hy.asarray(draw.integers(0, 4, size=4))))
def repeated_by_counts(x, counts):
    return hy.repeat(x, counts, axis=0)


# Numbers that are sizes ---------------------------------------------------------------------------


@program(counted)
def slice_to(x, n):
    return x[:n]


@program(counted)
def slice_from(x, n):
    return x[n:] * 2


@program(counted)
def slice_from_the_end(x, n):
    return x[-n:]


@program(lambda draw: (floats(draw, 12), whole(draw, 0, 12), whole(draw, 0, 12)))
def slice_between(x, a, b):
    return x[a:b].sum()


@program(counted)
def slice_by_steps(x, n):
    return x[: n.item() : 2]


@program(lambda draw: (floats(draw, 3, 12), whole(draw, 0, 12)))
def slice_of_second_axis(x, n):
    return x[:, :n]


@program(counted)
def slice_assigned(x, n):
    y = x + 0
    y[:n] = 0.0
    return y


@program(counted)
def cut_in_two(x, n):
    return hy.concat([x[n:], x[:n]])


@program(lambda draw: (floats(draw, 12), floats(draw, 4)))
def as_many_as_are_positive(x, w):
    return hy.sort(x)[: (w > 0).sum()]


@program(counted)
def range_to(x, n):
    return hy.arange(n) * 2, hy.arange(2, n.item(), 3)


@program(counted)
def filled(x, n):
    return hy.zeros((n, 2)), hy.full((n.item(),), 3.0), hy.ones(n.item())


@program(counted)
def padded(x, n):
    return hy.pad(x, ((0, n.item()),))


@program(counted)
def repeated(x, n):
    return hy.repeat(x, n.item())


@program(counted)
def matrices(x, n):
    return hy.tril(hy.ones((n.item(), n.item()))), hy.eye(n.item())


@program(counted)
def broadcast(x, n):
    return hy.broadcast_to(x, (n.item(), 12))


@program(counted)
def reshaped(x, n):
    return x.reshape(n.item() // 12 + 3, -1)


@program(counted)
def evenly_spaced(x, n):
    return hy.linspace(0, 1, n.item())


@program(counted)
def rotated(x, n):
    return hy.roll(x, n.item())


# Lists of unknown length --------------------------------------------------------------------------


@program(counted)
def stacked(x, n):
    rows = []
    for i in range(n.item() + 1):
        rows.append(x * i)
    return hy.stack(rows)


@program(counted)
def stacked_by_while(x, n):
    rows, i = [], hy.asarray(0)
    while i <= n:
        rows.append(x[i])
        i = i + 1
    return hy.stack(rows)


@program(counted)
def joined(x, n):
    rows = [x]
    for i in range(n.item()):
        rows.append(x * i)
    return hy.concat(rows)


@program(row)
def stacked_where_positive(x):
    rows = []
    for i in range(12):
        if x[i] > 0:
            rows.append(x[i] * i)
    return hy.stack(rows) if len(rows) > 0 else hy.zeros(1)


# In branches and loops ----------------------------------------------------------------------------


@program(counted)
def in_one_branch(x, n):
    y = x[x > 0] if n > 5 else x
    return y * 2


@program(counted)
def returned_from_a_branch(x, n):
    if n > 5:
        return x[x > 0].sum()
    return x.sum()


@program(counted)
def two_shapes(x, n):
    y = x
    if n > 5:
        y = x[:3] * 2
    return y + 1


@program(lambda draw: (floats(draw, 12), whole(draw, 0, 4)))
def in_a_loop(x, n):
    total = hy.zeros(())
    for i in range(n.item()):
        total = total + x[x > i * 0.2].sum()
    return total


@program(lambda draw: (floats(draw, 12), whole(draw, 0, 4)))
def shrinking(x, n):
    i = hy.asarray(0)
    while i < n:
        x = x[x > -1.0 + 0.2 * i]
        i = i + 1
    return x


@program(lambda draw: (floats(draw, 12), whole(draw, 0, 4)))
def growing(x, n):
    cache = hy.zeros((0,))
    for i in range(n.item()):
        cache = hy.concat([cache, x[i : i + 1]])
    return cache


@program(row)
def growing_until(x):
    cache, i = x[:1], hy.asarray(1)
    while cache.sum() < 1.5 and i < 5:
        cache = hy.concat([cache, x[i : i + 1]])
        i = i + 1
    return cache
