"""Reading and writing elements by index: the ops below ``x[key]``, and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.layouts import PARTIAL, Split
from hybrid.core.types import Shape, TensorType, int64, tensor_type
from hybrid.errors import DTypeError, ShapeError
from hybrid.ir import get_op, op
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.shapes.creation import arange, zeros, zeros_like
from hybrid.ops.shapes.shape import (
    check_region,
    flatten,
    moveaxis,
    region,
    region_index,
    region_samples,
    region_view,
)
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import leading, with_rows
from hybrid.ops.support.call_cache import remembered_of_any, remembered_of_two
from hybrid.ops.support.derivatives import linear, reshaped, widened
from hybrid.ops.support.dtypes import common, converted
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    normalize_axis,
    require_axis,
    require_dtype,
    require_numeric,
    require_own_order,
    require_rank,
    require_same_dtype,
    require_shape,
    type_of,
)


def _three(shape: Shape, axis: int) -> Shape:
    """``shape`` as [A, R, B] with R the axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


# Whole slices along an axis ----------------------------------------------------------------------


@op(name="take", raises=True)
def take_slices(x: TensorType, indices: TensorType, *, axis: int = 0) -> TensorType:
    """The slices of ``x`` along ``axis`` that 1-d ``indices`` name; negative ones from the end."""
    require_axis("take", axis, x.rank)
    require_dtype("take", "indices", indices, int64)
    require_rank("take", "indices", indices, 1)
    return x.with_shape(_replaced(x.shape, axis, indices.shape[0]))


@take_slices.couples
def take_couples(operands, results, *, axis):
    rank = operands[0].rank
    others = [own for own in range(rank) if own != axis % rank]
    ties = [axis_ties.along(operands, results, [(0, own), (~0, own)]) for own in others]
    return [*ties, axis_ties.along(operands, results, [(1, 0), (~0, axis % rank)])]


def _inside(work: Any, indices: Any, like: Any, axis: int, size: int) -> tuple[Any, Any]:
    """Which ``indices`` name slices that this rank has, shaped to broadcast to ``like``; where."""
    work.check_indices(indices, size)
    inside, own = work.own_indices(indices, size)
    shape = [1] * like.type.rank
    shape[axis] = indices.type.shape[0]
    return get_op("reshape")(inside, shape=tuple(shape)), own


def _take_by_parts(work, x, indices, *, axis):
    inside, own = _inside(work, indices, x, axis, x.type.shape[axis])
    found = take_slices(x, own, axis=axis)
    return get_op("where")(inside, found, work.number(0, found))


def _add_by_parts(work, x, indices, updates, *, axis):
    inside, own = _inside(work, indices, x, axis, x.type.shape[axis])
    kept = get_op("where")(inside, updates, work.number(0, updates))
    return add_slices(x, own, kept, axis=axis)


@take_slices.shares
def take_shares(cut, operands, results, *, axis):
    """Of the rows of a table each rank gives those that it has, and zeros."""
    axis %= operands[0].rank
    ways = shared_work.tied(take_couples, linear=[(0,)])(cut, operands, results, axis=axis)
    rows = cut.of(operands[0], axis)
    if rows:
        ways.append(shared_work.SharedWay((rows, None), (PARTIAL,), _take_by_parts))
    return ways


@take_slices.reference
def take_reference(x, indices, *, axis):
    return np.take(x, indices, axis)


@take_slices.lowering
def take_lowering(emit, x, indices, result, *, axis):
    emit.kernel(
        "take",
        [emit.dense(x).reshape(_three(x.shape, axis)), emit.dense(indices)],
        [result.reshape(_three(result.shape, axis))],
    )


@linear(take_slices)
def take_vjp(ct, _y, _x, indices, *, axis):
    return add_slices(zeros(_x.shape, dtype=ct.dtype), indices, ct, axis=axis), None


def _along_last(x: Any, axis: int) -> Any:
    return moveaxis(x, axis, -1)


def _each_along(indices: Any, shape: Shape) -> Any:
    """A list of indices for each row, as operands of ops that read along the last axis of it."""
    rows, count = indices.shape
    lone = reshaped(indices, (rows, *(1,) * (len(shape) - 2), count))
    return widened(lone, (*shape[:-1], count))


