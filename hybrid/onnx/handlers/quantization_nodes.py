"""Quantization: small integers with a scale and a zero point, and products of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.handlers.convolution_nodes import axis_numbers, pads_of
from hybrid.onnx.node_table import handles
from hybrid.ops.elementwise import quantized_numbers
from hybrid.ops.matrix.matmul_variants import matmul_integer
from hybrid.ops.spatial import convolution_integer

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
    if kind is types.float32 and dtype.itemsize <= 2:
        zero = np.float32(0) if zero is None else _spread(zero, x.shape, axis, block_size)
        limits = np.iinfo(dtype.numpy)
        given = [ops.astype(part, types.float32) for part in (x, scale, zero)]
        return quantized_numbers.quantize(
            *given, low=int(limits.min), high=int(limits.max), dtype=dtype
        )
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


def _along(zero: Any, rank: int, axis: int) -> Any:
    """A zero point in int32: one for all, or one of each place along ``axis``."""
    zero = ops.astype(zero, types.int32)
    if zero.ndim != 1:
        return zero
    column = [1] * rank
    column[axis] = zero.size
    return ops.reshape(zero, () if zero.size == 1 else tuple(column))


@handles("MatMulInteger", 10)
def mat_mul_integer(a, b, a_zero=None, b_zero=None):
    """MatMulInteger: int32 products of integers less their zero points."""
    if a.ndim < 2 or b.ndim < 2:
        wide = [ops.astype(x, types.int32) for x in (a, b)]
        zeros = ((0, a_zero, a.ndim - 2), (1, b_zero, b.ndim - 1))
        for at, zero, axis in zeros:
            if zero is not None:
                wide[at] = ops.subtract(wide[at], _along(zero, wide[at].ndim, axis))
        return ops.matmul(*wide)
    y = matmul_integer(a, b)
    if a_zero is not None:
        a_zero = _along(a_zero, a.ndim, a.ndim - 2)
        y = ops.subtract(y, ops.multiply(a_zero, _sum(b, -2)))
    if b_zero is not None:
        b_zero = _along(b_zero, b.ndim, b.ndim - 1)
        sums = _sum(a, -1)
        if a_zero is not None:
            sums = ops.subtract(sums, ops.multiply(a_zero, a.shape[-1]))
        y = ops.subtract(y, ops.multiply(sums, b_zero))
    return y


def _sum(x: Any, axis: int) -> Any:
    return ops.sum(ops.astype(x, types.int32), axis=axis, keepdims=True, dtype=types.int32)


@handles("ConvInteger", 10)
def conv_integer(
    x, w, x_zero=None, w_zero=None, *, auto_pad="NOTSET", dilations=None, group=1,
    kernel_shape=None, pads=None, strides=None,
):  # fmt: skip
    """ConvInteger: an int32 convolution of integers less their zero points."""
    rank = x.ndim - 2
    stride = axis_numbers("strides", strides, rank, 1)
    dilation = axis_numbers("dilations", dilations, rank, 1)
    pairs = pads_of(x.shape[2:], list(w.shape[2:]), stride, dilation, pads, auto_pad)
    geometry = stride, dilation, pairs, group
    if w.dtype is types.uint8:  # 128 less, in int8
        w = ops.astype(ops.subtract(ops.astype(w, types.int32), 128), types.int8)
        w_zero = np.uint8(0) if w_zero is None else w_zero
        w_zero = ops.subtract(ops.astype(w_zero, types.int32), 128)
    y = _convolved(x, w, x_zero, geometry)
    if w_zero is None:
        return y
    ones = ops.ones((group, *w.shape[1:]), dtype=types.int8)
    sums = _convolved(x, ones, x_zero, geometry)
    if group > 1:
        sums = ops.repeat(sums, w.shape[0] // group, axis=1)
    return ops.subtract(y, ops.multiply(sums, _along(w_zero, x.ndim, 1)))


def _convolved(x: Any, w: Any, zero: Any, geometry: tuple[Any, ...]) -> Any:
    """The convolution of x less its zero point with w, whatever is padded before and after."""
    stride, dilation, pairs, group = geometry
    # More is padded on both sides where sides differ, and what comes of that is left out.
    wide = [
        before + max(0, -((before - after) // s)) * s
        for (before, after), s in zip(pairs, stride, strict=True)
    ]
    y = convolution_integer.conv_integer(
        x, w, zero=0 if zero is None else zero, stride=tuple(stride), padding=tuple(wide),
        dilation=tuple(dilation), groups=group,
    )  # fmt: skip
    key = [slice(None), slice(None)]
    sizes = x.shape[2:], w.shape[2:], stride, dilation, pairs, wide
    for n, k, s, d, (before, after), more in zip(*sizes, strict=True):
        first = (more - before) // s
        key.append(slice(first, first + (n + before + after - (k - 1) * d - 1) // s + 1))
    return y if all(before == after for before, after in pairs) else ops.getitem(y, tuple(key))


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
