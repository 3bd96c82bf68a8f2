"""Pooling: the largest, the mean or the norm of windows, and of regions."""

from __future__ import annotations

import math

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.handlers.convolution_nodes import axis_numbers, pads_of
from hybrid.onnx.known_values import numbers_of
from hybrid.onnx.node_table import handles


def _windows(x, kernel, strides, dilations, pads, auto_pad, ceil_mode):
    """Strides, dilations, padding, and the number of windows along each spatial axis."""
    rank = x.ndim - 2
    stride = axis_numbers("strides", strides, rank, 1)
    dilation = axis_numbers("dilations", dilations, rank, 1)
    pairs = pads_of(x.shape[2:], kernel, stride, dilation, pads, auto_pad)
    counts = []
    for n, k, s, d, (before, after) in zip(
        x.shape[2:], kernel, stride, dilation, pairs, strict=True
    ):
        room = n + before + after - (k - 1) * d - 1
        count = room // s + 1
        if ceil_mode and auto_pad == "NOTSET":
            count = (room + s - 1) // s + 1
            if (count - 1) * s >= n + before:  # no window begins behind the padding
                count -= 1
        counts.append(count)
    return stride, dilation, pairs, counts


def _stacked(x, kernel, stride, dilation, pairs, counts, value):
    """The elements of each window, one for each place of the kernel: [taps, n, c, *counts]."""
    reach = [
        (count - 1) * s + (k - 1) * d + 1
        for count, s, k, d in zip(counts, stride, kernel, dilation, strict=True)
    ]
    widths = [
        (before, max(after, need - n - before))
        for n, need, (before, after) in zip(x.shape[2:], reach, pairs, strict=True)
    ]
    padded = ops.pad(x, [(0, 0), (0, 0), *widths], constant_value=value)
    parts = []
    for taps in np.ndindex(*kernel):
        key = [slice(None), slice(None)]
        for tap, d, s, count in zip(taps, dilation, stride, counts, strict=True):
            key.append(slice(tap * d, tap * d + (count - 1) * s + 1, s))
        parts.append(ops.getitem(padded, tuple(key)))
    return ops.stack(parts)


def _lowest(dtype):
    return float("-inf") if dtype.is_floating else int(np.iinfo(dtype.numpy).min)


def _max_pool(x, kernel, strides, dilations, pads, auto_pad, ceil_mode, column_major, outputs):
    stride, dilation, pairs, counts = _windows(
        x, kernel, strides, dilations, pads, auto_pad, ceil_mode
    )
    pool = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}.get(len(kernel))
    plain = all(
        before == after and 2 * before <= k and (n + 2 * before - (k - 1) * d - 1) // s + 1 == count
        for n, k, s, d, (before, after), count in zip(
            x.shape[2:], kernel, stride, dilation, pairs, counts, strict=True
        )
    )
    if outputs == 1 and pool is not None and plain and x.dtype.is_floating:
        return pool(
            x, tuple(kernel), tuple(stride), tuple(before for before, _ in pairs), tuple(dilation)
        )
    parts = _stacked(x, kernel, stride, dilation, pairs, counts, _lowest(x.dtype))
    y = ops.max(parts, axis=0)
    if outputs == 1:
        return y
    return y, _flat_indices(x, parts, kernel, stride, dilation, pairs, counts, column_major)


def _flat_indices(x, parts, kernel, stride, dilation, pairs, counts, column_major):
    """Where the largest of each window is in the whole of x, flat."""
    tap = ops.argmax(parts, axis=0)
    rank = len(kernel)
    places, rest = [], tap
    for k in reversed(kernel):
        places.append(ops.remainder(rest, k))
        rest = ops.floor_divide(rest, k)
    places.reverse()
    spatial = x.shape[2:]
    flat = None
    order = list(range(rank))
    for axis in reversed(order) if column_major else order:
        shape = [1] * x.ndim
        shape[2 + axis] = counts[axis]
        first = ops.reshape(ops.arange(counts[axis]) * stride[axis] - pairs[axis][0], tuple(shape))
        at = ops.add(ops.multiply(places[axis], dilation[axis]), first)
        flat = at if flat is None else ops.add(ops.multiply(flat, spatial[axis]), at)
    planes = ops.reshape(ops.arange(x.shape[0] * x.shape[1]), (*x.shape[:2], *[1] * rank))
    return ops.add(flat, ops.multiply(planes, math.prod(spatial)))


