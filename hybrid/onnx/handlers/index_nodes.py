"""Reading and writing by index: slices, gathers, scatters, orders and choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.known_values import axes_of, axis_of, number_of, numbers_of, tensor
from hybrid.onnx.node_table import handles

_FAR = 2**31 - 1  # exporters write numbers beyond this for "to the end"


def _key(
    shape: tuple[Any, ...],
    starts: list[Any],
    ends: list[Any],
    axes: list[int],
    steps: list[Any],
) -> tuple[slice, ...]:
    """Slices as Python has them: a negative step that goes beyond the front ends with None."""
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        key[axis] = _slice(start, end, int(step), shape[axis])
    return tuple(key)


def _slice(start: Any, end: Any, step: int, length: Any) -> slice:
    if step == 0:
        raise OnnxError("Slice got the step 0")
    beyond = type(end) is int and (
        end >= _FAR if step > 0 else end <= -_FAR or (type(length) is int and end < -length)
    )
    if beyond:
        end = None
    if type(start) is int and step < 0 and start >= _FAR:
        start = None
    if type(start) is int and start == 0 and step > 0:
        start = None
    return slice(start, end, None if step == 1 else step)


def _known_slice(x, starts, ends, axes=None, steps=None):
    begin = numbers_of(starts)
    found = list(range(len(begin))) if axes is None else axes_of(axes, x.ndim)
    strides = [1] * len(begin) if steps is None else numbers_of(steps)
    return x[_key(x.shape, begin, numbers_of(ends), found, strides)]


@handles("Slice", 10, 11, 13, values=(1, 2, 3, 4), known=_known_slice)
def slice_(x, starts, ends, axes=None, steps=None):
    """Slice: from start to end by step along each of the axes."""
    begin = numbers_of(starts)
    found = list(range(len(begin))) if axes is None else axes_of(axes, x.ndim)
    strides = [1] * len(begin) if steps is None else numbers_of(steps)
    return ops.getitem(x, _key(x.shape, begin, numbers_of(ends), found, strides))


def _known_slice_between(x, *, starts, ends, axes=None):
    return _known_slice(x, starts, ends, axes)


@handles("Slice", 1, known=_known_slice_between)
def slice_between(x, *, starts, ends, axes=None):
    """Slice with its numbers as attributes: opsets 1 to 9."""
    found = list(range(len(starts))) if axes is None else axes_of(axes, x.ndim)
    return ops.getitem(x, _key(x.shape, starts, ends, found, [1] * len(starts)))


def _known_gather(x: np.ndarray, indices: np.ndarray, *, axis: int = 0) -> np.ndarray:
    return np.take(x, indices.astype(np.int64), axis)


@handles("Gather", 1, 11, 13, values=(1,), known=_known_gather, weights=(0,))
def gather(x, indices, *, axis=0):
    """Gather: the slices of x along ``axis`` at the indices."""
    if type(indices) is np.ndarray:
        if indices.ndim == 0 and indices.dtype != object:
            key = (slice(None),) * axis_of(axis, x.ndim) + (int(indices),)
            return ops.getitem(x, key)
        indices = tensor(indices)
    return ops.take(x, indices, axis=axis)


@handles("GatherElements", 11, 13)
def gather_elements(x, indices, *, axis=0):
    """GatherElements: an element of x for each index."""
    return ops.gather(x, _from_front(indices, x.shape[axis]), axis=axis)


def _from_front(indices, length):
    """Indices that count from the end, counted from the front."""
    if indices.dtype.kind == "uint":
        return indices
    return ops.where(ops.less(indices, 0), ops.add(indices, length), indices)


def _flat_places(shape: tuple[Any, ...], indices: Any, batch: tuple[Any, ...] = ()) -> Any:
    """Places in the flattened axes ``shape`` of the indices in the last axis."""
    places = None
    for at, length in enumerate(shape):
        column = _from_front(ops.getitem(indices, (..., at)), length)
        places = column if places is None else ops.add(ops.multiply(places, length), column)
    return places


@handles("GatherND", 12, 13)
def gather_nd(x, indices, *, batch_dims=0):
    """GatherND: the slices of x at tuples of indices, which the last axis holds."""
    count = indices.shape[-1]
    b = batch_dims
    indexed, rest = x.shape[b : b + count], x.shape[b + count :]
    places = _flat_places(indexed, indices)  # batch..., m...
    flat = ops.reshape(x, (*x.shape[:b], math.prod(indexed), *rest))
    if b == 0:
        return ops.take(flat, places, axis=0)
    batches = math.prod(x.shape[:b])
    rows = ops.reshape(flat, (batches * math.prod(indexed), *rest))
    own = ops.reshape(places, (batches, math.prod(places.shape[b:])))
    starts = ops.reshape(ops.arange(batches), (batches, 1)) * math.prod(indexed)
    taken = ops.take(rows, ops.reshape(own + starts, (-1,)), axis=0)
    return ops.reshape(taken, (*places.shape, *rest))


@handles("GatherND", 11)
def gather_nd_plain(x, indices):
    """GatherND without batches: opset 11."""
    return gather_nd(x, indices)


_REDUCTIONS = ("none", "add", "mul", "max", "min")


def _scattered(flat: Any, places: Any, updates: Any, reduction: str) -> Any:
    """Vector ``flat`` with ``updates`` at ``places``, both vectors."""
    if reduction not in _REDUCTIONS:
        raise OnnxError(f"reduction {reduction!r}", why=f"It is one of {', '.join(_REDUCTIONS)}.")
    if reduction == "none":
        return ops.scatter(flat, places, updates, axis=0)
    if reduction == "add":
        return ops.scatter_add(flat, places, updates, axis=0)
    # One update after another: rounds of those that are the r-th at their place.
    order = ops.argsort(places)
    ordered = ops.take(places, order, axis=0)
    first = ops.searchsorted(ordered, ordered)
    turn = ops.subtract(ops.arange(ordered.shape[0]), first)
    values = ops.take(updates, order, axis=0)
    combine = {"mul": ops.multiply, "max": ops.maximum, "min": ops.minimum}[reduction]
    rounds = int(number_of(ops.max(turn))) + 1 if turn.shape[0] else 0
    for at in range(rounds):
        chosen = ops.equal(turn, at)
        old = ops.take(flat, ordered, axis=0)
        new = ops.where(chosen, combine(old, values), old)
        where = ops.where(chosen, ordered, flat.shape[0])
        longer = ops.concat([flat, ops.zeros((1,), dtype=flat.dtype)])
        flat = ops.getitem(ops.scatter(longer, where, new, axis=0), slice(0, flat.shape[0]))
    return flat


def _scatter_elements(x, indices, updates, axis, reduction):
    axis = axis_of(axis, x.ndim)
    indices = ops.astype(_from_front(indices, x.shape[axis]), types.int64)
    if reduction == "none" and indices.shape == x.shape:
        return ops.scatter(x, indices, updates, axis=axis)
    places = None
    for at in range(x.ndim):
        if at == axis:
            column = indices
        else:
            line = ops.arange(indices.shape[at])
            ones = [1] * x.ndim
            ones[at] = indices.shape[at]
            column = ops.reshape(line, tuple(ones))
        places = column if places is None else ops.add(ops.multiply(places, x.shape[at]), column)
    places = ops.broadcast_to(places, indices.shape)
    flat = _scattered(
        ops.reshape(x, (-1,)), ops.reshape(places, (-1,)), ops.reshape(updates, (-1,)), reduction
    )
    return ops.reshape(flat, x.shape)


@handles("ScatterElements", 16, 18)
def scatter_elements(x, indices, updates, *, axis=0, reduction="none"):
    """ScatterElements: x with an update at each index."""
    return _scatter_elements(x, indices, updates, axis, reduction)


@handles("ScatterElements", 11, 13)
def scatter_elements_plain(x, indices, updates, *, axis=0):
    """ScatterElements without reductions: opsets 11 to 15."""
    return _scatter_elements(x, indices, updates, axis, "none")


@handles("Scatter", 9, 11)
def scatter(x, indices, updates, *, axis=0):
    """Scatter: what ScatterElements was called before opset 11."""
    return _scatter_elements(x, indices, updates, axis, "none")


@handles("ScatterND", 16, 18)
def scatter_nd(x, indices, updates, *, reduction="none"):
    """ScatterND: x with slices at tuples of indices, which the last axis holds."""
    count = indices.shape[-1]
    indexed, rest = x.shape[:count], x.shape[count:]
    width = math.prod(rest)
    places = ops.reshape(ops.astype(_flat_places(indexed, indices), types.int64), (-1, 1))
    columns = ops.reshape(ops.arange(width), (1, width))
    every = ops.reshape(ops.add(ops.multiply(places, width), columns), (-1,))
    flat = _scattered(ops.reshape(x, (-1,)), every, ops.reshape(updates, (-1,)), reduction)
    return ops.reshape(flat, x.shape)


@handles("ScatterND", 11, 13)
def scatter_nd_plain(x, indices, updates):
    """ScatterND without reductions: opsets 11 to 15."""
    return scatter_nd(x, indices, updates)


@handles("TensorScatter", 24)
def tensor_scatter(cache, update, starts=None, *, axis=-2, mode="linear"):
    """TensorScatter: the cache [B, ...] with ``update`` from a place of each batch on."""
    axis = axis_of(axis, cache.ndim)
    length, count, batches = cache.shape[axis], update.shape[axis], cache.shape[0]
    steps = ops.reshape(ops.arange(count), (1, count))
    first = ops.zeros((batches, 1), dtype=types.int64)
    if starts is not None:
        first = ops.reshape(ops.astype(starts, types.int64), (batches, 1))
    places = ops.add(first, steps)
    if mode == "circular":
        places = ops.remainder(places, length)
    shape = [1] * cache.ndim
    shape[0], shape[axis] = batches, count
    every = ops.broadcast_to(ops.reshape(places, tuple(shape)), update.shape)
    return _scatter_elements(cache, every, update, axis, "none")


@handles("OneHot", 9, 11, 28, values=(1,))
def one_hot(indices, depth, values, *, axis=-1):
    """OneHot: values[1] at the index, which may count from the end, values[0] elsewhere."""
    count = number_of(depth)
    count = int(count) if isinstance(count, float) else count
    at = ops.astype(indices, types.int64)
    at = ops.where(ops.less(at, 0), ops.add(at, count), at)
    rank = at.ndim + 1
    axis = axis_of(axis, rank)
    shape = [1] * rank
    shape[axis] = count
    line = ops.reshape(ops.arange(count), tuple(shape))
    hot = ops.equal(ops.expand_dims(at, axis=axis), line)
    return ops.where(hot, ops.getitem(values, 1), ops.getitem(values, 0))


# Orders ------------------------------------------------------------------------------------------


@handles("TopK", 11, 24, values=(1,))
def top_k(x, k, *, axis=-1, largest=1, sorted=1, outputs=1):
    """TopK: the largest (smallest) k along ``axis``, and where they are."""
    found = ops.topk(x, number_of(k), axis=axis, largest=bool(largest), sorted=True)
    return found[0] if outputs == 1 else tuple(found)


@handles("TopK", 10, values=(1,))
def top_k_largest(x, k, *, axis=-1, outputs=1):
    """TopK of the largest: opset 10."""
    return top_k(x, k, axis=axis, outputs=outputs)


@handles("TopK", 1)
def top_k_of(x, *, k, axis=-1, outputs=1):
    """TopK with k as an attribute: opsets 1 to 9."""
    return top_k(x, [k], axis=axis, outputs=outputs)


@handles("NonZero", 9, 13)
def non_zero(x):
    """NonZero: the indices of all elements that are not 0, [rank, count]."""
    if x.ndim == 0:
        return ops.zeros(
            (0, ops.astype(ops.not_equal(x, 0), types.int64).item()), dtype=types.int64
        )
    return ops.stack(ops.nonzero(x))


@handles("Compress", 9, 11, 28)
def compress(x, condition, *, axis=None):
    """Compress: the slices of x along ``axis`` (the flat x) where the condition holds."""
    if axis is None:
        x, axis = ops.reshape(x, (-1,)), 0
    [places] = ops.nonzero(condition)
    return ops.take(x, places, axis=axis)


@handles("ReverseSequence", 10, 28)
def reverse_sequence(x, lengths, *, batch_axis=1, time_axis=0):
    """ReverseSequence: the first ``lengths[b]`` steps of each batch backwards."""
    count, batches = x.shape[time_axis], x.shape[batch_axis]
    steps = ops.reshape(ops.arange(count), (1, count))
    ends = ops.reshape(ops.astype(lengths, types.int64), (batches, 1))
    places = ops.where(ops.less(steps, ends), ends - 1 - steps, steps)
    if batch_axis > time_axis:
        places = ops.permute_dims(places, (1, 0))
    shape = [1] * x.ndim
    shape[time_axis], shape[batch_axis] = count, batches
    every = ops.broadcast_to(ops.reshape(places, tuple(shape)), x.shape)
    return ops.gather(x, every, axis=time_axis)


@handles("Unique", 11, 28)
def unique(x, *, axis=None, sorted=1, outputs=1):
    """Unique elements or slices, where each is first, which each element is, and how many."""
    if axis is None:
        rows = ops.reshape(x, (-1, 1))
    else:
        moved = ops.moveaxis(x, axis, 0)
        rows = ops.reshape(moved, (moved.shape[0], -1))
    count = rows.shape[0]
    ranks = _ranks(rows)  # equal rows have equal numbers, in the order of the rows
    found = ops.unique_all(ranks)
    first, inverse, counts = (
        found.indices,
        ops.reshape(found.inverse_indices, (count,)),
        found.counts,
    )
    if not sorted:
        order = ops.argsort(first)
        place = ops.argsort(order)
        first, counts = ops.take(first, order, axis=0), ops.take(counts, order, axis=0)
        inverse = ops.take(place, inverse, axis=0)
    if axis is None:
        chosen = ops.take(ops.reshape(x, (-1,)), first, axis=0)
    else:
        chosen = ops.take(x, first, axis=axis)
    every = (chosen, first, inverse, counts)
    return every[0] if outputs == 1 else every[:outputs]


def _ranks(rows: Any) -> Any:
    """For each row its place among all, in the order of the first column, then the second ..."""
    count, width = rows.shape
    ranks = ops.zeros((count,), dtype=types.int64)
    for column in range(width):
        values = ops.reshape(ops.getitem(rows, (slice(None), column)), (-1,))
        own = ops.reshape(ops.unique_inverse(values).inverse_indices, (-1,))
        both = ops.add(ops.multiply(ranks, count + 1), own)
        ranks = ops.reshape(ops.unique_inverse(both).inverse_indices, (-1,))
    return ranks
