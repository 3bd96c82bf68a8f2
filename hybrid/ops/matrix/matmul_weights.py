"""Products in two parts: the right matrix in the order in which the kernel reads it, then the rest.

Passes (passes/weights/precomputation.py) build them where that matrix stays the same.  The
kernel sums as that of ``matmul`` does, so the bits are the same.
"""

from __future__ import annotations

import math

import numpy as np

from hybrid.core.types import TensorType, float32, float64, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.matrix.products import product

PADDING = 64  # columns, of which each instruction set makes panels
MOST = 192  # rows on the left, beyond which copying the right matrix hardly counts
LEAST = 1 << 10  # elements of the right matrix
WIDE = 2, 4  # rows, up to which the panels of some instruction sets are wider: MATMUL_WIDE of C


def _rows(a: TensorType) -> int:
    return math.prod(a.shape[:-1])


def is_prepared(a: TensorType, b: TensorType) -> bool:
    """Whether a product has a right matrix to prepare."""
    alike = a.dtype is b.dtype and b.dtype in (float32, float64)
    return alike and a.rank >= 2 == b.rank and _rows(a) >= 2 <= b.shape[1] and b.shape[0] > 0


def pays(a: TensorType, b: TensorType) -> bool:
    """Whether a product with a prepared matrix is faster, and that not mostly padding."""
    worth = b.size >= LEAST and 2 * b.shape[-1] >= PADDING
    return worth and is_prepared(a, b) and _rows(a) <= MOST


def alike(rows: int) -> int:
    """A number of rows for which a right matrix is prepared as for ``rows``.

    Where ``rows`` is open, one is for all sizes for which the conditions hold that this asks.
    """
    return next((most for most in WIDE if rows <= most), WIDE[-1] + 1)


def _prepared_type(b: TensorType) -> TensorType:
    inner, columns = b.shape
    return tensor_type(b.dtype, (inner * (-(-columns // PADDING) * PADDING),))


def _require(a: TensorType, b: TensorType) -> None:
    if not is_prepared(a, b):
        raise ShapeError(
            f"there is nothing to prepare in the product of {a} and {b}",
            why="The left one needs two rows, the right one is a float matrix of two columns.",
            fix="use matmul",
        )


@op(differentiable=False)
def matmul_prepare(b: TensorType, *, rows: int) -> TensorType:
    """What ``matmul_prepared`` needs of ``b`` to multiply an a of so many ``rows``.

    The order of its numbers is that of the instruction set in use.
    """
    _require(tensor_type(b.dtype, (rows, *b.shape[:1])), b)
    return _prepared_type(b)


@op(differentiable=False)
def matmul_prepared(a: TensorType, b: TensorType, p: TensorType) -> TensorType:
    """``a @ b``, read from ``p``: ``matmul_prepare`` of ``b`` for as many rows as ``a`` has."""
    (result,) = product.infer((a, b), ())
    _require(a, b)
    if p is not _prepared_type(b):
        raise ShapeError(f"{p} is not what is prepared of {b}", fix="prepare that matrix")
    return result


@matmul_prepare.reference
def matmul_prepare_reference(b, *, rows):
    """Nothing but room: only the kernels know what goes there."""
    return np.zeros(b.shape[0] * (-(-b.shape[1] // PADDING) * PADDING), b.dtype)


@matmul_prepared.reference
def matmul_prepared_reference(a, b, _p):
    return product.reference_rule(a, b)


@matmul_prepare.lowering
def lower_prepare(emit, b, result, *, rows):
    readable = 1 in b.strides and min(b.strides) >= 0
    emit.kernel("matmul_prepare", [b if readable else emit.dense(b)], [result], [rows])


@matmul_prepared.lowering
def lower_prepared(emit, a, b, p, result):
    rows = math.prod(a.shape[:-1])
    a = emit.dense(a).reshape((rows, a.shape[-1]))
    made = result.reshape((rows, b.shape[1]))
    emit.kernel("matmul_prepared", [a, emit.dense(p)], [made])


_SAMPLES = [
    ((2, 1), (1, 2)),
    ((3, 4), (4, 5)),
    ((4, 33), (33, 70)),
    ((17, 40), (40, 64)),
    ((2, 9, 20), (20, 65)),
    ((13, 500), (500, 35)),
]


@matmul_prepare.samples
def prepare_samples(draw):
    for dtype in draw.floats:
        for a, b in _SAMPLES:
            yield (draw(dtype, *b),), {"rows": math.prod(a[:-1])}


@matmul_prepared.samples
def prepared_samples(draw):
    for dtype in draw.floats:
        for a, b in _SAMPLES:
            right = draw(dtype, *b)
            p = matmul_prepare(right, rows=math.prod(a[:-1])).numpy()
            yield (draw(dtype, *a), right, p), {}
