"""Order: sorting, the places of the largest, and searching in what is ordered.

NaN is greater than every number, so it comes last, and first in descending order.  Equals keep
their order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, bool_, int64, tensor_type, uint8
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir import op
from hybrid.ops.index.indexing import scatter_along_add, take, take_along, to_rows
from hybrid.ops.shapes.creation import zeros
from hybrid.ops.shapes.shape import flatten, moveaxis, reshape
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import leading
from hybrid.ops.support.call_cache import remembered, remembered_of_two
from hybrid.ops.support.dtypes import common, converted
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    normalize_axis,
    require_choice,
    require_numeric,
    require_rank,
    require_same_dtype,
    type_of,
)

SIDES = ("left", "right")


@op(name="argsort", differentiable=False)
def order(x: TensorType, *, descending: bool = False) -> TensorType:
    """Of each row (last axis) the places of its elements in their order."""
    require_numeric("argsort", x=x)
    if not x.rank:
        raise ShapeError(f"argsort cannot take {x}", why="It has no axis to sort along.")
    return x.with_dtype(int64)


order.couples(axis_ties.along_last)
order.shares(shared_work.tied(axis_ties.along_last))


@order.reference
def order_reference(x, *, descending):
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    back = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    return np.flip(x.shape[-1] - 1 - back, -1)


@order.lowering
def order_lowering(emit, x, result, *, descending):
    emit.kernel("argsort", [to_rows(emit, x)], [to_rows(emit, result)], (int(descending),))


order.batch(leading(order))


@order.samples
def order_samples(draw):
    for dtype in draw.numbers:
        for shape in [(0,), (1,), (5,), (16,), (17,), (33,), (1000,), (3, 40), (2, 3, 7), (4, 0)]:
            for descending in (False, True):
                most = 9 if dtype in draw.floats else 9e4
                x = np.unique(draw(dtype, math.prod(shape), low=-most, high=most))
                x = draw.generator.permutation(np.resize(x, shape).ravel()).reshape(shape)
                yield (x,), {"descending": descending}
    for dtype in draw.floats:
        for size in (100, 1000):
            x = draw(dtype, size).astype(np.float32)
            x[::7], x[1::9], x[2::11], x[3::13] = np.nan, np.inf, -0.0, 0.0
            for descending in (False, True):
                yield (x,), {"descending": descending}


@op(name="sort")
def ordered(x: TensorType, *, descending: bool = False) -> TensorType:
    """The elements of each row (last axis) in order."""
    order.rule(x, descending=descending)
    return x


ordered.couples(axis_ties.along_last)
ordered.shares(shared_work.tied(axis_ties.along_last))


@ordered.reference
def ordered_reference(x, *, descending):
    return np.take_along_axis(x, order_reference(x, descending=descending), -1)


@ordered.lowering
def ordered_lowering(emit, x, result, *, descending):
    emit.kernel("sort", [to_rows(emit, x)], [to_rows(emit, result)], (int(descending),))


@ordered.vjp
def ordered_vjp(ct, _y, x, *, descending):
    return (scatter_along_add(zeros(x.shape, dtype=x.dtype), order(x, descending=descending), ct),)


@ordered.jvp
def ordered_jvp(tangents, _y, x, *, descending):
    return take_along(tangents[0], order(x, descending=descending))


ordered.batch(leading(ordered))
ordered.samples(order_samples)


@op(name="topk", differentiable=False)
def foremost(x: TensorType, *, k: int, largest: bool = True) -> TensorType:
    """Of each row (last axis) the places of its ``k`` greatest (or least) elements, in order."""
    order.rule(x, descending=largest)
    if not 0 <= k <= x.shape[-1]:
        raise ShapeError(f"topk cannot find {k} elements in rows of {x}")
    return tensor_type(int64, (*x.shape[:-1], k))


foremost.couples(axis_ties.along_last)
foremost.shares(shared_work.tied(axis_ties.along_last))


@foremost.reference
def foremost_reference(x, *, k, largest):
    return order_reference(x, descending=largest)[..., :k]


@foremost.lowering
def foremost_lowering(emit, x, result, *, k, largest):
    emit.kernel("topk", [to_rows(emit, x)], [to_rows(emit, result)], (int(largest),))


foremost.batch(leading(foremost))


@foremost.samples
def foremost_samples(draw):
    for (x,), attrs in order_samples(draw):
        for k in {0, 1, 3, 17, x.shape[-1]}:
            if k <= x.shape[-1]:
                yield (x,), {"k": k, "largest": attrs["descending"]}


@op(name="searchsorted", differentiable=False)
def places(x: TensorType, values: TensorType, *, right: bool = False) -> TensorType:
    """Where each of ``values`` would keep ``x``, which ascends, in order."""
    require_numeric("searchsorted", x1=x, x2=values)
    require_same_dtype("searchsorted", x, values)
    require_rank("searchsorted", "x1", x, 1)
    require_rank("searchsorted", "x2", values, 1)
    return values.with_dtype(int64)


@places.reference
def places_reference(x, values, *, right):
    return np.asarray(np.searchsorted(x, values, "right" if right else "left"), np.int64)


@places.lowering
def places_lowering(emit, x, values, result, *, right):
    emit.kernel("searchsorted", [emit.dense(x), emit.dense(values)], [result], (int(right),))


@places.batch
def places_batch(rows, batched, x, values, *, right):
    if batched[0]:
        return NotImplemented
    flat = reshape(values, (rows * values.shape[1],))
    return reshape(places(x, flat, right=right), values.shape)


@places.samples
def places_samples(draw):
    for dtype in draw.numbers:
        for n, m in [(0, 3), (1, 5), (7, 0), (17, 40)]:
            for right in (False, True):
                x = np.sort(draw(dtype, n, low=-9, high=9))
                yield (x, draw(dtype, m, low=-12, high=12)), {"right": right}


def _ranked(x: Any, axis: int) -> tuple[Any, Any]:
    """``x``, and what its order along the last axis, which was ``axis``, goes by."""
    x = moveaxis(x, axis, -1)
    return x, converted(x, uint8) if x.dtype is bool_ else x


@remembered
def argsort(x: Any, /, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices (int64) that put ``x`` in order along ``axis``; equals always keep theirs."""
    x = as_tensor(x)
    axis = normalize_axis("argsort", axis, len(x.shape))
    _, keys = _ranked(x, axis)
    return moveaxis(order(keys, descending=bool(descending)), -1, axis)


