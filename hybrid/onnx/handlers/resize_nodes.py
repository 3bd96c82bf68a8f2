"""Pictures of another size, and read at places between their pixels."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.known_values import axes_of, numbers_of
from hybrid.onnx.node_table import handles

# Resize goes over one axis after another: each element is a weighted sum of a few of its axis.


def _places(
    mode: str, count: int, length: int, scale: float, roi: tuple[float, float] | None
) -> Any:
    """Where in the axis of ``length`` elements those of the result lie."""
    y = np.arange(count, dtype=np.float64)
    whole = scale * length
    if mode == "align_corners":
        return np.zeros(count) if whole == 1 else y * (length - 1) / (whole - 1)
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        begin, end = roi or (0.0, 1.0)
        if whole == 1:
            return np.full(count, (end - begin) * (length - 1) / 2) + begin * (length - 1)
        return y * (end - begin) * (length - 1) / (whole - 1) + begin * (length - 1)
    if mode == "pytorch_half_pixel" and whole == 1:
        return np.full(count, -0.5)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (y + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return length / 2 * (1 - count / whole) + (y + 0.5) / scale - 0.5
    raise OnnxError(
        f"Resize got coordinate_transformation_mode {mode!r}",
        why="It is half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric "
        "or tf_crop_and_resize.",
    )


def _nearest(ratio: float, _scale: float, mode: str) -> list[float]:
    """The shares of the elements before and after."""
    if ratio == 1.0:
        return [0.0, 1.0]
    after = {
        "round_prefer_floor": ratio > 0.5,
        "round_prefer_ceil": ratio >= 0.5,
        "floor": False,
        "ceil": True,
    }
    if mode not in after:
        raise OnnxError(
            f"Resize got nearest_mode {mode!r}", why=f"It is one of {', '.join(after)}."
        )
    return [float(not after[mode]), float(after[mode])]


def _linear(ratio: float, scale: float, antialias: bool) -> np.ndarray:
    if not antialias:
        return np.array([1 - ratio, ratio])
    scale = min(scale, 1.0)
    start = int(np.floor(-1 / scale) + 1)
    found = np.clip(1 - np.abs((np.arange(start, 2 - start) - ratio) * scale), 0, 1)
    return found / found.sum()


def _cubic(ratio: float, scale: float, antialias: bool, a: float) -> np.ndarray:
    scale = min(scale, 1.0) if antialias else 1.0
    start = int(np.floor(-2 / scale) + 1)
    away = np.abs(scale * (np.arange(start, 2 - start) - ratio))
    near = ((a + 2) * away - (a + 3)) * away**2 + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    found = np.where(away <= 1, near, np.where(away < 2, far, 0.0))
    return found / found.sum() if antialias else found


@functools.lru_cache(maxsize=256)
def _taps(
    mode: str,
    shares: tuple[Any, ...],
    count: int,
    length: int,
    scale: float,
    roi: tuple[float, float] | None,
    exclude_outside: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place its elements [count, taps], their shares, and whether it lies outside."""
    places = _places(mode, count, length, scale, roi)
    floor = np.floor(places).astype(np.int64)
    ratios = np.where(places == floor, 1.0, places - floor)
    kind, *rest = shares
    share = {"nearest": _nearest, "linear": _linear, "cubic": _cubic}[kind]
    found = np.array([share(float(ratio), scale, *rest) for ratio in ratios])
    taps = found.shape[1]
    start = np.where(places == floor, floor - taps // 2, floor - taps // 2 + 1)
    elements = start[:, None] + np.arange(taps)
    if exclude_outside:
        found = np.where((elements < 0) | (elements >= length), 0.0, found)
        total = found.sum(axis=1, keepdims=True)
        found = found / np.where(total == 0, 1.0, total)
    outside = (places < 0) | (places > length - 1)
    return np.clip(elements, 0, length - 1), found, outside


def _resized_axis(
    x: Any, axis: int, taps: tuple[np.ndarray, ...], extrapolation: float | None
) -> Any:
    elements, shares, outside = taps
    column = [1] * x.ndim
    column[axis] = len(elements)
    total = None
    for at in range(shares.shape[1]):
        share = shares[:, at]
        if not share.any():
            continue
        part = ops.take(x, ops.as_tensor(np.ascontiguousarray(elements[:, at])), axis=axis)
        if not (share == 1).all():
            weights = ops.as_tensor(np.ascontiguousarray(share.astype(x.dtype.numpy)))
            part = ops.multiply(part, ops.reshape(weights, tuple(column)))
        total = part if total is None else ops.add(total, part)
    assert total is not None
    if extrapolation is not None and outside.any():
        total = ops.where(ops.reshape(ops.as_tensor(outside), tuple(column)), extrapolation, total)
    return total


_POLICIES = {"not_larger": min, "not_smaller": max}


def _sizes_of(
    shape: tuple[int, ...], axes: list[int], scales: list[float], sizes: list[int], policy: str
) -> list[tuple[float, int]]:
    """The scale and the new size of each of ``axes``."""
    lengths = [shape[axis] for axis in axes]
    if sizes:
        found = [size / length for size, length in zip(sizes, lengths, strict=True)]
        if policy == "stretch":
            return list(zip(found, [int(size) for size in sizes], strict=True))
        if policy not in _POLICIES:
            raise OnnxError(f"Resize got keep_aspect_ratio_policy {policy!r}")
        scale = _POLICIES[policy](found)
        return [(scale, int(scale * length + 0.5)) for length in lengths]
    return [(scale, int(scale * length)) for scale, length in zip(scales, lengths, strict=True)]


def _resize(
    x: Any,
    roi: list[float],
    scales: list[float],
    sizes: list[int],
    shares: tuple[Any, ...],
    *,
    axes: list[int] | None = None,
    mode: str = "half_pixel",
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    policy: str = "stretch",
) -> Any:
    found = list(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    if bool(scales) == bool(sizes):
        raise OnnxError("Resize takes scales or sizes, one of the two")
    shape = tuple(int(n) for n in x.shape)
    crop = mode == "tf_crop_and_resize"
    dtype = x.dtype
    wide = dtype if dtype in (types.float32, types.float64) else types.float32
    y = ops.astype(x, wide) if dtype is not wide and shares[0] != "nearest" else x
    for at, (axis, (scale, size)) in enumerate(
        zip(found, _sizes_of(shape, found, scales, sizes, policy), strict=True)
    ):
        region = (roi[at], roi[at + len(found)]) if crop and roi else None
        if abs(scale - 1) < 1e-9 and size == shape[axis] and region in (None, (0.0, 1.0)):
            continue
        taps = _taps(mode, shares, size, shape[axis], scale, region, bool(exclude_outside))
        y = _resized_axis(y, axis, taps, extrapolation_value if crop else None)
    if y.dtype is dtype:
        return y
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        y = ops.minimum(ops.maximum(y, limits.min), limits.max)
    return ops.astype(y, dtype)


def _shares(mode: str, nearest_mode: str, antialias: int, cubic_coeff_a: float) -> tuple[Any, ...]:
    rows = {
        "nearest": ("nearest", nearest_mode),
        "linear": ("linear", bool(antialias)),
        "cubic": ("cubic", bool(antialias), cubic_coeff_a),
    }
    if mode not in rows or (mode == "nearest" and antialias):
        raise OnnxError(f"Resize got mode {mode!r}, antialias {antialias}")
    return rows[mode]


def _optional(value: Any) -> list[Any]:
    return [] if value is None else numbers_of(value)


@handles("Resize", 18, 19, values=(1, 2, 3))
def resize(
    x, roi=None, scales=None, sizes=None, *, antialias=0, axes=None,
    coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75, exclude_outside=0,
    extrapolation_value=0.0, keep_aspect_ratio_policy="stretch", mode="nearest",
    nearest_mode="round_prefer_floor",
):  # fmt: skip
    """Resize by scales or to sizes."""
    return _resize(
        x, _optional(roi), _optional(scales), _optional(sizes),
        _shares(mode, nearest_mode, antialias, cubic_coeff_a), axes=axes,
        mode=coordinate_transformation_mode, exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value, policy=keep_aspect_ratio_policy,
    )  # fmt: skip


@handles("Resize", 11, 13, values=(1, 2, 3))
def resize_all(
    x, roi=None, scales=None, sizes=None, *, coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, mode="nearest",
    nearest_mode="round_prefer_floor",
):  # fmt: skip
    """Resize of all axes: opsets 11 to 17."""
    if coordinate_transformation_mode == "tf_half_pixel_for_nn":
        raise OnnxError(
            "Resize got coordinate_transformation_mode 'tf_half_pixel_for_nn'",
            why="Opset 13 has taken it away: what it meant was said differently by each tool.",
        )
    return _resize(
        x, _optional(roi), _optional(scales), _optional(sizes),
        _shares(mode, nearest_mode, 0, cubic_coeff_a), mode=coordinate_transformation_mode,
        exclude_outside=exclude_outside, extrapolation_value=extrapolation_value,
    )  # fmt: skip


@handles("Resize", 10, values=(1,))
def resize_by(x, scales, *, mode="nearest"):
    """Resize by scales: opset 10."""
    return _resize(
        x, [], numbers_of(scales), [], _shares(mode, "floor", 0, -0.75), mode="asymmetric"
    )


@handles("Upsample", 9, 10, values=(1,))
def upsample(x, scales, *, mode="nearest"):
    """Upsample: what Resize was called before opset 10."""
    return resize_by(x, scales, mode=mode)


@handles("Upsample", 7)
def upsample_by(x, *, scales, mode="nearest"):
    """Upsample with scales as an attribute."""
    return resize_by(x, scales, mode=mode)


@handles("Upsample", 1)
def upsample_of_opset_1(x, *, height_scale, width_scale, mode="nearest"):
    """Upsample of the two last axes."""
    kind = "linear" if mode == "bilinear" else mode
    return resize_by(x, [1.0, 1.0, height_scale, width_scale], mode=kind)


# GridSample --------------------------------------------------------------------------------------


def _reflected(at: Any, low: float, high: float) -> Any:
    """``at`` mirrored at both borders until it is between them."""
    span = high - low
    if span == 0:
        return ops.zeros_like(at) + low
    away = ops.abs(at - low)
    rest = ops.remainder(away, 2 * span)
    return ops.where(ops.greater(rest, span), 2 * span - rest, rest) + low


def _cubic_shares(t: Any) -> list[Any]:
    a = -0.75

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


_PADDING = ("zeros", "border", "reflection")


def _grid_sample(x: Any, grid: Any, align: int, mode: str, padding: str) -> Any:
    if padding not in _PADDING:
        raise OnnxError(f"GridSample got padding_mode {padding!r}")
    rank = x.ndim - 2
    spatial = x.shape[2:]
    n, channels = x.shape[:2]
    targets = grid.shape[1:-1]
    flat = ops.reshape(x, (n, channels, -1))
    borders = [(0.0, n - 1.0) if align else (-0.5, n - 0.5) for n in spatial]
    axes: list[list[tuple[Any, Any]]] = []  # for each axis elements and their shares
    for axis in range(rank):
        given = grid[..., rank - 1 - axis]
        length = spatial[axis]
        at = (given + 1) / 2.0 * (length - 1) if align else ((given + 1) * length - 1) / 2.0
        if mode == "nearest":
            at = ops.round(at)
        if padding == "border" and mode != "cubic":  # there each of the elements is, below
            at = ops.clip(at, 0, length - 1)
        elif padding == "reflection":
            at = ops.where(
                ops.logical_or(ops.less(at, borders[axis][0]), ops.greater(at, borders[axis][1])),
                _reflected(at, *borders[axis]), at,
            )  # fmt: skip
        if mode == "nearest":
            axes.append([(at, None)])
            continue
        floor = ops.floor(at)
        t = at - floor
        if mode == "linear":
            axes.append([(floor, 1 - t), (floor + 1, t)])
        elif mode == "cubic":
            axes.append(
                [
                    (floor + step, share)
                    for step, share in zip(range(-1, 3), _cubic_shares(t), strict=True)
                ]
            )
        else:
            raise OnnxError(f"GridSample got mode {mode!r}", why="It is linear, nearest or cubic.")
    total = None
    for corner in itertools.product(*axes):
        place, inside, weight = None, None, None
        for axis, (element, share) in enumerate(corner):
            length = spatial[axis]
            within = ops.logical_and(ops.greater_equal(element, 0), ops.less(element, length))
            if padding == "reflection":
                low, high = borders[axis]
                beyond = ops.logical_or(ops.less(element, low), ops.greater(element, high))
                element = ops.where(beyond, ops.trunc(_reflected(element, low, high)), element)
            index = ops.astype(ops.clip(element, 0, length - 1), types.int64)
            place = index if place is None else ops.add(ops.multiply(place, length), index)
            inside = within if inside is None else ops.logical_and(inside, within)
            if share is not None:
                weight = share if weight is None else ops.multiply(weight, share)
        places = ops.reshape(place, (n, 1, -1))
        places = ops.broadcast_to(places, (n, channels, places.shape[2]))
        part = ops.reshape(ops.gather(flat, places, axis=2), (n, channels, *targets))
        if padding == "zeros":
            part = ops.where(ops.expand_dims(inside, axis=1), part, ops.zeros_like(part))
        if weight is not None:
            part = ops.multiply(part, ops.astype(ops.expand_dims(weight, axis=1), part.dtype))
        total = part if total is None else ops.add(total, part)
    return total


@handles("GridSample", 20, 22)
def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """GridSample: x read at the places of a grid, from -1 to 1 along each axis."""
    return _grid_sample(x, grid, align_corners, mode, padding_mode)


@handles("GridSample", 16)
def grid_sample_of_opset_16(x, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    """GridSample with the words of opset 16."""
    words = {"bilinear": "linear", "bicubic": "cubic"}
    return _grid_sample(x, grid, align_corners, words.get(mode, mode), padding_mode)
