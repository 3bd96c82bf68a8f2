"""Normalizations: of batches, layers, groups, instances and neighbours."""

from __future__ import annotations

import math

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.known_values import axis_of
from hybrid.onnx.node_table import handles


def _per_channel(vector, rank):
    return ops.reshape(vector, (-1, *[1] * (rank - 2)))


def _batch_norm(x, scale, bias, mean, var, epsilon):
    if x.dtype is scale.dtype is mean.dtype and x.ndim >= 2:
        return ops.batch_norm(x, mean, var, scale, bias, training=False, eps=epsilon)
    rank = max(x.ndim, 2)
    wide = types.float32
    factor = ops.divide(ops.astype(scale, wide), ops.sqrt(ops.add(ops.astype(var, wide), epsilon)))
    shift = ops.subtract(ops.astype(bias, wide), ops.multiply(ops.astype(mean, wide), factor))
    y = ops.add(
        ops.multiply(ops.astype(x, wide), _per_channel(factor, rank)), _per_channel(shift, rank)
    )
    return ops.astype(y, x.dtype)


@handles("BatchNormalization", 14, 15, weights=(1, 2))
def batch_normalization(
    x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, outputs=1
):
    """BatchNormalization by the given mean and variance, or in ``training_mode`` by those of x."""
    if not training_mode:
        y = _batch_norm(x, scale, bias, mean, var, epsilon)
        return y if outputs == 1 else (y, mean, var)[:outputs]
    axes = (0, *range(2, x.ndim))
    own = ops.mean(x, axis=axes)
    own_var = ops.var(x, axis=axes)
    y = _batch_norm(x, scale, bias, own, own_var, epsilon)
    if outputs == 1:
        return y
    running = [
        ops.add(ops.multiply(old, momentum), ops.multiply(new, 1 - momentum))
        for old, new in ((mean, own), (var, own_var))
    ]
    return (y, *running)[:outputs]


@handles("BatchNormalization", 9, weights=(1, 2))
def batch_normalization_by(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9):
    """BatchNormalization by the given mean and variance: opsets 9 to 13."""
    return _batch_norm(x, scale, bias, mean, var, epsilon)


@handles("BatchNormalization", 1, 6, 7, weights=(1, 2))
def batch_normalization_of_opset_1(
    x, scale, bias, mean, var, *, epsilon=1e-5, is_test=0, momentum=0.9, spatial=1
):
    """BatchNormalization as it was before opset 9: the one output is that of a test."""
    if not spatial:
        raise OnnxError(
            "BatchNormalization with spatial=0",
            why="Opset 9 has taken it away, and no exporter is known to have written it.",
        )
    return _batch_norm(x, scale, bias, mean, var, epsilon)


@handles("InstanceNormalization", 1, 6, 22, weights=(1, 2))
def instance_normalization(x, scale, bias, *, epsilon=1e-5):
    """InstanceNormalization: each channel of each entry by its own mean and variance."""
    return ops.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def _in_float32(x, stash):
    """x as the type that ``stash_type`` asks to compute in."""
    return ops.astype(x, stash) if stash is not None and x.dtype is not stash else x


@handles("LayerNormalization", 17, weights=(1, 2))
def layer_normalization(
    x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=types.float32, outputs=1
):
    """LayerNormalization over the axes from ``axis`` on; also the mean and 1 / deviation."""
    axis = axis_of(axis, x.ndim)
    shape = x.shape[axis:]
    fits = scale.shape == shape and (bias is None or bias.shape == shape)
    if outputs == 1 and fits and x.dtype is stash_type:
        return ops.layer_norm(x, shape, scale, bias, eps=epsilon)
    axes = tuple(range(axis, x.ndim))
    wide = _in_float32(x, stash_type)
    mean = ops.mean(wide, axis=axes, keepdims=True)
    away = ops.subtract(wide, mean)
    variance = ops.mean(ops.square(away), axis=axes, keepdims=True)
    inverse = ops.reciprocal(ops.sqrt(ops.add(variance, epsilon)))
    y = ops.multiply(ops.astype(ops.multiply(away, inverse), x.dtype), scale)
    y = y if bias is None else ops.add(y, bias)
    return y if outputs == 1 else (y, mean, inverse)[:outputs]


@handles("RMSNormalization", 23, weights=(1,))
def rms_normalization(x, scale, *, axis=-1, epsilon=1e-5, stash_type=types.float32):
    """RMSNormalization over the axes from ``axis`` on."""
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = _in_float32(x, stash_type)
    square = ops.mean(ops.square(wide), axis=axes, keepdims=True)
    root = ops.sqrt(ops.add(square, epsilon))
    return ops.multiply(ops.astype(ops.divide(wide, root), x.dtype), scale)


@handles("GroupNormalization", 21, weights=(1, 2))
def group_normalization(x, scale, bias, *, num_groups, epsilon=1e-5, stash_type=types.float32):
    """GroupNormalization, with a scale for each channel."""
    wide = _in_float32(x, stash_type)
    y = ops.group_norm(wide, num_groups, eps=epsilon)
    y = ops.multiply(ops.astype(y, x.dtype), _per_channel(scale, x.ndim))
    return ops.add(y, _per_channel(bias, x.ndim))


@handles("GroupNormalization", 18, weights=(1, 2))
def group_normalization_of_groups(x, scale, bias, *, num_groups, epsilon=1e-5):
    """GroupNormalization with a scale for each group: opsets 18 to 20."""
    wide = x.shape[1] // num_groups
    return group_normalization(
        x, ops.repeat(scale, wide), ops.repeat(bias, wide), num_groups=num_groups, epsilon=epsilon
    )


@handles("LRN", 1, 13)
def lrn(x, *, size, alpha=1e-4, beta=0.75, bias=1.0):
    """LRN: x over a power of the squares of neighbouring channels."""
    n, channels = x.shape[:2]
    squares = ops.reshape(ops.square(x), (n, channels, math.prod(x.shape[2:])))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    padded = ops.pad(squares, [(0, 0), (before, after), (0, 0)])
    total = None
    for at in range(size):
        part = ops.getitem(padded, (slice(None), slice(at, at + channels)))
        total = part if total is None else ops.add(total, part)
    base = ops.add(ops.multiply(ops.reshape(total, x.shape), alpha / size), bias)
    return ops.divide(x, ops.pow(base, beta))
