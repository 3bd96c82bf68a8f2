"""Quantization: small integers with a scale and a zero point, and products of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.handlers.convolution_nodes import conv
from hybrid.onnx.node_table import handles

_FROM = (23, 24, 25, 28)


def _spread(value: Any, shape: tuple[Any, ...], axis: int, block_size: int) -> Any:
    """A scale or zero point so that it is broadcast to ``shape``."""
    if value.ndim == 0:
        return value
    if value.size == 1:
        return ops.reshape(value, ())
    if not block_size:
        column = [1] * len(shape)
        column[axis] = value.size
        return ops.reshape(value, tuple(column))
    wide = ops.repeat(value, block_size, axis=axis)
    key = [slice(None)] * len(shape)
    key[axis] = slice(0, shape[axis])
    return ops.getitem(wide, tuple(key))


def _saturated(x: Any, dtype: Any) -> Any:
    """Whole numbers in a wide type as ``dtype``, those beyond it at its ends."""
    limits = np.iinfo(dtype.numpy)
    return ops.astype(ops.minimum(ops.maximum(x, limits.min), limits.max), dtype)


def _quantize(x, scale, zero, axis, block_size, dtype, precision):
    if not dtype.is_integer:
        raise OnnxError(f"QuantizeLinear to {dtype}", why="Tensors hold no floats of 8 bits.")
    scale = _spread(scale, x.shape, axis, block_size)
    kind = precision or (scale.dtype if not x.dtype.is_floating else x.dtype)
    scaled = ops.divide(ops.astype(x, kind), ops.astype(scale, kind))
    rounded = ops.round(ops.astype(scaled, types.float32) if kind.is_stored else scaled)
    if zero is not None:
        zero = ops.astype(_spread(zero, x.shape, axis, block_size), types.int32)
        limits = np.iinfo(np.int32)
        whole = ops.minimum(ops.maximum(rounded, limits.min // 2), limits.max // 2)
        rounded = ops.add(ops.astype(whole, types.int32), zero)
    return _saturated(rounded, dtype)


@handles("QuantizeLinear", *_FROM)
def quantize_linear(
    x, scale, zero=None, *, axis=1, block_size=0, output_dtype=None, precision=0, saturate=1
):
    """QuantizeLinear: round(x / scale) + zero point, kept within the type."""
    dtype = zero.dtype if zero is not None else output_dtype or types.uint8
    return _quantize(x, scale, zero, axis, block_size, dtype, _DTYPES.get(precision))


_DTYPES = {1: types.float32, 10: types.float16, 11: types.float64, 16: types.bfloat16}


@handles("QuantizeLinear", 21)
def quantize_linear_of_opset_21(
    x, scale, zero=None, *, axis=1, block_size=0, output_dtype=None, saturate=1
):
    """QuantizeLinear without a type to compute in: opsets 21 and 22."""
    return quantize_linear(
        x, scale, zero, axis=axis, block_size=block_size, output_dtype=output_dtype
    )


@handles("QuantizeLinear", 10, 13, 19)
def quantize_linear_of_opset_10(x, scale, zero=None, *, axis=1, saturate=1):
    """QuantizeLinear without blocks: opsets 10 to 20."""
    return quantize_linear(x, scale, zero, axis=axis)


@handles("DequantizeLinear", *_FROM)
def dequantize_linear(x, scale, zero=None, *, axis=1, block_size=0, output_dtype=None):
    """DequantizeLinear: (x - zero point) * scale."""
    dtype = output_dtype or scale.dtype
    wide = ops.astype(x, types.int32)
    if zero is not None:
        zero = _spread(zero, x.shape, axis, block_size)
        wide = ops.subtract(wide, ops.astype(zero, types.int32))
    scale = _spread(scale, x.shape, axis, block_size)
    return ops.astype(ops.multiply(ops.astype(wide, scale.dtype), scale), dtype)


@handles("DequantizeLinear", 10, 13, 19, 21)
def dequantize_linear_of_opset_10(x, scale, zero=None, *, axis=1, block_size=0):
    """DequantizeLinear to the type of the scale: opsets 10 to 22."""
    return dequantize_linear(x, scale, zero, axis=axis, block_size=block_size)


def _away(x: Any, zero: Any, channel: int | None = None) -> Any:
    """``x`` less its zero point, in int32; one of each row or column along ``channel``."""
    wide = ops.astype(x, types.int32)
    if zero is None:
        return wide
    zero = ops.astype(zero, types.int32)
    if zero.ndim == 1 and zero.size > 1 and channel is not None:
        column = [1] * x.ndim
        column[channel] = zero.size
        zero = ops.reshape(zero, tuple(column))
    return ops.subtract(wide, zero if zero.ndim != 1 or zero.size > 1 else ops.reshape(zero, ()))


@handles("MatMulInteger", 10)
def mat_mul_integer(a, b, a_zero=None, b_zero=None):
    """MatMulInteger: int32 products of integers less their zero points."""
    left = _away(a, a_zero, a.ndim - 2 if a.ndim > 1 else None)
    return ops.matmul(left, _away(b, b_zero, b.ndim - 1))


@handles("ConvInteger", 10)
def conv_integer(
    x, w, x_zero=None, w_zero=None, *, auto_pad="NOTSET", dilations=None, group=1,
    kernel_shape=None, pads=None, strides=None,
):  # fmt: skip
    """ConvInteger: an int32 convolution of integers less their zero points."""
    left, right = _away(x, x_zero), _away(w, w_zero, 0)
    y = conv(  # of float64 numbers, which hold all of these sums
        ops.astype(left, types.float64), ops.astype(right, types.float64), auto_pad=auto_pad,
        dilations=dilations, group=group, pads=pads, strides=strides,
    )  # fmt: skip
    return ops.astype(y, types.int32)


def _requantized(whole, scale, y_zero):
    """Whole numbers times a scale, plus the zero point, in its type."""
    scaled = ops.multiply(ops.astype(whole, types.float32), ops.astype(scale, types.float32))
    rounded = ops.add(ops.round(scaled), ops.astype(ops.astype(y_zero, types.int32), types.float32))
    return _saturated(rounded, y_zero.dtype)


@handles("QLinearMatMul", 10, 21)
def q_linear_mat_mul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """QLinearMatMul: a product of quantized matrices, quantized."""

    def per(scale: Any, rank: int, axis: int) -> Any:
        if scale.ndim != 1 or scale.size == 1:
            return scale if scale.ndim != 1 else ops.reshape(scale, ())
        column = [1] * rank
        column[axis] = scale.size
        return ops.reshape(scale, tuple(column))

    whole = mat_mul_integer(a, b, a_zero, b_zero)
    rank = whole.ndim
    wide = [ops.astype(s, types.float32) for s in (a_scale, b_scale, y_scale)]
    scale = ops.multiply(per(wide[0], rank, rank - 2), per(wide[1], rank, rank - 1))
    return _requantized(whole, ops.divide(scale, per(wide[2], rank, rank - 2)), y_zero)


@handles("QLinearConv", 10)
def q_linear_conv(
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, *, auto_pad="NOTSET",
    dilations=None, group=1, kernel_shape=None, pads=None, strides=None,
):  # fmt: skip
    """QLinearConv: a convolution of quantized numbers, quantized."""
    whole = conv_integer(
        x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads,
        strides=strides,
    )  # fmt: skip
    column = (-1, *[1] * (x.ndim - 2))
    if b is not None:
        whole = ops.add(whole, ops.reshape(b, column))
    filters = ops.reshape(w_scale, column) if w_scale.size > 1 else ops.reshape(w_scale, ())
    return _requantized(whole, ops.divide(ops.multiply(x_scale, filters), y_scale), y_zero)