@take_slices.batch
def take_batch(rows, batched, x, indices, *, axis):
    if not batched[1]:
        return take_slices(x, indices, axis=axis + 1)
    count = indices.shape[1]
    if not batched[0]:
        found = take_slices(x, reshaped(indices, (rows * count,)), axis=axis)
        apart = (*x.shape[:axis], rows, count, *x.shape[axis + 1 :])
        return moveaxis(reshaped(found, apart), axis, 0)
    x = _along_last(x, axis + 1)
    return moveaxis(take_along(x, _each_along(indices, x.shape)), -1, axis + 1)


@take_slices.samples
def take_samples(draw):
    for dtype in draw.all:
        for shape, axis, count in [((5,), 0, 3), ((5,), 0, 0), ((4, 3), 0, 17), ((2, 5, 3), 1, 4)]:
            indices = draw("int64", count, low=-shape[axis], high=shape[axis] - 1)
            yield (draw(dtype, *shape), indices), {"axis": axis}


def _require_updates(
    name: str, x: TensorType, indices: TensorType, updates: TensorType, axis: int
) -> None:
    require_axis(name, axis, x.rank)
    require_dtype(name, "indices", indices, int64)
    require_rank(name, "indices", indices, 1)
    require_same_dtype(name, x, updates)
    require_shape(name, "updates", updates, _replaced(x.shape, axis, indices.shape[0]))


def _lower_update(kernel: str) -> Any:
    def lowering(emit, x, indices, updates, result, *, axis):
        emit.kernel(
            kernel,
            [
                emit.dense(x).reshape(_three(x.shape, axis)),
                emit.dense(indices),
                emit.dense(updates).reshape(_three(updates.shape, axis)),
            ],
            [result.reshape(_three(x.shape, axis))],
        )

    return lowering


@op(name="scatter_add", raises=True)
def add_slices(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int = 0
) -> TensorType:
    """``x`` with slice ``i`` of ``updates`` added to its slice ``indices[i]``, in order."""
    require_numeric("scatter_add", x=x)
    _require_updates("scatter_add", x, indices, updates, axis)
    return x


@add_slices.shares
def scatter_add_shares(cut, operands, results, *, axis):
    """Each rank adds to the slices that it has, or what it has to zeros."""
    axis %= operands[0].rank

    def others(operands, results, **_):
        own = [a for a in range(operands[0].rank) if a != axis]
        return [axis_ties.along(operands, results, [(0, a), (2, a), (~0, a)]) for a in own]

    ways = shared_work.tied(others, linear=[(0, 2)])(cut, operands, results)
    rows = cut.of(operands[0], axis)
    if rows:
        ways.append(shared_work.SharedWay((rows, None, None), (rows,), _add_by_parts))
    if cut.of(operands[1], 0):
        ways.append(shared_work.SharedWay((PARTIAL, Split(0), Split(axis)), (PARTIAL,)))
    return ways


@add_slices.reference
def scatter_add_reference(x, indices, updates, *, axis):
    result = np.array(np.moveaxis(x, axis, 0))
    np.add.at(result, indices, np.moveaxis(updates, axis, 0))
    return np.moveaxis(result, 0, axis)


@add_slices.vjp
def scatter_add_vjp(ct, _y, _x, indices, _updates, *, axis):
    return ct, None, lambda: take_slices(ct, indices, axis=axis)


@add_slices.jvp
def scatter_add_jvp(tangents, _y, x, indices, updates, *, axis):
    of_x, _, of_updates = tangents
    return add_slices(_or_zeros(of_x, x), indices, _or_zeros(of_updates, updates), axis=axis)


@op(name="scatter", raises=True)
def put_slices(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int = 0
) -> TensorType:
    """``x`` with its slice ``indices[i]`` replaced by slice ``i`` of ``updates``; the last wins."""
    _require_updates("scatter", x, indices, updates, axis)
    return x


