"""Sequences inside a graph, which are lists, and optional values, which may be None."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.known_values import number_of, numbers_of, sizes
from hybrid.onnx.node_table import handles


@handles("SequenceConstruct", 11)
def sequence_construct(*items):
    """SequenceConstruct: a list."""
    return list(items)


@handles("SequenceEmpty", 11)
def sequence_empty(*, dtype=types.float32):
    """SequenceEmpty: an empty list."""
    return []


@handles("SequenceAt", 11, values=(1,))
def sequence_at(items, position):
    """SequenceAt."""
    return items[_index(position, len(items))]


def _index(position: Any, count: int) -> int:
    at = int(number_of(position))
    if not -count <= at < count:
        raise OnnxError(f"position {at} of a sequence of {count}")
    return at


@handles("SequenceInsert", 11, values=(2,))
def sequence_insert(items, item, position=None):
    """SequenceInsert: a longer list."""
    at = len(items) if position is None else int(number_of(position))
    if not -len(items) <= at <= len(items):
        raise OnnxError(f"position {at} of a sequence of {len(items)}")
    return [*items[:at], item, *items[at:]]


@handles("SequenceErase", 11, values=(1,))
def sequence_erase(items, position=None):
    """SequenceErase: a shorter list, without the last unless another is named."""
    at = _index(np.array(-1) if position is None else position, len(items)) % len(items)
    return [*items[:at], *items[at + 1 :]]


@handles("SequenceLength", 11, always_known=True)
def sequence_length(items):
    """SequenceLength: a known value."""
    return sizes([len(items)]).reshape(())


@handles("ConcatFromSequence", 11)
def concat_from_sequence(items, *, axis, new_axis=0):
    """ConcatFromSequence: one tensor of all items."""
    return ops.stack(items, axis=axis) if new_axis else ops.concat(items, axis=axis)


@handles("SplitToSequence", 11, 24, values=(1,))
def split_to_sequence(x, split=None, *, axis=0, keepdims=1):
    """SplitToSequence: parts of these sizes, or of one, or slices."""
    length = x.shape[axis]
    if split is None:
        if not keepdims:
            return list(ops.unstack(x, axis=axis))
        return ops.split(x, [1] * length, axis=axis)
    parts = [int(n) for n in numbers_of(split)]
    if split.ndim == 0:
        [size] = parts
        parts = [min(size, length - at * size) for at in range(math.ceil(length / size))]
    return ops.split(x, parts, axis=axis)


@handles("Optional", 15, 28)
def optional(value=None, *, type=None):
    """Optional: the value, or None."""
    return value


@handles("OptionalGetElement", 15, 18, 28)
def optional_get_element(value):
    """OptionalGetElement: the value; it must be there."""
    if value is None:
        raise OnnxError("OptionalGetElement of an optional value that is not there")
    return value


@handles("OptionalHasElement", 15, 18, 28, always_known=True)
def optional_has_element(value=None):
    """OptionalHasElement: whether the value is there, a known value."""
    return np.array(value is not None)
