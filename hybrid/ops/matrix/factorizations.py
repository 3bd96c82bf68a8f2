"""Factorizations of matrices, by kernels of their own, with gradients; NumPy's are what they mean.

Matrices lie in the last two axes.  Sources of the gradients: I. Murray, "Differentiation of the
Cholesky decomposition" (2016); M. Giles, "Collected matrix derivative results" (2008);
J. Townsend, "Differentiating the singular value decomposition" (2016); H.-J. Liao et al.,
"Differentiable programming tensor networks" (2019), for QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.errors import GradientError, LinearAlgebraError
from hybrid.ir import op
from hybrid.ops.elementwise.comparison import equal, where
from hybrid.ops.matrix.linear_systems import identity_like, solve_triangular
from hybrid.ops.matrix.products import product, product_nt, product_tn
from hybrid.ops.shapes.concatenation import concat, part
from hybrid.ops.shapes.creation import tril, triu
from hybrid.ops.shapes.shape import expand_dims, matrix_transpose
from hybrid.ops.support.batching import leading
from hybrid.ops.support.operand_checks import require_matrices, require_square


def symmetric(x: Any) -> Any:
    """The symmetric part of matrices."""
    return (x + matrix_transpose(x)) * 0.5


def _symmetric(x: np.ndarray) -> np.ndarray:
    """The same in NumPy; without an overflow, and a symmetric matrix itself."""
    return x + (np.swapaxes(x, -1, -2) - x) / 2


def _differences_inverted(x: Any) -> Any:
    """``1 / (x[j] - x[i])`` at [i, j]; 0 where both are equal."""
    gaps = expand_dims(x, axis=-2) - expand_dims(x, axis=-1)
    same = equal(gaps, 0)
    return where(same, 0, 1 / where(same, 1, gaps))


def _signs(vectors: np.ndarray) -> np.ndarray:
    """By which columns are to be multiplied so that the first large component is positive."""
    if not vectors.size:
        return np.ones((*vectors.shape[:-2], 1, vectors.shape[-1]), vectors.dtype)
    sizes = np.abs(vectors)
    first = (sizes >= sizes.max(-2, keepdims=True) / 2).argmax(-2, keepdims=True)
    return np.where(np.take_along_axis(vectors, first, -2) < 0, -1, 1).astype(vectors.dtype)


def _refuse(name: str, instead: str) -> None:
    raise GradientError(
        f"{name} of all columns has no gradient",
        why="Those beyond the rank may be any that complete a basis.",
        fix=f"call it with {instead}",
    )


# Cholesky ----------------------------------------------------------------------------------------


@op(kernel="cholesky", raises=LinearAlgebraError)
def cholesky(x: TensorType) -> TensorType:
    """Lower triangular ``L`` with ``L @ L.mT`` the symmetric part of ``x``, positive definite."""
    require_square("cholesky", x)
    return x


@cholesky.reference
def cholesky_reference(x):
    return np.linalg.cholesky(_symmetric(x))


@cholesky.vjp
def cholesky_vjp(ct, y, _x):
    inner = product_tn(y, tril(ct))
    halved = (tril(inner) + tril(inner, k=-1)) * 0.5
    turned = matrix_transpose(y)
    left = solve_triangular(turned, halved, upper=True)
    right = solve_triangular(turned, matrix_transpose(left), upper=True)
    return (symmetric(matrix_transpose(right)),)


@cholesky.samples
def cholesky_samples(draw):
    for dtype in draw.floats:
        for shape in [(0, 0), (1, 1), (4, 4), (2, 3, 3), (0, 2, 2), (17, 17)]:
            x = draw(dtype, *shape)
            yield (x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1], dtype=dtype),), {}


# QR ----------------------------------------------------------------------------------------------


@op(kernel="qr")
def qr(x: TensorType) -> tuple[TensorType, TensorType]:
    """``Q`` [..., M, K] of orthonormal columns and upper triangular ``R`` [..., K, N]: Q R = x.

    K is the smaller of M and N.
    """
    require_matrices("qr", x)
    *lead, rows, columns = x.shape
    least = min(rows, columns)
    return x.with_shape((*lead, rows, least)), x.with_shape((*lead, least, columns))


@qr.reference
def qr_reference(x):
    return tuple(np.linalg.qr(x))


@qr.vjp
def qr_vjp(cts, results, _x):
    of_q, of_r = cts
    q, r = results
    rows, columns = q.shape[-2], r.shape[-1]
    of_r = triu(of_r)
    if rows >= columns:
        return (_of_tall(q, r, of_q, of_r),)
    # The further columns are Q times those of R, and Q and R hang on the first columns alone.
    last, beyond = len(r.shape) - 1, columns - rows
    square, wide = part(r, last, 0, rows), part(r, last, rows, beyond)
    of_square, of_wide = part(of_r, last, 0, rows), part(of_r, last, rows, beyond)
    left = _of_tall(q, square, of_q + product_nt(product(q, wide), of_wide), of_square)
    return (concat([left, product(q, of_wide)], axis=-1),)


def _of_tall(q: Any, r: Any, of_q: Any, of_r: Any) -> Any:
    inner = product_nt(r, of_r) - product_tn(of_q, q)
    mirrored = tril(inner) + matrix_transpose(tril(inner, k=-1))
    wanted = matrix_transpose(of_q + product(q, mirrored))
    return matrix_transpose(solve_triangular(r, wanted, upper=True))


@qr.samples
def qr_samples(draw):
    for dtype in draw.floats:
        for shape in [(0, 0), (3, 0), (1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 2, 2)]:
            yield (draw(dtype, *shape),), {}


@op(kernel="qr_complete")
def qr_complete(x: TensorType) -> tuple[TensorType, TensorType]:
    """``Q`` [..., M, M] and ``R`` [..., M, N] with Q R = x."""
    require_matrices("qr", x)
    *lead, rows, _ = x.shape
    return x.with_shape((*lead, rows, rows)), x


@qr_complete.reference
def qr_complete_reference(x):
    return tuple(np.linalg.qr(x, mode="complete"))


@qr_complete.vjp
def qr_complete_vjp(_cts, _results, _x):
    _refuse("qr", 'mode="reduced"')


@qr_complete.samples
def qr_complete_samples(draw):
    for dtype in draw.floats:
        for shape in [(3, 0), (5, 3), (2, 4, 3)]:
            yield (draw(dtype, *shape),), {}


# Eigenvalues -------------------------------------------------------------------------------------


@op(kernel="eigh", raises=LinearAlgebraError)
def eigh(x: TensorType) -> tuple[TensorType, TensorType]:
    """Eigenvalues [..., N], ascending, and eigenvectors as columns of ``x``'s symmetric part."""
    require_square("eigh", x)
    return x.with_shape(x.shape[:-1]), x