@put_slices.reference
def scatter_reference(x, indices, updates, *, axis):
    result = np.array(np.moveaxis(x, axis, 0))
    result[indices] = np.moveaxis(updates, axis, 0)
    return np.moveaxis(result, 0, axis)


@put_slices.vjp
def scatter_vjp(ct, _y, _x, indices, _updates, *, axis):
    """A cotangent goes to whatever was written last: to an update only if no later one hid it."""

    def by_x():
        return put_slices(ct, indices, zeros(_updates.shape, dtype=ct.dtype), axis=axis)

    def by_updates():
        return _where_last(take_slices(ct, indices, axis=axis), _x, indices, axis)

    return by_x, None, by_updates


def _where_last(updates: Any, x: Any, indices: Any, axis: int) -> Any:
    """``updates`` with zeros where a later index names the same slice."""
    count = indices.shape[0]
    own = arange(count)
    writers = put_slices(arange(x.shape[axis]), indices, own, axis=0)
    last = take_slices(writers, indices, axis=0) == own
    shape = tuple(count if i == axis else 1 for i in range(len(x.shape)))
    return where(reshaped(last, shape), updates, 0)


@add_slices.batch
def scatter_add_batch(rows, batched, x, indices, updates, *, axis):
    x, updates = with_rows(x, rows, batched[0]), with_rows(updates, rows, batched[2])
    if not batched[1]:
        return add_slices(x, indices, updates, axis=axis + 1)
    x, updates = _along_last(x, axis + 1), _along_last(updates, axis + 1)
    found = scatter_along_add(x, _each_along(indices, x.shape), updates)
    return moveaxis(found, -1, axis + 1)


@put_slices.batch
def scatter_batch(rows, batched, x, indices, updates, *, axis):
    if batched[1]:
        return NotImplemented
    x, updates = with_rows(x, rows, batched[0]), with_rows(updates, rows, batched[2])
    return put_slices(x, indices, updates, axis=axis + 1)


@put_slices.jvp
def scatter_jvp(tangents, _y, x, indices, updates, *, axis):
    of_x, _, of_updates = tangents
    return put_slices(_or_zeros(of_x, x), indices, _or_zeros(of_updates, updates), axis=axis)


add_slices.lowering(_lower_update("scatter_add"))
put_slices.lowering(_lower_update("scatter"))


def _update_samples(draw, dtypes):
    for dtype in dtypes:
        for shape, axis, count in [((5,), 0, 3), ((5,), 0, 0), ((4, 3), 0, 17), ((2, 5, 3), 1, 4)]:
            indices = draw("int64", count, low=-shape[axis], high=shape[axis] - 1)
            updates = draw(dtype, *_replaced(shape, axis, count))
            yield (draw(dtype, *shape), indices, updates), {"axis": axis}


add_slices.samples(lambda draw: _update_samples(draw, draw.numbers))
put_slices.samples(lambda draw: _update_samples(draw, draw.all))


# Single elements of rows -------------------------------------------------------------------------


def require_along(name: str, x: TensorType, indices: TensorType) -> None:
    """Raise unless ``indices`` are int64 and have the shape of ``x`` but for the last axis."""
    require_axis(name, max(x.rank - 1, 0), x.rank)
    require_dtype(name, "indices", indices, int64)
    if indices.shape[:-1] != x.shape[:-1] or indices.rank != x.rank:
        raise ShapeError(
            f"{name} cannot take {x} and {indices}",
            why="All axes but the last must agree.",
            fix="change a shape with reshape or broadcast_to",
        )


def to_rows(emit: Any, view: Any) -> Any:
    """A view as dense [rows, n]: the last axis and all the others."""
    return emit.dense(view).reshape((math.prod(view.shape[:-1]), view.shape[-1]))


@op(raises=True)
def take_along(x: TensorType, indices: TensorType) -> TensorType:
    """Of each row (last axis) of ``x`` the elements that the same row of ``indices`` names."""
    require_along("take_along", x, indices)
    return x.with_shape(indices.shape)


@take_along.reference
def take_along_reference(x, indices):
    return np.take_along_axis(x, indices, -1)


