"""Reductions, running sums, orders and sets along axes."""

from __future__ import annotations

import math
from typing import Any

from hybrid.core.types import bool_, int64
from hybrid.ir import Node
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.elementwise_rules import compared, ordered, unordered
from hybrid.onnx.rules.shape_rules import FAR, lengthened


def reduced(
    g: GraphWriter, op: str, x: Wire, axis: tuple[int, ...], keepdims: bool, **rest: Any
) -> Wire:
    """``op`` along ``axis``, which is an attribute before opset 18 of all but ReduceSum."""
    if not axis:
        return x
    keep = int(keepdims)
    if op == "ReduceSum" or g.opset >= 18:
        return g.wide(op, x, g.ints(*axis), keepdims=keep, **rest)
    return g.wide(op, x, axes=axis, keepdims=keep, **rest)


def _reduces(name: str, op: str) -> None:
    writes(name)(lambda g, x, *, axis, keepdims: reduced(g, op, x, axis, keepdims))


for _name, _op in {"sum": "ReduceSum", "prod": "ReduceProd"}.items():
    _reduces(_name, _op)


@writes("mean", node=True)
def mean(g: GraphWriter, x: Wire, *, axis: tuple[int, ...], keepdims: bool, node: Node) -> Wire:
    assert x.shape is not None
    if any(type(x.shape[a]) is int and x.shape[a] == 0 for a in axis):  # NaN, of no elements
        return g("Expand", g.constant(math.nan, x.dtype), g.sizes(node.results[0].type.shape))
    return reduced(g, "ReduceMean", x, axis, keepdims)


def _picks(name: str, op: str) -> None:
    def write(g: GraphWriter, x: Wire, *, axis: tuple[int, ...], keepdims: bool) -> Wire:
        return unordered(g, reduced(g, op, ordered(g, x), axis, keepdims), x.dtype)

    writes(name)(write)


for _name, _op in {"max": "ReduceMax", "min": "ReduceMin"}.items():
    _picks(_name, _op)


@writes("any")
def any_(g: GraphWriter, x: Wire, *, axis: tuple[int, ...], keepdims: bool) -> Wire:
    if not axis:
        return x
    count = reduced(g, "ReduceSum", g.cast(x, int64), axis, keepdims)
    return compared(g, "Greater", count, g.zero(int64))


@writes("all")
def all_(g: GraphWriter, x: Wire, *, axis: tuple[int, ...], keepdims: bool) -> Wire:
    if not axis:
        return x
    count = reduced(g, "ReduceSum", g.cast(g("Not", x), int64), axis, keepdims)
    return compared(g, "Equal", count, g.zero(int64))


def _places(name: str, op: str) -> None:
    def write(g: GraphWriter, x: Wire, *, axis: int | None, keepdims: bool) -> Wire:
        if x.dtype is bool_:
            x = g.cast(x, int64)
        x = Wire(ordered(g, x).name, int64, x.shape) if x.dtype.name == "uint64" else x
        if axis is not None:
            return g.wide(op, x, axis=axis, keepdims=int(keepdims), dtype=int64)
        assert x.shape is not None
        flat = g("Reshape", x, g.ints(-1))
        found = g.wide(op, flat, axis=0, keepdims=0, dtype=int64)
        return g("Reshape", found, g.ints(*[1] * len(x.shape))) if keepdims else found

    writes(name)(write)


for _name, _op in {"argmax": "ArgMax", "argmin": "ArgMin"}.items():
    _places(_name, _op)


# Running ------------------------------------------------------------------------------------------


@writes("cumulative_sum")
def cumulative_sum(g: GraphWriter, x: Wire, *, axis: int) -> Wire:
    return g.wide("CumSum", x, g.constant(axis, int64))


