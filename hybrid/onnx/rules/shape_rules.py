"""Shapes, parts and constants: what moves elements, and computes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.open_numbers import is_same
from hybrid.core.size_functions import SizeValue
from hybrid.core.size_values import SizeBytes, SizeFloat
from hybrid.core.types import BY_NAME, DType, Shape, int64
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.size_terms import array_term

FAR = 2**62  # behind the last element of any axis
_FEW = 256  # elements of a constant that stands in the file as it is

# Constants ----------------------------------------------------------------------------------------


@writes("full")
def full(g: GraphWriter, *, shape: Shape, value: Any, dtype: DType) -> Wire:
    if isinstance(value, SizeFloat):
        scalar = g.cast(g.float(value), dtype)
    elif isinstance(value, SizeValue):
        scalar = g.cast(g.scalar(value), dtype)
    else:
        scalar = number(g, value, dtype)
    known = g.array_of(scalar)
    is_open = any(isinstance(n, SizeValue) for n in shape)
    if known is not None and not is_open and math.prod(shape) <= _FEW:
        return g.constant(np.broadcast_to(known, shape), dtype)
    return g("Expand", scalar, g.sizes(shape)) if shape else scalar


def number(g: GraphWriter, value: Any, dtype: DType) -> Wire:
    """A number as a constant []."""
    if dtype.numpy is None:
        return g.cast(g.constant(value, BY_NAME["float32"]), dtype)
    return g.constant(value, dtype)


@writes("literal")
def literal(g: GraphWriter, *, shape: Shape, dtype: DType, data: Any) -> Wire:
    if isinstance(data, SizeBytes):
        return array_term(g, data, dtype, shape)
    if dtype.numpy is None:
        return g.model.raw_constant(shape, dtype, data)
    array = np.frombuffer(data, dtype.numpy.newbyteorder("<")).reshape(shape)
    return g.constant(array, dtype)


# Shapes -------------------------------------------------------------------------------------------


@writes("reshape")
def reshape(g: GraphWriter, x: Wire, *, shape: Shape) -> Wire:
    return reshaped(g, x, shape)


def reshaped(g: GraphWriter, x: Wire, shape: Shape) -> Wire:
    """``x`` in another shape, in which one open size is what is left."""
    open_ = [axis for axis, n in enumerate(shape) if isinstance(n, SizeValue)]
    if len(open_) == 1 and 0 not in [n for n in shape if type(n) is int]:
        shape = tuple([-1 if axis == open_[0] else n for axis, n in enumerate(shape)])
    return g("Reshape", x, g.sizes(shape), shape=shape, allowzero=1 if 0 in shape else None)


@writes("permute_dims")
def permute_dims(g: GraphWriter, x: Wire, *, axes: tuple[int, ...]) -> Wire:
    return g("Transpose", x, perm=axes) if axes else x


@writes("broadcast_to")
def broadcast_to(g: GraphWriter, x: Wire, *, shape: Shape) -> Wire:
    if x.shape == shape:
        return x
    return g("Expand", x, g.sizes(shape))


@writes("concat")
def concat(g: GraphWriter, *operands: Wire, axis: int) -> Wire:
    return operands[0] if len(operands) == 1 else g("Concat", *operands, axis=axis)


@writes("pad")
def pad(g: GraphWriter, x: Wire, *, widths: tuple[tuple[Any, Any], ...], value: float) -> Wire:
    if not widths:
        return x
    sides = [*[before for before, _ in widths], *[after for _, after in widths]]
    return g.wide("Pad", x, g.sizes(sides), number(g, value, x.dtype))


def lengthened(g: GraphWriter, x: Wire, length: Any, row: Shape = ()) -> Wire:
    """``length`` rows of the shape ``row``: those of ``x``, and zeros behind them."""
    zeros = g("Expand", g.zero(x.dtype), g.sizes((length, *row)))
    return g("Slice", g("Concat", x, zeros, axis=0), g.ints(0), g.sizes([length]), g.ints(0))


# Parts --------------------------------------------------------------------------------------------


@writes("flip")
def flip(g: GraphWriter, x: Wire, *, axis: tuple[int, ...]) -> Wire:
    if not axis:
        return x
    ends = [g.ints(*[n] * len(axis)) for n in (-1, -FAR)]
    return g("Slice", x, *ends, g.ints(*axis), g.ints(*[-1] * len(axis)))


@writes("slice")
def slice_(g: GraphWriter, x: Wire, *, start: Shape, size: Shape, step: Shape) -> Wire:
    assert x.shape is not None
    axes = [a for a, part in enumerate(zip(start, size, step, strict=True))
            if not covers(x.shape[a], *part)]  # fmt: skip
    return sliced(g, x, axes, *[[part[a] for a in axes] for part in (start, size, step)])


def covers(n: Any, start: Any, size: Any, step: Any) -> bool:
    """Whether a slice of an axis of ``n`` elements is all of it."""
    return is_same(start, 0) and step == 1 and is_same(size, n)


def sliced(g: GraphWriter, x: Wire, axes: Any, start: Any, size: Any, step: Any) -> Wire:
    """``size`` elements of each axis from ``start`` on, ``step`` apart."""
    if not axes:
        return x
    ends = []
    for first, count, by in zip(start, size, step, strict=True):
        end = first + count * by
        # Before the first element is none: a negative place would count from the end.
        ends.append(-FAR if type(end) is int and end < 0 else end)
    if any(isinstance(by, SizeValue) for by in step):
        raise g.refusal("a slice whose step is an open size", fix="step by a fixed number")
    backwards = [isinstance(e, SizeValue) and by < 0 for e, by in zip(ends, step, strict=True)]
    if any(backwards):
        raise g.refusal(
            "a slice that goes backwards over an open axis", fix="flip it, then take a slice"
        )
    steps = None if all(by == 1 for by in step) else g.ints(*step)
    return g("Slice", x, g.sizes(start), g.sizes(ends), g.ints(*axes), steps)


@writes("slice_assign")
def slice_assign(
    g: GraphWriter, x: Wire, value: Wire, *, start: Shape, size: Shape, step: Shape
) -> Wire:
    assert x.shape is not None
    axes = [a for a, part in enumerate(zip(start, size, step, strict=True))
            if not covers(x.shape[a], *part)]  # fmt: skip
    return _assigned(g, x, x.shape, value, axes, (start, size, step))


def _assigned(
    g: GraphWriter, x: Wire, shape: Shape, value: Wire, axes: list[int], region: Any
) -> Wire:
    """``x`` with the region replaced, axis by axis: rows that are cut get what others keep."""
    if not axes:
        return value
    axis, *rest = axes
    first, count, by = (part[axis] for part in region)
    if type(count) is int and count == 0:
        return x
    inner = value
    if rest:
        own = sliced(g, x, [axis], [first], [count], [by])
        shorter = (*shape[:axis], count, *shape[axis + 1 :])
        inner = _assigned(g, own, shorter, value, rest, region)
    if by == 1:
        parts = [inner]
        if not is_same(first, 0):
            parts.insert(0, sliced(g, x, [axis], [0], [first], [1]))
        if not is_same(first + count, shape[axis]):
            parts.append(g("Slice", x, g.sizes([first + count]), g.ints(FAR), g.ints(axis)))
        return g("Concat", *parts, axis=axis) if len(parts) > 1 else inner
    if any(isinstance(n, SizeValue) for n in (shape[axis], first, count, by)):
        raise g.refusal(
            "an assignment to every k-th row of an open axis", fix="use where with a mask"
        )
    places = np.arange(shape[axis])
    places[first + by * np.arange(count)] = shape[axis] + np.arange(count)
    return g("Gather", g("Concat", x, inner, axis=axis), g.constant(places, int64), axis=axis)


# Windows of pictures ------------------------------------------------------------------------------


def _spans(kernel: Shape, stride: Shape, dilation: Shape, counts: Shape) -> list[int]:
    """How many places the windows of each axis stand on, gaps included."""
    return [
        max((c - 1) * s + (k - 1) * d + 1, 0)
        for k, s, d, c in zip(kernel, stride, dilation, counts, strict=True)
    ]


@writes("unfold")
def unfold(
    g: GraphWriter, x: Wire, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    counts: Shape,
) -> Wire:  # fmt: skip
    assert x.shape is not None
    rank = len(kernel)
    spans = _spans(kernel, stride, dilation, counts)
    pads = [max(span - n - p, 0) for span, n, p in zip(spans, x.shape[2:], padding, strict=True)]
    found = x
    if any(padding) or any(pads):
        widths = ((0, 0), (0, 0), *zip(padding, pads, strict=True))
        found = pad(g, x, widths=widths, value=0)
    for axis in range(rank):  # the axis of places becomes one of items and one of windows
        each = np.arange(kernel[axis])[:, None] * dilation[axis]
        places = each + np.arange(counts[axis]) * stride[axis]
        found = g("Gather", found, g.constant(places, int64), axis=2 + 2 * axis)
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    shape = (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts))
    return reshaped(g, g("Transpose", found, perm=order), shape)


@writes("fold")
def fold(
    g: GraphWriter, y: Wire, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    counts: Shape, size: Shape,
) -> Wire:  # fmt: skip
    """Each axis by a product with what says which item of which window is at which place."""
    assert y.shape is not None
    rank = len(kernel)
    channels = y.shape[1] // math.prod(kernel)
    found = reshaped(g, y, (y.shape[0], channels, *kernel, *counts))
    done: list[Any] = []
    for axis in range(rank):
        k, c = kernel[axis], counts[axis]
        places = np.arange(k)[:, None] * dilation[axis] + np.arange(c) * stride[axis]
        meet = (places.reshape(-1, 1) - padding[axis] == np.arange(size[axis])).astype(np.float64)
        # [N, C, k, rest of items, c, rest of counts, places so far] -> the axis stands at the end
        left = rank - axis
        total = 2 + 2 * left + axis
        order = [n for n in range(total) if n not in (2, 2 + left)] + [2, 2 + left]
        found = g("Transpose", found, perm=order)
        rest = (*kernel[axis + 1 :], *counts[axis + 1 :], *done)
        found = reshaped(g, found, (y.shape[0], channels, *rest, k * c))
        found = g("MatMul", found, g.constant(meet, y.dtype))
        done.append(size[axis])
    return found
