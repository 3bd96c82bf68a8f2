"""Shape ops: the same elements seen in another shape, order or part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, shape_of
from hybrid.errors import ArgumentError, AxisError, ShapeError
from hybrid.ir import get_op, op
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import along_axes, raised
from hybrid.ops.support.call_cache import remembered, remembered_of_list
from hybrid.ops.support.derivatives import linear, onto_zeros, reshaped, unbroadcast
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    require_axes,
    require_sequence,
    type_of,
)

# reshape -----------------------------------------------------------------------------------------


@op(name="reshape")
def reshape_to(x: TensorType, *, shape: Shape) -> TensorType:
    """The elements of ``x``, in row-major order, in another shape."""
    if math.prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(
            f"reshape cannot turn {x} into shape {list(shape)}",
            why=f"It has {x.size} elements; the shape asks for {math.prod(shape)}.",
            fix="give a shape with as many elements",
        )
    return x.with_shape(shape)


@reshape_to.reference
def reshape_reference(x, *, shape):
    return x.reshape(shape)


@reshape_to.view
def reshape_view(x, *, shape):
    return x.reshape(shape)


@reshape_to.lowering
def reshape_lowering(emit, x, result, *, shape):
    emit.kernel("copy", [x], [result.reshape(x.shape)])


@linear(reshape_to)
def reshape_vjp(ct, _y, _x, *, shape):
    return (reshaped(ct, _x.shape),)


reshape_to.couples(axis_ties.reshaped)


def _own_shape(attrs, results):
    return attrs | {"shape": results[0].shape}


reshape_to.shares(shared_work.tied(axis_ties.reshaped, linear=[(0,)], attrs=_own_shape))


@reshape_to.batch
def reshape_batch(rows, _batched, x, *, shape):
    return reshape_to(x, shape=(rows, *shape))


@reshape_to.samples
def reshape_samples(draw):
    for dtype in draw.all:
        for before, after in [((6,), (2, 3)), ((2, 3), (6,)), ((), (1, 1)), ((0, 3), (5, 0))]:
            yield (draw(dtype, *before),), {"shape": after}


@remembered
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """``x`` in ``shape``, of which one size may be -1: what the others leave.

    Tensors are values; ``copy`` is accepted because the array API has it.
    """
    x = as_tensor(x)
    sizes = shape_of(shape)
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        size = math.prod(x.shape)
        if sizes.count(-1) > 1 or known == 0 or size % known:
            raise ShapeError(
                f"reshape cannot turn shape {list(x.shape)} into {list(sizes)}",
                why="One size may be -1, when the others divide the number of elements.",
                fix="give all sizes",
            )
        sizes = tuple(size // known if n == -1 else n for n in sizes)
    return reshape_to(x, shape=sizes)


def reshape_method(x: Any, /, *sizes: Any, **options: Any) -> Any:
    """The method: ``x.reshape(2, 3)`` is ``x.reshape((2, 3))``, which is ``reshape(x, (2, 3))``."""
    return reshape(x, sizes, **options) if len(sizes) > 1 else reshape(x, *sizes, **options)


# permute_dims ------------------------------------------------------------------------------------


@op(name="permute_dims")
def permute(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    """``x`` with its axes in another order: result axis ``i`` is operand axis ``axes[i]``."""
    if sorted(axes) != list(range(x.rank)):
        raise AxisError(
            f"permute_dims cannot order the axes of {x} as {axes}",
            why=f"Each of 0 to {x.rank - 1} must be given once." if x.rank else "It has no axes.",
            fix="give a permutation of the axes",
        )
    return x.with_shape(tuple(x.shape[a] for a in axes))


@permute.reference
def permute_reference(x, *, axes):
    return np.transpose(x, axes)


@permute.view
def permute_view(x, *, axes):
    return x.permute(axes)


@linear(permute)
def permute_vjp(ct, _y, _x, *, axes):
    return (permute(ct, axes=tuple(axes.index(i) for i in range(len(axes)))),)


@permute.couples
def permute_couples(operands, results, *, axes):
    return [
        axis_ties.along(operands, results, [(0, old), (~0, new)]) for new, old in enumerate(axes)
    ]


permute.shares(shared_work.tied(permute_couples, linear=[(0,)]))


@permute.batch
def permute_batch(_rows, _batched, x, *, axes):
    return permute(x, axes=(0, *[axis + 1 for axis in axes]))


@permute.samples
def permute_samples(draw):
    for dtype in draw.all:
        for shape, axes in [((), ()), ((3, 5), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((0, 2), (1, 0))]:
            yield (draw(dtype, *shape),), {"axes": axes}


@remembered
def permute_dims(x: Any, /, axes: Sequence[int]) -> Any:
    """``x`` with its axes in the order ``axes``."""
    x = as_tensor(x)
    rank = len(x.shape)
    require_sequence("permute_dims", "axes", axes)
    return permute(x, axes=tuple(normalize_axis("permute_dims", a, rank) for a in axes))


@remembered
def matrix_transpose(x: Any, /) -> Any:
    """``x`` with its last two axes exchanged."""
    x = as_tensor(x)
    rank = len(x.shape)
    if rank < 2:
        raise ShapeError(
            f"matrix_transpose cannot take shape {list(x.shape)}",
            why="It exchanges the last two axes.",
            fix="add axes with expand_dims",
        )
    return permute(x, axes=(*range(rank - 2), rank - 1, rank - 2))


@remembered
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Any:
    """``x`` with two axes exchanged."""
    x = as_tensor(x)
    axes = list(range(len(x.shape)))
    first = normalize_axis("swapaxes", axis1, len(axes))
    second = normalize_axis("swapaxes", axis2, len(axes))
    axes[first], axes[second] = second, first
    return permute(x, axes=tuple(axes))


@remembered
def transpose(x: Any, /, *axes: Any) -> Any:
    """``x`` with its axes reversed, in the order of a tuple or, of two ints, exchanged.

    NumPy's method and PyTorch's: ``x.transpose()``, ``x.transpose((0, 2, 1))``,
    ``x.transpose(0, 2, 1)`` and ``x.transpose(1, 2)``, which exchanges the two.
    """
    x = as_tensor(x)
    if not axes or (len(axes) == 1 and axes[0] is None):
        return permute_dims(x, tuple(reversed(range(len(x.shape)))))
    if len(axes) == 2:
        return swapaxes(x, *axes)
    return permute_dims(x, axes[0] if len(axes) == 1 else axes)


@remembered
def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """``x`` with the axes ``source`` moved to the places ``destination``, the others in order."""
    x = as_tensor(x)
    rank = len(x.shape)
    many = (tuple, list)
    from_ = [normalize_axis("moveaxis", a, rank) for a in _sequence(source, many)]
    to = [normalize_axis("moveaxis", a, rank) for a in _sequence(destination, many)]
    if len(from_) != len(to) or len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise AxisError(
            f"moveaxis cannot move axes {source} to {destination}",
            why="Both must name equally many axes, each once.",
        )
    order = [a for a in range(rank) if a not in from_]
    for place, axis in sorted(zip(to, from_, strict=True)):
        order.insert(place, axis)
    return permute(x, axes=tuple(order))


def _sequence(obj: Any, kinds: tuple[type, ...]) -> Sequence[Any]:
    return obj if isinstance(obj, kinds) else (obj,)


# broadcast_to ------------------------------------------------------------------------------------


@op(name="broadcast_to")
def broadcast(x: TensorType, *, shape: Shape) -> TensorType:
    """``x`` repeated along new leading axes and along axes of size 1."""
    lead = len(shape) - x.rank
    # Whether an open size is 1 is asked only of those that are not the size asked for.
    sizes = zip(x.shape, shape[lead:], strict=True) if lead >= 0 else ()
    if lead < 0 or any(n not in (m, 1) for n, m in sizes if type(n) is not int or n != 1):
        raise ShapeError(
            f"broadcast_to cannot turn {x} into shape {list(shape)}",
            why="Aligned at the last axis, each size must be 1 or the size asked for.",
            fix="change its shape with reshape or expand_dims",
        )
    return x.with_shape(shape)


@broadcast.reference
def broadcast_reference(x, *, shape):
    return np.broadcast_to(x, shape)


@broadcast.view
def broadcast_view(x, *, shape):
    return x.broadcast(shape)


@linear(broadcast)
def broadcast_vjp(ct, _y, _x, *, shape):
    return (unbroadcast(ct, _x),)


broadcast.couples(axis_ties.aligned)
broadcast.shares(shared_work.tied(axis_ties.aligned, linear=[(0,)], attrs=_own_shape))


@broadcast.batch
def broadcast_batch(rows, _batched, x, *, shape):
    return broadcast(raised(x, len(shape)), shape=(rows, *shape))


@broadcast.samples
def broadcast_samples(draw):
    for dtype in draw.all:
        for before, after in [((), (3,)), ((3, 1), (2, 3, 4)), ((1,), (0,)), ((4,), (4,))]:
            yield (draw(dtype, *before),), {"shape": after}


@remembered
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """``x`` repeated to ``shape``."""
    return broadcast(as_tensor(x), shape=shape_of(shape))


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The operands, each repeated to the shape that they have in common."""
    return _broadcast(arrays)


