"""Windows side by side and back, and pixels moved between channels and space."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir import op
from hybrid.ops.shapes.shape import permute
from hybrid.ops.spatial.windows import (
    is_trivial,
    lifted,
    meetings,
    per_axis,
    require_spatial,
    require_within,
    unlifted,
    widened_attrs,
    window_counts,
)
from hybrid.ops.support import axis_ties
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import linear, reshaped
from hybrid.ops.support.operand_checks import as_tensor, require_floating, type_of

# Windows side by side ----------------------------------------------------------------------------


def _require_windows(name, kernel, stride, padding, dilation, counts):
    for what, values, least in [
        ("kernel", kernel, 1),
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("dilation", dilation, 1),
        ("counts", counts, 0),
    ]:
        if len(values) != len(kernel) or not 1 <= len(kernel) <= 3:
            raise ArgumentError(
                f"{name} got {what} {values} and kernel {kernel}",
                why="Each has an int for every spatial axis, one to three.",
            )
        require_within(name, what, values, least=least)


@op(name="unfold")
def windows_of(
    x: TensorType, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, counts: Shape
) -> TensorType:
    """The windows of [N, C, *spatial] as [N, C * items of a window, windows].

    Item k of window p is the element at ``p * stride - padding + k * dilation``, or 0.
    """
    _require_windows("unfold", kernel, stride, padding, dilation, counts)
    require_floating("unfold", x=x)
    require_spatial("unfold", "x", x, len(kernel))
    return x.with_shape((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts)))


@op(name="fold")
def windows_back(
    y: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    counts: Shape,
    size: Shape,
) -> TensorType:
    """The transpose of ``unfold``, with spatial shape ``size``: what had one place is added."""
    _require_windows("fold", kernel, stride, padding, dilation, counts)
    require_floating("fold", y=y)
    require_within("fold", "size", size, least=0)
    items = math.prod(kernel)
    if len(size) != len(kernel) or y.rank != 3 or y.shape[1] % items:
        raise ShapeError(
            f"fold cannot take {y} for windows {list(kernel)}",
            why=f"It must be [N, C * {items}, windows].",
        )
    if y.shape[2] != math.prod(counts):
        raise ShapeError(f"fold cannot take {y}", why=f"There are {math.prod(counts)} windows.")
    return y.with_shape((y.shape[0], y.shape[1] // items, *size))


def _meetings(sizes, counts, kernel, stride, padding, dilation):
    return [
        meetings(*axis)
        for axis in zip(sizes, counts, kernel, stride, padding, dilation, strict=True)
    ]


def _couples(narrow, wide):
    """The rule of an op between channels, and their items of windows: places of both."""

    def rule(operands, results, **_):
        types = {0: operands[0], ~0: results[0]}
        channels, items = types[narrow].shape[1], types[wide].shape[1]
        numbers = np.arange(items) // (items // max(channels, 1))
        return [
            axis_ties.along(operands, results, [(0, 0), (~0, 0)]),
            [axis_ties.tied(narrow, 1, channels), axis_ties.TiedAxis(wide, 1, numbers)],
        ]

    return rule


windows_of.couples(_couples(0, ~0))


@windows_of.reference
def unfold_reference(x, *, kernel, stride, padding, dilation, counts):
    found, rank = x, len(kernel)
    for meet in _meetings(x.shape[2:], counts, kernel, stride, padding, dilation):
        found = np.tensordot(found, meet, ((2,), (0,)))
    order = (0, 1, *range(3, 3 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2))
    shape = (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts))
    return found.transpose(order).reshape(shape).astype(x.dtype)


windows_back.couples(_couples(~0, 0))


@windows_back.reference
def fold_reference(y, *, kernel, stride, padding, dilation, counts, size):
    rank = len(kernel)
    found = y.reshape(y.shape[0], y.shape[1] // math.prod(kernel), *kernel, *counts)
    for a, meet in enumerate(_meetings(size, counts, kernel, stride, padding, dilation)):
        found = np.tensordot(found, meet, ((2, 2 + rank - a), (2, 1)))
    return found.astype(y.dtype)


def _lower_windows(name: str) -> Callable[..., None]:
    def lowering(emit, x, result, *, kernel, stride, padding, dilation, counts, size=()):
        if is_trivial(emit, x, result):
            return
        planes = result if size else x
        fill = (1,) * (3 - len(kernel))
        stacks = planes.shape[0] * planes.shape[1]
        of_planes = (stacks, *fill, *planes.shape[2:])
        of_windows = (stacks, *fill, *kernel, *fill, *counts)
        shapes = (of_windows, of_planes) if size else (of_planes, of_windows)
        attrs = widened_attrs(stride, padding, dilation, fill=(1, 0, 1))
        emit.kernel(name, [emit.dense(x).reshape(shapes[0])], [result.reshape(shapes[1])], attrs)

    return lowering


windows_of.lowering(_lower_windows("unfold"))
windows_back.lowering(_lower_windows("fold"))


@linear(windows_of)
def unfold_vjp(ct, _y, _x, **attrs):
    return (windows_back(ct, size=_x.shape[2:], **attrs),)


@linear(windows_back)
def fold_vjp(ct, _x, _y, *, size, **attrs):
    return (windows_of(ct, **attrs),)


_UNFOLDED = [  # [N, C, *spatial], kernel, stride, padding, dilation
    ((1, 2, 4), (2,), (1,), (0,), (1,)),
    ((2, 1, 5), (3,), (2,), (2,), (2,)),
    ((1, 2, 3, 4), (2, 2), (1, 1), (1, 0), (1, 1)),
    ((2, 3, 6, 7), (3, 2), (2, 3), (1, 2), (1, 2)),
    ((1, 2, 3, 4, 5), (2, 1, 3), (1, 2, 1), (0, 0, 1), (1, 1, 2)),
    ((0, 2, 3, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
]


@windows_of.samples
def unfold_samples(draw):
    for dtype in draw.floats:
        for shape, kernel, stride, padding, dilation in _UNFOLDED:
            pairs = [(p, p) for p in padding]
            counts = window_counts("unfold", "", shape[2:], kernel, stride, pairs, dilation)
            attrs = {"kernel": kernel, "stride": stride, "padding": padding}
            yield (draw(dtype, *shape),), {**attrs, "dilation": dilation, "counts": counts}


@windows_back.samples
def fold_samples(draw):
    for (x,), attrs in unfold_samples(draw):
        items, windows = math.prod(attrs["kernel"]), math.prod(attrs["counts"])
        y = draw(x.dtype.name, x.shape[0], x.shape[1] * items, windows)
        yield (y,), {**attrs, "size": x.shape[2:]}


# Functions ---------------------------------------------------------------------------------------


def _window_attrs(name, sizes, kernel, dilation, padding, stride):
    kernel = per_axis(name, "kernel_size", kernel, 2, least=1)
    dilation = per_axis(name, "dilation", dilation, 2, least=1)
    padding = per_axis(name, "padding", padding, 2, least=0)
    stride = per_axis(name, "stride", stride, 2, least=1)
    pairs = [(p, p) for p in padding]
    counts = window_counts(name, "windows", sizes, kernel, stride, pairs, dilation)
    return {
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "counts": counts,
    }


@remembered_of_any
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The windows of [N, C, H, W], zeros at its edges, as [N, C * KH * KW, windows]."""
    x, single = lifted("unfold", input, 2)
    require_floating("unfold", input=type_of(x))
    attrs = _window_attrs("unfold", x.shape[2:], kernel_size, dilation, padding, stride)
    return unlifted(windows_of(x, **attrs), single)


