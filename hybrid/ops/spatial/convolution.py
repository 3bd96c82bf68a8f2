"""Convolutions over one to three axes and their transposes: three bilinear ops, each other's vjps.

For x [N, C, *spatial], w [O, C / groups, *kernel] and y [N, O, *spatial], where ``i = p * stride -
padding + k * dilation`` along each spatial axis::

    conv            y[n, o, p] = sum over c, k of x[n, c, i] * w[o, c, k]
    conv_transpose  x[n, c, i] = sum over o, k of y[n, o, p] * w[o, c, k]
    conv_weight     w[o, c, k] = sum over n, p of y[n, o, p] * x[n, c, i]

What lies outside of x or y counts as 0.  The attribute ``size`` is the spatial shape of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, tensor_type
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir import Op, op
from hybrid.ops.spatial.windows import (
    LARGEST,
    items_of_room,
    lifted,
    meetings,
    padding_pairs,
    per_axis,
    require_spatial,
    require_within,
    unlifted,
    wide,
    widened_attrs,
    window_counts,
)
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.operand_checks import (
    as_tensor,
    require_floating,
    require_rank,
    require_same_dtype,
    require_shape,
    type_of,
)

# The ops -----------------------------------------------------------------------------------------


def _require(
    name: str,
    operands: dict[str, TensorType],
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> None:
    """What the three ops ask of two operands, named x, w and y, and of their attributes."""
    require_floating(name, **operands)
    require_same_dtype(name, *operands.values())
    require_geometry(name, operands, stride, padding, dilation, groups, size)


def require_geometry(
    name: str,
    operands: dict[str, TensorType],
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> None:
    """What is asked of the axes of operands, named x, w and y, and of attributes."""
    for label, type in operands.items():
        require_spatial(name, label, type, len(size))
    given = {"stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    for what, (values, least) in {**given, "size": (size, 0)}.items():
        if len(values) != len(size) or not 1 <= len(size) <= 3:
            raise ArgumentError(
                f"{name} got {what} {values} and size {size}",
                why="Each has an int for every spatial axis, one to three.",
            )
        require_within(name, what, values, least=least)
    if groups < 1:
        raise ArgumentError(f"{name} got {groups} groups", fix="give at least 1")


def require_groups(name: str, label: str, channels: int, groups: int) -> None:
    if channels % groups:
        raise ShapeError(
            f"{name} cannot split {channels} channels of {label} in {groups} groups",
            why="Groups are equally large.",
            fix="give a number of groups that divides the channels",
        )


def require_same(name: str, axis: str, first: int, second: int, *types: TensorType) -> None:
    if first != second:
        raise ShapeError(
            f"{name} cannot take {types[0]} and {types[1]}",
            why=f"They disagree about {axis}: {first} and {second}.",
            fix="change a shape",
        )


@op
def conv(
    x: TensorType,
    w: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """The convolution of ``x`` with ``w``; the module's docstring has the formula."""
    _require("conv", {"x": x, "w": w}, stride, padding, dilation, groups, size)
    require_groups("conv", "x", x.shape[1], groups)
    require_groups("conv", "the result", w.shape[0], groups)
    require_same("conv", "the channels of a group", x.shape[1] // groups, w.shape[1], x, w)
    return tensor_type(x.dtype, (x.shape[0], w.shape[0], *size))


@op
def conv_transpose(
    y: TensorType,
    w: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """The convolution with ``w`` transposed, from ``y`` to ``x``; the module has the formula."""
    _require("conv_transpose", {"y": y, "w": w}, stride, padding, dilation, groups, size)
    require_groups("conv_transpose", "y", y.shape[1], groups)
    require_same("conv_transpose", "the channels", y.shape[1], w.shape[0], y, w)
    return tensor_type(y.dtype, (y.shape[0], w.shape[1] * groups, *size))


@op
def conv_weight(
    x: TensorType,
    y: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """The products of ``x`` and ``y`` that meet at each item of a kernel, of shape ``size``."""
    _require("conv_weight", {"x": x, "y": y}, stride, padding, dilation, groups, size)
    require_groups("conv_weight", "x", x.shape[1], groups)
    require_groups("conv_weight", "y", y.shape[1], groups)
    require_same("conv_weight", "the batch", x.shape[0], y.shape[0], x, y)
    return tensor_type(x.dtype, (y.shape[1], x.shape[1] // groups, *size))


def patches(x, counts, kernel, stride, padding, dilation, groups):
    """What each window has at each item of the kernel: [N, groups, C, windows, items]."""
    found = x.astype(np.float64)
    for n, p, k, *geometry in zip(
        x.shape[2:], counts, kernel, stride, padding, dilation, strict=True
    ):
        found = np.tensordot(found, meetings(n, p, k, *geometry), ((2,), (0,)))
    rank = len(counts)
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    shape = (x.shape[0], groups, x.shape[1] // groups, math.prod(counts), math.prod(kernel))
    return found.transpose(order).reshape(shape)


@conv.couples
def conv_couples(operands, results, *, groups, **_):
    x, w = operands
    channels, within, filters, found = axis_ties.convolved(groups, x.shape[1], w.shape[0])
    Axis = axis_ties.TiedAxis
    depthwise = groups > 1 and w.shape[1] == 1
    rows = axis_ties.along(operands, results, [(0, 0), (~0, 0)])
    if depthwise:
        return [rows, [Axis(0, 1, channels), Axis(1, 0, filters), Axis(~0, 1, found)]]
    return [
        rows,
        [Axis(0, 1, channels), Axis(1, 1, within)],
        [Axis(1, 0, filters), Axis(~0, 1, found)],
    ]


@conv.shares
def conv_shares(cut, operands, results, **attrs):
    """By rows, and by filters unless these belong to groups."""

    def ties(operands, results, **attrs):
        found = conv_couples(operands, results, **attrs)
        return found if attrs["groups"] == 1 else found[:1]

    return shared_work.tied(ties)(cut, operands, results, **attrs)


@conv.reference
def conv_reference(x, w, *, stride, padding, dilation, groups, size):
    found = patches(x, size, w.shape[2:], stride, padding, dilation, groups)
    weight = w.reshape(groups, w.shape[0] // groups, w.shape[1], found.shape[-1])
    found = np.einsum("ngcpk,gock->ngop", found, weight, optimize=True)
    return found.reshape(x.shape[0], w.shape[0], *size).astype(x.dtype)


@conv_weight.reference
def conv_weight_reference(x, y, *, stride, padding, dilation, groups, size):
    found = patches(x, y.shape[2:], size, stride, padding, dilation, groups)
    rows = y.reshape(y.shape[0], groups, y.shape[1] // groups, found.shape[-2])
    found = np.einsum("ngcpk,ngop->gock", found, rows, optimize=True)
    return found.reshape(y.shape[1], x.shape[1] // groups, *size).astype(x.dtype)


@conv_transpose.couples
def conv_transpose_couples(operands, results, *, groups, **_):
    y, w = operands
    found = results[0].shape[1]
    Axis = axis_ties.TiedAxis
    rows = axis_ties.along(operands, results, [(0, 0), (~0, 0)])
    if groups > 1 and y.shape[1] == groups:
        channels, _, _, places = axis_ties.convolved(groups, y.shape[1], found)
        return [rows, [Axis(0, 1, channels), Axis(1, 0, channels), Axis(~0, 1, places)]]
    channels = np.arange(y.shape[1]) % (y.shape[1] // groups)
    return [
        rows,
        [Axis(0, 1, channels), Axis(1, 0, channels)],
        [axis_ties.tied(1, 1, w.shape[1]), Axis(~0, 1, np.arange(found) % w.shape[1])],
    ]


@conv_transpose.reference
def conv_transpose_reference(y, w, *, stride, padding, dilation, groups, size):
    counts, kernel, rank = y.shape[2:], w.shape[2:], len(size)
    rows = y.reshape(y.shape[0], groups, y.shape[1] // groups, math.prod(counts))
    weight = w.reshape(groups, w.shape[0] // groups, w.shape[1], math.prod(kernel))
    found = np.einsum(
        "ngop,gock->ngcpk", rows.astype(np.float64), weight.astype(np.float64), optimize=True
    )
    channels = w.shape[1] * groups
    found = found.reshape(y.shape[0], channels, *counts, *kernel)
    for a in range(rank):  # the axes of places come to stand at the end
        taps = 2 + rank if a == 0 else 2 + rank - a
        meet = meetings(size[a], counts[a], kernel[a], stride[a], padding[a], dilation[a])
        found = np.tensordot(found, meet, ((2, taps), (1, 2)))
    return found.astype(y.dtype)


def _lower(kernel: str, room: bool) -> Any:
    def lowering(emit, first, second, result, *, stride, padding, dilation, groups, size):
        if result.size == 0:
            return
        if first.size == 0 or second.size == 0:
            zero = emit.constant(result.dtype, 0).broadcast(result.shape)
            emit.kernel("copy", [zero], [result])
            return
        attrs = [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups]
        operands = [wide(emit.dense(first)), wide(emit.dense(second))]
        results = [wide(result)]
        if room:  # for the weights in the order in which they are read
            items = items_of_room(second.type, stride, dilation, groups, result.shape)
            results.append(emit.temporary(second.dtype, (items,)))
        emit.kernel(kernel, operands, results, attrs)

    return lowering


conv.lowering(_lower("conv", True))
conv_transpose.lowering(_lower("conv_transpose", True))
conv_weight.lowering(_lower("conv_weight", False))


@conv.vjp
def conv_vjp(ct, _y, x, w, *, size, **geometry):
    return (
        (lambda: conv_transpose(ct, w, size=x.shape[2:], **geometry)),
        (lambda: conv_weight(x, ct, size=w.shape[2:], **geometry)),
    )


@conv_transpose.vjp
def conv_transpose_vjp(ct, _x, y, w, *, size, **geometry):
    return (
        (lambda: conv(ct, w, size=y.shape[2:], **geometry)),
        (lambda: conv_weight(ct, y, size=w.shape[2:], **geometry)),
    )


@conv_weight.vjp
def conv_weight_vjp(ct, _w, x, y, *, size, **geometry):
    return (
        (lambda: conv_transpose(y, ct, size=x.shape[2:], **geometry)),
        (lambda: conv(x, ct, size=y.shape[2:], **geometry)),
    )


def _bilinear(op: Op) -> None:
    """Declare the jvp of an op that is linear in each of its two operands."""

    def jvp(tangents: Any, _result: Any, a: Any, b: Any, **attrs: Any) -> Any:
        of_a, of_b = tangents
        left = None if of_a is None else op(of_a, b, **attrs)
        right = None if of_b is None else op(a, of_b, **attrs)
        if left is None or right is None:
            return right if left is None else left
        return left + right

    op.jvp(jvp)


_bilinear(conv)
_bilinear(conv_transpose)
_bilinear(conv_weight)

GEOMETRIES = [  # batch, channels, groups, results of a group, x, kernel, stride, padding, dilation
    (1, 2, 1, 3, (3,), (2,), (1,), (0,), (1,)),
    (2, 2, 1, 2, (5,), (3,), (2,), (1,), (1,)),
    (1, 2, 2, 1, (3, 3), (2, 2), (1, 1), (1, 0), (1, 1)),
    (2, 3, 1, 6, (17,), (3,), (1,), (1,), (1,)),
    (1, 4, 2, 3, (23,), (4,), (3,), (2,), (2,)),
    (2, 3, 1, 5, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 4, 2, 7, (9, 8), (3, 2), (2, 3), (1, 2), (2, 1)),
    (3, 5, 5, 1, (8, 40), (3, 5), (1, 1), (1, 2), (1, 1)),
    (1, 3, 3, 2, (11, 70), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 4, 2, 2, (6, 19), (3, 3), (1, 1), (2, 5), (1, 3)),
    (2, 48, 1, 14, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 18, 2, 8, (7, 35), (3, 3), (1, 1), (0, 2), (1, 1)),
    (1, 20, 1, 33, (12, 12), (1, 1), (1, 1), (0, 0), (1, 1)),
    (1, 2, 1, 3, (4, 5, 6), (2, 3, 2), (1, 2, 1), (0, 1, 1), (2, 1, 1)),
    (2, 3, 3, 1, (3, 4, 18), (3, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 2)),
    (1, 2, 1, 2, (4, 5), (1, 2), (3, 4), (0, 0), (2, 2)),
    (2, 0, 1, 2, (5,), (3,), (1,), (0,), (1,)),
    (0, 2, 1, 2, (5,), (3,), (1,), (1,), (1,)),
    (1, 2, 1, 2, (0,), (1,), (1,), (1,), (1,)),
]


def _samples(draw, which):
    for dtype in draw.floats:
        for batch, channels, groups, rows, sizes, kernel, stride, padding, dilation in GEOMETRIES:
            pairs = [(n, n) for n in padding]
            counts = window_counts("conv", "kernel", sizes, kernel, stride, pairs, dilation)
            x = draw(dtype, batch, channels, *sizes)
            w = draw(dtype, groups * rows, channels // groups, *kernel)
            y = draw(dtype, batch, groups * rows, *counts)
            geometry = {
                "stride": stride, "padding": padding, "dilation": dilation, "groups": groups
            }  # fmt: skip
            operands, size = {"x": ((y, w), sizes), "w": ((x, y), kernel), "y": ((x, w), counts)}[
                which
            ]
            yield operands, {**geometry, "size": size}


conv.samples(lambda draw: _samples(draw, "y"))
conv_transpose.samples(lambda draw: _samples(draw, "x"))
conv_weight.samples(lambda draw: _samples(draw, "w"))

# Functions ---------------------------------------------------------------------------------------


def _operands(name: str, input: Any, weight: Any, bias: Any, rank: int) -> Any:
    """The input with a batch, whether it came without, the weight, and the bias or None."""
    x, single = lifted(name, input, rank)
    weight = as_tensor(weight)
    types = {"input": type_of(x), "weight": type_of(weight)}
    if bias is not None:
        bias = as_tensor(bias)
        types["bias"] = type_of(bias)
    require_floating(name, **types)
    require_same_dtype(name, *types.values())
    require_rank(name, "weight", types["weight"], rank + 2)
    return x, single, weight, bias


def groups_of(name: str, groups: Any, channels: int, weight: Any) -> int:
    """``groups``, which divide the channels of the input and the first axis of the weight."""
    if isinstance(groups, bool) or not hasattr(groups, "__index__") or groups.__index__() < 1:
        raise ArgumentError(f"{name} got groups {groups!r}", fix="give an int of at least 1")
    groups = groups.__index__()
    require_groups(name, "input", channels, groups)
    require_groups(name, "weight", weight.shape[0], groups)
    return groups


def _with_bias(name: str, y: Any, bias: Any) -> Any:
    if bias is None:
        return y
    channels = y.shape[1]
    require_shape(name, "bias", type_of(bias), (channels,))
    return y + reshaped(bias, (1, channels, *(1,) * (len(y.shape) - 2)))


def require_channels(name: str, x: Any, weight: Any, expected: int, actual: int) -> None:
    if expected != actual:
        raise ShapeError(
            f"{name} cannot take {type_of(x)} with weight {type_of(weight)}",
            why=f"The weight is for {expected} channels, and the input has {actual}.",
            fix="give a weight for as many channels, or other groups",
        )


def _conv(name, rank, input, weight, bias, stride, padding, dilation, groups):
    x, single, weight, bias = _operands(name, input, weight, bias, rank)
    attrs = geometry_of(name, x, weight, stride, padding, dilation, groups)
    return unlifted(_with_bias(name, conv(x, weight, **attrs), bias), single)


def geometry_of(
    name: str, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> dict[str, Any]:
    """The attributes of ``conv`` for x [N, C, *spatial] and what users give."""
    channels, kernel, rank = x.shape[1], weight.shape[2:], len(weight.shape) - 2
    stride = per_axis(name, "stride", stride, rank, least=1)
    dilation = per_axis(name, "dilation", dilation, rank, least=1)
    groups = groups_of(name, groups, channels, weight)
    require_channels(name, x, weight, weight.shape[1] * groups, channels)
    require_within(name, "the kernel's sizes", kernel, least=1)
    pairs = padding_pairs(name, padding, kernel, stride, dilation)
    size = window_counts(name, "a kernel", x.shape[2:], kernel, stride, pairs, dilation)
    before = tuple(first for first, _ in pairs)
    return dict(stride=stride, padding=before, dilation=dilation, groups=groups, size=size)


def _conv_transpose(
    name, rank, input, weight, bias, stride, padding, output_padding, groups, dilation
):
    x, single, weight, bias = _operands(name, input, weight, bias, rank)
    channels, kernel = x.shape[1], weight.shape[2:]
    stride = per_axis(name, "stride", stride, rank, least=1)
    padding = per_axis(name, "padding", padding, rank, least=0)
    dilation = per_axis(name, "dilation", dilation, rank, least=1)
    extra = per_axis(name, "output_padding", output_padding, rank, least=0)
    groups = groups_of(name, groups, channels, weight)
    require_channels(name, x, weight, weight.shape[0], channels)
    require_within(name, "the kernel's sizes", kernel, least=1)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise ArgumentError(
            f"{name} got output_padding {extra}, stride {stride} and dilation {dilation}",
            why="The output padding must be smaller than the stride or the dilation.",
            fix="give a smaller one",
        )
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            x.shape[2:], stride, padding, dilation, kernel, extra, strict=True
        )
    )
    if min(size) < 1 or max(size) > LARGEST or min(x.shape[2:]) < 1:
        raise ShapeError(
            f"{name} cannot make spatial sizes {list(size)} of {type_of(x)}",
            why=f"Each must be from 1 to {LARGEST}, and come from an axis that is not empty.",
            fix="give less padding or a smaller stride, or an input of other sizes",
        )
    y = conv_transpose(
        x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups, size=size
    )
    return unlifted(_with_bias(name, y, bias), single)


@remembered_of_any
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The convolution of [N, C, L] with ``weight`` [O, C / groups, K], plus ``bias`` [O].

    ``padding`` zeros are added at both ends ("same": as many as keep the size; "valid": none); the
    input may come without N.  As in PyTorch, the kernel is not mirrored.
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@remembered_of_any
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """``conv1d`` over two axes: [N, C, H, W] with ``weight`` [O, C / groups, KH, KW]."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@remembered_of_any
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """``conv1d`` over three axes: [N, C, D, H, W] with ``weight`` [O, C / groups, KD, KH, KW]."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@remembered_of_any
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The gradient of ``conv1d``: [N, C, L] with ``weight`` [C, O / groups, K], plus ``bias`` [O].

    Its size is ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``.
    """
    given = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose("conv_transpose1d", 1, input, weight, bias, *given)


@remembered_of_any
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """``conv_transpose1d`` over two axes: [N, C, H, W], ``weight`` [C, O / groups, KH, KW]."""
    given = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose("conv_transpose2d", 2, input, weight, bias, *given)


@remembered_of_any
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """``conv_transpose1d`` over three axes: [N, C, D, H, W], weight [C, O / groups, KD, KH, KW]."""
    given = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose("conv_transpose3d", 3, input, weight, bias, *given)
