"""Linear systems: solutions, inverses and determinants, by kernels of their own, with gradients.

Matrices lie in the last two axes.  Sources of the gradients: M. Giles, "Collected matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008); for the pseudo-inverse,
G. Golub and V. Pereyra, "The differentiation of pseudo-inverses" (1973).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import LinearAlgebraError, ShapeError
from hybrid.ir import op
from hybrid.ops.axes.reduction import sum
from hybrid.ops.matrix.products import batch_shape, product, product_nt, product_tn
from hybrid.ops.shapes.creation import eye, tril, triu
from hybrid.ops.shapes.shape import expand_dims, matrix_transpose
from hybrid.ops.support.batching import aligned, leading, raised, with_rows
from hybrid.ops.support.derivatives import unbroadcast
from hybrid.ops.support.operand_checks import (
    broadcast_shapes,
    require_matrices,
    require_same_dtype,
    require_square,
)


def column(x: Any) -> Any:
    """``x`` with two axes of size 1 behind."""
    return expand_dims(x, axis=(-2, -1))


def identity_like(x: Any) -> Any:
    """The identity matrix of the size and dtype of the matrices in ``x``."""
    return eye(x.shape[-1], dtype=x.dtype)


def _squares(draw: Any) -> Any:
    """Well-conditioned matrices."""
    for dtype in draw.floats:
        for shape in [(0, 0), (1, 1), (3, 3), (2, 3, 3), (0, 2, 2), (17, 17)]:
            yield draw(dtype, *shape) + np.eye(shape[-1], dtype=dtype) * 6


# Solutions ---------------------------------------------------------------------------------------


@op(kernel="solve", raises=LinearAlgebraError)
def solve(a: TensorType, b: TensorType) -> TensorType:
    """``y`` [..., M, K] with ``a @ y = b``, of ``a`` [..., M, M]; leading axes broadcast."""
    return _solution("solve", a, b)


def _solution(name: str, a: TensorType, b: TensorType) -> TensorType:
    """The type of ``y`` with ``a @ y = b``."""
    require_square(name, a)
    require_matrices(name, b)
    require_same_dtype(name, a, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name} cannot take {a} and {b}",
            why=f"There are {a.shape[-1]} equations and {b.shape[-2]} right-hand sides.",
            fix="give a right-hand side for each row of the matrix",
        )
    return tensor_type(a.dtype, (*batch_shape(name, a, b), *b.shape[-2:]))


@solve.reference
def solve_reference(a, b):
    return np.linalg.solve(a, b)


@solve.vjp
def solve_vjp(ct, y, a, b):
    of_b = solve(matrix_transpose(a), ct)
    return lambda: unbroadcast(-product_nt(of_b, y), a), lambda: unbroadcast(of_b, b)


@solve.samples
def solve_samples(draw):
    for a in _squares(draw):
        for count in (0, 1, 4):
            yield (a, draw(a.dtype.name, *a.shape[:-1], count)), {}
        yield (a, draw(a.dtype.name, 2, *a.shape[:-2], a.shape[-1], 1)), {}
        yield (a, draw(a.dtype.name, a.shape[-1], 2)), {}


@op(raises=LinearAlgebraError)
def solve_triangular(a: TensorType, b: TensorType, *, upper: bool) -> TensorType:
    """``solve`` with the lower, or the upper, triangle of ``a``; zeros stand for the rest."""
    return _solution("solve_triangular", a, b)


@solve_triangular.reference
def solve_triangular_reference(a, b, *, upper):
    return np.linalg.solve(np.triu(a) if upper else np.tril(a), b)


@solve_triangular.lowering
def solve_triangular_lowering(emit, a, b, result, *, upper):
    kernel = "solve_upper" if upper else "solve_lower"
    emit.kernel(kernel, [emit.dense(a), emit.dense(b)], [result])


@solve_triangular.vjp
def solve_triangular_vjp(ct, y, a, b, *, upper):
    of_b = solve_triangular(matrix_transpose(a), ct, upper=not upper)
    half = triu if upper else tril
    return lambda: unbroadcast(half(-product_nt(of_b, y)), a), lambda: unbroadcast(of_b, b)


@solve_triangular.samples
def solve_triangular_samples(draw):
    for operands, _ in solve_samples(draw):
        for upper in (False, True):
            yield operands, {"upper": upper}


@op(kernel="inv", raises=LinearAlgebraError)
def inv(x: TensorType) -> TensorType:
    """The inverses of square matrices."""
    require_square("inv", x)
    return x


@inv.reference
def inv_reference(x):
    return np.linalg.inv(x)


@inv.vjp
def inv_vjp(ct, y, _x):
    return (-product_nt(product_tn(y, ct), y),)


@inv.jvp
def inv_jvp(tangents, y, _x):
    return -product(product(y, tangents[0]), y)


@op(kernel="pinv", raises=LinearAlgebraError)
def pinv(x: TensorType, rtol: TensorType) -> TensorType:
    """The pseudo-inverses [..., N, M] of ``x`` [..., M, N] (Moore and Penrose).

    Singular values up to ``rtol`` times the largest, one for each matrix, count as zero.
    """
    require_matrices("pinv", x)
    require_same_dtype("pinv", x, rtol)
    lead = x.shape[:-2]
    if broadcast_shapes("pinv", x.with_shape(lead), rtol) != lead:
        raise ShapeError(
            f"pinv cannot take {x} and an rtol {rtol}",
            why="There is one tolerance for all matrices, or one for each.",
            fix="give a number",
        )
    return x.with_shape((*lead, x.shape[-1], x.shape[-2]))


@pinv.reference
def pinv_reference(x, rtol):
    return np.linalg.pinv(x, rtol=rtol)


@pinv.vjp
def pinv_vjp(ct, y, x, _rtol):
    turned = matrix_transpose(ct)
    right = identity_like(y) - product(x, y)  # [M, M]
    left = identity_like(x) - product(y, x)  # [N, N]
    first = -product_nt(product_tn(y, ct), y)
    second = product(product(right, turned), product_nt(y, y))
    third = product(product(product_tn(y, y), turned), left)
    return first + second + third, None


@pinv.samples
def pinv_samples(draw):
    for dtype in draw.floats:
        rtol = np.asarray(1e-5, dtype)
        for shape in [(0, 0), (3, 0), (1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 2, 2)]:
            yield (draw(dtype, *shape), rtol), {}
        yield (draw(dtype, 2, 3, 2), draw(dtype, 2, low=1e-6, high=1e-5)), {}
    low_rank = draw("float64", 4, 2) @ draw("float64", 2, 3)
    yield (low_rank.astype(np.float32), np.asarray(1e-4, np.float32)), {}


# Determinants ------------------------------------------------------------------------------------


@op(kernel="det")
def det(x: TensorType) -> TensorType:
    """The determinants of square matrices."""
    require_square("det", x)
    return x.with_shape(x.shape[:-2])


@det.reference
def det_reference(x):
    return np.linalg.det(x)


@det.vjp
def det_vjp(ct, _y, x):
    return (column(ct) * cofactors(x),)


@op(kernel="cofactors", raises=LinearAlgebraError)
def cofactors(x: TensorType) -> TensorType:
    """The derivatives of the determinants by each element, also of singular matrices."""
    require_square("cofactors", x)
    return x


@cofactors.reference
def cofactors_reference(x):
    """By singular values s: det(u) det(vh) u diag(the products of all other s) vh."""
    u, s, vh = np.linalg.svd(x)
    others = np.ones_like(s)
    others[..., 1:] *= np.cumprod(s, -1)[..., :-1]
    others[..., :-1] *= np.cumprod(s[..., ::-1], -1)[..., ::-1][..., 1:]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (sign[..., None, None] * (u * others[..., None, :]) @ vh).astype(x.dtype)


@cofactors.vjp
def cofactors_vjp(ct, y, x):
    """Of regular matrices, whose cofactors are ``det(x) * inv(x).mT``."""
    inverse = matrix_transpose(inv(x))
    inner = sum(ct * y, axis=(-2, -1), keepdims=True) * inverse
    return (inner - product(product_nt(y, ct), inverse),)


@op(kernel="slogdet")
def slogdet(x: TensorType) -> tuple[TensorType, TensorType]:
    """The sign of the determinants, and the logarithm of their absolute values."""
    require_square("slogdet", x)
    small = x.with_shape(x.shape[:-2])
    return small, small


@slogdet.reference
def slogdet_reference(x):
    return tuple(np.linalg.slogdet(x))


@slogdet.vjp
def slogdet_vjp(cts, _results, x):
    return (column(cts[1]) * matrix_transpose(inv(x)),)


@pinv.batch
def pinv_batch(rows, batched, x, rtol):
    x = with_rows(x, rows, batched[0])
    return pinv(x, raised(rtol, len(x.shape) - 3) if batched[1] else rtol)


solve.batch(aligned(solve))
solve_triangular.batch(aligned(solve_triangular))
for _op in (inv, det, cofactors, slogdet):
    _op.batch(leading(_op))


@inv.samples
@det.samples
@cofactors.samples
@slogdet.samples
def square_samples(draw):
    for x in _squares(draw):
        yield (x,), {}
