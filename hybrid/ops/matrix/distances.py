"""Distances and similarities of vectors, made of other ops."""

from __future__ import annotations

from typing import Any

from hybrid.ops.axes.reduction import reduce_sum
from hybrid.ops.axes.statistics import floating, vector_norm
from hybrid.ops.elementwise.arithmetic import maximum
from hybrid.ops.shapes.shape import expand_dims
from hybrid.ops.support.checks import broadcast_shapes, normalize_axis, type_of
from hybrid.ops.support.derivatives import widened
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.remembered import remembered_of_any


def _pair(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Both as floating tensors of one dtype and shape."""
    a, b = common(a, b)
    a, b = floating(a), floating(b)
    shape = broadcast_shapes(name, type_of(a), type_of(b))
    return widened(a, shape), widened(b, shape)


@remembered_of_any
def cosine_similarity(a: Any, b: Any, /, axis: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along ``axis``; a norm counts as ``eps`` at least."""
    a, b = _pair("cosine_similarity", a, b)
    axis = normalize_axis("cosine_similarity", axis, len(a.shape))
    a, b = (x / maximum(vector_norm(x, axis, keepdims=True), eps) for x in (a, b))
    return reduce_sum(a * b, axis=(axis,), keepdims=False)


@remembered_of_any
def pairwise_distance(
    a: Any, b: Any, /, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Any:
    """The ``p``-norm of ``a - b + eps`` along the last axis; the others broadcast."""
    a, b = _pair("pairwise_distance", a, b)
    normalize_axis("pairwise_distance", -1, len(a.shape))
    return vector_norm(a - b + eps, axis=-1, ord=p, keepdims=keepdims)


@remembered_of_any
def cdist(a: Any, b: Any, /, p: float = 2.0) -> Any:
    """The ``p``-norm distances of the rows of ``a`` [..., M, K] from those of ``b`` [..., N, K].

    They are computed from differences, so near rows keep their digits; the gradient at distance
    zero is zero.
    """
    a, b = common(a, b)
    a, b = floating(a), floating(b)
    for x in (a, b):
        normalize_axis("cdist", -2, len(x.shape))
    return vector_norm(expand_dims(a, -2) - expand_dims(b, -3), axis=-1, ord=p)
