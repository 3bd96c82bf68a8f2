"""Joining, padding, splitting and repeating along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import any_open
from hybrid.core.types import Shape, TensorType, shape_of
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir import interpreter, op
from hybrid.ops.shapes.shape import expand_dims, flatten, permute, region, reshape_to, squeeze
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import along_axes
from hybrid.ops.support.call_cache import remembered, remembered_of_list
from hybrid.ops.support.derivatives import widened
from hybrid.ops.support.dtypes import common, identity
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    listed,
    normalize_axis,
    plural,
    require_axis,
    require_same_dtype,
    require_sequence,
    type_of,
)


def part(x: Any, axis: int, start: int, size: int) -> Any:
    """``size`` elements of ``x`` along ``axis``, from ``start`` on."""
    if start == 0 and size == x.shape[axis]:
        return identity(x)
    first, sizes = [0] * len(x.shape), list(x.shape)
    first[axis], sizes[axis] = start, size
    return region(x, start=tuple(first), size=tuple(sizes), step=(1,) * len(sizes))


# concat ------------------------------------------------------------------------------------------


@op(name="concat")
def join(*operands: TensorType, axis: int) -> TensorType:
    """The operands one after the other along ``axis``."""
    if not operands:
        raise ArgumentError("concat got no tensors", fix="give at least one")
    first = operands[0]
    require_same_dtype("concat", *operands)
    require_axis("concat", axis, first.rank)
    around = (first.shape[:axis], first.shape[axis + 1 :])
    for t in operands:
        if t.rank != first.rank or (t.shape[:axis], t.shape[axis + 1 :]) != around:
            raise ShapeError(
                f"concat cannot join {listed(operands)} along axis {axis}",
                why="Their other axes must agree.",
                fix="change a shape, or join along another axis",
            )
    total = sum(t.shape[axis] for t in operands)
    return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))


@join.reference
def concat_reference(*operands, axis):
    return np.concatenate(operands, axis)


@join.lowering
def concat_lowering(emit, *views, axis):
    *operands, result = views
    start = 0
    for x in operands:
        size = x.shape[axis]
        if size:
            emit.kernel("copy", [x], [result.slice(axis, start, size)])
        start += size


def _offsets(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:i]) for i in range(len(sizes))]


@join.vjp
def concat_vjp(ct, _y, *_operands, axis):
    sizes = [x.shape[axis] for x in _operands]

    def own(start: int, size: int) -> Any:
        return lambda: part(ct, axis, start, size)

    return tuple(map(own, _offsets(sizes), sizes))


@join.jvp
def concat_jvp(tangents, y, *operands, axis):
    parts = [
        widened(common(0.0, y)[0], x.shape) if t is None else t
        for t, x in zip(tangents, operands, strict=True)
    ]
    return join(*parts, axis=axis)


@join.couples
def concat_couples(operands, results, *, axis):
    ties = axis_ties.everywhere(operands, results)
    starts = _offsets([x.shape[axis] for x in operands])
    parts = [
        axis_ties.tied(place, axis, x.shape[axis], start)
        for place, (x, start) in enumerate(zip(operands, starts, strict=False))
    ]
    ties[axis] = [*parts, axis_ties.tied(~0, axis, results[0].shape[axis])]
    return ties


@join.shares
def concat_shares(cut, operands, results, **attrs):
    every = tuple(range(len(operands)))
    return shared_work.tied(concat_couples, linear=[every])(cut, operands, results, **attrs)


join.batch(along_axes(join))


@join.samples
def concat_samples(draw):
    for dtype in draw.all:
        yield (draw(dtype, 3), draw(dtype, 0), draw(dtype, 17)), {"axis": 0}
        yield (draw(dtype, 2, 3), draw(dtype, 2, 1)), {"axis": 1}
        yield (draw(dtype, 2, 3),), {"axis": 0}


@remembered_of_list
def concat(arrays: Sequence[Any], /, axis: int | None = 0) -> Any:
    """``arrays`` one after the other along ``axis`` (None: flattened first), promoted together."""
    require_sequence("concat", "arrays", arrays)
    tensors = common(*arrays)
    if axis is None:
        tensors, axis = [flatten(x) for x in tensors], 0
    if not tensors:
        raise ArgumentError("concat got no tensors", fix="give at least one")
    axis = normalize_axis("concat", axis, len(tensors[0].shape))
    return join(*tensors, axis=axis)


@remembered_of_list
def stack(arrays: Sequence[Any], /, axis: int = 0) -> Any:
    """``arrays``, all of one shape, side by side along a new axis."""
    require_sequence("stack", "arrays", arrays)
    whole = interpreter.current().stack_of(arrays) if axis == 0 else None
    if whole is not None:  # to gradients a value of its own
        return whole if whole.record is None else identity(whole)
    tensors = common(*arrays)
    if not tensors:
        raise ArgumentError("stack got no tensors", fix="give at least one")
    if any(x.shape != tensors[0].shape for x in tensors):
        raise ShapeError(
            f"stack cannot join {listed([type_of(x) for x in tensors])}",
            why="Their shapes must agree.",
            fix="change a shape, or join along an existing axis with concat",
        )
    axis = normalize_axis("stack", axis, len(tensors[0].shape) + 1)
    return join(*(expand_dims(x, axis) for x in tensors), axis=axis)


# pad ---------------------------------------------------------------------------------------------


@op(name="pad")
def pad_constant(
    x: TensorType, *, widths: tuple[tuple[int, int], ...], value: float = 0
) -> TensorType:
    """``x`` with ``widths[i] = (before, after)`` elements of ``value`` added along axis ``i``."""
    if len(widths) != x.rank or any(n < 0 for pair in widths for n in pair):
        raise ArgumentError(
            f"pad of {x} got widths {widths}",
            why=f"It needs {plural(x.rank, 'pair')} of sizes >= 0.",
            fix="give one pair (before, after) per axis",
        )
    sizes = zip(x.shape, widths, strict=True)
    return x.with_shape(tuple(before + n + after for n, (before, after) in sizes))


@pad_constant.reference
def pad_reference(x, *, widths, value):
    return np.pad(x, widths, constant_values=value) if widths else x


@pad_constant.lowering
def pad_lowering(emit, x, result, *, widths, value):
    fill = emit.constant(x.dtype, value).broadcast(result.shape)
    emit.kernel("copy", [fill], [result])
    inside = result
    for axis, (before, _after) in enumerate(widths):
        inside = inside.slice(axis, before, x.shape[axis])
    if x.size:
        emit.kernel("copy", [x], [inside])


def _unpadded(y: Any, shape: Shape, widths: tuple[tuple[int, int], ...]) -> Any:
    start = tuple(before for before, _ in widths)
    return region(y, start=start, size=shape, step=(1,) * len(shape))


@pad_constant.vjp
def pad_vjp(ct, _y, _x, *, widths, value):
    return (_unpadded(ct, _x.shape, widths),)


@pad_constant.jvp
def pad_jvp(tangents, _y, _x, *, widths, value):
    return pad_constant(tangents[0], widths=widths, value=0)


@pad_constant.couples
def pad_couples(operands, results, *, widths, value):
    ties = []
    for axis, (before, _) in enumerate(widths):
        size = operands[0].shape[axis]
        padded = np.arange(results[0].shape[axis]) - before
        padded[(padded < 0) | (padded >= size)] = -1  # their number is in the author's code
        ties.append([axis_ties.tied(0, axis, size), axis_ties.TiedAxis(~0, axis, padded)])
    return ties


@pad_constant.batch
def pad_batch(_rows, _batched, x, *, widths, value):
    return pad_constant(x, widths=((0, 0), *widths), value=value)


@pad_constant.samples
def pad_samples(draw):
    for dtype in draw.all:
        for shape, widths in [((), ()), ((3,), ((2, 1),)), ((2, 3), ((0, 1), (2, 0)))]:
            yield (draw(dtype, *shape),), {"widths": widths, "value": 1}
        yield (draw(dtype, 0),), {"widths": ((1, 2),), "value": 0}


@remembered
def pad(x: Any, pad_width: Any, *, constant_value: float = 0) -> Any:
    """``x`` with elements of ``constant_value`` added: an int, one pair, or a pair per axis."""
    x = as_tensor(x)
    if hasattr(pad_width, "__index__"):
        pad_width = (pad_width, pad_width)
    require_sequence("pad", "pad_width", pad_width)
    pairs = [*pad_width]
    if pairs and hasattr(pairs[0], "__index__"):
        pairs = [tuple(pairs)] * len(x.shape)
    for pair in pairs:
        require_sequence("pad", "pad_width", pair)
    widths = tuple([tuple([as_int("pad", "width", n) for n in pair]) for pair in pairs])
    if any(len(pair) != 2 for pair in widths):
        raise ArgumentError(f"pad got pad_width {pad_width!r}", fix="give pairs (before, after)")
    return pad_constant(x, widths=widths, value=constant_value)


# Splitting ---------------------------------------------------------------------------------------


@remembered
def split(x: Any, size: int | Sequence[int], /, axis: int = 0) -> list[Any]:
    """``x`` cut along ``axis`` into parts of ``size`` (the last may be shorter), or of these sizes.

    ``chunk`` cuts it into a number of parts.
    """
    x = as_tensor(x)
    axis = normalize_axis("split", axis, len(x.shape))
    length = x.shape[axis]
    if hasattr(size, "__index__") and not getattr(size, "shape", ()):
        each = as_int("split", "size", size, least=1)
        starts = _starts(length, each) if length else (0,)
        return [part(x, axis, i, min(each, length - i)) for i in starts]
    require_sequence("split", "size", size)
    sizes = [as_int("split", "size", n, least=0) for n in size]
    if sum(sizes) != length:
        raise ShapeError(
            f"split cannot cut axis {axis} of shape {list(x.shape)} into parts of sizes {sizes}",
            why=f"They sum to {sum(sizes)}, not to {length}.",
            fix="give one size, or sizes that sum to the axis; chunk(x, n) cuts into n parts",
        )
    return [part(x, axis, i, n) for i, n in zip(_offsets(sizes), sizes, strict=True)]


def _starts(length: Any, each: Any) -> Sequence[Any]:
    """Where parts of ``each`` begin; how many there are is asked of open sizes."""
    if not any_open(length, each):
        return range(0, length, each)
    starts = [0]
    while starts[-1] + each < length:
        starts.append(starts[-1] + each)
        if len(starts) > _MOST_PARTS:
            return range(0, length, each)
    return starts


_MOST_PARTS = 32  # that comparisons of open sizes tell, each of them a condition


@remembered
def unstack(x: Any, /, axis: int = 0) -> tuple[Any, ...]:
    """The parts of ``x`` along ``axis``, without that axis."""
    x = as_tensor(x)
    axis = normalize_axis("unstack", axis, len(x.shape))
    return tuple(squeeze(part(x, axis, i, 1), axis) for i in range(x.shape[axis]))


@remembered
def chunk(x: Any, chunks: int, /, axis: int = 0) -> list[Any]:
    """``x`` cut along ``axis`` into at most ``chunks`` parts, all but the last equally long."""
    x = as_tensor(x)
    axis = normalize_axis("chunk", axis, len(x.shape))
    chunks = as_int("chunk", "chunks", chunks, least=1)
    each = max(-(-x.shape[axis] // chunks), 1)
    starts = _starts(max(x.shape[axis], 1), each)
    return [part(x, axis, i, min(each, x.shape[axis] - i)) for i in starts]


# Repeating and rotating --------------------------------------------------------------------------


@remembered
def roll(x: Any, /, shift: int | Sequence[int], axis: Any = None) -> Any:
    """``x`` rotated by ``shift`` along ``axis``; the flattened ``x`` when ``axis`` is None."""
    x = as_tensor(x)
    if axis is None:
        return reshape_to(roll(flatten(x), shift, axis=0), shape=x.shape)
    if hasattr(shift, "__index__") and not getattr(shift, "shape", ()):
        shift = (shift,)
    require_sequence("roll", "shift", shift)
    shifts = tuple([as_int("roll", "shift", by) for by in shift])
    names = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(shifts) == 1:
        shifts = shifts * len(names)
    if len(shifts) != len(names):
        raise ArgumentError(
            f"roll got shift {shift} for axis {axis}", fix="give one shift, or one per axis"
        )
    x = identity(x)
    for by, name in zip(shifts, names, strict=True):
        along = normalize_axis("roll", name, len(x.shape))
        length = x.shape[along]
        back = -by % length if length else 0
        if back:
            x = join(part(x, along, back, length - back), part(x, along, 0, back), axis=along)
    return x


@remembered
def tile(x: Any, repetitions: Any, /) -> Any:
    """``x`` laid side by side ``repetitions[i]`` times along axis ``i``."""
    x, counts = as_tensor(x), shape_of(repetitions, "repetitions")
    rank = max(len(counts), len(x.shape))
    sizes = (1,) * (rank - len(x.shape)) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    if all(n == 1 for n in counts):
        return reshape_to(x, shape=sizes)
    groups = list(zip(counts, sizes, strict=True))
    # The rank limit counts interleaved axes, so axes that are not repeated stay single.
    narrow = tuple(s for c, n in groups for s in ((1, n) if c != 1 else (n,)))
    wide = tuple(s for c, n in groups for s in ((c, n) if c != 1 else (n,)))
    repeated = widened(reshape_to(x, shape=narrow), wide)
    return reshape_to(repeated, shape=tuple(c * n for c, n in groups))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Coordinates of the grid spanned by 1-d ``arrays``; "xy" exchanges the first two axes."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid got indexing {indexing!r}", fix='use "xy" or "ij"')
    return _grids(arrays, indexing)


@remembered_of_list
def _grids(arrays: Sequence[Any], indexing: str) -> list[Any]:
    tensors = [flatten(as_tensor(x)) for x in arrays]
    shape = tuple(x.shape[0] for x in tensors)
    grids = []
    for i, x in enumerate(tensors):
        own = tuple(n if i == j else 1 for j, n in enumerate(shape))
        grids.append(widened(reshape_to(x, shape=own), shape))
    if indexing == "xy" and len(grids) > 1:
        order = (1, 0, *range(2, len(grids)))
        grids = [permute(g, axes=order) for g in grids]
    return grids