@eigh.reference
def eigh_reference(x):
    values, vectors = np.linalg.eigh(_symmetric(x))
    return values, vectors * _signs(vectors)


@eigh.vjp
def eigh_vjp(cts, results, _x):
    of_values, of_vectors = cts
    values, vectors = results
    inner = _differences_inverted(values) * product_tn(vectors, of_vectors)
    inner = inner + expand_dims(of_values, axis=-2) * identity_like(vectors)
    return (symmetric(product_nt(product(vectors, inner), vectors)),)


@op(kernel="eigvalsh", raises=LinearAlgebraError)
def eigvalsh(x: TensorType) -> TensorType:
    """The eigenvalues [..., N] of the symmetric part of ``x``, ascending."""
    require_square("eigvalsh", x)
    return x.with_shape(x.shape[:-1])


@eigvalsh.reference
def eigvalsh_reference(x):
    return np.linalg.eigvalsh(_symmetric(x))


@eigvalsh.vjp
def eigvalsh_vjp(ct, _y, x):
    _, vectors = eigh(x)
    return (product_nt(vectors * expand_dims(ct, axis=-2), vectors),)


@eigh.samples
@eigvalsh.samples
def eigh_samples(draw):
    for dtype in draw.floats:
        for shape in [(0, 0), (1, 1), (4, 4), (2, 3, 3), (0, 2, 2), (17, 17)]:
            x = draw(dtype, *shape)
            spread = np.diag(np.arange(shape[-1], dtype=dtype)) * 5  # eigenvalues apart
            yield (x + np.swapaxes(x, -1, -2) + spread,), {}


