"""Products of bytes in two parts: the right matrix in panels that the kernel reads, then the rest.

Passes (passes/weights/precomputation.py) build them where that matrix stays the same.  The sums
are integers that wrap, so the bits are those of ``matmul_integer``.
"""

from __future__ import annotations

import math

import numpy as np

from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.matrix.matmul_variants import BYTES, matmul_integer

PADDING = 64  # columns, of which each instruction set makes panels
TOGETHER = 4  # neighbours along the inner axis, that are multiplied at once
MOST = 1024  # rows on the left, beyond which copying the right matrix hardly counts
LEAST = 1 << 10  # elements of the right matrix


def is_prepared(a: TensorType, b: TensorType) -> bool:
    """Whether a product of bytes has a right matrix to prepare."""
    return a.dtype in BYTES and b.dtype in BYTES and a.rank >= 2 == b.rank


def pays(a: TensorType, b: TensorType) -> bool:
    """Whether a product with a prepared matrix is faster, and that not mostly padding."""
    worth = b.size >= LEAST and 2 * b.shape[-1] >= PADDING
    return worth and is_prepared(a, b) and math.prod(a.shape[:-1]) <= MOST


def _rounded(size: int, to: int) -> int:
    return -(-size // to) * to


def _prepared_type(b: TensorType) -> TensorType:
    inner, columns = b.shape
    return tensor_type(b.dtype, (_rounded(inner, TOGETHER) * _rounded(columns, PADDING),))


def _require(a: TensorType, b: TensorType) -> None:
    if not is_prepared(a, b):
        raise ShapeError(
            f"there is nothing to prepare in the product of {a} and {b}",
            why="Both are of bytes, and the right one is one matrix.",
            fix="use matmul_integer",
        )


@op(differentiable=False)
def matmul_integer_prepare(b: TensorType) -> TensorType:
    """What ``matmul_integer_prepared`` needs of ``b``.

    The order of its bytes is that of the instruction set in use.
    """
    _require(b, b)
    return _prepared_type(b)


@op(differentiable=False)
def matmul_integer_prepared(a: TensorType, b: TensorType, p: TensorType) -> TensorType:
    """``matmul_integer(a, b)``, read from ``p``: ``matmul_integer_prepare`` of ``b``."""
    (result,) = matmul_integer.infer((a, b), ())
    _require(a, b)
    if p is not _prepared_type(b):
        raise ShapeError(f"{p} is not what is prepared of {b}", fix="prepare that matrix")
    return result


@matmul_integer_prepare.reference
def matmul_integer_prepare_reference(b):
    """Nothing but room: only the kernels know what goes there."""
    inner, columns = b.shape
    return np.zeros(_rounded(inner, TOGETHER) * _rounded(columns, PADDING), b.dtype)


@matmul_integer_prepared.reference
def matmul_integer_prepared_reference(a, b, _p):
    return matmul_integer.reference_rule(a, b)


@matmul_integer_prepare.lowering
def lower_prepare(emit, b, result):
    if result.size:
        readable = 1 in b.strides and min(b.strides) >= 0
        emit.kernel("matmul_integer_prepare", [b if readable else emit.dense(b)], [result])


@matmul_integer_prepared.lowering
def lower_prepared(emit, a, b, p, result):
    rows = math.prod(a.shape[:-1])
    a = emit.dense(a).reshape((rows, a.shape[-1]))
    made = result.reshape((rows, b.shape[1]))
    emit.kernel("matmul_integer_prepared", [a, emit.dense(p)], [made])


_SAMPLES = [
    ((1, 1), (1, 1)),
    ((3, 5), (5, 7)),
    ((1, 33), (33, 70)),
    ((17, 40), (40, 64)),
    ((2, 9, 21), (21, 65)),
    ((13, 500), (500, 35)),
    ((3, 0), (0, 4)),
    ((0, 3), (3, 4)),
]


@matmul_integer_prepare.samples
def prepare_samples(draw):
    for dtype in ("int8", "uint8"):
        for _, b in _SAMPLES:
            yield (draw(dtype, *b),), {}


@matmul_integer_prepared.samples
def prepared_samples(draw):
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            for a, b in _SAMPLES:
                matrix = draw(right, *b)
                yield (draw(left, *a), matrix, matmul_integer_prepare(matrix).numpy()), {}
