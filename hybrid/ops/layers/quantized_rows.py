"""Rows of float32 as bytes, each with a scale of its own: what integer products multiply.

One kernel takes the maximum of a row and makes its bytes while the row is in the cache.  Each step
is an operation of float32 that is rounded once, in an order that any runtime can follow, so the
bits are those of the steps one by one.
"""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, float32, int8, tensor_type
from hybrid.errors import DTypeError
from hybrid.ir import op
from hybrid.ops.index.indexing import to_rows
from hybrid.ops.support.batching import leading
from hybrid.ops.support.operand_checks import require_axis

MOST = np.float32(127)


@op(differentiable=False)
def quantize_rows(x: TensorType) -> tuple[TensorType, TensorType]:
    """``x`` [..., n] as int8 and the scale [..., 1] of each row: max|x| / 127, 1 where that is 0.

    Bytes are ``x / scale`` rounded, ties to even, within 127 of zero; NaN gives 0.
    """
    if x.dtype is not float32:
        raise DTypeError(
            f"quantize_rows cannot take {x}", why="It takes float32.", fix="cast it with astype"
        )
    require_axis("quantize_rows", max(x.rank - 1, 0), x.rank)
    return x.with_dtype(int8), tensor_type(float32, (*x.shape[:-1], 1))


@quantize_rows.reference
def quantize_rows_reference(x):
    x = np.asarray(x, np.float32)  # in which each step is rounded
    with np.errstate(all="ignore"):
        scale = np.abs(x).max(-1, keepdims=True, initial=0) / MOST
        scale = np.where(scale == 0, np.float32(1), scale)
        steps = np.rint(x / scale)
    steps = np.where(np.isnan(steps), np.float32(0), steps)
    return np.clip(steps, -MOST, MOST).astype(np.int8), scale


@quantize_rows.lowering
def quantize_rows_lowering(emit, x, steps, scale):
    emit.kernel("quantize_rows", [to_rows(emit, x)], [to_rows(emit, steps), to_rows(emit, scale)])


quantize_rows.batch(leading(quantize_rows))


@quantize_rows.samples
def quantize_rows_samples(draw):
    for shape in [(1,), (5,), (17,), (3, 5), (2, 3, 16), (2, 300), (0, 3), (2, 0), (4, 33)]:
        yield (draw("float32", *shape),), {}
    yield (np.zeros((2, 9), np.float32),), {}
    ties = np.float32([[127, 0.5, 1.5, -2.5, 126.5], [-254, 1, 3, -5, 253]])
    yield (ties,), {}
    yield (np.float32([[1, np.nan, 2], [np.inf, 1, -np.inf], [1e-45, -1e-45, 0]]),), {}
