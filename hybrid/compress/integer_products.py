"""Products of quantized layers: integers in, sums of int32, and floats out in a fixed order."""

from __future__ import annotations

import math

import numpy as np

from hybrid import ops
from hybrid.compress.functional import quantize
from hybrid.core.dataclass import dataclass
from hybrid.core.types import float32, int32, uint8
from hybrid.eager.tensor import Tensor
from hybrid.ops.elementwise.quantized_numbers import scale_sums
from hybrid.ops.layers.quantized_rows import quantize_rows
from hybrid.ops.matrix.matmul_variants import matmul_integer_nt
from hybrid.ops.support.dtypes import made_of_integers
from hybrid.ops.support.operand_checks import as_tensor


@dataclass(frozen=True, slots=True)
class Activations:
    """Static activations: uint8 up to ``high``, of one scale and one zero point."""

    scale: Tensor
    zero: Tensor
    high: int

    def quantized(self, x: Tensor) -> Tensor:
        """``x`` as bytes."""
        return quantize(x, self.scale, self.zero, low=0, high=self.high, dtype=uint8)


def rows_quantized(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """``x`` as int8, and the scale of each row: max|x| / 127 over ``axes``, 1 where that is 0.

    ``axes`` are the last ones of ``x``; the scale has one element along each.
    """
    x = x if x.dtype is float32 else ops.astype(x, float32)
    if len(axes) == 1:
        return quantize_rows(x)
    leading = x.shape[: axes[0]]
    steps, scale = quantize_rows(ops.reshape(x, (*leading, math.prod(x.shape[axes[0] :]))))
    return ops.reshape(steps, x.shape), ops.reshape(scale, (*leading, *(1,) * len(axes)))


def dynamic_linear(x: Tensor, weight: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
    """``x @ weight.T + bias`` by an int8 ``weight`` [out, in] and its scale.

    [..., in] -> [..., out].  Each row of ``x`` has a scale of its own: ``f32(acc) * s_x * s_w +
    bias``, from left to right.
    """
    q, scale = weight
    rows = ops.reshape(x, (-1, q.shape[1])) if x.ndim != 2 else x
    steps, s_x = rows_quantized(rows, (1,))
    y = made_of_integers(scaled(matmul_integer_nt(steps, q), s_x, scale, bias), x)
    return y if x.ndim == 2 else ops.reshape(y, (*x.shape[:-1], q.shape[0]))


def static_linear(
    x: Tensor,
    weight: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    activations: Activations,
) -> Tensor:
    """``x @ weight.T + bias`` by an int8 ``weight`` [out, in], its scale and its ``sums``.

    ``f32(acc - z * sums) * (s_x * s_w) + bias``.
    """
    q, scale, total = weight
    rows = ops.reshape(x, (-1, q.shape[1])) if x.ndim != 2 else x
    products = matmul_integer_nt(activations.quantized(rows), q)
    away = ops.multiply(ops.astype(activations.zero, int32), total)
    scale = ops.multiply(activations.scale, scale)
    y = made_of_integers(scaled(ops.subtract(products, away), scale, None, bias), x)
    return y if x.ndim == 2 else ops.reshape(y, (*x.shape[:-1], q.shape[0]))


def scaled(sums: Tensor, first: Tensor, second: Tensor | None, bias: Tensor | None) -> Tensor:
    """``f32(sums) * first * second + bias``, of those that there are, from left to right."""
    return scale_sums(
        sums,
        first,
        as_tensor(np.float32(1)) if second is None else second,
        as_tensor(np.float32(-0.0)) if bias is None else bias,
    )


def before(x: Tensor | None, spatial: int) -> Tensor | None:
    """``x`` [out], or of one element, so that it is broadcast over as many axes behind."""
    return x if x is None or x.ndim == 0 or not spatial else ops.reshape(x, (-1, *(1,) * spatial))


def sums(weight_q: Tensor) -> Tensor:
    """The sum of all weights that lead to each output, int32: what a zero point is taken times."""
    axes = tuple(range(1, weight_q.ndim))
    return ops.sum(ops.astype(weight_q, int32), axis=axes, dtype=int32)
