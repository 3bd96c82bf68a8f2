"""Norms of matrices; those of vectors stand in statistics.py."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops.axes import reduction
from hybrid.ops.axes.statistics import vector_norm
from hybrid.ops.elementwise.arithmetic import absolute
from hybrid.ops.matrix.factorizations import svdvals
from hybrid.ops.matrix.matrices import require_matrices
from hybrid.ops.shapes.shape import expand_dims
from hybrid.ops.support.checks import as_tensor
from hybrid.ops.support.remembered import remembered

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
