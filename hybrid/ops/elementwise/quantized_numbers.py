"""Numbers as small integers with a scale and a zero point, and sums of such integers as numbers."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import DType, TensorType, dtype_of, float32, int32, tensor_type
from hybrid.errors import ArgumentError, DTypeError
from hybrid.ir import op
from hybrid.ops.support.operand_checks import broadcast_shapes, broadcast_type


@op(
    kernel=lambda _types, attrs: f"quantize_{attrs['dtype'].short}",
    elementwise=True,
    differentiable=False,
)
def quantize(
    x: TensorType,
    scale: TensorType,
    zero: TensorType,
    *,
    low: int,
    high: int,
    dtype: DType,
) -> TensorType:
    """``clip(rint(x / scale) + zero, low, high)`` as ``dtype``, of at most 16 bits.

    Operands are float32, ``zero`` holds whole numbers.  Ties go to the even number, NaN gives
    ``zero``, infinities ``low`` and ``high``.  Each step is rounded once, to float32.
    """
    if any(t.dtype is not float32 for t in (x, scale, zero)):
        raise DTypeError(
            f"quantize cannot take {x}, {scale} and {zero}",
            why="It takes float32.",
            fix="cast them with astype",
        )
    require_small(dtype)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= low < high <= limits.max:
        raise ArgumentError(
            f"quantize got low {low} and high {high} for {dtype}",
            why=f"It holds {limits.min} to {limits.max}.",
            fix="give limits within it",
        )
    return broadcast_type("quantize", x, scale, zero).with_dtype(dtype)


def require_small(dtype: DType) -> None:
    """Raise DTypeError unless ``dtype`` is of integers that float32 holds all of."""
    if not dtype.is_integer or dtype.itemsize > 2:
        raise DTypeError(f"quantize cannot make {dtype}", fix="choose int8 or uint8")


@quantize.reference
def quantize_reference(x, scale, zero, *, low, high, dtype):
    with np.errstate(all="ignore"):
        steps = np.rint(np.divide(x, scale, dtype=np.float32))
        steps = np.where(np.isnan(steps), zero, np.add(steps, zero, dtype=np.float32))
    return np.clip(steps, low, high).astype(dtype.numpy)


@quantize.samples
def quantize_samples(draw):
    ends = np.float32([0.5, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e30, -1e30, 0, -0.0])
    for name, low, high, zero in [
        ("int8", -128, 127, 0),
        ("int8", -7, 7, 3),
        ("uint8", 0, 255, 131),
        ("uint8", 0, 15, 255),
        ("int16", -32768, 32767, -5),
        ("uint16", 0, 65535, 65535),
    ]:
        attrs = {"low": low, "high": high, "dtype": dtype_of(name)}
        point, step = np.array(zero, np.float32), np.array(high / 500, np.float32)
        for shape in [(), (0,), (17,), (3, 5), (130,)]:
            yield (draw("float32", *shape, low=-300, high=300), step, point), attrs
        for divisor in (1, 0):
            yield (ends, np.array(divisor, np.float32), point), attrs
        scales = draw("float32", 3, 1, low=0.01, high=2)
        yield (draw("float32", 2, 3, 9, low=-300, high=300), scales, point + scales * 0), attrs


@op(kernel="scale_sums", elementwise=True, differentiable=False)
def scale_sums(
    sums: TensorType, first: TensorType, second: TensorType, bias: TensorType
) -> TensorType:
    """``float32(sums) * first * second + bias``, each step rounded once: what sums of int32 mean.

    A factor of 1 and a bias of -0 leave everything as it is.
    """
    if sums.dtype is not int32 or any(t.dtype is not float32 for t in (first, second, bias)):
        raise DTypeError(
            f"scale_sums cannot take {sums}, {first}, {second} and {bias}",
            why="It takes sums of int32, and float32.",
            fix="cast them with astype",
        )
    return tensor_type(float32, broadcast_shapes("scale_sums", sums, first, second, bias))


@scale_sums.reference
def scale_sums_reference(sums, first, second, bias):
    first, second, bias = (np.asarray(x, np.float32) for x in (first, second, bias))
    return sums.astype(np.float32) * first * second + bias  # each step rounded to float32


@scale_sums.samples
def scale_sums_samples(draw):
    one, none = np.array(1, np.float32), np.array(-0.0, np.float32)
    for shape in [(), (0,), (17,), (3, 5), (130,)]:
        sums = draw("int32", *shape, low=-(1 << 30), high=1 << 30)
        yield (sums, *[draw("float32", *shape, low=-2, high=2) for _ in range(3)]), {}
        yield (sums, draw("float32", low=1e-6, high=1e-3), one, none), {}
    rows, columns = (draw("float32", *shape, low=-2, high=2) for shape in ((3, 1), (9,)))
    yield (draw("int32", 2, 3, 9, low=-99, high=99), rows, columns, draw("float32", 9)), {}