@handles("MaxPool", 10, 11, 12, 22)
def max_pool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, storage_order=0,
    strides=None, outputs=1,
):  # fmt: skip
    """MaxPool, and where in x its elements are."""
    return _max_pool(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, storage_order, outputs
    )


@handles("MaxPool", 1, 8)
def max_pool_of_opset_1(
    x, *, kernel_shape, auto_pad="NOTSET", pads=None, storage_order=0, strides=None, outputs=1
):
    """MaxPool without dilations: opsets 1 to 9."""
    return _max_pool(x, kernel_shape, strides, None, pads, auto_pad, 0, storage_order, outputs)


def _average(x, kernel, strides, dilations, pads, auto_pad, ceil_mode, include):
    stride, dilation, pairs, counts = _windows(
        x, kernel, strides, dilations, pads, auto_pad, ceil_mode
    )
    total = ops.sum(_stacked(x, kernel, stride, dilation, pairs, counts, 0), axis=0)
    ones = ops.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if include:  # what is padded counts, what ceil_mode adds behind it does not
        ones = ops.pad(ones, [(0, 0), (0, 0), *pairs], constant_value=1)
        pairs = [(0, 0)] * len(kernel)
    number = ops.sum(_stacked(ones, kernel, stride, dilation, pairs, counts, 0), axis=0)
    return ops.divide(total, number)


def _average_pool(x, kernel, strides, dilations, pads, auto_pad, ceil_mode, include):
    stride, dilation, pairs, counts = _windows(
        x, kernel, strides, dilations, pads, auto_pad, ceil_mode
    )
    pool = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}.get(len(kernel))
    plain = all(
        before == after and 2 * before <= k and d == 1 and (n + 2 * before - k) // s + 1 == count
        for n, k, s, d, (before, after), count in zip(
            x.shape[2:], kernel, stride, dilation, pairs, counts, strict=True
        )
    )
    if pool is not None and plain:
        padding = tuple(before for before, _ in pairs)
        return pool(x, tuple(kernel), tuple(stride), padding, count_include_pad=bool(include))
    return _average(x, kernel, strides, dilations, pads, auto_pad, ceil_mode, include)


@handles("AveragePool", 19, 22)
def average_pool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None,
    pads=None, strides=None,
):  # fmt: skip
    """AveragePool; what is padded counts only if asked for."""
    return _average_pool(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, count_include_pad
    )


@handles("AveragePool", 1, 7, 10, 11)
def average_pool_of_opset_1(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, pads=None, strides=None
):
    """AveragePool without dilations: opsets 1 to 18."""
    return _average_pool(
        x, kernel_shape, strides, None, pads, auto_pad, ceil_mode, count_include_pad
    )


