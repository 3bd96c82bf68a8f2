"""Convolutions of any number of axes, up to three."""

from __future__ import annotations

import itertools
import math
from typing import Any

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.known_values import numbers_of
from hybrid.onnx.node_table import handles

_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSE = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def axis_numbers(name: str, given: list[int] | None, rank: int, default: int) -> list[int]:
    """A number for each spatial axis."""
    if given is None:
        return [default] * rank
    if len(given) != rank:
        raise OnnxError(f"{name} are {given} for {rank} spatial axes")
    return list(given)


def pads_of(
    shape: tuple[Any, ...],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads: list[int] | None,
    auto_pad: str,
) -> list[tuple[Any, Any]]:
    """(before, after) for each spatial axis of ``shape``."""
    rank = len(kernel)
    if auto_pad not in _AUTO:
        raise OnnxError(f"auto_pad is {auto_pad!r}", why=f"It is one of {', '.join(_AUTO)}.")
    if auto_pad == "NOTSET":
        found = axis_numbers("pads", pads, 2 * rank, 0)
        return list(zip(found[:rank], found[rank:], strict=True))
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    pairs = []
    for n, k, s, d in zip(shape, kernel, strides, dilations, strict=True):
        total = max(0, ((n + s - 1) // s - 1) * s + (k - 1) * d + 1 - n)
        pairs.append((total // 2, total - total // 2))
    return pairs if auto_pad == "SAME_UPPER" else [(after, before) for before, after in pairs]


def padded_alike(x: Any, pairs: list[tuple[Any, Any]], value: float = 0) -> tuple[Any, list[int]]:
    """``x`` and the padding left to do, which is the same before and after."""
    if all(before == after for before, after in pairs):
        return x, [before for before, _ in pairs]
    return ops.pad(x, [(0, 0), (0, 0), *pairs], constant_value=value), [0] * len(pairs)


@handles("Conv", 1, 11, 22, weights=(1, 2))
def conv(
    x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None,
    strides=None,
):  # fmt: skip
    """Conv over one to three axes."""
    rank = x.ndim - 2
    if rank not in _CONV:
        raise OnnxError(f"Conv over {rank} axes", why="There are convolutions over one to three.")
    stride = axis_numbers("strides", strides, rank, 1)
    dilation = axis_numbers("dilations", dilations, rank, 1)
    pairs = pads_of(x.shape[2:], list(w.shape[2:]), stride, dilation, pads, auto_pad)
    x, padding = padded_alike(x, pairs)
    return _CONV[rank](
        x,
        w,
        b,
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=group,
    )


@handles("ConvTranspose", 1, 11, 22, weights=(1, 2))
def conv_transpose(
    x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None,
    output_padding=None, output_shape=None, pads=None, strides=None,
):  # fmt: skip
    """ConvTranspose over one to three axes."""
    rank = x.ndim - 2
    if rank not in _TRANSPOSE:
        raise OnnxError(f"ConvTranspose over {rank} axes", why="There are those over one to three.")
    stride = axis_numbers("strides", strides, rank, 1)
    dilation = axis_numbers("dilations", dilations, rank, 1)
    extra = axis_numbers("output_padding", output_padding, rank, 0)
    reach = [
        s * (n - 1) + o + (k - 1) * d + 1
        for n, k, s, d, o in zip(x.shape[2:], w.shape[2:], stride, dilation, extra, strict=True)
    ]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = output_shape or [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
        pairs = []
        for axis, (have, want) in enumerate(zip(reach, wanted[-rank:], strict=True)):
            total = max(0, have - want)
            first = total - total // 2 if auto_pad == "SAME_LOWER" else total // 2
            pairs.append((first, total - first))
            extra[axis] += max(0, want - have)  # what is asked for beyond the reach is added
    else:
        pairs = pads_of(x.shape[2:], list(w.shape[2:]), stride, dilation, pads, auto_pad)
    alike = all(before == after for before, after in pairs)
    if alike and all(o < max(s, d) for o, s, d in zip(extra, stride, dilation, strict=True)):
        return _TRANSPOSE[rank](
            x, w, b, stride=tuple(stride), padding=tuple(before for before, _ in pairs),
            output_padding=tuple(extra), groups=group, dilation=tuple(dilation),
        )  # fmt: skip
    # The whole reach, of which the padding is cut off: it may differ from end to end.
    y = _TRANSPOSE[rank](
        x, w, None, stride=tuple(stride), padding=0, groups=group, dilation=tuple(dilation)
    )
    if any(extra):
        y = ops.pad(y, [(0, 0), (0, 0), *((0, o) for o in extra)])
    key = [slice(None), slice(None)]
    key += [slice(before, n - after) for (before, after), n in zip(pairs, y.shape[2:], strict=True)]
    y = ops.getitem(y, tuple(key))
    return y if b is None else ops.add(y, ops.reshape(b, (-1, *[1] * rank)))


@handles("DeformConv", 19, 22, weights=(1, 3))
def deform_conv(
    x, w, offset, b=None, mask=None, *, dilations=None, group=1, kernel_shape=None, offset_group=1,
    pads=None, strides=None,
):  # fmt: skip
    """DeformConv over two axes: each place of the kernel reads beside where it stands."""
    if x.ndim != 4:
        raise OnnxError(f"DeformConv over {x.ndim - 2} axes", why="There is one over two.")
    stride = axis_numbers("strides", strides, 2, 1)
    dilation = axis_numbers("dilations", dilations, 2, 1)
    kernel = list(w.shape[2:])
    pairs = pads_of(x.shape[2:], kernel, stride, dilation, pads, "NOTSET")
    n, channels = x.shape[:2]
    oh, ow = offset.shape[2:]
    taps = math.prod(kernel)
    moves = ops.reshape(offset, (n, offset_group, taps, 2, oh, ow))
    rows = ops.reshape(ops.arange(oh, dtype=x.dtype) * stride[0] - pairs[0][0], (oh, 1))
    columns = ops.reshape(ops.arange(ow, dtype=x.dtype) * stride[1] - pairs[1][0], (1, ow))
    parts = []
    for at, (i, j) in enumerate(itertools.product(range(kernel[0]), range(kernel[1]))):
        y = ops.add(moves[:, :, at, 0], rows + i * dilation[0])
        z = ops.add(moves[:, :, at, 1], columns + j * dilation[1])
        part = bilinear_at(x, y, z, offset_group)  # [n, channels, oh, ow]
        if mask is not None:
            weight = ops.reshape(mask, (n, offset_group, taps, oh, ow))[:, :, at]
            wide = ops.repeat(weight, channels // offset_group, axis=1)
            part = ops.multiply(part, wide)
        parts.append(part)
    taken = ops.stack(parts, axis=2)  # [n, channels, taps, oh, ow]
    cells = ops.reshape(taken, (n, group, channels // group * taps, oh * ow))
    filters = ops.reshape(w, (group, w.shape[0] // group, channels // group * taps))
    y = ops.reshape(ops.matmul(filters, cells), (n, w.shape[0], oh, ow))
    return y if b is None else ops.add(y, ops.reshape(b, (-1, 1, 1)))


def bilinear_at(x, rows, columns, groups):
    """[n, c, h, w] at [n, groups, oh, ow] places between its elements; 0 outside."""
    n, channels, height, width = x.shape
    oh, ow = rows.shape[2:]
    top, left = ops.floor(rows), ops.floor(columns)
    flat = ops.reshape(x, (n, groups, channels // groups, height * width))
    total = None
    for down, right in itertools.product((0, 1), (0, 1)):
        y, z = ops.add(top, down), ops.add(left, right)
        share = ops.multiply(1 - ops.abs(rows - y), 1 - ops.abs(columns - z))
        inside = ops.logical_and(
            ops.logical_and(ops.greater_equal(y, 0), ops.less(y, height)),
            ops.logical_and(ops.greater_equal(z, 0), ops.less(z, width)),
        )
        place = ops.add(ops.multiply(ops.clip(y, 0, height - 1), width), ops.clip(z, 0, width - 1))
        place = ops.reshape(ops.astype(place, types.int64), (n, groups, 1, oh * ow))
        places = ops.broadcast_to(place, (n, groups, channels // groups, oh * ow))
        values = ops.reshape(ops.gather(flat, places, axis=3), (n, groups, -1, oh, ow))
        weight = ops.expand_dims(ops.where(inside, share, 0.0), axis=2)
        part = ops.multiply(values, weight)
        total = part if total is None else ops.add(total, part)
    return ops.reshape(total, (n, channels, oh, ow))


@handles("Col2Im", 18, values=(1, 2))
def col_to_im(x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    """Col2Im: sums of overlapping blocks."""
    image, block = numbers_of(image_shape), numbers_of(block_shape)
    rank = len(image)
    stride = axis_numbers("strides", strides, rank, 1)
    dilation = axis_numbers("dilations", dilations, rank, 1)
    pairs = pads_of(tuple(image), block, stride, dilation, pads, "NOTSET")
    n = x.shape[0]
    taps = math.prod(block)
    channels = x.shape[1] // taps
    full = [size + before + after for size, (before, after) in zip(image, pairs, strict=True)]
    counts = [
        (size - d * (k - 1) - 1) // s + 1
        for size, d, k, s in zip(full, dilation, block, stride, strict=True)
    ]
    flat = ops.zeros((n, channels, math.prod(full)), dtype=x.dtype)
    columns = ops.reshape(x, (n, channels, taps, math.prod(counts)))
    places = None
    for at in range(rank):
        line = ops.reshape(ops.arange(block[at]) * dilation[at], (-1, 1))
        line = ops.add(line, ops.arange(counts[at]) * stride[at])  # [taps, blocks] of this axis
        shape = [1] * (2 * rank)
        shape[at], shape[rank + at] = block[at], counts[at]
        column = ops.reshape(line, tuple(shape))
        places = column if places is None else ops.add(ops.multiply(places, full[at]), column)
    every = ops.reshape(places, (1, 1, -1))
    every = ops.broadcast_to(every, (n, channels, taps * math.prod(counts)))
    summed = ops.scatter_add(flat, every, ops.reshape(columns, (n, channels, -1)), axis=2)
    picture = ops.reshape(summed, (n, channels, *full))
    key = [slice(None), slice(None)]
    key += [slice(before, before + size) for size, (before, _) in zip(image, pairs, strict=True)]
    return ops.getitem(picture, tuple(key))
