"""Indices whose number depends on values: what masks and traced counts select elements by.

::

    %k: i64[k] = true_indices %mask {size=k}     where %mask holds
    %i: i64[m] = index_range %count {size=m}     0, 1, ... for as many as %count says
    %n: i64[] = size_value %n {size=m}           m is what %n holds
    %r: i64[m] = repeat_indices %counts {size=m}  0 as often as the first count says, then 1, ...

Eager code has them at once.  In a graph their size is a symbol that each run gives a value to, and
what follows is planned for that value (``hybrid/calls/stages.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, bool_, int64, tensor_type
from hybrid.errors import ArgumentError, DTypeError, OutOfMemoryError, OutOfRangeError, ShapeError
from hybrid.ir import interpreter, op

LARGEST = 1 << 40  # indices: more than any memory holds


@op(differentiable=False, hosted=True)
def true_indices(mask: TensorType, *, size: int) -> TensorType:
    """Where ``mask`` [n] holds, in ascending order: int64 [size]."""
    if mask.dtype is not bool_ or mask.rank != 1:
        raise DTypeError(f"true_indices cannot take {mask}", fix="give a bool tensor of rank 1")
    return tensor_type(int64, (size,))


@op(differentiable=False, hosted=True, raises=True)
def index_range(count: TensorType, *, size: int) -> TensorType:
    """0, 1, ... for as many as ``count`` [] says: int64 [size]."""
    if count.dtype is not int64 or count.rank:
        raise ShapeError(f"index_range cannot take {count}", fix="give an int64 scalar")
    return tensor_type(int64, (size,))


@op(differentiable=False, hosted=True, raises=True)
def repeat_indices(counts: TensorType, *, size: int) -> TensorType:
    """Each number from 0 on as often in a row as its place in ``counts`` [n] says: int64 [size]."""
    if not counts.dtype.is_integer or counts.rank != 1:
        raise DTypeError(f"repeat_indices cannot take {counts}", fix="give integers of rank 1")
    return tensor_type(int64, (size,))


@op(differentiable=False, hosted=True)
def size_value(number: TensorType, *, size: int) -> TensorType:
    """``number`` [] itself, an integer, which is a ``size`` of what follows."""
    if not number.dtype.is_integer or number.rank:
        raise DTypeError(f"size_value cannot take {number}", fix="give an integer scalar")
    return number


@size_value.reference
def size_value_reference(number, size):
    return number


@true_indices.reference
def true_indices_reference(mask, size):
    return np.flatnonzero(mask)


@index_range.reference
def index_range_reference(count, size):
    return _made(int(count), lambda: np.arange(max(int(count), 0), dtype=np.int64))


@repeat_indices.reference
def repeat_indices_reference(counts, size):
    least = int(counts.min(initial=0))
    if least < 0:
        raise ArgumentError(f"repeat got the count {least}", fix="give counts of 0 or more")
    each = np.arange(len(counts), dtype=np.int64)
    return _made(sum(counts.tolist()), lambda: np.repeat(each, counts.astype(np.int64)))


@true_indices.samples
def true_indices_samples(draw):
    for size in (0, 1, 7, 40):
        mask = draw("bool", size)
        yield (mask,), {"size": int(mask.sum())}


@repeat_indices.samples
def repeat_indices_samples(draw):
    for dtype in draw.integers:
        for size in (0, 1, 7):
            counts = draw(dtype, size, low=0, high=4)
            yield (counts,), {"size": int(counts.sum())}


@index_range.samples
def index_range_samples(draw):
    for count in (-2, 0, 5):
        yield (np.asarray(count),), {"size": max(count, 0)}


@size_value.samples
def size_value_samples(draw):
    for dtype in draw.integers:
        number = draw(dtype, low=0, high=9)
        yield (number,), {"size": int(number)}


def _made(count: int, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The ``count`` indices that ``make`` gives, if there is memory for them."""
    if count > LARGEST:
        raise OutOfRangeError(
            f"a tensor of {count} elements is asked for",
            why=f"None has more than {LARGEST}.",
            fix="look at what the number is computed from",
        )
    try:
        return make()
    except MemoryError:
        raise OutOfMemoryError(f"there is no memory for a tensor of {count} elements") from None


VALUE_SIZED = {m.name: m for m in (true_indices, index_range, repeat_indices, size_value)}


def places_of(mask: Any) -> Any:
    """Where ``mask`` [n], a tensor, holds: int64 [k]."""
    return _sized(true_indices, mask)


def counted(count: Any) -> Any:
    """The indices 0, 1, ... for as many as ``count`` [], an int64 tensor, says: int64 [k]."""
    return _sized(index_range, count)


def repeated_places(counts: Any) -> Any:
    """Each number from 0 on as often as its place in ``counts`` [n], integers, says: int64 [m]."""
    return _sized(repeat_indices, counts)


def _sized(made: Any, operand: Any) -> Any:
    return interpreter.current().sized(made, operand)