@remembered_of_list
def _broadcast(arrays: Sequence[Any]) -> list[Any]:
    tensors = [as_tensor(x) for x in arrays]
    if not tensors:
        return []
    shape = broadcast_shapes("broadcast_arrays", *map(type_of, tensors))
    return [broadcast(x, shape=shape) for x in tensors]


# flip and slice ----------------------------------------------------------------------------------


@op(name="flip")
def reverse(x: TensorType, *, axis: tuple[int, ...]) -> TensorType:
    """``x`` in reverse order along ``axis``."""
    require_axes("flip", axis, x.rank)
    return x


@reverse.reference
def flip_reference(x, *, axis):
    return np.flip(x, axis)


@reverse.view
def flip_view(x, *, axis):
    for a in axis:
        x = x.slice(a, x.shape[a] - 1, x.shape[a], -1)
    return x


@linear(reverse)
def flip_vjp(ct, _y, _x, *, axis):
    return (reverse(ct, axis=axis),)


@reverse.couples
def flip_couples(operands, results, *, axis):
    ties = axis_ties.everywhere(operands, results)
    for own in axis:
        at, result = ties[own][0], ties[own][1]
        ties[own] = [at, result._replace(numbers=at.numbers[::-1])]
    return ties


reverse.batch(along_axes(reverse))


