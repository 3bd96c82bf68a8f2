"""Elements gathered from and scattered to places along an axis; selections that keep shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, int64
from hybrid.errors import DTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.index.indexing import (
    as_indices,
    require_along,
    scatter_along_add,
    slice_assign,
    take_along,
    take_slices,
    to_rows,
)
from hybrid.ops.shapes.creation import arange, full, zeros, zeros_like
from hybrid.ops.shapes.shape import moveaxis, region
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import widened
from hybrid.ops.support.dtypes import common, result_type
from hybrid.ops.support.operand_checks import (
    as_tensor,
    is_number,
    listed,
    normalize_axis,
    require_bool,
    require_own_order,
    require_rank,
    require_same_dtype,
    require_shape,
    type_of,
)


@op(raises=True)
def scatter_along(x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
    """``x`` with element ``indices[..., k]`` of each row replaced by ``updates[..., k]``.

    Of equal indices the last wins.
    """
    require_along("scatter_along", x, indices)
    require_same_dtype("scatter_along", x, updates)
    require_shape("scatter_along", "updates", updates, indices.shape)
    return x


@scatter_along.reference
def scatter_along_reference(x, indices, updates):
    result = np.array(x)
    for place in np.ndindex(indices.shape):
        result[(*place[:-1], indices[place])] = updates[place]
    return result


@scatter_along.lowering
def scatter_along_lowering(emit, x, indices, updates, result):
    operands = [to_rows(emit, x), to_rows(emit, indices), to_rows(emit, updates)]
    emit.kernel("scatter_along", operands, [to_rows(emit, result)])


@scatter_along.vjp
def scatter_along_vjp(ct, _y, _x, indices, _updates):
    """A cotangent goes to whatever was written last: to an update only if no later one hid it."""

    def by_updates():
        own = widened(arange(indices.shape[-1]), indices.shape)
        writers = scatter_along(zeros(_x.shape, dtype=int64), indices, own)
        return where(take_along(writers, indices) == own, take_along(ct, indices), 0)

    by_x = scatter_along(ct, indices, zeros(indices.shape, dtype=ct.dtype))
    return by_x, None, by_updates


@scatter_along.jvp
def scatter_along_jvp(tangents, _y, x, indices, updates):
    of_x, _, of_updates = tangents
    of_x = zeros_like(x) if of_x is None else of_x
    of_updates = zeros_like(updates) if of_updates is None else of_updates
    return scatter_along(of_x, indices, of_updates)


@scatter_along.samples
def scatter_along_samples(draw):
    for dtype in draw.all:
        for shape, count in [((5,), 3), ((2, 5), 0), ((4, 3), 17), ((2, 3, 4), 2)]:
            indices = draw("int64", *shape[:-1], count, low=-shape[-1], high=shape[-1] - 1)
            yield (draw(dtype, *shape), indices, draw(dtype, *shape[:-1], count)), {}


# Functions ---------------------------------------------------------------------------------------


def _first(x: Any, shape: Shape) -> Any:
    """The elements of ``x`` in the corner of ``shape``."""
    if x.shape == shape:
        return x
    return region(x, start=(0,) * len(shape), size=shape, step=(1,) * len(shape))


def _corner(name: str, x: Any, indices: Any, axis: int) -> Shape:
    """The shape of ``indices``, with the size of ``x`` along ``axis``; it must fit into ``x``."""
    require_rank(name, "indices", type_of(indices), len(x.shape))
    corner = (*indices.shape[:axis], x.shape[axis], *indices.shape[axis + 1 :])
    if any(n > m for n, m in zip(corner, x.shape, strict=True)):
        raise ShapeError(
            f"{name} cannot take {listed([type_of(x), type_of(indices)])}",
            why=f"But for axis {axis}, the indices are no larger than what they index.",
            fix="change the shape of the indices",
        )
    return corner


@remembered_of_any
def gather(x: Any, indices: Any, /, axis: int) -> Any:
    """``y[i, j, ...] = x[i, indices[i, j, ...], ...]``: the index stands in for ``axis``.

    The result has the shape of ``indices``, which may be smaller than ``x`` along the other axes.
    Negative indices count from the end.
    """
    require_own_order("gather", indices, axis)
    x, indices = as_tensor(x), as_indices("gather", indices)
    axis = normalize_axis("gather", axis, len(x.shape))
    x = _first(x, _corner("gather", x, indices, axis))
    return moveaxis(take_along(moveaxis(x, axis, -1), moveaxis(indices, axis, -1)), -1, axis)


def _scattered(name: str, write: Any, x: Any, indices: Any, updates: Any, axis: int) -> Any:
    require_own_order(name, indices, updates, ", updates")
    x, indices = as_tensor(x), as_indices(name, indices)
    axis = normalize_axis(name, axis, len(x.shape))
    corner = _corner(name, x, indices, axis)
    if is_number(updates):
        x, updates = common(x, updates)
        updates = full(indices.shape, updates, dtype=x.dtype)
    else:
        x, updates = common(x, as_tensor(updates))
        if not updates.shape:
            updates = widened(updates, indices.shape)
    require_rank(name, "updates", type_of(updates), len(indices.shape))
    sizes = zip(indices.shape, updates.shape, strict=True)
    if any(n > m and m != 1 for n, m in sizes):
        raise ShapeError(
            f"{name} cannot take {listed([type_of(indices), type_of(updates)])}",
            why="There is one update for each index.",
            fix="change the shape of the updates",
        )
    pairs = zip(indices.shape, updates.shape, strict=True)
    updates = widened(_first(updates, tuple(min(n, m) for n, m in pairs)), indices.shape)
    rows, places, new = (moveaxis(t, axis, -1) for t in (_first(x, corner), indices, updates))
    found = moveaxis(write(rows, places, new), -1, axis)
    if corner == x.shape:
        return found
    start = (0,) * len(corner)
    return slice_assign(x, found, start=start, size=corner, step=(1,) * len(corner))


@remembered_of_any
def scatter(x: Any, indices: Any, updates: Any, /, axis: int) -> Any:
    """``x`` with ``updates`` put at ``indices`` along ``axis``: the reverse of ``gather``.

    ``indices`` may be smaller than ``x`` along the other axes, and ``updates`` larger than them, or
    a number.  Of equal indices the last wins; negative ones count from the end.
    """
    return _scattered("scatter", scatter_along, x, indices, updates, axis)


@remembered_of_any
def scatter_add(x: Any, indices: Any, updates: Any, /, axis: int = -1) -> Any:
    """``x`` with ``updates`` added at ``indices`` along ``axis``, as ``scatter`` puts them."""
    return _scattered("scatter_add", scatter_along_add, x, indices, updates, axis)


@remembered_of_any
def index_select(x: Any, indices: Any, /, axis: int) -> Any:
    """The slices of ``x`` along ``axis`` at 1-d ``indices``."""
    require_own_order("index_select", indices, axis)
    x, indices = as_tensor(x), as_indices("index_select", indices)
    require_rank("index_select", "indices", type_of(indices), 1)
    return take_slices(x, indices, axis=normalize_axis("index_select", axis, len(x.shape)))


@remembered_of_any
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """``x`` with ``value``, a number or a tensor without dimensions, where ``mask`` holds."""
    x, mask = as_tensor(x), as_tensor(mask)
    require_bool("masked_fill", mask=type_of(mask))
    if not is_number(value):
        value = as_tensor(value)
        require_rank("masked_fill", "value", type_of(value), 0)
    if result_type(x, value) is not x.dtype:
        raise DTypeError(
            f"masked_fill cannot put {value if is_number(value) else type_of(value)} "
            f"into {type_of(x)}",
            why="The result has the dtype of the tensor.",
            fix="convert one with astype",
        )
    return where(mask, value, x)
