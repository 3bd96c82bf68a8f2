"""Statistics and norms along axes, made of other ops."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops import reduction
from hybrid.ops.arithmetic import absolute, divide, maximum, subtract
from hybrid.ops.checks import as_tensor, normalize_axes, normalize_axis
from hybrid.ops.comparison import isfinite, where
from hybrid.ops.derivatives import reshaped
from hybrid.ops.dtypes import converted, identity, stop_gradient
from hybrid.ops.exponential import exp, log
from hybrid.ops.joining import concat, part
from hybrid.ops.powers import pow, sqrt, square
from hybrid.ops.reduction import reduce_max, reduce_mean, reduce_sum
from hybrid.ops.remembered import remembered
from hybrid.ops.shape import expand_dims
from hybrid.types import DEFAULT_FLOAT, int64


def _floating(x: Any) -> Any:
    x = as_tensor(x)
    return x if x.dtype.is_floating else converted(x, DEFAULT_FLOAT)


@remembered
def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance along ``axis``, divided by the number of elements less ``correction``."""
    x = _floating(x)
    axes = normalize_axes("var", axis, len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    distance = square(x - reduce_mean(x, axis=axes, keepdims=True))
    if correction == 0:
        return reduce_mean(distance, axis=axes, keepdims=bool(keepdims))
    total = reduce_sum(distance, axis=axes, keepdims=bool(keepdims))
    return divide(total, float(max(count - correction, 0)))


@remembered
def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance along ``axis``."""
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims))


@remembered
def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along ``axis`` without overflow."""
    x = _floating(x)
    axes = normalize_axes("logsumexp", axis, len(x.shape))
    top = stop_gradient(reduce_max(x, axis=axes, keepdims=True))
    top = where(isfinite(top), top, 0.0)
    total = log(reduce_sum(exp(subtract(x, top)), axis=axes, keepdims=True)) + top
    if keepdims:
        return total
    return reshaped(total, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@remembered
def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements along ``axis`` are not zero, as int64."""
    x = as_tensor(x)
    return reduction.sum(converted(x != 0, int64), axis=axis, keepdims=keepdims)


@remembered
def vector_norm(x: Any, /, axis: Any = None, *, ord: float = 2, keepdims: bool = False) -> Any:
    """``sum(abs(x) ** ord) ** (1 / ord)`` along ``axis``; ``inf`` is the largest, 0 counts.

    The gradient of the 2-norm at the zero vector is zero.
    """
    x = _floating(x)
    axes = normalize_axes("vector_norm", axis, len(x.shape))
    along = {"axis": axes, "keepdims": bool(keepdims)}
    if ord == 2:
        total = reduce_sum(square(x), **along)
        return where(total > 0, sqrt(where(total > 0, total, 1.0)), total)
    if ord == 1:
        return reduce_sum(absolute(x), **along)
    if ord == math.inf:
        return reduce_max(absolute(x), **along)
    if ord == -math.inf:
        return -reduce_max(-absolute(x), **along)
    if ord == 0:
        return reduce_sum(converted(x != 0, x.dtype), **along)
    if not isinstance(ord, (int, float)):
        raise ArgumentError(f"vector_norm got ord {ord!r}", fix="give a number")
    return pow(reduce_sum(pow(absolute(x), ord), **along), 1 / ord)


@remembered
def normalize(x: Any, /, axis: int = -1, *, ord: float = 2, eps: float = 1e-12) -> Any:
    """``x`` over its norm along ``axis``, which counts as ``eps`` at least."""
    x = _floating(x)
    return x / maximum(vector_norm(x, axis, ord=ord, keepdims=True), eps)


def cdist(a: Any, b: Any, /) -> Any:
    """The Euclidean distances of the rows of ``a`` [..., M, K] from those of ``b`` [..., N, K].

    They are computed from differences, so near rows keep their digits; the gradient at distance
    zero is zero.
    """
    a, b = as_tensor(a), as_tensor(b)
    return vector_norm(expand_dims(a, -2) - expand_dims(b, -3), axis=-1)


@remembered
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along ``axis``, taken ``n`` times.

    ``prepend`` and ``append`` are joined to ``x`` along that axis first.
    """
    x = identity(as_tensor(x))
    axis = normalize_axis("diff", axis, len(x.shape))
    if prepend is not None or append is not None:
        x = concat([part for part in (prepend, x, append) if part is not None], axis=axis)
    for _ in range(min(n, x.shape[axis])):
        size = max(x.shape[axis] - 1, 0)
        x = part(x, axis, 1, size) - part(x, axis, 0, size)
    return x