@reverse.samples
def flip_samples(draw):
    for dtype in draw.all:
        for shape, axis in [((), ()), ((17,), (0,)), ((3, 5), (0, 1)), ((0, 3), (0,))]:
            yield (draw(dtype, *shape),), {"axis": axis}


@remembered
def flip(x: Any, /, axis: Any = None) -> Any:
    """``x`` in reverse order along ``axis`` (all axes by default)."""
    x = as_tensor(x)
    return reverse(x, axis=normalize_axes("flip", axis, len(x.shape)))


def check_region(
    name: str,
    x: TensorType,
    start: tuple[int, ...],
    size: tuple[int, ...],
    step: tuple[int, ...],
) -> None:
    """A region is, per axis, ``size`` elements from ``start`` on, ``step`` apart, inside ``x``."""
    if not len(start) == len(size) == len(step) == x.rank:
        raise ArgumentError(f"{name} of {x} needs a start, size and step per axis")
    for axis, (first, count, by) in enumerate(zip(start, size, step, strict=True)):
        last = first + (count - 1) * by
        inside = 0 <= first < x.shape[axis] and 0 <= last < x.shape[axis]
        if count < 0 or by == 0 or (count and not inside):
            raise ArgumentError(
                f"{name} of {x} leaves axis {axis}",
                why=f"It asks for {count} elements from {first} on, {by} apart.",
                fix="stay within the axis",
            )


@op(name="slice")
def region(
    x: TensorType, *, start: tuple[int, ...], size: tuple[int, ...], step: tuple[int, ...]
) -> TensorType:
    """Per axis ``size`` elements of ``x``, from ``start`` on, ``step`` apart (may be negative)."""
    check_region("slice", x, start, size, step)
    return x.with_shape(size)


def region_index(
    start: tuple[int, ...], size: tuple[int, ...], step: tuple[int, ...]
) -> tuple[slice, ...]:
    """The region as Python slices."""
    slices = []
    for first, count, by in zip(start, size, step, strict=True):
        stop = first + count * by
        slices.append(slice(first, None if stop < 0 else stop, by) if count else slice(0, 0))
    return tuple(slices)