@take_along.lowering
def take_along_lowering(emit, x, indices, result):
    emit.kernel("take_along", [to_rows(emit, x), to_rows(emit, indices)], [to_rows(emit, result)])


@linear(take_along)
def take_along_vjp(ct, _y, _x, indices):
    return scatter_along_add(zeros(_x.shape, dtype=ct.dtype), indices, ct), None


@take_along.samples
def take_along_samples(draw):
    for dtype in draw.all:
        for shape, count in [((5,), 3), ((2, 5), 0), ((4, 3), 17), ((2, 3, 4), 2)]:
            indices = draw("int64", *shape[:-1], count, low=-shape[-1], high=shape[-1] - 1)
            yield (draw(dtype, *shape), indices), {}


@op(raises=True)
def scatter_along_add(x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
    """``x`` with ``updates[..., k]`` added, in order, to element ``indices[..., k]`` of its row."""
    require_numeric("scatter_along_add", x=x)
    require_along("scatter_along_add", x, indices)
    require_same_dtype("scatter_along_add", x, updates)
    require_shape("scatter_along_add", "updates", updates, indices.shape)
    return x


@scatter_along_add.reference
def scatter_along_add_reference(x, indices, updates):
    result = np.array(x)
    rows = np.indices(indices.shape)[:-1]
    np.add.at(result, (*rows, indices), updates)
    return result


@scatter_along_add.lowering
def scatter_along_add_lowering(emit, x, indices, updates, result):
    operands = [to_rows(emit, x), to_rows(emit, indices), to_rows(emit, updates)]
    emit.kernel("scatter_along_add", operands, [to_rows(emit, result)])


@scatter_along_add.vjp
def scatter_along_add_vjp(ct, _y, _x, indices, _updates):
    return ct, None, lambda: take_along(ct, indices)


@scatter_along_add.jvp
def scatter_along_add_jvp(tangents, _y, x, indices, updates):
    of_x, _, of_updates = tangents
    return scatter_along_add(_or_zeros(of_x, x), indices, _or_zeros(of_updates, updates))


def _leading_ties(operands, results):
    return [
        axis_ties.along(operands, results, [*[(i, axis) for i in range(len(operands))], (~0, axis)])
        for axis in range(operands[0].rank - 1)
    ]


for _op in (take_along, scatter_along_add):
    _op.batch(leading(_op))
    _op.shares(shared_work.tied(_leading_ties))


@scatter_along_add.samples
def scatter_along_add_samples(draw):
    for dtype in draw.numbers:
        for shape, count in [((5,), 3), ((2, 5), 0), ((4, 3), 17), ((2, 3, 4), 2)]:
            indices = draw("int64", *shape[:-1], count, low=-shape[-1], high=shape[-1] - 1)
            updates = draw(dtype, *shape[:-1], count)
            yield (draw(dtype, *shape), indices, updates), {}


# Regions -----------------------------------------------------------------------------------------


@op
def slice_assign(
    x: TensorType,
    value: TensorType,
    *,
    start: tuple[int, ...],
    size: tuple[int, ...],
    step: tuple[int, ...],
) -> TensorType:
    """``x`` with a region (as ``slice`` names it) replaced by ``value``."""
    check_region("slice_assign", x, start, size, step)
    require_same_dtype("slice_assign", x, value)
    require_shape("slice_assign", "value", value, size)
    return x


@slice_assign.shares
def slice_assign_shares(cut, operands, results, **attrs):
    def ties(operands, results, *, start, size, step):
        return [
            axis_ties.along(operands, results, [(0, axis), (1, axis), (~0, axis)])
            for axis, n in enumerate(operands[0].shape)
            if (start[axis], size[axis], step[axis]) == (0, n, 1)
        ]

    rule = shared_work.tied(ties, linear=[(0, 1)], attrs=_part_of_region)
    return rule(cut, operands, results, **attrs)


def _part_of_region(attrs, results):
    """An axis that is cut is replaced from end to end."""
    sizes = zip(attrs["size"], results[0].shape, strict=True)
    return attrs | {"size": tuple([min(size, n) for size, n in sizes])}


@slice_assign.reference
def slice_assign_reference(x, value, *, start, size, step):
    result = np.array(x)
    result[region_index(start, size, step)] = value
    return result


@slice_assign.lowering
def slice_assign_lowering(emit, x, value, result, *, start, size, step):
    emit.kernel("copy", [x], [result])
    if value.size:
        inside = region_view(result, start=start, size=size, step=step)
        emit.kernel("copy", [value], [inside])


@slice_assign.vjp
def slice_assign_vjp(ct, _y, _x, _value, *, start, size, step):
    place = {"start": start, "size": size, "step": step}
    return (
        (lambda: slice_assign(ct, zeros(_value.shape, dtype=ct.dtype), **place)),
        (lambda: region(ct, **place)),
    )


@slice_assign.jvp
def slice_assign_jvp(tangents, _y, x, value, **place):
    of_x, of_value = tangents
    return slice_assign(_or_zeros(of_x, x), _or_zeros(of_value, value), **place)


@slice_assign.batch
def slice_assign_batch(rows, batched, x, value, *, start, size, step):
    x, value = with_rows(x, rows, batched[0]), with_rows(value, rows, batched[1])
    whole = {"start": (0, *start), "size": (rows, *size), "step": (1, *step)}
    return slice_assign(x, value, **whole)


@slice_assign.samples
def slice_assign_samples(draw):
    for dtype, shape, attrs in region_samples(draw):
        yield (draw(dtype, *shape), draw(dtype, *attrs["size"])), attrs


def _or_zeros(tangent: Any, operand: Any) -> Any:
    return zeros_like(operand) if tangent is None else tangent


# Functions ---------------------------------------------------------------------------------------


def as_indices(name: str, indices: Any) -> Any:
    """``indices`` as an int64 tensor."""
    indices = as_tensor(indices)
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"{name} got indices of dtype {indices.dtype.name}",
            why="Indices are integers.",
            fix="convert them with astype(hybrid.int64)",
        )
    return converted(indices, int64)


