"""Variants of the matrix product: sums over a stack of matrices, and products of bytes.

Passes build the sums of loops that add a product in every iteration:
passes/fusion/product_sums.py.  The kernel adds as those loops do, so the bits are the same.

Products of bytes, which quantised layers compute, do not overflow bytes.
"""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, float32, float64, int8, int32, tensor_type, uint8
from hybrid.errors import DTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.matrix.products import lower_product, product_shape
from hybrid.ops.support.batching import aligned

DEPTH_BYTES = 1536  # of a row on the left, up to which an element of a product is one chain
LEAST = 16  # columns of the result, below which a vector is not full


def is_summed(start: TensorType, a: TensorType, b: TensorType) -> bool:
    """Whether there is a kernel that adds the products of ``a`` and ``b`` to ``start``."""
    if start.dtype not in (float32, float64) or {a.dtype, b.dtype} != {start.dtype}:
        return False
    if (start.rank, a.rank, b.rank) != (2, 3, 3) or a.shape[0] != b.shape[0]:
        return False
    (rows, columns), depth = start.shape, a.shape[2]
    fit = a.shape[1] == rows >= 2 and b.shape[1:] == (depth, columns) and columns >= 2
    return fit and 1 <= depth <= DEPTH_BYTES // start.dtype.itemsize


def pays(start: TensorType, a: TensorType, b: TensorType) -> bool:
    """Whether that is faster than a product at a time."""
    return is_summed(start, a, b) and start.shape[1] >= LEAST


@op(differentiable=False)
def matmul_sum(start: TensorType, a: TensorType, b: TensorType, *, reverse: bool) -> TensorType:
    """``start`` [M, N] plus ``a[t] @ b[t]`` for each t in turn, from the last if ``reverse``.

    ``a`` is [T, M, K] and ``b`` [T, K, N].
    """
    if not is_summed(start, a, b):
        raise ShapeError(
            f"matmul_sum cannot take {start}, {a} and {b}",
            why="It takes float [M, N], [T, M, K] and [T, K, N] with M and N from 2 on, and K "
            f"of at most {DEPTH_BYTES} bytes.",
            fix="use matmul and add",
        )
    return start


@matmul_sum.reference
def matmul_sum_reference(start, a, b, *, reverse):
    total = start
    for t in range(len(a))[:: -1 if reverse else 1]:
        total = total + a[t] @ b[t]
    return np.asarray(total)


@matmul_sum.lowering
def matmul_sum_lowering(emit, start, a, b, result, *, reverse):
    readable = 1 in a.strides[1:] and min(a.strides) >= 0
    fits = b.strides[2] == 1 and min(b.strides) >= 0
    inputs = [emit.dense(start), a if readable else emit.dense(a), b if fits else emit.dense(b)]
    emit.kernel("matmul_sum", inputs, [result], [int(reverse)])


@matmul_sum.samples
def matmul_sum_samples(draw):
    shapes = [(1, 2, 1, 2), (3, 5, 7, 17), (2, 13, 40, 33), (0, 3, 4, 20), (4, 50, 3, 150)]
    for dtype in draw.floats:
        for number, (count, rows, depth, columns) in enumerate(shapes):
            start = draw(dtype, rows, columns)
            operands = draw(dtype, count, rows, depth), draw(dtype, count, depth, columns)
            yield (start, *operands), {"reverse": number % 2 == 1}


BYTES = (int8, uint8)


@op(differentiable=False)
def matmul_integer(a: TensorType, b: TensorType) -> TensorType:
    """Matrix products of ``a`` [..., M, K] and ``b`` [..., K, N], int8 or uint8, in int32.

    Leading axes broadcast; sums wrap.  ONNX's MatMulInteger without zero points.
    """
    if a.dtype not in BYTES or b.dtype not in BYTES:
        raise DTypeError(
            f"matmul_integer cannot take {a} and {b}",
            why="It multiplies int8 and uint8, in any combination.",
            fix="cast them with astype, or use matmul",
        )
    return tensor_type(int32, product_shape("matmul_integer", a, b))


@matmul_integer.reference
def matmul_integer_reference(a, b):
    return np.matmul(a.astype(np.int32), b.astype(np.int32))


@matmul_integer.lowering
def matmul_integer_lowering(emit, a, b, result):
    lower_product(emit, "matmul_integer", a, b, result)


@matmul_integer.samples
def matmul_integer_samples(draw):
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            for a, b in [
                ((1, 1), (1, 1)),
                ((3, 5), (5, 7)),
                ((13, 64), (64, 33)),
                ((2, 3, 4), (4, 5)),
                ((3, 4), (2, 4, 5)),
                ((0, 3), (3, 4)),
                ((3, 0), (0, 4)),
            ]:
                yield (draw(left, *a), draw(right, *b)), {}


@op(differentiable=False)
def matmul_integer_nt(a: TensorType, b: TensorType) -> TensorType:
    """``matmul_integer(a, b.mT)``: eagerly it reads ``b`` as it lies, without a transposed copy."""
    if b.rank < 2:
        return matmul_integer.rule(a, b)
    return matmul_integer.rule(a, b.with_shape((*b.shape[:-2], b.shape[-1], b.shape[-2])))


@matmul_integer_nt.reference
def matmul_integer_nt_reference(a, b):
    return matmul_integer_reference(a, np.swapaxes(b, -1, -2))


@matmul_integer_nt.lowering
def matmul_integer_nt_lowering(emit, a, b, result):
    matmul_integer_lowering(emit, a, b.swap(-1, -2), result)


@matmul_integer_nt.samples
def matmul_integer_nt_samples(draw):
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            for a, b in [
                ((1, 64), (9, 64)),
                ((3, 5), (7, 5)),
                ((13, 67), (33, 67)),
                ((2, 3, 4), (5, 4)),
                ((3, 4), (2, 5, 4)),
                ((0, 3), (4, 3)),
                ((3, 0), (4, 0)),
            ]:
                yield (draw(left, *a), draw(right, *b)), {}


for _op in (matmul_integer, matmul_integer_nt):
    _op.batch(aligned(_op))
