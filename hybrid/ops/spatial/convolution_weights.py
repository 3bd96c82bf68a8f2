"""Convolutions in two parts: weights in the order in which the kernel reads them, then the rest.

Passes (passes/weights/precomputation.py) build them where weights stay the same from run to run.
``conv`` does both parts at each run, by the same kernels in the same order: the bits are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, dtype_of, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.spatial.convolution import conv
from hybrid.ops.spatial.windows import is_transformed, items_of_room, wide, widened_attrs

FEW = 4  # products of channels in a group, at most, for which there is nothing to prepare

UNCOPIED = 256  # results of a channel, at most, for which ``conv`` copies no weights


def is_prepared(x: TensorType, w: TensorType, groups: int, size: Shape) -> bool:
    """Whether a convolution of such operands has weights to prepare."""
    many = w.shape[1] * (w.shape[0] // groups) > FEW
    return many and bool(x.size and w.size and math.prod(size))


def pays(x: TensorType, w: TensorType, attrs: dict[str, Any]) -> bool:
    """Whether a convolution of prepared weights is faster: where ``conv`` makes copies of them.

    Those that few results read are best where they are.
    """
    result = (x.shape[0], w.shape[0], *attrs["size"])
    results = x.shape[0] * math.prod(attrs["size"])
    copies = results > UNCOPIED or is_transformed(w, attrs["stride"], attrs["dilation"], result)
    return copies and is_prepared(x, w, attrs["groups"], attrs["size"])


def _require(x: TensorType, w: TensorType, attrs: dict[str, Any]) -> TensorType:
    (result,) = conv.infer((x, w), conv.attributes(attrs))
    if not is_prepared(x, w, attrs["groups"], attrs["size"]):
        raise ShapeError(
            f"there is nothing to prepare in the convolution of {x} with {w}",
            why="It is empty, or its groups have few channels: weights are read as they are.",
            fix="use conv",
        )
    return result


def _items(w: TensorType, result: TensorType, attrs: dict[str, Any]) -> int:
    return items_of_room(w, attrs["stride"], attrs["dilation"], attrs["groups"], result.shape)


@op(differentiable=False)
def conv_prepare(
    w: TensorType,
    *,
    source: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """What ``conv_prepared`` needs of the weights to convolve an x of shape ``source``.

    Its numbers, and their order, are those of the instruction set in use.
    """
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    result = _require(tensor_type(w.dtype, source), w, attrs)
    return tensor_type(w.dtype, (_items(w, result, attrs),))


@op(differentiable=False)
def conv_prepared(
    x: TensorType,
    w: TensorType,
    p: TensorType,
    *,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """``conv`` of ``x`` and ``w``, read from ``p``: ``conv_prepare`` of ``w``."""
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    result = _require(x, w, attrs)
    require_room(p, _items(w, result, attrs), w, x)
    return result


def require_room(p: TensorType, items: int, w: TensorType, x: TensorType) -> None:
    """Raise ShapeError unless ``p`` has the ``items`` that are prepared of ``w`` for ``x``."""
    if p is not tensor_type(w.dtype, (items,)):
        raise ShapeError(
            f"{p} is not what is prepared of {w} for {x}", fix="prepare for the same attributes"
        )


@conv_prepare.reference
def conv_prepare_reference(w, *, source, stride, padding, dilation, groups, size):
    """Nothing but room: only the kernels know what goes there."""
    result = (source[0], w.shape[0], *size)
    kind = tensor_type(dtype_of(w.dtype), w.shape)
    return np.zeros(items_of_room(kind, stride, dilation, groups, result), w.dtype)


@conv_prepared.reference
def conv_prepared_reference(x, w, _p, **attrs):
    return conv.reference_rule(x, w, **attrs)


@conv_prepare.lowering
def lower_prepare(emit, w, result, *, source, stride, padding, dilation, groups, size):
    attrs = [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups, source[0]]
    attrs += widened_attrs(source[2:], size, fill=(1, 1))
    emit.kernel("conv_prepare", [wide(emit.dense(w))], [result], attrs)


@conv_prepared.lowering
def lower_prepared(emit, x, w, p, result, *, stride, padding, dilation, groups, size):
    attrs = [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups]
    operands = [wide(emit.dense(x)), wide(emit.dense(w)), emit.dense(p)]
    emit.kernel("conv_prepared", operands, [wide(result)], attrs)


def _drawn(draw):
    for (x, w), attrs in conv.sample_rule(draw):
        types = [tensor_type(dtype_of(a.dtype), a.shape) for a in (x, w)]
        if is_prepared(*types, attrs["groups"], attrs["size"]):
            yield x, w, attrs


@conv_prepare.samples
def prepare_samples(draw):
    for x, w, attrs in _drawn(draw):
        yield (w,), {"source": x.shape, **attrs}


@conv_prepared.samples
def prepared_samples(draw):
    for x, w, attrs in _drawn(draw):
        yield (x, w, conv_prepare(w, source=x.shape, **attrs).numpy()), attrs
