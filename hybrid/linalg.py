"""Linear algebra: the functions of the array API standard's ``linalg``.

Matrices lie in the last two axes of float32 or float64 tensors, stacks of them in those before.
All of them run on our own kernels.  Where a function has a derivative, it has gradients of any
order.  The signs of eigenvectors and singular vectors, which are free, are such that the first
component of at least half the size of the largest is positive: of an eigenvector, of a row of Vh,
or of a column of U where the matrix is wide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hybrid.core.types import int64
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ops import as_tensor, broadcast_arrays, expand_dims, roll, squeeze, zeros
from hybrid.ops import diagonal as diagonal
from hybrid.ops import matmul as matmul
from hybrid.ops import matrix_transpose as matrix_transpose
from hybrid.ops import outer as outer
from hybrid.ops import tensordot as tensordot
from hybrid.ops import trace as trace
from hybrid.ops import vecdot as vecdot
from hybrid.ops import vector_norm as vector_norm
from hybrid.ops.axes import reduction
from hybrid.ops.matrix import factorizations, linear_systems
from hybrid.ops.matrix.linear_systems import identity_like
from hybrid.ops.matrix.norms import matrix_norm as matrix_norm
from hybrid.ops.shapes.shape import broadcast_to
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import (
    normalize_axis,
    require_matrices,
    require_square,
    type_of,
)


class EighResult(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What ``qr`` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# Factorizations ----------------------------------------------------------------------------------


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Lower triangular ``L`` with ``L @ L.mT = x``, or upper triangular ``U`` with ``U.mT @ U``.

    ``x`` [..., N, N] is positive definite, or LinearAlgebraError is raised; of a matrix that is not
    symmetric the symmetric part is taken.
    """
    found = factorizations.cholesky(as_tensor(x))
    return matrix_transpose(found) if upper else found


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """``Q`` of orthonormal columns and upper triangular ``R`` with ``Q @ R = x`` [..., M, N].

    Q is [..., M, K] for K the smaller of M and N, or [..., M, M] with ``mode="complete"``, of which
    a tall matrix has no gradient.
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr with mode {mode!r}", fix='use "reduced" or "complete"')
    x = as_tensor(x)
    require_matrices("qr", x.type)
    tall = x.shape[-2] > x.shape[-1]
    op = factorizations.qr_complete if mode == "complete" and tall else factorizations.qr
    return QRResult(*op(x))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh = x`` [..., M, N]; S descends.

    ``U`` is [..., M, M] and ``Vh`` [..., N, N], or K of their columns and rows for K the smaller of
    M and N unless ``full_matrices``; only these have gradients.
    """
    x = as_tensor(x)
    require_matrices("svd", x.type)
    full = full_matrices and x.shape[-2] != x.shape[-1]
    return SVDResult(*(factorizations.svd_full if full else factorizations.svd)(x))


def svdvals(x: Any, /) -> Tensor:
    """The singular values of ``x`` [..., M, N], descending."""
    return factorizations.svdvals(as_tensor(x))


def eigh(x: Any, /) -> EighResult:
    """The eigenvalues [..., N], ascending, and the eigenvectors, columns, of symmetric matrices.

    Of a matrix that is not symmetric the symmetric part is taken.
    """
    return EighResult(*factorizations.eigh(as_tensor(x)))


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues [..., N] of symmetric matrices, ascending."""
    return factorizations.eigvalsh(as_tensor(x))


# Systems -----------------------------------------------------------------------------------------


def solve(a: Any, b: Any, /) -> Tensor:
    """``y`` with ``a @ y = b``, of ``a`` [..., M, M] and ``b`` [M] or [..., M, K].

    LinearAlgebraError tells of a singular matrix.
    """
    a, b = common(a, b)
    if len(b.shape) == 1:
        return squeeze(linear_systems.solve(a, expand_dims(b, axis=-1)), axis=-1)
    return linear_systems.solve(a, b)


def inv(x: Any, /) -> Tensor:
    """The inverses of ``x`` [..., N, N]; LinearAlgebraError tells of a singular matrix."""
    return linear_systems.inv(as_tensor(x))


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses [..., N, M] of ``x`` [..., M, N] (Moore and Penrose).

    Singular values up to ``rtol`` times the largest (by default ``max(M, N)`` times the dtype's
    epsilon) count as zero; a tensor of them has one for each matrix.
    """
    x = as_tensor(x)
    require_matrices("pinv", x.type)
    return linear_systems.pinv(x, _tolerance(x, rtol))


def _tolerance(x: Any, rtol: Any) -> Any:
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype.numpy).eps)
    return asarray(rtol, dtype=x.dtype)


def det(x: Any, /) -> Tensor:
    """The determinants [...] of ``x`` [..., N, N]."""
    return linear_systems.det(as_tensor(x))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinants and the logarithm of their absolute values."""
    return SlogdetResult(*linear_systems.slogdet(as_tensor(x)))


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are greater than ``rtol`` times the largest, as in ``pinv``."""
    x = as_tensor(x)
    require_matrices("matrix_rank", x.type)
    if not min(x.shape[-2:]):
        return zeros(x.shape[:-2], dtype=int64)
    values = factorizations.svdvals(x)
    limit = expand_dims(_tolerance(x, rtol), axis=-1) * reduction.max(
        values, axis=-1, keepdims=True
    )
    return reduction.sum(values > limit, axis=-1)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """The product of ``n`` factors ``x`` [..., N, N]; of inverses when ``n`` is negative."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise ArgumentTypeError(f"matrix_power by {n!r}", fix="give an int")
    x = as_tensor(x)
    require_square("matrix_power", x.type)
    if n == 0:
        return broadcast_to(identity_like(x), x.shape)
    base = found = inv(x) if n < 0 else x
    for digit in bin(abs(n))[3:]:  # from the second highest on
        found = matmul(found, found)
        if digit == "1":
            found = matmul(found, base)
    return found


def cross(a: Any, b: Any, /, *, axis: int = -1) -> Tensor:
    """The vector products of 3-vectors along ``axis``; the other axes broadcast."""
    given = common(a, b)
    a, b = broadcast_arrays(*given)
    axis = normalize_axis("cross", axis, len(a.shape)) - len(a.shape)  # from the end, of both
    if any(len(x.shape) < -axis or x.shape[axis] != 3 for x in given):
        raise ShapeError(
            f"cross cannot take {type_of(given[0])} and {type_of(given[1])}",
            why="Both must have three elements along the axis.",
            fix="choose the axis of the vectors",
        )
    found = a * roll(b, -1, axis=axis) - roll(a, -1, axis=axis) * b  # each one place too late
    return roll(found, -1, axis=axis)