# Singular values ---------------------------------------------------------------------------------


@op(kernel="svd", raises=LinearAlgebraError)
def svd(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    """``U`` [..., M, K], ``S`` [..., K] descending, ``Vh`` [..., K, N]: U diag(S) Vh = x.

    K is the smaller of M and N.
    """
    require_matrices("svd", x)
    *lead, rows, columns = x.shape
    least = min(rows, columns)
    return (
        x.with_shape((*lead, rows, least)),
        x.with_shape((*lead, least)),
        x.with_shape((*lead, least, columns)),
    )


@svd.reference
def svd_reference(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    signs = _signs(u if x.shape[-2] < x.shape[-1] else np.swapaxes(vh, -1, -2))
    return u * signs, s, vh * np.swapaxes(signs, -1, -2)


@svd.vjp
def svd_vjp(cts, results, _x):
    of_u, of_s, of_vh = cts
    u, s, vh = results
    rows, columns, least = u.shape[-2], vh.shape[-1], s.shape[-1]
    across, down = expand_dims(s, axis=-2), expand_dims(s, axis=-1)
    gaps = _differences_inverted(s * s)
    by_u, by_v = product_tn(u, of_u), product_nt(vh, of_vh)
    inner = gaps * (by_u - matrix_transpose(by_u)) * across
    inner = inner + down * (gaps * (by_v - matrix_transpose(by_v)))
    inner = inner + expand_dims(of_s, axis=-2) * identity_like(inner)
    total = product(product(u, inner), vh)
    if rows > least:
        rest = (of_u - product(u, by_u)) / across
        total = total + product(rest, vh)
    if columns > least:
        rest = (of_vh - product_tn(by_v, vh)) / down
        total = total + product(u, rest)
    return (total,)


@op(kernel="svd_full", raises=LinearAlgebraError)
def svd_full(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    """``svd`` with ``U`` [..., M, M] and ``Vh`` [..., N, N]."""
    require_matrices("svd", x)
    *lead, rows, columns = x.shape
    return (
        x.with_shape((*lead, rows, rows)),
        x.with_shape((*lead, min(rows, columns))),
        x.with_shape((*lead, columns, columns)),
    )


@svd_full.reference
def svd_full_reference(x):
    """The vectors beyond those of ``svd`` are columns of Q of ``x`` or of its transpose."""
    u, s, vh = svd_reference(x)
    least = min(x.shape[-2:])
    of_rows, _ = np.linalg.qr(x, mode="complete")
    of_columns, _ = np.linalg.qr(np.swapaxes(x, -1, -2), mode="complete")
    more = np.swapaxes(of_columns[..., least:], -1, -2)
    return np.concatenate([u, of_rows[..., least:]], -1), s, np.concatenate([vh, more], -2)


@svd_full.vjp
def svd_full_vjp(_cts, _results, _x):
    _refuse("svd", "full_matrices=False")


@op(kernel="svdvals", raises=LinearAlgebraError)
def svdvals(x: TensorType) -> TensorType:
    """The singular values [..., K] of ``x`` [..., M, N], descending; K the smaller of M and N."""
    return svd.rule(x)[1]


@svdvals.reference
def svdvals_reference(x):
    return np.linalg.svd(x, compute_uv=False)


@svdvals.vjp
def svdvals_vjp(ct, _y, x):
    u, _, vh = svd(x)
    return (product(u * expand_dims(ct, axis=-2), vh),)


for _op in (cholesky, qr, qr_complete, eigh, eigvalsh, svd, svd_full, svdvals):
    _op.batch(leading(_op))


@svd.samples
@svd_full.samples
@svdvals.samples
def svd_samples(draw):
    for dtype in draw.floats:
        for shape in [(0, 0), (3, 0), (1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 2, 2)]:
            yield (draw(dtype, *shape),), {}