@remembered
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """``x`` in order along ``axis``; gradients go to where the elements came from."""
    x = as_tensor(x)
    axis = normalize_axis("sort", axis, len(x.shape))
    rows, keys = _ranked(x, axis)
    return moveaxis(converted(ordered(keys, descending=bool(descending)), rows.dtype), -1, axis)


@remembered
def topk(
    x: Any, /, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, Any]:
    """The ``k`` largest (or smallest) elements along ``axis`` and their indices, in order.

    With ``sorted=False`` their order is unspecified.
    """
    x = as_tensor(x)
    axis = normalize_axis("topk", axis, len(x.shape))
    size = x.shape[axis]
    k = as_int("topk", "k", k)
    if not 0 <= k <= size:
        raise ArgumentError(
            f"topk got k {k!r} for axis {axis} of {x.type}",
            why=f"That axis has {size} elements.",
            fix=f"give an int from 0 to {size}",
        )
    rows, keys = _ranked(x, axis)
    found = foremost(keys, k=k, largest=bool(largest))
    return moveaxis(take_along(rows, found), -1, axis), moveaxis(found, -1, axis)


@remembered_of_two
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The indices (int64) at which the elements of ``x2`` keep ``x1`` [n], which ascends, in order.

    ``side="left"`` gives the first such place, ``"right"`` the last.  ``x1[sorter]`` is what
    ascends, if ``sorter`` is given.
    """
    require_choice("side", side, SIDES)
    x1, x2 = common(x1, x2)
    require_rank("searchsorted", "x1", type_of(x1), 1)
    if sorter is not None:
        x1 = take(x1, sorter, axis=0)
    found = places(x1, flatten(x2), right=side == "right")
    return reshape(found, x2.shape)
