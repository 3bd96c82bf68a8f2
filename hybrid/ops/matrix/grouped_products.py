"""Products with weights of 4 or 8 bits, which have a scale for each group along the input.

``packed`` is int8 [out, in], or uint8 [out, in / 2 rounded up] with two weights to a byte, the
first in its lower half.  Such halves are 8 more than the integer that they stand for, or, with
``table``, numbers of the 16 values of ``NORMAL_FLOAT``.  A weight is then ``q * scale``, or
``q * scale + zero``, with ``scale`` and ``zero`` [out, groups] and groups of ``group_size`` weights
along the input, of which the last may be smaller.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, float32, float64, int8, tensor_type, uint8
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.axes import reduction
from hybrid.ops.index.indexing import take
from hybrid.ops.matrix.products import product, product_tn
from hybrid.ops.shapes.concatenation import pad_constant
from hybrid.ops.shapes.packed_halves import unpack
from hybrid.ops.shapes.shape import region, reshape_to
from hybrid.ops.support.dtypes import cast
from hybrid.ops.support.operand_checks import as_tensor

# The values of 4-bit NormalFloat (Dettmers et al. 2023, appendix E): quantiles of a normal
# distribution, in float32.
NORMAL_FLOAT = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
)  # fmt: skip
OFFSET = 8  # of halves that are integers
LONGEST = 1 << 16  # weights of a group whose products with int8 surely fit into 32 bits


def groups_of(size: int, group_size: int) -> int:
    """How many groups there are along an input of ``size``."""
    return -(-size // group_size)


def _checked(
    name: str, x: TensorType, packed: TensorType, scales: tuple[TensorType, ...], group_size: Any
) -> None:
    """Raise unless the operands belong together."""
    if type(group_size) is not int or group_size < 1:
        raise ArgumentError(f"{name} got group_size {group_size!r}", fix="give an int from 1 on")
    if packed.dtype not in (int8, uint8):
        raise DTypeError(
            f"{name} cannot take weights {packed}",
            why="Weights are int8 [out, in], or uint8 [out, in / 2] with two to a byte.",
            fix="quantize them, and pack those of 4 bits",
        )
    size = x.shape[-1] if x.rank else 0
    columns = size if packed.dtype is int8 else -(-size // 2)
    if not x.rank or packed.rank != 2 or packed.shape[1] != columns:
        raise ShapeError(
            f"{name} cannot take {x} and weights {packed}",
            why="The last axis of the first is that of the weights, two to a byte in uint8.",
            fix="give x [..., in] and weights [out, in] or [out, in / 2]",
        )
    want = (packed.shape[0], groups_of(size, group_size))
    for scale in scales:
        if scale.shape != want:
            raise ShapeError(
                f"{name} got scales {scale} for {packed.shape[0]} outputs and {size} inputs in "
                f"groups of {group_size}",
                why="Each output has a scale, and a zero if there are any, for each group.",
                fix=f"give float32{list(want)}",
            )


@op
def matmul_grouped(*operands: TensorType, group_size: int, table: bool = False) -> TensorType:
    """``x @ weight.T`` for ``x`` [..., in], ``packed``, ``scale`` and perhaps ``zero``: [..., out].

    Weights are not written out in floats.  Floats are of one dtype, float32 or float64.
    """
    if len(operands) not in (3, 4):
        raise ArgumentError(
            f"matmul_grouped got {len(operands)} operands", fix="give x, packed, scale (, zero)"
        )
    x, packed, *scales = operands
    if x.dtype not in (float32, float64) or any(scale.dtype is not x.dtype for scale in scales):
        raise DTypeError(
            f"matmul_grouped cannot take {x} and scales {scales[0]}",
            why="All floats are float32, or all float64.",
            fix="cast them with astype",
        )
    _checked("matmul_grouped", x, packed, tuple(scales), group_size)
    if table and (packed.dtype is not uint8 or len(scales) > 1):
        raise ArgumentError(
            f"matmul_grouped got a table for weights {packed}",
            why="The values of 4-bit NormalFloat have scales alone.",
            fix="give uint8 and no zero",
        )
    return tensor_type(x.dtype, (*x.shape[:-1], packed.shape[0]))


def _values(packed: np.ndarray, size: int, table: bool, dtype: Any) -> np.ndarray:
    """The weights before they are scaled."""
    if packed.dtype == np.int8:
        return packed.astype(dtype)
    halves = np.stack([packed & 15, packed >> 4], -1)
    halves = halves.reshape(len(packed), 2 * packed.shape[1])[:, :size]
    return NORMAL_FLOAT[halves].astype(dtype) if table else halves.astype(dtype) - OFFSET


@matmul_grouped.reference
def matmul_grouped_reference(x, packed, scale, *zero, group_size, table):
    size = x.shape[-1]
    weight = _values(packed, size, table, scale.dtype)
    weight = weight * np.repeat(scale, group_size, axis=1)[:, :size]
    for more in zero:
        weight = weight + np.repeat(more, group_size, axis=1)[:, :size]
    return np.matmul(x.astype(np.float64), weight.T.astype(np.float64)).astype(x.dtype)


@matmul_grouped.lowering
def matmul_grouped_lowering(emit, x, *rest, group_size, table):
    *weights, result = rest
    rows = math.prod(x.shape[:-1])
    given = [emit.dense(x).reshape((rows, x.shape[-1])), *map(emit.dense, weights)]
    made = result.reshape((rows, result.shape[-1]))
    name = "matmul_grouped" if len(weights) == 2 else "matmul_grouped_zero"
    emit.kernel(name, given, [made], [group_size, int(table)])


def grouped_values(packed: Any, size: int, table: bool, dtype: Any = float32) -> Any:
    """The weights [out, in] before they are scaled, in floats."""
    if packed.dtype is int8:
        return cast(packed, dtype=dtype)
    halves = unpack(packed, size, signed=False)
    if not table:
        return cast(halves, dtype=dtype) - float(OFFSET)
    flat = reshape_to(halves, shape=(math.prod(halves.shape),))
    found = take(as_tensor(NORMAL_FLOAT), flat, axis=0)
    return cast(reshape_to(found, shape=halves.shape), dtype=dtype)


def grouped_weights(
    packed: Any, scale: Any, zero: Any, size: int, *, group_size: int, table: bool = False
) -> Any:
    """The weights [..., in] in floats; bytes and scales may have any axes before the last."""
    values = grouped_values(packed, size, table, scale.dtype)
    in_groups = _in_groups(values, group_size) * _each(scale)
    if zero is not None:
        in_groups = in_groups + _each(zero)
    return _along(in_groups, size)


def _each(scale: Any) -> Any:
    return reshape_to(scale, shape=(*scale.shape, 1))


def _in_groups(x: Any, group_size: int) -> Any:
    """``x`` [..., in] as [..., groups, group_size], with zeros behind."""
    *lead, size = x.shape
    count = groups_of(size, group_size)
    group_size = min(group_size, max(size, 1))  # of one group
    missing = count * group_size - size
    if missing:
        x = pad_constant(x, widths=(*((0, 0),) * len(lead), (0, missing)), value=0)
    return reshape_to(x, shape=(*lead, count, group_size))


def _along(x: Any, size: int) -> Any:
    """The first ``size`` of what lies along the last two axes."""
    *lead, count, group_size = x.shape
    x = reshape_to(x, shape=(*lead, count * group_size))
    if count * group_size == size:
        return x
    start, step = (0,) * len(x.shape), (1,) * len(x.shape)
    return region(x, start=start, size=(*lead, size), step=step)


@matmul_grouped.vjp
def matmul_grouped_vjp(ct, _y, x, packed, scale, *zero, group_size, table):
    size = x.shape[-1]
    rows = math.prod(x.shape[:-1])

    def by_x():
        weight = grouped_weights(
            packed, scale, *(zero or (None,)), size, group_size=group_size, table=table
        )
        return product(ct, weight) if len(ct.shape) > 1 else _row(ct, weight)

    def by_weight():
        wide = reshape_to(ct, shape=(rows, ct.shape[-1]))
        return product_tn(wide, reshape_to(x, shape=(rows, size)))

    def by_scale():
        values = grouped_values(packed, size, table, scale.dtype)
        return reduction.sum(_in_groups(by_weight() * values, group_size), axis=-1)

    def by_zero():
        return reduction.sum(_in_groups(by_weight(), group_size), axis=-1)

    return (by_x, None, by_scale, *([by_zero] if zero else []))


def _row(ct: Any, weight: Any) -> Any:
    wide = product(reshape_to(ct, shape=(1, *ct.shape)), weight)
    return reshape_to(wide, shape=weight.shape[1:])


@matmul_grouped.batch
def matmul_grouped_batch(_rows, batched, x, *weights, **attrs):
    return NotImplemented if any(batched[1:]) else matmul_grouped(x, *weights, **attrs)


def _weights(draw, outputs, size, group_size, kind):
    packed = (outputs, size) if kind == "int8" else (outputs, -(-size // 2))
    limits = {"low": -128, "high": 127} if kind == "int8" else {"low": 0, "high": 255}
    return draw(kind, *packed, **limits), (outputs, groups_of(size, group_size))


@matmul_grouped.samples
def matmul_grouped_samples(draw):
    for dtype in draw.floats:
        for lead, outputs, size, group_size in [
            ((3,), 2, 5, 2),
            ((), 3, 9, 4),
            ((1,), 19, 130, 32),
            ((2, 3), 17, 64, 64),
            ((6,), 9, 200, 16),
            ((13,), 70, 77, 24),
            ((11,), 33, 40, 100),
            ((0,), 4, 6, 3),
            ((2,), 0, 6, 3),
            ((2,), 3, 0, 8),
        ]:
            for kind, zeros, table in [
                ("uint8", 0, False), ("uint8", 1, False), ("uint8", 0, True), ("int8", 1, False),
                ("int8", 0, False),
            ]:  # fmt: skip
                packed, of_scales = _weights(draw, outputs, size, group_size, kind)
                scales = [draw(dtype, *of_scales, low=0.01, high=0.2) for _ in range(1 + zeros)]
                attrs = {"group_size": group_size, "table": table}
                yield (draw(dtype, *lead, size), packed, *scales), attrs


@op(differentiable=False)
def matmul_grouped_integer(
    x: TensorType, packed: TensorType, scale: TensorType, *, group_size: int
) -> TensorType:
    """The sums over groups, in order, of ``float32(x @ q.T of a group) * scale``: [..., out].

    ``x`` [..., in] is int8.  Sums of a group are exact, of int32; each product and each sum that
    follows is rounded once, so the bits are the same everywhere.
    """
    if x.dtype is not int8 or scale.dtype is not float32:
        raise DTypeError(
            f"matmul_grouped_integer cannot take {x} and scales {scale}",
            why="It multiplies int8, and scales in float32.",
            fix="cast them with astype",
        )
    _checked("matmul_grouped_integer", x, packed, (scale,), group_size)
    if min(group_size, x.shape[-1]) > LONGEST:
        raise ArgumentError(
            f"matmul_grouped_integer got groups of {group_size}",
            why=f"Sums of more than {LONGEST} products need not fit into 32 bits.",
            fix="give a smaller group_size",
        )
    return tensor_type(float32, (*x.shape[:-1], packed.shape[0]))


@matmul_grouped_integer.reference
def matmul_grouped_integer_reference(x, packed, scale, *, group_size):
    size = x.shape[-1]
    q = _values(packed, size, False, np.int64)
    total = np.zeros((*x.shape[:-1], len(packed)), np.float32)
    for group in range(groups_of(size, group_size)):
        at = slice(group * group_size, (group + 1) * group_size)
        sums = np.matmul(x[..., at].astype(np.int64), q[:, at].T)
        total = total + sums.astype(np.float32) * scale[:, group].astype(np.float32)
    return np.asarray(total)


@matmul_grouped_integer.lowering
def matmul_grouped_integer_lowering(emit, x, packed, scale, result, *, group_size):
    rows = math.prod(x.shape[:-1])
    given = [emit.dense(x).reshape((rows, x.shape[-1])), emit.dense(packed), emit.dense(scale)]
    made = result.reshape((rows, result.shape[-1]))
    emit.kernel("matmul_grouped_integer", given, [made], [group_size])


@matmul_grouped_integer.batch
def matmul_grouped_integer_batch(_rows, batched, x, packed, scale, **attrs):
    return NotImplemented if any(batched[1:]) else matmul_grouped_integer(x, packed, scale, **attrs)


@matmul_grouped_integer.samples
def matmul_grouped_integer_samples(draw):
    for lead, outputs, size, group_size in [
        ((3,), 2, 5, 2), ((), 3, 9, 8), ((1,), 19, 600, 32), ((2, 3), 17, 64, 64),
        ((6,), 9, 200, 16), ((13,), 70, 77, 24), ((2,), 21, 777, 128), ((11,), 33, 40, 100),
        ((70,), 9, 40, 32), ((0,), 4, 6, 3), ((2,), 0, 6, 3), ((2,), 3, 0, 8),
    ]:  # fmt: skip
        for kind in ("uint8", "int8"):
            packed, of_scales = _weights(draw, outputs, size, group_size, kind)
            x = draw("int8", *lead, size, low=-128, high=127)
            scale = draw("float32", *of_scales, low=0.01, high=0.2)
            yield (x, packed, scale), {"group_size": group_size}
