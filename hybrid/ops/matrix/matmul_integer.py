"""Products of bytes that do not overflow bytes: what quantised layers compute."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, int8, int32, tensor_type, uint8
from hybrid.errors import DTypeError
from hybrid.ir import op
from hybrid.ops.matrix.linalg import lower_product, product_shape
from hybrid.ops.support.batching import aligned

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


matmul_integer.batch(aligned(matmul_integer))