@handles("LpPool", 18, 22)
def lp_pool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, p=2, pads=None, strides=None
):
    """LpPool: the p-norms of windows."""
    stride, dilation, pairs, counts = _windows(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    powers = ops.pow(ops.abs(x), p)
    total = ops.sum(_stacked(powers, kernel_shape, stride, dilation, pairs, counts, 0), axis=0)
    return ops.pow(total, 1.0 / p)


@handles("LpPool", 1, 2, 11)
def lp_pool_of_opset_1(x, *, kernel_shape, auto_pad="NOTSET", p=2, pads=None, strides=None):
    """LpPool without dilations: opsets 1 to 17."""
    return lp_pool(x, kernel_shape=kernel_shape, auto_pad=auto_pad, p=p, pads=pads, strides=strides)


def _spatial(x):
    return tuple(range(2, x.ndim))


@handles("GlobalAveragePool", 1, 22)
def global_average_pool(x):
    """GlobalAveragePool."""
    return ops.mean(x, axis=_spatial(x), keepdims=True)


@handles("GlobalMaxPool", 1, 22)
def global_max_pool(x):
    """GlobalMaxPool."""
    return ops.max(x, axis=_spatial(x), keepdims=True)


@handles("GlobalLpPool", 1, 2, 22)
def global_lp_pool(x, *, p=2):
    """GlobalLpPool."""
    return (
        ops.norm(x, ord=p, axis=_spatial(x), keepdims=True)
        if p != 2
        else ops.sqrt(ops.sum(ops.square(x), axis=_spatial(x), keepdims=True))
    )


@handles("MaxUnpool", 9, 11, 22, values=(2,))
def max_unpool(x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    """MaxUnpool: the elements of x at their places, zeros elsewhere."""
    rank = x.ndim - 2
    stride = axis_numbers("strides", strides, rank, 1)
    found = axis_numbers("pads", pads, 2 * rank, 0)
    small = [
        (n - 1) * s + k - found[at] - found[rank + at]
        for at, (n, s, k) in enumerate(zip(x.shape[2:], stride, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *small)
    places = ops.reshape(indices, (-1,))
    values = ops.reshape(x, (-1,))
    flat = ops.scatter(ops.zeros((math.prod(shape),), dtype=x.dtype), places, values, axis=0)
    y = ops.reshape(flat, shape)
    if output_shape is None:
        return y
    wanted = numbers_of(output_shape)
    return ops.pad(y, [(0, int(w) - n) for w, n in zip(wanted, shape, strict=True)])


def _boxes(rois, count, scale, offset):
    """The corners of regions in the picture: x1, y1, x2, y2."""
    return [ops.subtract(ops.multiply(rois[:, at], scale), offset) for at in range(count)]


@handles("MaxRoiPool", 1, 22)
def max_roi_pool(x, rois, *, pooled_shape, spatial_scale=1.0):
    """MaxRoiPool: the largest of each cell of each region, 0 of an empty one."""
    height, width = x.shape[2:]
    ph, pw = pooled_shape
    batch = ops.astype(rois[:, 0], types.int64)
    left, top, right, bottom = (
        ops.floor(ops.add(ops.multiply(rois[:, at], spatial_scale), 0.5)) for at in (1, 2, 3, 4)
    )
    tall = ops.maximum(ops.add(ops.subtract(bottom, top), 1.0), 1.0)
    wide = ops.maximum(ops.add(ops.subtract(right, left), 1.0), 1.0)

    def inside(first, extent, cells, length):
        steps = ops.arange(cells, dtype=x.dtype)
        size = ops.reshape(ops.divide(extent, cells), (-1, 1))
        start = ops.add(ops.floor(ops.multiply(steps, size)), ops.reshape(first, (-1, 1)))
        end = ops.add(ops.ceil(ops.multiply(steps + 1, size)), ops.reshape(first, (-1, 1)))
        line = ops.arange(length, dtype=x.dtype)
        at_least = ops.greater_equal(line, ops.expand_dims(ops.clip(start, 0, length), axis=2))
        return ops.logical_and(at_least, ops.less(line, ops.expand_dims(end, axis=2)))

    rows = inside(top, tall, ph, height)  # [regions, ph, height]
    columns = inside(left, wide, pw, width)
    pictures = ops.take(x, batch, axis=0)  # [regions, c, height, width]
    low = _lowest(x.dtype)
    over_rows = ops.max(
        ops.where(rows[:, None, :, :, None], pictures[:, :, None], low), axis=3
    )  # [regions, c, ph, width]
    y = ops.max(ops.where(columns[:, None, None], over_rows[:, :, :, None], low), axis=4)
    return ops.where(ops.equal(y, low), 0.0, y)


def _roi_align(x, rois, batch, height, width, mode, ratio, scale, half):
    if mode not in ("avg", "max"):
        raise OnnxError(f"RoiAlign got mode {mode!r}", why="It is avg or max.")
    left, top, right, bottom = _boxes(rois, 4, scale, 0.5 if half else 0.0)
    wide, tall = ops.subtract(right, left), ops.subtract(bottom, top)
    if not half:
        wide, tall = ops.maximum(wide, 1.0), ops.maximum(tall, 1.0)
    if ratio <= 0:  # as many samples as the region has pixels in a cell: read per region
        parts = []
        for at in range(rois.shape[0]):
            counts = [
                max(1, int(ops.ceil(ops.divide(extent[at], cells)).item()))
                for extent, cells in ((tall, height), (wide, width))
            ]
            one = slice(at, at + 1)
            parts.append(
                _samples(
                    x,
                    batch[one],
                    top[one],
                    left[one],
                    tall[one],
                    wide[one],
                    height,
                    width,
                    counts,
                    mode,
                )
            )
        return ops.concat(parts, axis=0)
    return _samples(x, batch, top, left, tall, wide, height, width, [ratio, ratio], mode)


def _samples(x, batch, top, left, tall, wide, height, width, counts, mode):
    """Means (or the largest weighted corner) of samples in each cell: [regions, c, h, w]."""
    rows = _sample_places(top, tall, height, counts[0], x.dtype)
    columns = _sample_places(left, wide, width, counts[1], x.dtype)
    pictures = ops.take(x, ops.astype(batch, types.int64), axis=0)
    (r0, r1, lower, r_in), (c0, c1, righter, c_in) = (
        _neighbours(rows, x.shape[2]), _neighbours(columns, x.shape[3]),
    )  # fmt: skip
    inside = ops.logical_and(r_in[:, :, None], c_in[:, None])
    corners = []
    for r, r_share in ((r0, 1 - lower), (r1, lower)):
        for c, c_share in ((c0, 1 - righter), (c1, righter)):
            share = ops.multiply(r_share[:, :, None], c_share[:, None])
            values = _picked(pictures, r, c)
            corners.append(ops.multiply(values, ops.where(inside, share, 0.0)[:, None]))
    n, channels = pictures.shape[:2]
    shape = (n, channels, height, counts[0], width, counts[1])
    if mode == "avg":
        total = corners[0] + corners[1] + corners[2] + corners[3]
        return ops.mean(ops.reshape(total, shape), axis=(3, 5))
    best = ops.max(ops.stack(corners), axis=0)
    return ops.max(ops.reshape(best, shape), axis=(3, 5))


def _sample_places(first, extent, cells, count, dtype):
    cell = ops.reshape(ops.divide(extent, cells), (-1, 1))
    steps = (ops.arange(cells * count, dtype=dtype) + 0.5) / count
    return ops.add(ops.reshape(first, (-1, 1)), ops.multiply(steps, cell))


def _neighbours(places, length):
    """The elements before and after each place, how near the latter is, and what is inside."""
    inside = ops.logical_and(ops.greater_equal(places, -1.0), ops.less_equal(places, length))
    at = ops.clip(places, 0.0, length - 1)
    before = ops.minimum(ops.floor(at), length - 1)
    after = ops.minimum(before + 1, length - 1)
    return ops.astype(before, types.int64), ops.astype(after, types.int64), at - before, inside


def _picked(pictures, rows, columns):
    """[n, c, h, w] at [n, r] and [n, s]: [n, c, r, s]."""
    n, channels, height, width = pictures.shape
    flat = ops.reshape(pictures, (n, channels, height * width))
    places = ops.add(ops.multiply(rows, width)[:, :, None], columns[:, None])
    every = ops.reshape(places, (n, 1, -1))
    every = ops.broadcast_to(every, (n, channels, every.shape[2]))
    return ops.reshape(ops.gather(flat, every, axis=2), (n, channels, *places.shape[1:]))


@handles("RoiAlign", 16, 22)
def roi_align(
    x, rois, batch_indices, *, coordinate_transformation_mode="half_pixel", mode="avg",
    output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0,
):  # fmt: skip
    """RoiAlign: pictures of regions, read between pixels."""
    half = coordinate_transformation_mode == "half_pixel"
    return _roi_align(
        x,
        rois,
        batch_indices,
        output_height,
        output_width,
        mode,
        sampling_ratio,
        spatial_scale,
        half,
    )


@handles("RoiAlign", 10)
def roi_align_of_opset_10(
    x, rois, batch_indices, *, mode="avg", output_height=1, output_width=1, sampling_ratio=0,
    spatial_scale=1.0,
):  # fmt: skip
    """RoiAlign without half a pixel's shift: opset 10."""
    return _roi_align(
        x, rois, batch_indices, output_height, output_width, mode, sampling_ratio, spatial_scale,
        False,
    )  # fmt: skip