@remembered_of_any
def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """The transpose of ``unfold``: windows added up in [N, C, *output_size]."""
    y, single = lifted("fold", input, 1)
    require_floating("fold", input=type_of(y))
    size = per_axis("fold", "output_size", output_size, 2, least=1)
    attrs = _window_attrs("fold", size, kernel_size, dilation, padding, stride)
    items, windows = math.prod(attrs["kernel"]), math.prod(attrs["counts"])
    if y.shape[1] % items or y.shape[2] != windows:
        raise ShapeError(
            f"fold cannot take {type_of(y)} as input",
            why=f"Windows of {items} items, of which {windows} fit in {list(size)}, are "
            f"[N, C * {items}, {windows}].",
            fix="give the sizes that unfold was called with",
        )
    return unlifted(windows_back(y, size=size, **attrs), single)


def _shuffled(name: str, input: Any, factor: Any, least_rank: int = 3) -> tuple[Any, Shape, int]:
    """The input as [N, C, H, W], the axes before C, and the factor."""
    x = as_tensor(input)
    if len(x.shape) < least_rank:
        raise ShapeError(
            f"{name} cannot take {type_of(x)} as input",
            why="It must have at least 3 dimensions: [C, H, W].",
            fix="change its shape with reshape or expand_dims",
        )
    (factor,) = per_axis(name, "a factor", factor, 1, least=1)
    lead = x.shape[:-3]
    return reshaped(x, (math.prod(lead), *x.shape[-3:])), lead, factor


@remembered_of_any
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """[*, C * r * r, H, W] as [*, C, H * r, W * r], r = ``upscale_factor`` (Shi et al. 2016)."""
    x, lead, r = _shuffled("pixel_shuffle", input, upscale_factor)
    n, channels, height, width = x.shape
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle cannot split {channels} channels by {r} * {r}",
            why="Each pixel becomes a square of as many.",
            fix="give another factor",
        )
    x = reshaped(x, (n, channels // (r * r), r, r, height, width))
    x = permute(x, axes=(0, 1, 4, 2, 5, 3))
    return reshaped(x, (*lead, channels // (r * r), height * r, width * r))


@remembered_of_any
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of ``pixel_shuffle``: [*, C, H * r, W * r] as [*, C * r * r, H, W]."""
    x, lead, r = _shuffled("pixel_unshuffle", input, downscale_factor)
    n, channels, height, width = x.shape
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle cannot cut {height} x {width} in squares of {r}",
            why="Each square becomes a pixel.",
            fix="give a factor that divides both",
        )
    x = reshaped(x, (n, channels, height // r, r, width // r, r))
    x = permute(x, axes=(0, 1, 3, 5, 2, 4))
    return reshaped(x, (*lead, channels * r * r, height // r, width // r))
