"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops import reduction
from hybrid.ops.arithmetic import absolute
from hybrid.ops.checks import as_tensor, is_number, normalize_axes, require_floating
from hybrid.ops.comparison import equal, not_equal, where
from hybrid.ops.dtypes import cast
from hybrid.ops.factorizations import svdvals
from hybrid.ops.matrices import require_matrices
from hybrid.ops.powers import pow, sqrt
from hybrid.ops.shape import expand_dims

MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float | int = 2
) -> Any:
    """``sum(abs(x) ** ord) ** (1 / ord)`` over the axes; all of them if ``axis`` is None.

    ``inf`` and ``-inf`` give the largest and the smallest absolute value, 0 counts what is not
    zero.  The gradient of the 2-norm at zero is zero.
    """
    x = as_tensor(x)
    require_floating("vector_norm", x=x.type)
    if not is_number(ord) or isinstance(ord, bool) or math.isnan(ord):
        raise ArgumentError(f"vector_norm of order {ord!r}", fix="give a number, or inf or -inf")
    axes = normalize_axes("vector_norm", axis, len(x.shape))
    given = {"axis": axes, "keepdims": keepdims}
    if ord == 0:
        return reduction.sum(cast(not_equal(x, 0), dtype=x.dtype), **given)
    if ord == 2:
        return _rooted(reduction.sum(x * x, **given))
    size = absolute(x)
    if ord == math.inf:
        return reduction.max(size, **given)
    if ord == -math.inf:
        return reduction.min(size, **given)
    if ord == 1:
        return reduction.sum(size, **given)
    return pow(reduction.sum(pow(size, ord), **given), 1 / ord)


def _rooted(squares: Any) -> Any:
    """The square roots; with no gradient where they are 0, for there the function has a corner."""
    none = equal(squares, 0)
    return where(none, squares, sqrt(where(none, 1, squares)))


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
