"""Products of matrices, and sums of products."""

from __future__ import annotations

from hybrid import linalg, ops
from hybrid.onnx.node_table import handles


@handles("MatMul", 1, 9, 13, weights=(0, 1))
def mat_mul(a, b):
    """MatMul, of integers too: as NumPy's matmul."""
    return ops.matmul(a, b)


def _gemm(a, b, c, alpha, beta, trans_a, trans_b):
    if trans_a:
        a = ops.matrix_transpose(a)
    plain = alpha == 1.0 and beta == 1.0 and a.dtype.is_floating
    if plain and trans_b and c is not None and c.shape == b.shape[:1]:
        return ops.linear(a, b, c)
    if trans_b:
        b = ops.matrix_transpose(b)
    y = ops.matmul(a, b)
    if alpha != 1.0:
        y = ops.multiply(y, alpha)
    if c is None or beta == 0.0:
        return y
    return ops.add(y, c if beta == 1.0 else ops.multiply(c, beta))


@handles("Gemm", 7, 9, 11, 13, weights=(0, 1, 2))
def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """Gemm: alpha * a @ b + beta * c; a and b transposed if asked for."""
    return _gemm(a, b, c, alpha, beta, transA, transB)


@handles("Gemm", 1, 6, weights=(0, 1, 2))
def gemm_of_opset_1(a, b, c, *, alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0):
    """Gemm as it was before opset 7."""
    return _gemm(a, b, c, alpha, beta, transA, transB)


@handles("Einsum", 12, 28, weights=(0, 1, 2, 3))
def einsum(first, *others, equation):
    """Einsum."""
    return ops.einsum(equation.replace(" ", ""), first, *others)


@handles("Det", 11, 22)
def det(x):
    """Det: determinants of the matrices in the last two axes."""
    return linalg.det(x)


@handles("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(x, *, axes=(0, 2, 3)):
    """MeanVarianceNormalization: (x - mean) / (deviation + 1e-9)."""
    mean = ops.mean(x, axis=tuple(axes), keepdims=True)
    square = ops.mean(ops.square(x), axis=tuple(axes), keepdims=True)
    deviation = ops.sqrt(ops.subtract(square, ops.square(mean)))
    return ops.divide(ops.subtract(x, mean), ops.add(deviation, 1e-9))


@handles("LpNormalization", 1, 22)
def lp_normalization(x, *, axis=-1, p=2):
    """LpNormalization: x over its norm along ``axis``; 0 where that is 0."""
    norm = ops.norm(x, ord=p, axis=axis, keepdims=True)
    zero = ops.equal(norm, 0)
    return ops.where(zero, 0.0, ops.divide(x, ops.where(zero, 1.0, norm)))
