"""Norms of matrices (statistics.py has those of vectors); distances and similarities of vectors."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops.axes import reduction
from hybrid.ops.axes.reduction import reduce_sum
from hybrid.ops.axes.statistics import floating, vector_norm
from hybrid.ops.elementwise.arithmetic import absolute, maximum
from hybrid.ops.matrix.factorizations import svdvals
from hybrid.ops.shapes.shape import expand_dims
from hybrid.ops.support.call_cache import remembered, remembered_of_any
from hybrid.ops.support.derivatives import widened
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    normalize_axis,
    require_matrices,
    type_of,
)

MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@remembered
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of the matrices in the last two axes.

    ``"fro"``: the root of the sum of squares; ``"nuc"``: the sum of the singular values; 2 and -2:
    the largest and smallest of these; 1 and -1: of the sums of absolute values of the columns; inf
    and -inf: of those of the rows.
    """
    x = as_tensor(x)
    require_matrices("matrix_norm", x.type)
    if ord not in MATRIX_ORDERS:
        known = ", ".join(map(repr, MATRIX_ORDERS))
        raise ArgumentError(f"matrix_norm of order {ord!r}", fix=f"use one of {known}")
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        found = reduction.sum(svdvals(x), axis=-1)
    elif ord in (2, -2):
        found = _extreme(svdvals(x), largest=ord > 0)
    else:
        sums = reduction.sum(absolute(x), axis=-2 if ord in (1, -1) else -1)
        found = _extreme(sums, largest=ord > 0)
    return expand_dims(found, axis=(-2, -1)) if keepdims else found


def _extreme(x: Any, *, largest: bool) -> Any:
    return (reduction.max if largest else reduction.min)(x, axis=-1)


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
