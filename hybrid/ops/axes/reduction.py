"""Reductions along axes: sums, products, means, extremes, their places, any and all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.layouts import PARTIAL
from hybrid.core.types import DEFAULT_FLOAT, Shape, TensorType, bool_, dtype_of, int64, uint64
from hybrid.errors import ShapeError
from hybrid.ir import Emit, Op, View, get_op, op
from hybrid.ir.lowering import reduced_order
from hybrid.ops.elementwise.comparison import select, where
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import along_axes, along_one_axis
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import linear, reshaped, widened
from hybrid.ops.support.dtypes import converted
from hybrid.ops.support.operand_checks import (
    as_tensor,
    normalize_axes,
    normalize_axis,
    require_axes,
    require_axis,
    require_bool,
    require_floating,
    require_numeric,
)

# Shared by all of them ---------------------------------------------------------------------------


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """``shape`` with ``axes`` of size 1."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _reduced_type(name: str, x: TensorType, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    require_axes(name, axis, x.rank)
    if keepdims:
        return x.with_shape(kept_shape(x.shape, axis))
    return x.with_shape(tuple(n for i, n in enumerate(x.shape) if i not in axis))


def _require_elements(name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(
                f"{name} cannot reduce axis {a} of {x}",
                why="The axis is empty, and the result of no elements is not defined.",
                fix="reduce axes that have elements, or test the size first",
            )


def _spread(y: Any, shape: Shape, axis: tuple[int, ...]) -> Any:
    """A reduction's result (or its cotangent) repeated along the reduced axes."""
    return widened(reshaped(y, kept_shape(shape, axis)), shape)


def three_axes(emit: Emit, x: View, axes: tuple[int, ...]) -> View:
    """``x`` seen as [A, R, B] with R the reduced axes; a copy when they are not adjacent."""
    order, sizes = reduced_order(x.shape, axes)
    return emit.dense(x.permute(order)).reshape(sizes)


def _lower_to(name: str, empty: bool | None = None) -> Callable[..., None]:
    """The lowering rule to reduction kernel ``name``; ``empty`` is its result of no elements."""

    def lowering(emit: Emit, x: View, result: View, *, axis: Any, keepdims: bool) -> None:
        axes = tuple(range(x.rank)) if axis is None else axis
        axes = axes if isinstance(axes, tuple) else (axes,)
        if x.size == 0 and empty is not None:
            emit.kernel("copy", [emit.constant(x.dtype, empty).broadcast(result.shape)], [result])
            return
        view = three_axes(emit, x, axes)
        emit.kernel(name, [view], [result.reshape((view.shape[0], view.shape[2]))])

    return lowering


SAMPLE_AXES = [
    ((5,), (0,)),
    ((17,), (0,)),
    ((3, 5), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0, 1)),
    ((2, 3, 4), (1,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 1, 4), (1,)),
    ((3, 4), ()),
    ((), ()),
    ((0, 3), (1,)),
    ((1000,), (0,)),
    ((3, 300), (1,)),
]
EMPTY_AXES = [((0,), (0,)), ((0, 3), (0,))]


def _samples(kind: str, *, empty: bool = False) -> Callable[..., Any]:
    def samples(draw: Any) -> Any:
        for dtype in getattr(draw, kind):
            for shape, axis in [*SAMPLE_AXES, *(EMPTY_AXES if empty else [])]:
                for keepdims in (False, True):
                    yield (draw(dtype, *shape),), {"axis": axis, "keepdims": keepdims}

    return samples


# Sum, mean, product ------------------------------------------------------------------------------


@op(name="sum")
def reduce_sum(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """The sum along ``axis``, in the dtype of ``x``."""
    require_numeric("sum", x=x)
    return _reduced_type("sum", x, axis, keepdims)


@reduce_sum.reference
def sum_reference(x, *, axis, keepdims):
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=wide).astype(x.dtype)


reduce_sum.lowering(_lower_to("sum"))
reduce_sum.samples(_samples("numbers", empty=True))


@linear(reduce_sum)
def sum_vjp(ct, _y, _x, *, axis, keepdims):
    return (_spread(ct, _x.shape, axis),)


