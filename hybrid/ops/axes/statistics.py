"""Statistics and norms along axes, made of other ops."""

from __future__ import annotations

import math
from typing import Any

from hybrid.core.types import DEFAULT_FLOAT, float32, float64, int64
from hybrid.errors import ArgumentError
from hybrid.ops.axes import reduction
from hybrid.ops.axes.reduction import reduce_max, reduce_mean, reduce_min, reduce_sum
from hybrid.ops.elementwise.arithmetic import absolute, divide, maximum, subtract
from hybrid.ops.elementwise.bit_logic import logical_and
from hybrid.ops.elementwise.comparison import isfinite, where
from hybrid.ops.elementwise.exponential import exp, log
from hybrid.ops.elementwise.powers import pow, sqrt, square
from hybrid.ops.shapes.concatenation import concat, part
from hybrid.ops.shapes.creation import ones
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import converted, identity, stop_gradient
from hybrid.ops.support.keyword_names import with_others_words
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    is_number,
    normalize_axes,
    normalize_axis,
)


def floating(x: Any) -> Any:
    """``x`` as a tensor of a floating dtype: its own, or the default one."""
    x = as_tensor(x)
    return x if x.dtype.is_floating else converted(x, DEFAULT_FLOAT)


@remembered
def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance along ``axis``, divided by the number of elements less ``correction``."""
    share, scale = _spread("var", x, axis, correction, bool(keepdims))
    return converted(share * scale * scale, floating(x).dtype)


@remembered
def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance along ``axis``; its gradient is 0 where that is 0.

    So it is for the norm of a vector, which this is of the distances from the mean.
    """
    share, scale = _spread("std", x, axis, correction, bool(keepdims))
    return converted(root(share, sqrt) * scale, floating(x).dtype)


_UNITS = {  # where distances count in another unit, and in which: their squares are as they should
    float32: ((2.0**60, 2.0**66), (2.0**-40, 2.0**-100)),
    float64: ((2.0**500, 2.0**530), (2.0**-450, 2.0**-600)),
}


def _spread(name: str, x: Any, axis: Any, correction: float, keepdims: bool) -> tuple[Any, Any]:
    """The variance in units of ``scale * scale``, a power of 2, so that it is near 1.

    The unit is 1 unless squares of the greatest distance come near the ends of the dtype.
    """
    x = floating(x)
    if x.dtype not in _UNITS:
        x = converted(x, float32)  # half precision has too few numbers for squares
    axes = normalize_axes(name, axis, len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    away = x - reduce_mean(x, axis=axes, keepdims=True)
    if 0 in [x.shape[a] for a in axes]:
        scale = reduce_sum(away, axis=axes, keepdims=True)  # of nothing
    else:
        scale = _unit(stop_gradient(reduce_max(absolute(away), axis=axes, keepdims=True)))
    squares = square(away / scale)
    if not keepdims:
        scale = reshaped(scale, tuple(n for i, n in enumerate(x.shape) if i not in axes))
    if correction == 0:
        return reduce_mean(squares, axis=axes, keepdims=keepdims), scale
    total = reduce_sum(squares, axis=axes, keepdims=keepdims)
    return divide(total, max(count - correction, 0)), scale


def _unit(greatest: Any) -> Any:
    (large, large_unit), (small, small_unit) = _UNITS[greatest.dtype]
    one = ones((), dtype=greatest.dtype)
    tiny = where(logical_and(greatest < small, greatest > 0), small_unit, one)
    return where(logical_and(greatest > large, greatest < math.inf), large_unit, tiny)


@remembered
def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along ``axis`` without overflow."""
    x = floating(x)
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
    """``sum(abs(x) ** ord) ** (1 / ord)`` along ``axis``.

    ``inf`` is the largest and ``-inf`` the smallest of ``abs(x)``; 0 counts what is not zero.  The
    gradient at the zero vector is zero, whatever the norm.
    """
    if not is_number(ord) or isinstance(ord, bool) or ord != ord:
        raise ArgumentError(f"vector_norm got ord {ord!r}", fix="give a number, inf or -inf")
    x = floating(x)
    axes = normalize_axes("vector_norm", axis, len(x.shape))
    along = {"axis": axes, "keepdims": bool(keepdims)}
    if ord == 2:
        return root(reduce_sum(square(x), **along), sqrt)
    if ord == 1:
        return reduce_sum(absolute(x), **along)
    if ord == math.inf:
        return reduce_max(absolute(x), **along)
    if ord == -math.inf:
        return reduce_min(absolute(x), **along)
    if ord == 0:
        return reduce_sum(converted(x != 0, x.dtype), **along)
    zero = x == 0  # where a power's slope may be infinite
    powers = pow(absolute(where(zero, 1.0, x)), ord)
    total = reduce_sum(where(zero, 0.0 if ord > 0 else math.inf, powers), **along)
    return root(total, lambda t: pow(t, 1 / ord), 0.0 if ord > 0 else math.inf)


def root(total: Any, function: Any, at_end: float = 0.0) -> Any:
    """``function(total)``, whose slope is 0 where ``total`` is ``at_end``."""
    inside = total != at_end
    return where(inside, function(where(inside, total, 1.0)), 0.0)


@with_others_words
def norm(x: Any, /, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """``vector_norm`` with its ``ord`` first."""
    return vector_norm(x, axis, ord=ord, keepdims=keepdims)


@remembered
def normalize(x: Any, /, axis: int = -1, *, ord: float = 2, eps: float = 1e-12) -> Any:
    """``x`` over its norm along ``axis``, which counts as ``eps`` at least."""
    x = floating(x)
    return x / maximum(vector_norm(x, axis, ord=ord, keepdims=True), eps)


@remembered
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along ``axis``, taken ``n`` times.

    ``prepend`` and ``append`` are joined to ``x`` along that axis first.
    """
    x = identity(as_tensor(x))
    axis = normalize_axis("diff", axis, len(x.shape))
    if prepend is not None or append is not None:
        x = concat([part for part in (prepend, x, append) if part is not None], axis=axis)
    for _ in range(min(as_int("diff", "n", n, least=0), x.shape[axis])):
        size = max(x.shape[axis] - 1, 0)
        x = part(x, axis, 1, size) - part(x, axis, 0, size)
    return x
