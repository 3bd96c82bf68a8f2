"""Running sums and products along an axis, and the recurrence that their gradients are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.errors import ArgumentError
from hybrid.ir import View, op
from hybrid.ops.axes.reduction import accumulating
from hybrid.ops.shapes.concatenation import concat, part
from hybrid.ops.shapes.creation import ones, zeros
from hybrid.ops.shapes.shape import flatten, flip
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import along_axes
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import linear
from hybrid.ops.support.keyword_names import with_others_words
from hybrid.ops.support.operand_checks import (
    as_tensor,
    normalize_axis,
    require_axis,
    require_floating,
    require_numeric,
    require_same_dtype,
    require_shape,
)


def _stacks(emit: Any, view: View, axis: int) -> View:
    """A view as dense [A, R, B], of which R is ``axis``."""
    shape = view.shape
    sizes = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    return emit.dense(view).reshape(sizes)


def _shifted(x: Any, axis: int, *, back: bool, first: Any) -> Any:
    """``x`` moved by one along ``axis``, back or ahead, with ``first`` where nothing comes from."""
    size = x.shape[axis]
    if not size:
        return x
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    filled = first(shape, dtype=x.dtype)
    if back:
        return concat([part(x, axis, 1, size - 1), filled], axis=axis)
    return concat([filled, part(x, axis, 0, size - 1)], axis=axis)


# Sums --------------------------------------------------------------------------------------------


@op(name="cumulative_sum")
def running_sum(x: TensorType, *, axis: int) -> TensorType:
    """The sums of the elements along ``axis`` up to each of them."""
    require_numeric("cumulative_sum", x=x)
    require_axis("cumulative_sum", axis, x.rank)
    return x


@running_sum.reference
def running_sum_reference(x, *, axis):
    wide = {"f": np.longdouble}.get(x.dtype.kind, x.dtype)
    return np.cumsum(x, axis, dtype=wide).astype(x.dtype)


@running_sum.lowering
def running_sum_lowering(emit, x, result, *, axis):
    emit.kernel("cumulative_sum", [_stacks(emit, x, axis)], [_stacks(emit, result, axis)])


@linear(running_sum)
def running_sum_vjp(ct, _y, _x, *, axis):
    return (flip(running_sum(flip(ct, axis=axis), axis=axis), axis=axis),)


# Recurrences and products ------------------------------------------------------------------------


@op
def recurrence(x: TensorType, factor: TensorType, *, axis: int) -> TensorType:
    """``y[i] = x[i] + factor[i] * y[i - 1]`` along ``axis``, from ``y[0] = x[0]`` on."""
    require_floating("recurrence", x=x, factor=factor)
    require_same_dtype("recurrence", x, factor)
    require_shape("recurrence", "factor", factor, x.shape)
    require_axis("recurrence", axis, x.rank)
    return x


@recurrence.reference
def recurrence_reference(x, factor, *, axis):
    rows, factors = np.moveaxis(x, axis, 0), np.moveaxis(factor, axis, 0)
    found = np.array(rows)
    for i in range(1, len(found)):
        found[i] = rows[i] + factors[i] * found[i - 1]
    return np.moveaxis(found, 0, axis)


@recurrence.lowering
def recurrence_lowering(emit, x, factor, result, *, axis):
    operands = [_stacks(emit, x, axis), _stacks(emit, factor, axis)]
    emit.kernel("recurrence", operands, [_stacks(emit, result, axis)])


def _from_behind(ct: Any, factor: Any, axis: int) -> Any:
    """The gradient of each ``x`` that ``y[i] = x[i] + factor[i] * y[i - 1]`` adds."""
    following = _shifted(factor, axis, back=True, first=zeros)
    found = recurrence(flip(ct, axis=axis), flip(following, axis=axis), axis=axis)
    return flip(found, axis=axis)


@recurrence.vjp
def recurrence_vjp(ct, y, _x, factor, *, axis):
    total = _from_behind(ct, factor, axis)
    return total, lambda: total * _shifted(y, axis, back=False, first=zeros)


@recurrence.jvp
def recurrence_jvp(tangents, y, x, factor, *, axis):
    of_x, of_factor = tangents
    source = None
    if of_factor is not None:
        source = of_factor * _shifted(y, axis, back=False, first=zeros)
    if of_x is not None:
        source = of_x if source is None else of_x + source
    return recurrence(source, factor, axis=axis)


@op(name="cumulative_prod")
def running_prod(x: TensorType, *, axis: int) -> TensorType:
    """The products of the elements along ``axis`` up to each of them."""
    require_numeric("cumulative_prod", x=x)
    require_axis("cumulative_prod", axis, x.rank)
    return x


@running_prod.reference
def running_prod_reference(x, *, axis):
    return np.cumprod(x, axis, dtype=x.dtype)


@running_prod.lowering
def running_prod_lowering(emit, x, result, *, axis):
    emit.kernel("cumulative_prod", [_stacks(emit, x, axis)], [_stacks(emit, result, axis)])


@running_prod.vjp
def running_prod_vjp(ct, y, x, *, axis):
    """Without a division: what comes after element i is a recurrence, what comes before is y."""
    after = _from_behind(ct, x, axis)
    return (after * _shifted(y, axis, back=False, first=ones),)


@running_prod.jvp
def running_prod_jvp(tangents, y, x, *, axis):
    before = _shifted(y, axis, back=False, first=ones)
    return recurrence(tangents[0] * before, x, axis=axis)


for _op in (running_sum, recurrence, running_prod):
    _op.batch(along_axes(_op))
    _op.couples(axis_ties.along_axis)
    _op.shares(shared_work.tied(axis_ties.along_axis))


@running_sum.samples
@running_prod.samples
def running_samples(draw):
    for dtype in draw.numbers:
        for shape in [(0,), (1,), (9,), (3, 5), (2, 4, 3), (2, 0, 3)]:
            for axis in range(len(shape)):
                yield (draw(dtype, *shape),), {"axis": axis}


@recurrence.samples
def recurrence_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (9,), (3, 5), (2, 4, 3), (2, 0, 3)]:
            for axis in range(len(shape)):
                yield (draw(dtype, *shape), draw(dtype, *shape)), {"axis": axis}


# Functions ---------------------------------------------------------------------------------------


def _along(name: str, run: Any, first: Any, x: Any, axis: Any, dtype: Any, initial: bool) -> Any:
    x = accumulating(as_tensor(x), dtype)
    rank = len(x.shape)
    if axis is None:
        if rank != 1:
            raise ArgumentError(
                f"{name} got no axis for {x.type}",
                why="Only of one dimension it is clear.",
                fix="give the axis",
            )
        axis = 0
    axis = normalize_axis(name, axis, rank)
    found = run(x, axis=axis)
    if not initial:
        return found
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return concat([first(shape, dtype=x.dtype), found], axis=axis)


@remembered
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The sums of the elements along ``axis`` up to each, in the dtype that ``sum`` has.

    ``axis`` may be left out of one dimension alone; ``include_initial`` puts a 0 first.
    """
    return _along("cumulative_sum", running_sum, zeros, x, axis, dtype, include_initial)


@remembered
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The products of the elements along ``axis`` up to each, in the dtype that ``prod`` has.

    ``axis`` may be left out of one dimension alone; ``include_initial`` puts a 1 first.
    """
    return _along("cumulative_prod", running_prod, ones, x, axis, dtype, include_initial)


@with_others_words
def cumsum(x: Any, /, axis: int | None, *, dtype: Any = None) -> Any:
    """``cumulative_sum`` as NumPy and PyTorch call it; None is along the flat ``x``."""
    x, axis = _flat_for(x, axis)
    return cumulative_sum(x, axis=axis, dtype=dtype)


@with_others_words
def cumprod(x: Any, /, axis: int | None, *, dtype: Any = None) -> Any:
    """``cumulative_prod`` as NumPy and PyTorch call it; None is as with ``cumsum``."""
    x, axis = _flat_for(x, axis)
    return cumulative_prod(x, axis=axis, dtype=dtype)


def _flat_for(x: Any, axis: int | None) -> tuple[Any, int]:
    return (flatten(as_tensor(x)), 0) if axis is None else (x, axis)