@op(name="mean")
def reduce_mean(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """The mean along ``axis``; NaN of no elements."""
    require_floating("mean", x=x)
    return _reduced_type("mean", x, axis, keepdims)


@reduce_mean.reference
def mean_reference(x, *, axis, keepdims):
    count = math.prod(x.shape[a] for a in axis)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.divide(total, count).astype(x.dtype)


reduce_mean.lowering(_lower_to("mean"))
reduce_mean.samples(_samples("floats", empty=True))


@linear(reduce_mean)
def mean_vjp(ct, _y, _x, *, axis, keepdims):
    count = math.prod(_x.shape[a] for a in axis)
    return (_spread(ct / (count or 1), _x.shape, axis),)


@op(name="prod")
def reduce_prod(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """The product along ``axis``, in the dtype of ``x``."""
    require_numeric("prod", x=x)
    return _reduced_type("prod", x, axis, keepdims)


@reduce_prod.reference
def prod_reference(x, *, axis, keepdims):
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.prod(x, axis=axis, keepdims=keepdims, dtype=wide).astype(x.dtype)


reduce_prod.lowering(_lower_to("prod"))


@reduce_prod.samples
def prod_samples(draw):
    for dtype in draw.numbers:
        for shape, axis in SAMPLE_AXES:
            yield (draw(dtype, *shape, low=0.8, high=1.2),), {"axis": axis, "keepdims": False}


def _prod_slopes(x: Any, axis: tuple[int, ...]) -> Any:
    """For each element the product of the others; exact with any number of zeros."""
    zero = x == 0
    count = _spread(reduce_sum(converted(zero, x.dtype), axis=axis, keepdims=True), x.shape, axis)
    filled = where(zero, 1.0, x)
    product = _spread(reduce_prod(filled, axis=axis, keepdims=True), x.shape, axis)
    beside_zero = where(count == 1, product, 0.0)
    return select(zero, beside_zero, where(count == 0, product / filled, 0.0))


@reduce_prod.vjp
def prod_vjp(ct, _y, x, *, axis, keepdims):
    return (_spread(ct, x.shape, axis) * _prod_slopes(x, axis),)


@reduce_prod.jvp
def prod_jvp(tangents, _y, x, *, axis, keepdims):
    return reduce_sum(tangents[0] * _prod_slopes(x, axis), axis=axis, keepdims=keepdims)


# Extremes ----------------------------------------------------------------------------------------


@op(name="max")
def reduce_max(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """The largest element along ``axis``; NaN when there is one."""
    require_numeric("max", x=x)
    type = _reduced_type("max", x, axis, keepdims)
    _require_elements("max", x, axis)
    return type


@reduce_max.reference
def max_reference(x, *, axis, keepdims):
    return np.max(x, axis=axis, keepdims=keepdims) if axis else x


@op(name="min")
def reduce_min(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """The smallest element along ``axis``; NaN when there is one."""
    require_numeric("min", x=x)
    type = _reduced_type("min", x, axis, keepdims)
    _require_elements("min", x, axis)
    return type


@reduce_min.reference
def min_reference(x, *, axis, keepdims):
    return np.min(x, axis=axis, keepdims=keepdims) if axis else x


for _op in (reduce_max, reduce_min):
    _op.lowering(_lower_to(_op.name))
    _op.samples(_samples("numbers"))


def _chosen(x: Any, y: Any, axis: tuple[int, ...]) -> tuple[Any, Any]:
    """Which elements equal the extreme, and (with the reduced axes kept) how many do."""
    mask = x == _spread(y, x.shape, axis)
    return mask, reduce_sum(converted(mask, x.dtype), axis=axis, keepdims=True)


@reduce_max.vjp
@reduce_min.vjp
def extreme_vjp(ct, y, x, *, axis, keepdims):
    """Equal extremes share the cotangent evenly."""
    mask, count = _chosen(x, y, axis)
    share = reshaped(ct, count.shape) / count
    return (where(mask, widened(share, x.shape), 0.0),)


@reduce_max.jvp
@reduce_min.jvp
def extreme_jvp(tangents, y, x, *, axis, keepdims):
    mask, count = _chosen(x, y, axis)
    total = reduce_sum(where(mask, tangents[0], 0.0), axis=axis, keepdims=True)
    return reshaped(total / count, y.shape)


# Places of extremes ------------------------------------------------------------------------------


def _place_type(name: str, x: TensorType, axis: int | None, keepdims: bool) -> TensorType:
    if axis is not None:
        require_axis(name, axis, x.rank)
    axes = tuple(range(x.rank)) if axis is None else (axis,)
    _require_elements(name, x, axes)
    return _reduced_type(name, x, axes, keepdims).with_dtype(int64)


@op(name="argmax", differentiable=False)
def place_of_max(x: TensorType, *, axis: int | None = None, keepdims: bool = False) -> TensorType:
    """The index of the largest element (the first of equals, the first NaN if there is one)."""
    return _place_type("argmax", x, axis, keepdims)


@place_of_max.reference
def argmax_reference(x, *, axis, keepdims):
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int64)


@op(name="argmin", differentiable=False)
def place_of_min(x: TensorType, *, axis: int | None = None, keepdims: bool = False) -> TensorType:
    """The index of the smallest element (the first of equals, the first NaN if there is one)."""
    return _place_type("argmin", x, axis, keepdims)


@place_of_min.reference
def argmin_reference(x, *, axis, keepdims):
    return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims), np.int64)


for _op in (place_of_max, place_of_min):
    _op.batch(along_one_axis(_op))
    _op.couples(axis_ties.reduced(sums=False))
    _op.shares(shared_work.tied(axis_ties.reduced(sums=False)))


@place_of_max.samples
@place_of_min.samples
def place_samples(draw):
    for dtype in draw.all:
        for shape, axis in [((17,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 4), 1), ((3, 4), None)]:
            for keepdims in (False, True):
                yield (draw(dtype, *shape),), {"axis": axis, "keepdims": keepdims}


# Any and all -------------------------------------------------------------------------------------


@op(name="any", differentiable=False)
def reduce_any(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """Whether some element along ``axis`` holds."""
    require_bool("any", x=x)
    return _reduced_type("any", x, axis, keepdims)


@reduce_any.reference
def any_reference(x, *, axis, keepdims):
    return np.any(x, axis=axis, keepdims=keepdims)


@op(name="all", differentiable=False)
def reduce_all(x: TensorType, *, axis: tuple[int, ...], keepdims: bool = False) -> TensorType:
    """Whether every element along ``axis`` holds."""
    require_bool("all", x=x)
    return _reduced_type("all", x, axis, keepdims)


@reduce_all.reference
def all_reference(x, *, axis, keepdims):
    return np.all(x, axis=axis, keepdims=keepdims)


reduce_any.lowering(_lower_to("any", empty=False))
reduce_all.lowering(_lower_to("all", empty=True))
place_of_max.lowering(_lower_to("argmax"))
place_of_min.lowering(_lower_to("argmin"))
reduce_any.samples(_samples("bools", empty=True))
reduce_all.samples(_samples("bools", empty=True))


# By ranks that have parts ------------------------------------------------------------------------


def _sharing(reduce: Op) -> shared_work.Rule:
    """Along an axis that is cut, sums are terms; of others the ranks ask each other."""
    linear = [(0,)] if reduce in (reduce_sum, reduce_mean) else []
    rest = shared_work.tied(axis_ties.reduced(sums=reduce is reduce_sum), linear=linear, sums=True)
    if reduce is reduce_sum:
        return rest

    def over_ranks(work, x, **attrs):
        mine = reduce(x, **attrs)
        if reduce is not reduce_mean:
            return work.joined(reduce, mine)
        return work.apply(get_op("divide"), (mine, work.number(work.axis.ranks, mine)), {})

    def rule(cut, operands, results, **attrs):
        ends = PARTIAL if reduce is reduce_mean else None
        splits = [cut.of(operands[0], axis) for axis in attrs["axis"]]
        ways = [shared_work.SharedWay((split,), (ends,), over_ranks) for split in splits if split]
        return [*rest(cut, operands, results, **attrs), *ways]

    return rule


# Functions ---------------------------------------------------------------------------------------


for _op in (reduce_sum, reduce_mean, reduce_prod, reduce_max, reduce_min, reduce_any, reduce_all):
    _op.batch(along_axes(_op))
    _op.couples(axis_ties.reduced(sums=_op is reduce_sum))
    _op.shares(_sharing(_op))


def _along(reduce: Op, x: Any, axis: Any, keepdims: bool) -> Any:
    axes = normalize_axes(reduce.name, axis, len(x.shape))
    return reduce(x, axis=axes, keepdims=bool(keepdims))


def accumulating(x: Any, dtype: Any) -> Any:
    """``x`` in the dtype of its sum: integers add up in int64 or uint64, bools in int64."""
    x = as_tensor(x)
    if dtype is not None:
        return converted(x, dtype_of(dtype))
    if x.dtype.is_floating:
        return x
    return converted(x, uint64 if x.dtype.kind == "uint" else int64)


@remembered
def sum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum along ``axis`` (all axes by default).

    Bools and integers add up in int64, unsigned ones in uint64.
    """
    return _along(reduce_sum, accumulating(x, dtype), axis, keepdims)


@remembered
def prod(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product along ``axis`` (all axes by default).

    Bools and integers multiply in int64, unsigned ones in uint64.
    """
    return _along(reduce_prod, accumulating(x, dtype), axis, keepdims)


@remembered
def mean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The mean along ``axis`` (all axes by default); that of bools and integers is float32."""
    x = as_tensor(x)
    x = x if x.dtype.is_floating else converted(x, DEFAULT_FLOAT)
    return _along(reduce_mean, x, axis, keepdims)


@remembered
def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest element along ``axis`` (all axes by default)."""
    return _along(reduce_max, as_tensor(x), axis, keepdims)


@remembered
def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The smallest element along ``axis`` (all axes by default)."""
    return _along(reduce_min, as_tensor(x), axis, keepdims)


@remembered
def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether some element along ``axis`` (all axes by default) is not zero."""
    return _along(reduce_any, converted(as_tensor(x), bool_), axis, keepdims)


@remembered
def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether no element along ``axis`` (all axes by default) is zero."""
    return _along(reduce_all, converted(as_tensor(x), bool_), axis, keepdims)


@remembered
def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The index of the largest element along ``axis``, or into the flattened tensor."""
    x = as_tensor(x)
    axis = None if axis is None else normalize_axis("argmax", axis, len(x.shape))
    return place_of_max(x, axis=axis, keepdims=bool(keepdims))


@remembered
def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The index of the smallest element along ``axis``, or into the flattened tensor."""
    x = as_tensor(x)
    axis = None if axis is None else normalize_axis("argmin", axis, len(x.shape))
    return place_of_min(x, axis=axis, keepdims=bool(keepdims))
