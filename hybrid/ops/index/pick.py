"""One slice by an index known at run time: what ``x[i]`` and ``x[i] = v`` are for a traced int."""

from __future__ import annotations

import math

import numpy as np

from hybrid.core.types import Shape, TensorType, int64
from hybrid.ir import get_op, op
from hybrid.ops.shapes.creation import zeros, zeros_like
from hybrid.ops.shapes.shape import moveaxis
from hybrid.ops.support.batching import with_rows
from hybrid.ops.support.derivatives import linear, onto_zeros, reshaped, widened
from hybrid.ops.support.operand_checks import (
    require_axis,
    require_dtype,
    require_same_dtype,
    require_shape,
)


def _three(shape: Shape, axis: int) -> Shape:
    """``shape`` as [A, R, B] with R the axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _require_index(name: str, x: TensorType, index: TensorType, axis: int) -> Shape:
    """The shape of one slice."""
    require_axis(name, axis, x.rank)
    require_dtype(name, "index", index, int64)
    require_shape(name, "index", index, ())
    return (*x.shape[:axis], *x.shape[axis + 1 :])


@op(raises=True)
def pick(x: TensorType, index: TensorType, *, axis: int = 0) -> TensorType:
    """The slice of ``x`` along ``axis`` at a scalar ``index``; a negative one is from the end."""
    return x.with_shape(_require_index("pick", x, index, axis))


@pick.reference
def pick_reference(x, index, *, axis):
    return np.take(x, index, axis)


@pick.lowering
def pick_lowering(emit, x, index, result, *, axis):
    outer, size, inner = _three(x.shape, axis)
    emit.kernel(
        "take",
        [emit.dense(x).reshape((outer, size, inner)), index.reshape((1,))],
        [result.reshape((outer, 1, inner))],
    )


@linear(pick)
def pick_vjp(ct, _y, _x, index, *, axis):
    return place(zeros(_x.shape, dtype=ct.dtype), index, onto_zeros(ct), axis=axis), None


@op(raises=True)
def place(x: TensorType, index: TensorType, value: TensorType, *, axis: int = 0) -> TensorType:
    """``x`` with its slice along ``axis`` at a scalar ``index`` replaced by ``value``."""
    require_same_dtype("place", x, value)
    require_shape("place", "value", value, _require_index("place", x, index, axis))
    return x


@place.reference
def place_reference(x, index, value, *, axis):
    result = np.array(x)
    np.moveaxis(result, axis, 0)[index] = value
    return result


@place.lowering
def place_lowering(emit, x, index, value, result, *, axis):
    outer, size, inner = _three(x.shape, axis)
    emit.kernel(
        "scatter",
        [
            emit.dense(x).reshape((outer, size, inner)),
            index.reshape((1,)),
            emit.dense(value).reshape((outer, 1, inner)),
        ],
        [result.reshape((outer, size, inner))],
    )


@place.vjp
def place_vjp(ct, _y, _x, index, _value, *, axis):
    return (
        (lambda: place(ct, index, zeros(_value.shape, dtype=ct.dtype), axis=axis)),
        None,
        (lambda: pick(ct, index, axis=axis)),
    )


@place.jvp
def place_jvp(tangents, _y, x, index, value, *, axis):
    of_x, _, of_value = tangents
    of_x = zeros_like(x) if of_x is None else of_x
    of_value = zeros_like(value) if of_value is None else of_value
    return place(of_x, index, of_value, axis=axis)


_PLACES = [((5,), 0), ((4, 3), 0), ((4, 3), 1), ((2, 5, 3), 1), ((0, 4), 1)]


@pick.batch
def pick_batch(rows, batched, x, index, *, axis):
    if not batched[1]:
        return pick(x, index, axis=axis + 1)
    take = get_op("take")
    if not batched[0]:
        return moveaxis(take(x, index, axis=axis), axis, 0)
    shape = (*x.shape[: axis + 1], *x.shape[axis + 2 :])
    flat = moveaxis(x, axis + 1, -1)
    places = widened(reshaped(index, (rows, *(1,) * (len(shape)))), (*shape, 1))
    return reshaped(get_op("take_along")(flat, places), shape)


@place.batch
def place_batch(rows, batched, x, index, value, *, axis):
    if batched[1]:
        return NotImplemented
    x, value = with_rows(x, rows, batched[0]), with_rows(value, rows, batched[2])
    return place(x, index, value, axis=axis + 1)


@pick.samples
def pick_samples(draw):
    for dtype in draw.all:
        for shape, axis in _PLACES:
            index = draw("int64", low=-shape[axis], high=shape[axis] - 1)
            yield (draw(dtype, *shape), index), {"axis": axis}


@place.samples
def place_samples(draw):
    for dtype in draw.all:
        for shape, axis in _PLACES:
            index = draw("int64", low=-shape[axis], high=shape[axis] - 1)
            rest = (*shape[:axis], *shape[axis + 1 :])
            yield (draw(dtype, *shape), index, draw(dtype, *rest)), {"axis": axis}
