"""The arithmetic of quantized layers: small integers with scales, exact on every machine.

Every float step is one operation of float32, rounded once, in the order in which it is written
here, so eager code, plans, NumPy and exported models give the same bits.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.types import DType, dtype_of, float32, int8
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.ops.elementwise import quantized_numbers
from hybrid.ops.matrix.matmul_variants import matmul_integer
from hybrid.ops.shapes.packed_halves import pack, unpack
from hybrid.ops.spatial.convolution_integer import conv_integer
from hybrid.ops.support.operand_checks import as_tensor, is_number, normalize_axis, type_of
from hybrid.transforms import custom_vjp

__all__ = [
    "conv_integer",
    "dequantize",
    "fake_quantize",
    "matmul_integer",
    "pack",
    "quantize",
    "unpack",
]


def quantize(
    x: Any,
    scale: Any,
    zero: Any = 0,
    *,
    axis: int | None = None,
    low: int | None = None,
    high: int | None = None,
    dtype: Any = int8,
) -> Tensor:
    """``clip(rint(x / scale) + zero, low, high)`` as ``dtype``: ties go to the even number.

    ``scale`` (float32) and ``zero`` (integers) have one element, or one for each place along
    ``axis`` of ``x``; ``low`` and ``high`` are those of ``dtype`` unless given.  NaN gives the zero
    point, infinities ``low`` and ``high``: ONNX's QuantizeLinear.  The gradient is zero.
    """
    dtype = dtype_of(dtype)
    quantized_numbers.require_small(dtype)
    low, high = _limits("quantize", low, high, dtype)
    x, scale, zero = _operands("quantize", x, scale, zero, axis)
    zero = as_tensor(np.float32(0)) if zero is None else zero
    return quantized_numbers.quantize(x, scale, zero, low=low, high=high, dtype=dtype)


def dequantize(q: Any, scale: Any, zero: Any = 0, *, axis: int | None = None) -> Tensor:
    """``(q - zero) * scale`` in float32; shapes as for ``quantize``."""
    q = as_tensor(q)
    if not q.dtype.is_integer:
        raise DTypeError(f"dequantize cannot take {q.type}", fix="give integers")
    q, scale, zero = _operands("dequantize", q, scale, zero, axis)
    return ops.multiply(q if zero is None else ops.subtract(q, zero), scale)


def fake_quantize(
    x: Any,
    scale: Any,
    zero: Any = 0,
    *,
    axis: int | None = None,
    low: int = -128,
    high: int = 127,
    learned: bool = False,
) -> Tensor:
    """``dequantize(quantize(x))``, to the same bits, with a gradient to train by.

    The gradient by ``x`` passes where ``low <= x / scale + zero <= high`` (Bengio et al. 2013).
    With ``learned`` there is one by ``scale``, too: the sum of ``rint(v) - v`` inside, of
    ``low - zero`` and ``high - zero`` beyond, for v = x / scale, over sqrt(n * high) for n elements
    to a scale (LSQ, Esser et al. 2020).
    """
    low, high = _limits("fake_quantize", low, high, None)
    x, scale, zero = _operands("fake_quantize", x, scale, zero, axis)
    zero = as_tensor(np.float32(0)) if zero is None else zero
    return _fake_quantizer(float(low), float(high), bool(learned))(x, scale, zero)


@functools.cache  # what is captured knows the functions again
def _fake_quantizer(low: float, high: float, learned: bool) -> Any:
    def rounded(v: Tensor, zero: Tensor) -> Tensor:
        steps = ops.round(v)
        return ops.clip(ops.where(ops.isnan(steps), zero, ops.add(steps, zero)), low, high)

    @custom_vjp
    def fake(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        return ops.multiply(ops.subtract(rounded(ops.divide(x, scale), zero), zero), scale)

    def forward(x: Tensor, scale: Tensor, zero: Tensor) -> tuple[Tensor, Any]:
        v = ops.divide(x, scale)
        y = ops.multiply(ops.subtract(rounded(v, zero), zero), scale)
        return y, (v, scale, zero)

    def backward(kept: Any, ct: Tensor) -> tuple[Any, Any, None]:
        v, scale, zero = kept
        at = ops.add(v, zero)
        below, above = ops.less(at, low), ops.greater(at, high)
        by_x = ops.where(ops.logical_or(below, above), 0.0, ct)
        if not learned:
            return by_x, None, None
        # Beyond the limits the result is a multiple of the scale, inside it follows x.
        slope = ops.where(below, low - zero, ops.where(above, high - zero, ops.round(v) - v))
        count = ops.divide(float(max(v.size, 1)), float(max(scale.size, 1)))
        total = _summed(ops.multiply(ct, slope), scale)
        return by_x, ops.divide(total, ops.sqrt(ops.multiply(count, high))), None

    fake.defvjp(forward, backward)
    return fake


def _summed(ct: Tensor, scale: Tensor) -> Tensor:
    """``ct`` summed over the axes along which ``scale`` was repeated."""
    lead = ct.ndim - scale.ndim
    axes = tuple([i for i in range(ct.ndim) if i < lead or scale.shape[i - lead] == 1])
    return ops.reshape(ops.sum(ct, axis=axes), scale.shape) if axes else ct


def _operands(
    name: str, x: Any, scale: Any, zero: Any, axis: int | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """``x``, scale and zero in float32, so that they broadcast; None for a zero of 0."""
    x = as_tensor(x)
    scale = as_tensor(np.float32(scale)) if is_number(scale) else as_tensor(scale)
    if scale.dtype is not float32:
        raise DTypeError(f"{name} got a scale {type_of(scale)}", fix="give float32")
    if is_number(zero):
        zero = None if zero == 0 else as_tensor(np.int32(zero))
    else:
        zero = as_tensor(zero)
    if zero is not None and not zero.dtype.is_integer:
        raise DTypeError(f"{name} got a zero point {type_of(zero)}", fix="give integers")
    number = None if axis is None else normalize_axis(name, axis, x.ndim)
    scale = _along(name, "scale", scale, x, number)
    zero = None if zero is None else _along(name, "zero point", zero, x, number)
    return _float32(x), scale, None if zero is None else _float32(zero)


def _float32(x: Tensor) -> Tensor:
    return x if x.dtype is float32 else ops.astype(x, float32)


def _along(name: str, what: str, value: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """A tensor of one element, or of one for each place along ``axis``, as it broadcasts to x."""
    if value.ndim == 0:
        return value
    if axis is not None and value.ndim == 1 and value.shape[0] == x.shape[axis]:
        return ops.reshape(value, (-1, *(1,) * (x.ndim - 1 - axis)))
    if axis is None and value.ndim == x.ndim:  # one for each row, sample or group
        return value
    raise ShapeError(
        f"{name} got a {what} {type_of(value)} for {type_of(x)}"
        + ("" if axis is None else f" along axis {axis}"),
        why="There is one for all, or one for each place along `axis`.",
        fix="give axis=, or a tensor of one element",
    )


def _limits(name: str, low: int | None, high: int | None, dtype: DType | None) -> tuple[int, int]:
    """Both limits, completed by those of the dtype."""
    if dtype is not None:
        limits = np.iinfo(dtype.numpy)
        least, most = int(limits.min), int(limits.max)
        low, high = least if low is None else low, most if high is None else high
    if not (isinstance(low, int) and isinstance(high, int) and low < high):
        raise ArgumentError(
            f"{name} got low {low!r} and high {high!r}", fix="give integers, low below high"
        )
    return low, high
