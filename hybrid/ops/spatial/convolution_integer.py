"""Convolutions of bytes, which quantised layers compute: exact sums in int32.

For x [N, C, *spatial] of int8 or uint8, w [O, C / groups, *kernel] of int8 and a zero point, where
``i = p * stride - padding + k * dilation`` along each spatial axis::

    y[n, o, p] = sum over c, k of (x[n, c, i] - zero) * w[o, c, k]

What lies outside of x counts as zero.  As in ``convolution_weights``, passes take the weights in
the order in which the kernel reads them out of what runs each time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, dtype_of, int8, int32, tensor_type, uint8
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.spatial.convolution import (
    GEOMETRIES,
    conv,
    geometry_of,
    patches,
    require_geometry,
    require_groups,
    require_same,
)
from hybrid.ops.spatial.windows import lifted, unlifted, wide, widened_attrs, window_counts
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.operand_checks import as_tensor, is_number, type_of

BYTES = (int8, uint8)


@op(name="conv_integer", differentiable=False)
def convolution(
    x: TensorType,
    w: TensorType,
    zero: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """The convolution of ``x - zero`` with ``w`` in int32; the module's docstring has the formula.

    ``zero`` is one element of the dtype of x.  Sums wrap.  ONNX's ConvInteger.
    """
    _require_bytes(x, w, zero)
    attrs = (stride, padding, dilation, groups, size)
    require_geometry("conv_integer", {"x": x, "w": w}, *attrs)
    require_groups("conv_integer", "x", x.shape[1], groups)
    require_groups("conv_integer", "the result", w.shape[0], groups)
    channels = x.shape[1] // groups
    require_same("conv_integer", "the channels of a group", channels, w.shape[1], x, w)
    return tensor_type(int32, (x.shape[0], w.shape[0], *size))


def _require_bytes(x: TensorType, w: TensorType, zero: TensorType) -> None:
    if x.dtype not in BYTES or w.dtype is not int8:
        raise DTypeError(
            f"conv_integer cannot take {x} and {w}",
            why="It multiplies int8 or uint8 with int8.",
            fix="cast them with astype, or use conv2d",
        )
    if zero.dtype is not x.dtype or zero.rank:
        raise ShapeError(
            f"conv_integer cannot take a zero point {zero} of {x}",
            why="It is one element of the same dtype.",
            fix="give a number, or a tensor without dimensions",
        )


@convolution.reference
def convolution_reference(x, w, zero, *, stride, padding, dilation, groups, size):
    steps = x.astype(np.int64) - int(zero)
    found = patches(steps, size, w.shape[2:], stride, padding, dilation, groups).astype(np.int64)
    weight = w.reshape(groups, w.shape[0] // groups, w.shape[1], found.shape[-1])
    found = np.einsum("ngcpk,gock->ngop", found, weight.astype(np.int64))
    return found.reshape(x.shape[0], w.shape[0], *size).astype(np.int32)


@convolution.couples
def convolution_couples(operands, results, **attrs):
    return conv.couple_rule(operands[:2], results, **attrs)


@convolution.batch
def convolution_batch(rows, batched, x, w, zero, **attrs):
    """The rows of x alone are more images; others go row by row."""
    if batched[1] or batched[2]:
        return NotImplemented
    y = convolution(reshaped(x, (rows * x.shape[1], *x.shape[2:])), w, zero, **attrs)
    return reshaped(y, (rows, x.shape[1], *y.shape[1:]))


LEAST = 144  # results of a channel that pay for transforming the weights,
CHANNELS = 16, 1792  # channels of a group that do, and with which sums stay exact


def is_transformed(w: TensorType, attrs: dict[str, Any], batch: int) -> bool:
    """Whether 3x3 kernels are convolved by tiles of 2x2 results, from fewer products.

    See csrc/kernels/convolution/integer_winograd.inc.c.
    """
    filters, channels, *kernel = w.shape
    plain = attrs["stride"] == attrs["dilation"] == (1, 1) and kernel == [3, 3]
    many = filters // attrs["groups"] >= CHANNELS[0] <= channels <= CHANNELS[1]
    return plain and many and batch * math.prod(attrs["size"]) >= LEAST


def _words(w: TensorType, attrs: dict[str, Any], batch: int) -> int:
    """How many int32 the weights are in the order in which kernels read them, with their sums."""
    filters, channels, *kernel = w.shape
    if is_transformed(w, attrs, batch):
        return 16 * (filters * -(-channels // 2) + 16 * attrs["groups"])
    return filters * (math.prod(kernel) * -(-channels // 2) + 1)


def _attributes(stride: Shape, padding: Shape, dilation: Shape, groups: int) -> list[int]:
    return [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups]


def _is_trivial(emit: Any, x: Any, w: Any, result: Any) -> bool:
    """Whether there is nothing to compute: no result, or zeros, which are written, from nothing."""
    if result.size and not (x.size and w.size):
        emit.kernel("copy", [emit.constant(int32, 0).broadcast(result.shape)], [result])
    return not (result.size and x.size and w.size)


@convolution.lowering
def convolution_lowering(emit, x, w, zero, result, *, stride, padding, dilation, groups, size):
    if _is_trivial(emit, x, w, result):
        return
    operands = [wide(emit.dense(x)), wide(emit.dense(w)), emit.dense(zero).reshape((1,))]
    given = dict(stride=stride, dilation=dilation, groups=groups, size=size)
    room = emit.temporary(int32, (_words(w.type, given, x.shape[0]),))
    attrs = _attributes(stride, padding, dilation, groups)
    emit.kernel("conv_integer", operands, [wide(result), room], attrs)


_ZEROS = {"uint8": (0, 255, 131), "int8": (0, -128, 127, -5)}


@convolution.samples
def convolution_samples(draw):
    for dtype, zeros in _ZEROS.items():
        for number, geometry in enumerate(GEOMETRIES):
            batch, channels, groups, rows, sizes, kernel, stride, padding, dilation = geometry
            pairs = [(n, n) for n in padding]
            size = window_counts("conv", "kernel", sizes, kernel, stride, pairs, dilation)
            x = draw(dtype, batch, channels, *sizes)
            w = draw("int8", groups * rows, channels // groups, *kernel)
            attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
            zero = np.array(zeros[number % len(zeros)], dtype)
            yield (x, w, zero), {**attrs, "size": size}


# In two parts ------------------------------------------------------------------------------------


def is_prepared(x: TensorType, w: TensorType, size: Shape) -> bool:
    """Whether a convolution of such operands has weights to prepare."""
    return bool(x.size and w.size and math.prod(size))


def _require(x: TensorType, w: TensorType, zero: TensorType, attrs: dict[str, Any]) -> TensorType:
    (result,) = convolution.infer((x, w, zero), convolution.attributes(attrs))
    if not is_prepared(x, w, attrs["size"]):
        raise ShapeError(
            f"there is nothing to prepare in the convolution of {x} with {w}",
            why="It is empty.",
            fix="use conv_integer",
        )
    return result


@op(differentiable=False)
def conv_integer_prepare(
    w: TensorType,
    *,
    source: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """What ``conv_integer_prepared`` needs of the weights to convolve an x of shape ``source``.

    The order of its numbers is that of the instruction set in use.
    """
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    _require(tensor_type(uint8, source), w, tensor_type(uint8, ()), attrs)
    return tensor_type(int32, (_words(w, attrs, source[0]),))


@op(differentiable=False)
def conv_integer_prepared(
    x: TensorType,
    w: TensorType,
    zero: TensorType,
    p: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """``conv_integer`` of ``x`` and ``w``, read from ``p``: ``conv_integer_prepare`` of ``w``."""
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    result = _require(x, w, zero, attrs)
    if p is not tensor_type(int32, (_words(w, attrs, x.shape[0]),)):
        raise ShapeError(
            f"{p} is not what is prepared of {w} for {x}", fix="prepare for the same attributes"
        )
    return result


@conv_integer_prepare.reference
def conv_integer_prepare_reference(w, *, source, **attrs):
    """Nothing but room: only the kernels know what goes there."""
    return np.zeros(_words(tensor_type(dtype_of(w.dtype), w.shape), attrs, source[0]), np.int32)


@conv_integer_prepared.reference
def conv_integer_prepared_reference(x, w, zero, _p, **attrs):
    return convolution.reference_rule(x, w, zero, **attrs)


@conv_integer_prepare.lowering
def lower_prepare(emit, w, result, *, source, stride, padding, dilation, groups, size):
    attrs = _attributes(stride, padding, dilation, groups)
    emit.kernel("conv_integer_prepare", [wide(emit.dense(w))], [result], attrs)


@conv_integer_prepared.lowering
def lower_prepared(emit, x, w, zero, p, result, *, stride, padding, dilation, groups, size):
    attrs = _attributes(stride, padding, dilation, groups)
    operands = [wide(emit.dense(x)), wide(emit.dense(w)), emit.dense(zero).reshape((1,))]
    emit.kernel("conv_integer_prepared", [*operands, emit.dense(p)], [wide(result)], attrs)


def _drawn(draw):
    for (x, w, zero), attrs in convolution.sample_rule(draw):
        types = [tensor_type(dtype_of(a.dtype), a.shape) for a in (x, w)]
        if is_prepared(*types, attrs["size"]):
            yield x, w, zero, attrs


@conv_integer_prepare.samples
def prepare_samples(draw):
    for x, w, _, attrs in _drawn(draw):
        yield (w,), {"source": x.shape, **attrs}


@conv_integer_prepared.samples
def prepared_samples(draw):
    for x, w, zero, attrs in _drawn(draw):
        p = conv_integer_prepare(w, source=x.shape, **attrs).numpy()
        yield (x, w, zero, p), attrs


# The function ------------------------------------------------------------------------------------


@remembered_of_any
def conv_integer(
    x: Any,
    w: Any,
    *,
    zero: Any = 0,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The convolution of ``x - zero`` with ``w`` over one to three axes: exact sums, in int32.

    ``x`` [N, C, *spatial] is int8 or uint8, ``w`` [O, C / groups, *kernel] int8; x may come without
    N.  ``zero`` is a number, or a tensor of one element of the dtype of x; padding counts as zero.
    The other arguments are those of ``conv2d``.  ONNX's ConvInteger; sums beyond int32 wrap.
    """
    w = as_tensor(w)
    rank = len(w.shape) - 2
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"conv_integer cannot take a weight {type_of(w)}",
            why="It has axes of results and channels, and one to three of space.",
            fix="change its shape with reshape or expand_dims",
        )
    x, single = lifted("conv_integer", x, rank)
    zero = zero_point("conv_integer", zero, type_of(x))
    attrs = geometry_of("conv_integer", x, w, stride, padding, dilation, groups)
    return unlifted(convolution(x, w, zero, **attrs), single)


def zero_point(name: str, zero: Any, x: TensorType) -> Any:
    """``zero`` as a tensor without dimensions, of the dtype of x."""
    if not is_number(zero):
        zero = as_tensor(zero)
        return reshaped(zero, ()) if zero.shape == (1,) else zero
    if x.dtype not in BYTES:
        return as_tensor(np.uint8(0))  # x is what is wrong
    limits = np.iinfo(x.dtype.numpy)
    if int(zero) != zero or not limits.min <= zero <= limits.max:
        raise ArgumentError(
            f"{name} got zero {zero!r} for {x}",
            why=f"It is one of the integers of {x.dtype}.",
            fix=f"give a number from {limits.min} to {limits.max}",
        )
    return as_tensor(np.array(zero, x.dtype.numpy))
