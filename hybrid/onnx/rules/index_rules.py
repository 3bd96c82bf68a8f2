"""Gathering and scattering by indices, with NumPy's negative ones and its last one that wins."""

from __future__ import annotations

from typing import Any

from hybrid.core.types import bool_, int64
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.elementwise_rules import compared, where
from hybrid.onnx.rules.shape_rules import permute_dims

# Gathering ----------------------------------------------------------------------------------------


@writes("take")
def take(g: GraphWriter, x: Wire, indices: Wire, *, axis: int) -> Wire:
    return g("Gather", x, indices, axis=axis)


@writes("pick")
def pick(g: GraphWriter, x: Wire, index: Wire, *, axis: int) -> Wire:
    return g("Gather", x, g.cast(index, int64), axis=axis)


@writes("item")
def item(g: GraphWriter, stack: Wire, *, at: int) -> Wire:
    return g("Gather", stack, g.constant(at, int64), axis=0)


@writes("item_at")
def item_at(g: GraphWriter, stack: Wire, index: Wire) -> Wire:
    return pick(g, stack, index, axis=0)


@writes("take_along")
def take_along(g: GraphWriter, x: Wire, indices: Wire) -> Wire:
    return g("GatherElements", x, indices, axis=-1)


# Scattering ---------------------------------------------------------------------------------------


@writes("place")
def place(g: GraphWriter, x: Wire, index: Wire, value: Wire, *, axis: int) -> Wire:
    places = g("Reshape", counted_from_start(g, g.cast(index, int64), x, axis), g.ints(1, 1))
    row = g("Unsqueeze", value, g.ints(0))
    return _at_front(g, x, axis, lambda front: g("ScatterND", front, places, row))


def counted_from_start(g: GraphWriter, index: Wire, x: Wire, axis: int) -> Wire:
    """``index`` along an axis of ``x``, those that count from its end as from the start."""
    assert x.shape is not None
    known = g.array_of(index)
    if known is not None and (known >= 0).all():
        return index
    below = compared(g, "Less", index, g.zero(int64))
    return where(g, below, g("Add", index, g.scalar(x.shape[axis])), index)


def _at_front(g: GraphWriter, x: Wire, axis: int, change: Any) -> Wire:
    """What ``change`` makes of ``x`` with ``axis`` as its first, which then goes back."""
    assert x.shape is not None
    if axis == 0:
        return change(x)
    rank = len(x.shape)
    order = (axis, *[a for a in range(rank) if a != axis])
    made = change(permute_dims(g, x, axes=order))
    return permute_dims(g, made, axes=tuple([order.index(a) for a in range(rank)]))


def _along(g: GraphWriter, indices: Wire, updates: Wire, axis: int) -> Wire:
    """1-d ``indices`` along ``axis``, as many as ``updates`` has elements."""
    assert updates.shape is not None
    behind = len(updates.shape) - axis - 1
    column = g("Unsqueeze", indices, g.ints(*range(1, 1 + behind))) if behind else indices
    return g("Expand", column, g.sizes(updates.shape))


@writes("scatter_add")
def scatter_add(g: GraphWriter, x: Wire, indices: Wire, updates: Wire, *, axis: int) -> Wire:
    places = _along(g, counted_from_start(g, indices, x, axis), updates, axis)
    return _added(g, x, places, updates, axis)


@writes("scatter_along_add")
def scatter_along_add(g: GraphWriter, x: Wire, indices: Wire, updates: Wire) -> Wire:
    return _added(g, x, counted_from_start(g, indices, x, -1), updates, -1)


def _added(g: GraphWriter, x: Wire, places: Wire, updates: Wire, axis: int) -> Wire:
    kind = g.carrier("Add", x.dtype)
    found = g("ScatterElements", g.cast(x, kind), places, g.cast(updates, kind), axis=axis,
              reduction="add")  # fmt: skip
    return g.cast(found, x.dtype)


