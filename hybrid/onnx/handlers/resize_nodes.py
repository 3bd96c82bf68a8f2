"""Pictures of another size, and read at places between their pixels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import ArgumentError, OnnxError
from hybrid.nn.functions.grids import sampled_grid
from hybrid.onnx.known_values import axes_of, numbers_of
from hybrid.onnx.node_table import handles
from hybrid.ops.spatial.weighted_taps import cubic_weight, linear_weight, weighted_sum

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
    found = linear_weight(np.abs((np.arange(start, 2 - start) - ratio) * scale))
    return found / found.sum()


def _cubic(ratio: float, scale: float, antialias: bool, a: float) -> np.ndarray:
    scale = min(scale, 1.0) if antialias else 1.0
    start = int(np.floor(-2 / scale) + 1)
    away = np.abs(scale * (np.arange(start, 2 - start) - ratio))
    found = cubic_weight(away, a)
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
    total = weighted_sum(x, axis, elements, shares.astype(x.dtype.numpy))
    if extrapolation is not None and outside.any():
        column = [1] * x.ndim
        column[axis] = len(elements)
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


_WORDS = {"linear": "bilinear", "cubic": "bicubic"}


def _grid_sample(x: Any, grid: Any, align: int, mode: str, padding: str) -> Any:
    try:
        return sampled_grid(x, grid, _WORDS.get(mode, mode), padding, bool(align))
    except ArgumentError as error:
        raise OnnxError(f"GridSample: {error.what}", why=error.why) from None


@handles("GridSample", 20, 22)
def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """GridSample: x read at the places of a grid, from -1 to 1 along each axis."""
    return _grid_sample(x, grid, align_corners, mode, padding_mode)


@handles("GridSample", 16)
def grid_sample_of_opset_16(x, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    """GridSample with the words of opset 16."""
    return _grid_sample(x, grid, align_corners, mode, padding_mode)