@remembered_of_two
def take(x: Any, indices: Any, /, axis: int | None = None) -> Any:
    """The slices of ``x`` along ``axis`` at ``indices``, of any shape (None: of the flat ``x``)."""
    require_own_order("take", indices, axis)
    x, indices = as_tensor(x), as_indices("take", indices)
    if axis is None:
        x, axis = flatten(x), 0
    axis = normalize_axis("take", axis, len(x.shape))
    flat = indices if len(indices.shape) == 1 else flatten(indices)
    taken = take_slices(x, flat, axis=axis)
    return reshaped(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@remembered_of_two
def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Any:
    """The elements of ``x`` along ``axis`` at ``indices``; the other axes broadcast."""
    require_own_order("take_along_axis", indices, axis)
    x, indices = as_tensor(x), as_indices("take_along_axis", indices)
    axis = normalize_axis("take_along_axis", axis, len(x.shape))
    x, indices = _rows_last("take_along_axis", axis, x, indices)
    return moveaxis(take_along(x, indices), -1, axis)


@remembered_of_any
def index_add(x: Any, indices: Any, updates: Any, /, axis: int = 0) -> Any:
    """``x`` with slice ``i`` of ``updates`` added to its slice ``indices[i]`` along ``axis``."""
    require_own_order("index_add", indices, updates, ", updates")
    x, updates = common(x, updates)
    indices = as_indices("index_add", indices)
    axis = normalize_axis("index_add", axis, len(x.shape))
    return add_slices(x, indices, updates, axis=axis)


def _rows_last(name: str, axis: int, x: Any, indices: Any) -> tuple[Any, Any]:
    """Both with ``axis`` last and the other axes broadcast against each other."""
    require_rank(name, "indices", type_of(indices), len(x.shape))
    x, indices = moveaxis(x, axis, -1), moveaxis(indices, axis, -1)
    lead = broadcast_shapes(
        name, tensor_type(int64, x.shape[:-1]), tensor_type(int64, indices.shape[:-1])
    )
    return widened(x, (*lead, x.shape[-1])), widened(indices, (*lead, indices.shape[-1]))
