"""Shapes: what asks for them, changes them, or takes tensors apart and together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.nn import functional
from hybrid.onnx.known_values import (
    axes_of,
    axis_of,
    dtype_of_known,
    number_of,
    numbers_of,
    sizes,
    tensor,
)
from hybrid.onnx.node_table import handles

_SINCE = (21, 23, 24, 25)  # when shapes of further types were allowed


# Sizes -------------------------------------------------------------------------------------------


@handles("Shape", 1, 13, 15, 19, *_SINCE, always_known=True, values=(0,))
def shape(x, *, start=0, end=None):
    """Shape: the sizes of x, a known value."""
    return _shape(x.shape, start, end)


def _shape(shape: tuple[Any, ...], start: int = 0, end: int | None = None) -> np.ndarray:
    return sizes(shape[start:end])


@handles("Size", 1, 13, 19, *_SINCE, always_known=True, values=(0,))
def size(x):
    """Size: the number of elements, a known value."""
    return sizes([math.prod(x.shape)]).reshape(())


def _target(shape: tuple[Any, ...], given: list[Any], allowzero: int) -> tuple[Any, ...]:
    """The shape that Reshape means: 0 is the size that x has there."""
    if not allowzero:
        given = [
            shape[at] if type(n) is int and n == 0 and at < len(shape) else n
            for at, n in enumerate(given)
        ]
    return tuple(given)


def _known_reshape(x: np.ndarray, shape: np.ndarray, *, allowzero: int = 0) -> np.ndarray:
    return x.reshape([int(n) for n in _target(x.shape, numbers_of(shape), allowzero)])


@handles("Reshape", 5, 13, 14, 19, *_SINCE, values=(1,), known=_known_reshape, traced=True)
def reshape(x, shape, *, allowzero=0):
    """Reshape: -1 is what is left, 0 the size that x has there unless ``allowzero``."""
    return ops.reshape(x, _target(x.shape, numbers_of(shape), allowzero))


@handles("Reshape", 1)
def reshape_to(x, *, shape):
    """Reshape to an attribute: opsets 1 to 4."""
    return ops.reshape(x, _target(x.shape, shape, 0))


@handles("Flatten", 1, 9, 11, 13, *_SINCE)
def flatten(x, *, axis=1):
    """Flatten: [axes before ``axis``, axes from it on]."""
    axis = axis_of(axis, x.ndim + 1) if axis >= 0 else axis_of(axis, x.ndim)
    return ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@handles("Transpose", 1, 13, *_SINCE, known=lambda x, perm=None: np.transpose(x, perm))
def transpose(x, *, perm=None):
    """Transpose: the axes in another order, from the back if there is none."""
    return ops.permute_dims(x, tuple(perm or range(x.ndim)[::-1]))


def _squeezed(shape: tuple[Any, ...], axes: list[int]) -> tuple[Any, ...]:
    for axis in axes:
        if shape[axis] != 1:
            raise OnnxError(f"Squeeze of axis {axis} of a tensor of shape {list(shape)}")
    return tuple(n for at, n in enumerate(shape) if at not in axes)


def _all_ones(shape: tuple[Any, ...]) -> list[int]:
    return [at for at, n in enumerate(shape) if n == 1]


def _known_squeeze(x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    found = _all_ones(x.shape) if axes is None else axes_of(axes, x.ndim)
    return x.reshape(_squeezed(x.shape, found))


@handles("Squeeze", 13, *_SINCE, values=(1,), known=_known_squeeze, traced=True)
def squeeze(x, axes=None):
    """Squeeze: without axes of length 1."""
    found = _all_ones(x.shape) if axes is None else axes_of(axes, x.ndim)
    return ops.reshape(x, _squeezed(x.shape, found))


@handles("Squeeze", 1, 11, known=lambda x, axes=None: _known_squeeze(x, _listed(axes)))
def squeeze_axes(x, *, axes=None):
    """Squeeze with axes as an attribute: opsets 1 to 12."""
    return squeeze(x, _listed(axes))


def _listed(axes: list[int] | None) -> np.ndarray | None:
    return None if axes is None else np.array(axes, np.int64)


def _unsqueezed(shape: tuple[Any, ...], axes: Any) -> tuple[Any, ...]:
    rank = len(shape) + len(numbers_of(axes))
    new = axes_of(axes, rank)
    if len(set(new)) != len(new):
        raise OnnxError(f"Unsqueeze got axes {new}", why="Each may be named once.")
    rest = iter(shape)
    return tuple(1 if axis in new else next(rest) for axis in range(rank))


@handles(
    "Unsqueeze",
    13,
    *_SINCE,
    values=(1,),
    known=lambda x, axes: x.reshape(_unsqueezed(x.shape, axes)),
    traced=True,
)
def unsqueeze(x, axes):
    """Unsqueeze: with axes of length 1."""
    return ops.reshape(x, _unsqueezed(x.shape, axes))


@handles(
    "Unsqueeze", 1, 11, known=lambda x, axes: x.reshape(_unsqueezed(x.shape, axes)), traced=True
)
def unsqueeze_axes(x, *, axes):
    """Unsqueeze with axes as an attribute: opsets 1 to 12."""
    return ops.reshape(x, _unsqueezed(x.shape, axes))


# Larger and smaller ------------------------------------------------------------------------------


def _expanded(shape: tuple[Any, ...], given: list[Any]) -> tuple[Any, ...]:
    """What ``shape`` is, broadcast with ``given``."""
    rank = max(len(shape), len(given))
    own = [1] * (rank - len(shape)) + list(shape)
    asked = [1] * (rank - len(given)) + given
    return tuple(n if type(m) is int and m == 1 else m for n, m in zip(own, asked, strict=True))


def _known_expand(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(numbers_of(shape))))


@handles("Expand", 8, 13, values=(1,), known=_known_expand)
def expand(x, shape):
    """Expand: x broadcast with ``shape``."""
    return ops.broadcast_to(x, _expanded(x.shape, numbers_of(shape)))


@handles("Tile", 6, 13, values=(1,), known=lambda x, n: np.tile(x, numbers_of(n)))
def tile(x, repeats):
    """Tile."""
    return ops.tile(x, tuple(numbers_of(repeats)))


@handles("Tile", 1, values=(1, 2))
def tile_axis(x, tiles, axis):
    """Tile along one axis: opsets 1 to 5."""
    repeats = [1] * x.ndim
    repeats[int(number_of(axis))] = number_of(tiles)
    return ops.tile(x, tuple(repeats))


def _known_concat(*values: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(values, axis)


@handles("Concat", 4, 11, 13, known=_known_concat, traced=True)
def concat(*values, axis):
    """Concat."""
    return ops.concat(values, axis=axis) if len(values) > 1 else values[0]


@handles("Concat", 1)
def concat_of_opset_1(*values, axis=1):
    """Concat, along axis 1 unless another is said."""
    return concat(*values, axis=axis)


def _parts(length: Any, count: int) -> list[Any]:
    """Sizes of ``count`` parts, of which the last may be smaller."""
    if type(length) is not int:  # of an open axis
        return [(length + count - 1) // count] * (count - 1) + [
            length - (length + count - 1) // count * (count - 1)
        ]
    part = -(-length // count)
    return [max(0, min(part, length - at * part)) for at in range(count)]


def _split(x: Any, parts: list[Any], axis: int, outputs: int) -> Any:
    found = ops.split(x, parts, axis=axis) if len(parts) > 1 else [x]
    return found[0] if outputs == 1 else tuple(found)[:outputs]


@handles("Split", 13, 18, values=(1,))
def split(x, parts=None, *, axis=0, num_outputs=None, outputs=1):
    """Split: into parts of these sizes, or ``num_outputs`` of one."""
    count = num_outputs or outputs
    sizes_ = _parts(x.shape[axis], count) if parts is None else numbers_of(parts)
    return _split(x, sizes_, axis, outputs)


@handles("Split", 2, 11)
def split_sizes(x, *, axis=0, split=None, outputs=1):
    """Split with sizes as an attribute: opsets 2 to 12."""
    return _split(x, split or _parts(x.shape[axis], outputs), axis, outputs)


@handles("Split", 1, values=(1,))
def split_of_opset_1(x, parts=None, *, axis=0, split=None, outputs=1):
    """Split with sizes as an attribute or an input."""
    given = split if parts is None else numbers_of(parts)
    return _split(x, given or _parts(x.shape[axis], outputs), axis, outputs)


def _pairs(pads: list[Any], axes: list[int], rank: int) -> list[tuple[Any, Any]]:
    """(before, after) for each axis."""
    if len(pads) != 2 * len(axes):
        raise OnnxError(
            f"Pad got {len(pads)} numbers for {len(axes)} axes", why="It takes two each."
        )
    pairs: list[tuple[Any, Any]] = [(0, 0)] * rank
    for at, axis in enumerate(axes):
        pairs[axis] = (pads[at], pads[at + len(axes)])
    return pairs


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _padded(x: Any, pairs: list[tuple[Any, Any]], mode: str, value: Any) -> Any:
    if mode not in _MODES:
        raise OnnxError(f"Pad got mode {mode!r}", why=f"It is one of {', '.join(_MODES)}.")
    if mode == "constant":
        cut = [pair for pair in pairs if any(type(n) is int and n < 0 for n in pair)]
        if cut:
            key = tuple(
                slice(max(0, -before), n - max(0, -after))
                for (before, after), n in zip(pairs, x.shape, strict=True)
            )
            x = ops.getitem(x, key)
            pairs = [(max(0, before), max(0, after)) for before, after in pairs]
        if isinstance(value, (int, float)):
            return ops.pad(x, pairs, constant_value=value)
        inside = ops.pad(ops.ones(x.shape, dtype=types.bool_), pairs, constant_value=0)
        return ops.where(inside, ops.pad(x, pairs), value)
    flat = [number for pair in reversed(pairs) for number in pair]
    return functional.pad(x, flat, mode=_MODES[mode])


@handles("Pad", 11, 13, 18, 19, *_SINCE, values=(1, 2, 3))
def pad(x, pads, value=None, axes=None, *, mode="constant"):
    """Pad: ``pads`` are the counts before all axes, then those after them."""
    found = list(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    pairs = _pairs([n if type(n) is not float else int(n) for n in numbers_of(pads)], found, x.ndim)
    fill: Any = 0
    if value is not None:
        fill = value.item() if type(value) is np.ndarray and value.size else ops.reshape(value, ())
    return _padded(x, pairs, mode, fill)


@handles("Pad", 2)
def pad_by(x, *, pads, mode="constant", value=0.0):
    """Pad with counts as an attribute: opsets 2 to 10."""
    return _padded(x, _pairs(pads, list(range(x.ndim)), x.ndim), mode, value)


@handles("Pad", 1)
def pad_of_opset_1(x, *, paddings, mode="constant", value=0.0):
    """Pad with counts as an attribute of another name."""
    return pad_by(x, pads=paddings, mode=mode, value=value)


@handles("DepthToSpace", 11, 13, 28)
def depth_to_space(x, *, blocksize, mode="DCR"):
    """DepthToSpace: channels to blocks of pixels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        parts = ops.reshape(x, (n, b, b, c // b**2, h, w))
        moved = ops.permute_dims(parts, (0, 3, 4, 1, 5, 2))
    else:
        parts = ops.reshape(x, (n, c // b**2, b, b, h, w))
        moved = ops.permute_dims(parts, (0, 1, 4, 2, 5, 3))
    return ops.reshape(moved, (n, c // b**2, h * b, w * b))


@handles("DepthToSpace", 1)
def depth_to_space_of_opset_1(x, *, blocksize):
    """DepthToSpace in the order depth, column, row."""
    return depth_to_space(x, blocksize=blocksize)


@handles("SpaceToDepth", 1, 13, 28)
def space_to_depth(x, *, blocksize, mode="DCR"):
    """SpaceToDepth: blocks of pixels to channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = ops.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.permute_dims(parts, order), (n, c * b**2, h // b, w // b))


# Made of numbers ---------------------------------------------------------------------------------


def _known_fill(shape: np.ndarray, *, value: np.ndarray | None = None) -> Any:
    number = np.zeros(1, np.float32) if value is None else value
    given = numbers_of(shape)
    if len(given) <= 1 and math.prod(given) <= 64:
        return np.full(given, number.reshape(-1)[0], number.dtype)
    return _filled(given, number)


def _filled(shape: list[Any], number: np.ndarray) -> Any:
    dtype = dtype_of_known(number)
    return ops.full(tuple(shape), number.reshape(-1)[0].item(), dtype=dtype)


@handles("ConstantOfShape", 9, 20, *_SINCE, values=(0,), known=_known_fill)
def constant_of_shape(shape, *, value=None):
    """ConstantOfShape: ``value``, of one element, everywhere; 0.0 if there is none."""
    return _filled(numbers_of(shape), np.zeros(1, np.float32) if value is None else value)


def _known_range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray, **_: Any) -> Any:
    numbers = [number_of(value) for value in (start, limit, delta)]
    if all(type(number) is int for number in numbers) and len(range(*numbers)) <= 64:
        return np.arange(*numbers, dtype=start.dtype)
    return ops.arange(*numbers, dtype=dtype_of_known(start))


@handles("Range", 11, 27, values=(0, 1, 2), known=_known_range)
def range_(start, limit, delta, *, stash_type=None):
    """Range: start, start + delta, ... below limit (above, if delta is negative)."""
    dtype = dtype_of_known(start)
    if dtype.is_integer:
        return ops.arange(*(number_of(value) for value in (start, limit, delta)), dtype=dtype)
    span = ops.divide(ops.subtract(tensor(limit), tensor(start)), tensor(delta))
    count = number_of(ops.astype(ops.maximum(ops.ceil(span), 0), types.int64))
    steps = ops.arange(0, count, 1, dtype=dtype)
    return ops.add(ops.multiply(steps, tensor(delta)), tensor(start))


@handles("EyeLike", 9, 22)
def eye_like(x, *, dtype=None, k=0):
    """EyeLike: ones on the k-th diagonal of a matrix as large as x."""
    return ops.eye(*x.shape, k=k, dtype=dtype or x.dtype)


@handles("Trilu", 14, values=(1,))
def trilu(x, k=None, *, upper=1):
    """Trilu: what is on and above (below) the k-th diagonal."""
    offset = 0 if k is None else int(number_of(k))
    return ops.triu(x, k=offset) if upper else ops.tril(x, k=offset)


@handles("Identity", 1, 13, 14, 16, 19, *_SINCE)
def identity(x):
    """Identity: the text needs no call of it."""
    return x


@handles("CenterCropPad", 18, values=(1,))
def center_crop_pad(x, shape, *, axes=None):
    """CenterCropPad: cut off or padded with zeros on both sides alike."""
    found = list(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    for axis, wanted in zip(found, numbers_of(shape), strict=True):
        have = x.shape[axis]
        if have > wanted:
            start = (have - wanted) // 2
            key = [slice(None)] * axis + [slice(start, start + wanted)]
            x = ops.getitem(x, tuple(key))
        elif have < wanted:
            before = (wanted - have) // 2
            pairs: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
            pairs[axis] = (before, wanted - have - before)
            x = ops.pad(x, pairs)
    return x
