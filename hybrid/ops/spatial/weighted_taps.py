"""Axes resized by weighted sums of a few of their elements: bicubic and antialiased filters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hybrid.core.open_numbers import any_open, open_array
from hybrid.core.size_functions import size_function
from hybrid.ops.elementwise.arithmetic import add, multiply
from hybrid.ops.index.indexing import take_slices
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import converted
from hybrid.ops.support.operand_checks import as_tensor

CUBIC_TAPS, CUBIC_SLOPE = 4, -0.75


def cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel (1981) of parameter ``a`` at ``distance`` >= 0."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def linear_weight(distance: np.ndarray) -> np.ndarray:
    """The triangle of height 1 and half width 1 at ``distance`` >= 0."""
    return np.maximum(1 - distance, 0.0)


def weighted_sum(x: Any, axis: int, elements: Any, weights: Any) -> Any:
    """The sums over taps of ``x``'s ``elements`` [count, taps] along ``axis`` times ``weights``."""
    elements, weights = np.asarray(elements), np.asarray(weights)
    total = None
    for tap in range(weights.shape[1]):
        weight = weights[:, tap]
        if weight.any() or (total is None and tap == weights.shape[1] - 1):
            scale = None if (weight == 1).all() else np.ascontiguousarray(weight)
            total = _with_tap(total, x, axis, np.ascontiguousarray(elements[:, tap]), scale)
    return total


def _with_tap(total: Any, x: Any, axis: int, elements: Any, weight: Any) -> Any:
    part = take_slices(x, as_tensor(elements), axis=axis)
    if weight is not None:
        column = [1] * len(part.shape)
        column[axis] = part.shape[axis]
        scale = as_tensor(weight)
        part = multiply(part, reshaped(converted(scale, part.dtype), tuple(column)))
    return part if total is None else add(total, part)


def cubic(x: Any, axis: int, count: Any, scale: float, align: bool) -> Any:
    """``x`` of ``count`` elements along ``axis``, by cubic convolution with a = -0.75.

    Element i lies at ``i * scale`` if ``align``, else at ``(i + 0.5) * scale - 0.5``; beyond
    the ends the last element counts.
    """
    given = x.shape[axis], count, scale, align
    if not any_open(*given):
        return weighted_sum(x, axis, *_cubic_taps(*given))
    total = None
    for tap in range(CUBIC_TAPS):
        elements, weight = (
            open_array(name, (count,), *given, tap) for name in ("cubic_element", "cubic_weight")
        )
        total = _with_tap(total, x, axis, elements, weight)
    return total


@functools.lru_cache(maxsize=256)
def _cubic_taps(n: int, count: int, scale: float, align: bool) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(count) * scale if align else (np.arange(count) + 0.5) * scale - 0.5
    first = np.floor(places).astype(np.int64) - 1
    elements = first[:, None] + np.arange(CUBIC_TAPS)
    weights = cubic_weight(np.abs(places[:, None] - elements), CUBIC_SLOPE)
    return np.clip(elements, 0, n - 1), weights


def _cubic_element(n: int, count: int, scale: float, align: bool, tap: int) -> np.ndarray:
    return np.ascontiguousarray(_cubic_taps(n, count, scale, align)[0][:, tap])


def _cubic_weight(n: int, count: int, scale: float, align: bool, tap: int) -> np.ndarray:
    return np.ascontiguousarray(_cubic_taps(n, count, scale, align)[1][:, tap])


size_function("cubic_element", _cubic_element, raises=False)
size_function("cubic_weight", _cubic_weight, raises=False)


def antialiased(x: Any, axis: int, count: int, scale: float, align: bool, kind: str) -> Any:
    """``x`` of ``count`` elements along ``axis``, by a ``"linear"`` or ``"cubic"`` filter as wide
    as an element of the result, as Pillow does (cubic with a = -0.5).
    """
    taps = _antialiased_taps(int(x.shape[axis]), int(count), float(scale), align, kind)
    return weighted_sum(x, axis, *taps)


@functools.lru_cache(maxsize=256)
def _antialiased_taps(
    n: int, count: int, scale: float, align: bool, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    width = max(scale, 1.0)
    reach = (1 if kind == "linear" else 2) * width
    centers = scale * (np.arange(count) + 0.5)
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    behind = np.minimum((centers + reach + 0.5).astype(np.int64), n)
    elements = first[:, None] + np.arange(int((behind - first).max(initial=1)))
    distance = np.abs(elements - centers[:, None] + 0.5) / width
    weights = linear_weight(distance) if kind == "linear" else cubic_weight(distance, -0.5)
    weights = np.where(elements < behind[:, None], weights, 0.0)
    return np.minimum(elements, n - 1), weights / weights.sum(axis=1, keepdims=True)