@region.reference
def slice_reference(x, *, start, size, step):
    return x[region_index(start, size, step)]


def region_view(x, *, start, size, step):
    """The region's bytes within ``x``."""
    for axis in range(x.rank):
        x = x.slice(axis, start[axis], size[axis], step[axis])
    return x


region.view(region_view)


@linear(region)
def slice_vjp(ct, _y, _x, *, start, size, step):
    zeros = get_op("full")(shape=_x.shape, value=0.0, dtype=ct.dtype)
    return (get_op("slice_assign")(zeros, onto_zeros(ct), start=start, size=size, step=step),)


def region_samples(draw):
    """(dtype, shape, region) triples for the ops that know regions."""
    for dtype in draw.all:
        for shape, start, size, step in [
            ((), (), (), ()),
            ((17,), (2,), (15,), (1,)),
            ((17,), (16,), (6,), (-3,)),
            ((4, 5), (1, 0), (2, 3), (2, 2)),
            ((4, 5), (3, 0), (4, 0), (-1, 1)),
            ((0,), (0,), (0,), (1,)),
        ]:
            yield dtype, shape, {"start": start, "size": size, "step": step}


@region.couples
def slice_couples(operands, results, *, start, size, step):
    return [
        [
            axis_ties.tied(0, axis, operands[0].shape[axis]),
            axis_ties.tied(~0, axis, size[axis], start[axis], step[axis]),
        ]
        for axis in range(operands[0].rank)
    ]


def _own_size(attrs, results):
    """The region of a part: all of an axis that is cut."""
    return attrs | {"size": results[0].shape}


def _whole_axes(operands, results, *, start, size, step):
    return [
        axis_ties.along(operands, results, [(0, axis), (~0, axis)])
        for axis, n in enumerate(operands[0].shape)
        if (start[axis], size[axis], step[axis]) == (0, n, 1)
    ]


region.shares(shared_work.tied(_whole_axes, linear=[(0,)], attrs=_own_size))


@region.batch
def slice_batch(rows, _batched, x, *, start, size, step):
    return region(x, start=(0, *start), size=(rows, *size), step=(1, *step))


@region.samples
def slice_samples(draw):
    for dtype, shape, attrs in region_samples(draw):
        yield (draw(dtype, *shape),), attrs


# Axes of size 1 ----------------------------------------------------------------------------------


@remembered
def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """``x`` with an axis of size 1 at each place in ``axis``, counted in the result."""
    x = as_tensor(x)
    rank = len(x.shape) + len(_sequence(axis, (tuple, list)))
    axes = normalize_axes("expand_dims", axis, rank)
    sizes = iter(x.shape)
    return reshape_to(x, shape=tuple(1 if i in axes else next(sizes) for i in range(rank)))


@remembered
def squeeze(x: Any, /, axis: Any = None) -> Any:
    """``x`` without the axes ``axis``, which have size 1 (by default all that have)."""
    x = as_tensor(x)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = normalize_axes("squeeze", axis, len(x.shape))
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(
                f"squeeze cannot remove axis {a} of shape {list(x.shape)}",
                why=f"Its size is {x.shape[a]}, not 1.",
                fix="name axes of size 1",
            )
    return reshape_to(x, shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


@remembered
def flatten(x: Any, start_axis: int = 0, end_axis: int = -1) -> Any:
    """``x`` with the axes from ``start_axis`` to ``end_axis`` made one."""
    x = as_tensor(x)
    rank = len(x.shape)
    if rank == 0:
        return reshape_to(x, shape=(1,))
    first = normalize_axis("flatten", start_axis, rank)
    last = normalize_axis("flatten", end_axis, rank)
    if first > last:
        raise AxisError(
            f"flatten got axes {start_axis} to {end_axis}",
            why="The first axis comes after the last.",
            fix="exchange them",
        )
    middle = math.prod(x.shape[first : last + 1])
    return reshape_to(x, shape=(*x.shape[:first], middle, *x.shape[last + 1 :]))


@remembered
def unflatten(x: Any, axis: int, sizes: Sequence[int]) -> Any:
    """``x`` with ``axis`` made several axes of the given sizes, of which one may be -1."""
    x = as_tensor(x)
    axis = normalize_axis("unflatten", axis, len(x.shape))
    return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))
