"""Sums of products over a stack of matrices, in turn.

Passes build them of loops that add a product in every iteration: see passes/fusion/sums.py.  The
kernel adds as those loops do, so the bits are the same.
"""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, float32, float64
from hybrid.errors import ShapeError
from hybrid.ir import op

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