@writes("scatter")
def scatter(g: GraphWriter, x: Wire, indices: Wire, updates: Wire, *, axis: int) -> Wire:
    """Of each slice the last update of it, if there is one."""
    assert x.shape is not None and indices.shape is not None
    last = _last_ones(g, counted_from_start(g, indices, x, axis), x.shape[axis], indices.shape[0])
    behind = len(x.shape) - axis - 1
    chosen = g("Max", last, g.zero(int64))
    if type(indices.shape[0]) is int and indices.shape[0] == 0:
        return x
    rows = g("Gather", updates, chosen, axis=axis)
    there = compared(g, "GreaterOrEqual", last, g.zero(int64))
    if behind:
        there = g("Unsqueeze", there, g.ints(*range(1, 1 + behind)))
    return where(g, there, rows, x)


def _last_ones(g: GraphWriter, indices: Wire, size: Any, count: Any) -> Wire:
    """For each of ``size`` places the last of ``count`` indices that names it; -1: none does."""
    numbers = g("Range", g.zero(int64), g.scalar(count), g.constant(1, int64))
    none = g.constant(-1, int64)
    if g.opset >= 18:
        start = g("Expand", none, g.sizes([size]))
        return g("ScatterElements", start, indices, numbers, axis=0, reduction="max")
    places = g("Range", g.zero(int64), g.scalar(size), g.constant(1, int64))
    names = g("Equal", g("Unsqueeze", places, g.ints(1)), indices, dtype=bool_)
    named = g("Concat", where(g, names, numbers, none), g("Expand", none, g.sizes([size, 1])),
              axis=1)  # fmt: skip
    return g("ReduceMax", named, axes=[1], keepdims=0)


@writes("scatter_along")
def scatter_along(g: GraphWriter, x: Wire, indices: Wire, updates: Wire) -> Wire:
    assert x.shape is not None and indices.shape is not None
    if type(indices.shape[-1]) is int and indices.shape[-1] == 0:
        return x
    g.needs(18, "the reduction of ScatterElements that keeps the last")
    places = counted_from_start(g, indices, x, -1)
    numbers = g("Range", g.zero(int64), g.scalar(indices.shape[-1]), g.constant(1, int64))
    numbers = g("Expand", numbers, g.sizes(indices.shape))
    start = g("Expand", g.constant(-1, int64), g.sizes(x.shape))
    last = g("ScatterElements", start, places, numbers, axis=-1, reduction="max")
    rows = g("GatherElements", updates, g("Max", last, g.zero(int64)), axis=-1)
    return where(g, compared(g, "GreaterOrEqual", last, g.zero(int64)), rows, x)


# Sizes that depend on values ----------------------------------------------------------------------


@writes("true_indices")
def true_indices(g: GraphWriter, mask: Wire, *, size: Any) -> Wire:
    return g("Squeeze", g("NonZero", mask, dtype=int64), g.ints(0))


@writes("index_range")
def index_range(g: GraphWriter, count: Wire, *, size: Any) -> Wire:
    return g("Range", g.zero(int64), count, g.constant(1, int64))


@writes("repeat_indices")
def repeat_indices(g: GraphWriter, counts: Wire, *, size: Any) -> Wire:
    """Of each result the number of counts whose elements all stand before it."""
    each = g.cast(counts, int64)
    ends = g("CumSum", each, g.constant(0, int64))
    total = g("ReduceSum", each, g.ints(0), keepdims=0)
    places = g("Range", g.zero(int64), total, g.constant(1, int64))
    behind = g("LessOrEqual", g("Unsqueeze", ends, g.ints(1)), places, dtype=bool_)
    return g("ReduceSum", g.cast(behind, int64), g.ints(0), keepdims=0)


@writes("size_value", node=True)
def size_value(g: GraphWriter, number: Wire, *, size: Any, node: Any) -> Wire:
    if type(size) is not int:
        g.model.sources.setdefault(size.terms[0][0][0], (g, g.cast(number, int64), -1))
    return number
