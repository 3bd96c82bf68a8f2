"""Convolutions of images in blocks of channels: f32[N, C / 16, H, W, 16] for f32[N, C, H, W].

Passes build them between convolutions: see channel_blocks.py.  Each element is summed as
``conv`` sums it, so the bits are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, dtype_of, float32, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.spatial.convolution import conv
from hybrid.ops.spatial.convolution_weights import require_room
from hybrid.ops.spatial.windows import LARGEST, is_transformed, items_of_room, widened_attrs

BLOCK = 16  # channels that lie side by side, on every machine: shapes do not depend on it
FEW = (1, 4, 8, 16)  # channels of groups that are summed together, block by block
CHAIN = 384  # terms of such sums, at most: more are summed in parts


def blocked_shape(shape: Shape) -> Shape:
    """[N, C, H, W] in blocks of channels."""
    n, channels, *sizes = shape
    return (n, channels // BLOCK, *sizes, BLOCK)


def plain_shape(shape: Shape) -> Shape:
    """[N, C / 16, H, W, 16] as [N, C, H, W]."""
    n, blocks, *sizes, _ = shape
    return (n, blocks * BLOCK, *sizes)


def is_each(w: TensorType, groups: int) -> bool:
    """Whether a convolution takes each channel alone."""
    return groups > 1 and w.shape[0] == groups and w.shape[1] == 1


def is_few(w: TensorType, groups: int) -> bool:
    """Whether a convolution takes few channels at a time, and gives as many: ``FEW``."""
    channels = w.shape[1]
    same = groups > 1 and channels in FEW and channels * groups == w.shape[0]
    return same and (channels == 1 or math.prod(w.shape[1:]) <= CHAIN)


def takes(x: TensorType, w: TensorType, attrs: dict[str, Any]) -> bool:
    """Whether the convolution of x [N, C, H, W] with w can have its results in blocks."""
    groups, size = attrs["groups"], attrs["size"]
    plain = x.rank == 4 and x.dtype is float32 and x.size and w.size and all(size)
    whole = w.shape[0] % BLOCK == 0 and max(x.shape[1], w.shape[0]) <= LARGEST
    apart = w.shape[1] % BLOCK == 0 and w.shape[0] % (BLOCK * groups) == 0
    return bool(plain and whole and (groups == 1 or apart or is_few(w, groups)))


def takes_blocks(x: TensorType) -> bool:
    """Whether x [N, C, H, W] can lie in blocks."""
    return x.rank == 4 and x.shape[1] % BLOCK == 0 and x.size > 0


def takes_planes(w: TensorType, attrs: dict[str, Any], batch: int) -> bool:
    """Whether x may lie as it is, too: not where tiles of it are transformed, or groups small."""
    result = (batch, w.shape[0], *attrs["size"])
    transformed = is_transformed(w, attrs["stride"], attrs["dilation"], result)
    return not transformed and not is_few(w, attrs["groups"])


def _items(w: TensorType, attrs: dict[str, Any], batch: int) -> int:
    result = (batch, w.shape[0], *attrs["size"])
    return items_of_room(w, attrs["stride"], attrs["dilation"], attrs["groups"], result)


def _require(x: TensorType, w: TensorType, attrs: dict[str, Any]) -> None:
    conv.infer((x, w), conv.attributes(attrs))
    if not takes(x, w, attrs):
        raise ShapeError(
            f"the convolution of {x} with {w} has no results in blocks",
            why=f"They are of float32, [N, C, H, W], with a multiple of {BLOCK} channels, and not "
            f"empty; groups take and give multiples of {BLOCK}, or 1, 4 or 8 in single chains.",
            fix="use conv",
        )


@op(differentiable=False)
def conv_blocked_prepare(
    w: TensorType,
    *,
    source: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    size: Shape,
) -> TensorType:
    """What ``conv_blocked`` needs of the weights to convolve an x of shape ``source``.

    Its numbers, and their order, are those of the instruction set in use.
    """
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    _require(tensor_type(w.dtype, source), w, attrs)
    return tensor_type(w.dtype, (_items(w, attrs, source[0]),))


@op(differentiable=False)
def conv_blocked(
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
    """``conv`` of ``x`` and ``w``, read from ``p``, in blocks: [N, O / 16, *size, 16].

    ``x`` is in blocks, too, or as it is; ``p`` is ``conv_blocked_prepare`` of ``w``.
    """
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    blocked = x.rank == 5 and x.shape[-1] == BLOCK
    plain = x.with_shape(plain_shape(x.shape)) if blocked else x
    _require(plain, w, attrs)
    if not blocked and not takes_planes(w, attrs, x.shape[0]):
        raise ShapeError(
            f"conv_blocked cannot take {x} with {w}",
            why="Such a convolution reads blocks of channels.",
            fix="give x in blocks",
        )
    require_room(p, _items(w, attrs, x.shape[0]), w, x)
    return x.with_shape((x.shape[0], w.shape[0] // BLOCK, *size, BLOCK))


def in_blocks(x: Any) -> Any:
    """An array [N, C, H, W] in blocks of channels."""
    n, channels, *sizes = x.shape
    return np.moveaxis(x.reshape(n, channels // BLOCK, BLOCK, *sizes), 2, -1)


@conv_blocked_prepare.reference
def conv_blocked_prepare_reference(w, *, source, stride, padding, dilation, groups, size):
    """Nothing but room: only the kernels know what goes there."""
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    return np.zeros(_items(tensor_type(dtype_of(w.dtype), w.shape), attrs, source[0]), w.dtype)


@conv_blocked.reference
def conv_blocked_reference(x, w, _p, **attrs):
    if x.ndim == 5:
        x = np.moveaxis(x, -1, 2).reshape(plain_shape(x.shape))
    return in_blocks(conv.reference_rule(x, w, **attrs))


@conv_blocked_prepare.lowering
def lower_prepare(emit, w, result, *, source, stride, padding, dilation, groups, size):
    attrs = [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups]
    attrs += [source[0], *source[2:], *size]
    emit.kernel("conv_blocked_prepare", [emit.dense(w)], [result], attrs)


@conv_blocked.lowering
def lower_blocked(emit, x, w, p, result, *, stride, padding, dilation, groups, size):
    attrs = [*widened_attrs(stride, padding, dilation, fill=(1, 0, 1)), groups]
    emit.kernel("conv_blocked", [emit.dense(x), emit.dense(w), emit.dense(p)], [result], attrs)


_SAMPLES = [  # batch, channels, groups, results, x, kernel, stride, padding, dilation
    (1, 3, 1, 16, (11, 13), (7, 7), (2, 2), (3, 3), (1, 1)),
    (2, 5, 1, 32, (6, 9), (3, 2), (1, 3), (1, 0), (2, 1)),
    (1, 16, 1, 16, (7, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 32, 1, 48, (9, 8), (1, 1), (2, 2), (0, 0), (1, 1)),
    (1, 32, 1, 32, (9, 11), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 16, 1, 64, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 48, 1, 16, (5, 19), (3, 3), (1, 1), (0, 2), (1, 1)),
    (1, 16, 1, 32, (5, 4), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 16, 1, 16, (8, 10), (2, 3), (3, 2), (2, 4), (2, 2)),
    (2, 32, 32, 32, (7, 19), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 16, 16, 16, (9, 9), (5, 3), (2, 3), (4, 2), (1, 2)),
    (2, 64, 2, 96, (9, 10), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 48, 3, 48, (7, 9), (3, 2), (2, 1), (1, 1), (1, 2)),
    (1, 32, 8, 32, (6, 15), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 16, 2, 16, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 32, 4, 32, (8, 9), (3, 3), (2, 2), (1, 1), (1, 1)),
    (1, 32, 2, 32, (7, 8), (3, 3), (2, 1), (1, 1), (1, 1)),
]


def _drawn(draw):
    """x as it is, w and the attributes."""
    for batch, channels, groups, rows, sizes, kernel, stride, padding, dilation in _SAMPLES:
        counts = [
            (n + 2 * p - (k - 1) * d - 1) // s + 1
            for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
        ]
        x = draw("float32", batch, channels, *sizes)
        w = draw("float32", rows, channels // groups, *kernel)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        yield x, w, {**geometry, "size": tuple(counts)}


@conv_blocked_prepare.samples
def prepare_samples(draw):
    for x, w, attrs in _drawn(draw):
        yield (w,), {"source": x.shape, **attrs}


@conv_blocked.samples
def blocked_samples(draw):
    for x, w, attrs in _drawn(draw):
        p = conv_blocked_prepare(w, source=x.shape, **attrs).numpy()
        if x.shape[1] % BLOCK == 0:
            yield (np.ascontiguousarray(in_blocks(x)), w, p), attrs
        if takes_planes(tensor_type(float32, w.shape), attrs, x.shape[0]):
            yield (x, w, p), attrs