def running(g: GraphWriter, op: str, x: Wire, factor: Wire | None, axis: int) -> Wire:
    """``y[i] = op(x[i], factor[i] * y[i - 1])`` along ``axis``: a Scan over its rows."""
    assert x.shape is not None
    inner = g.inner()
    names = [g.model.free_name(name) for name in ("before", "row", "factor")]
    before, row, share = (Wire(name, x.dtype) for name in names)
    carried = before if factor is None else inner("Mul", share, before)
    made = inner.wide(op, row, carried)
    copy = inner("Identity", made)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    scanned = [x] if factor is None else [x, factor]
    body = inner.plain_graph(
        "running",
        [(name, x.dtype, shape) for name in names[: 1 + len(scanned)]],
        [(made, shape), (copy, shape)],
    )
    start = g.zero(x.dtype) if op == "Add" else g.constant(1, x.dtype)
    first = g("Expand", start, g.sizes(shape)) if shape else start
    _, rows = g(
        "Scan", first, *scanned, dtype=(x.dtype,) * 2, outputs=2, body=body,
        num_scan_inputs=len(scanned), scan_input_axes=[axis] * len(scanned),
        scan_output_axes=[axis],
    )  # fmt: skip
    return rows


@writes("cumulative_prod")
def cumulative_prod(g: GraphWriter, x: Wire, *, axis: int) -> Wire:
    return running(g, "Mul", x, None, axis)


@writes("recurrence")
def recurrence(g: GraphWriter, x: Wire, factor: Wire, *, axis: int) -> Wire:
    return running(g, "Add", x, factor, axis)


# Orders -------------------------------------------------------------------------------------------


def _first(g: GraphWriter, x: Wire, count: Any, largest: bool) -> Wire:
    """The places of the ``count`` first elements of each row, equal ones as they stand."""
    kind = g.carrier("TopK", x.dtype)
    x = ordered(g, x) if x.dtype.name == "uint64" else g.cast(x, kind)
    _, places = g(
        "TopK", x, g.sizes([count]), dtype=(x.dtype, int64), outputs=2, axis=-1,
        largest=int(largest), sorted=1,
    )  # fmt: skip
    return places


@writes("argsort")
def argsort(g: GraphWriter, x: Wire, *, descending: bool) -> Wire:
    assert x.shape is not None
    return _first(g, x, x.shape[-1], descending)


@writes("topk")
def topk(g: GraphWriter, x: Wire, *, k: int, largest: bool) -> Wire:
    return _first(g, x, k, largest)


@writes("sort")
def sort(g: GraphWriter, x: Wire, *, descending: bool) -> Wire:
    return g("GatherElements", x, argsort(g, x, descending=descending), axis=-1)


@writes("searchsorted")
def searchsorted(g: GraphWriter, x: Wire, values: Wire, *, right: bool) -> Wire:
    """How many elements are below each value, or not above it."""
    column = g("Unsqueeze", x, g.ints(1))
    before = compared(g, "LessOrEqual" if right else "Less", column, values)
    return g("ReduceSum", g.cast(before, int64), g.ints(0), keepdims=0)


# Sets ---------------------------------------------------------------------------------------------


def _begins(g: GraphWriter, x: Wire) -> tuple[Wire, Any]:
    """Where another element than before begins in ``x`` [n], which is in order; and n."""
    assert x.shape is not None
    count = x.shape[0]
    head, tail = (
        g("Slice", x, g.ints(a), g.ints(b)) for a, b in ((0, -1), (1, FAR))
    )  # fmt: skip
    other = g("Not", compared(g, "Equal", head, tail))
    found = g("Concat", g.constant([True], bool_), other, axis=0)
    return g("Slice", found, g.ints(0), g.sizes([count])), count


@writes("distinct")
def distinct(g: GraphWriter, x: Wire) -> tuple[Wire, Wire]:
    begins, count = _begins(g, x)
    values = lengthened(g, g("Compress", x, begins, axis=0), count)
    return values, g("ReduceSum", g.cast(begins, int64), g.ints(0), keepdims=0)


@writes("tally")
def tally(g: GraphWriter, x: Wire) -> tuple[Wire, Wire, Wire]:
    begins, count = _begins(g, x)
    values, many = distinct(g, x)
    numbers = g("Range", g.zero(int64), g.scalar(count), g.constant(1, int64))
    first = g("Compress", numbers, begins, axis=0)
    behind = g("Concat", first, g.sizes([count]), axis=0)
    next_ = g("Slice", behind, g.ints(1), g.ints(FAR))
    # Of no elements there is no first one: nothing is between.
    counts = g("Sub", next_, first)
    return values, lengthened(g, counts, count), many
