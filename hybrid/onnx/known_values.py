"""Known values: what a model computes of constants and shapes, in NumPy, also while it is traced.

A known value is a NumPy array, of the dtype object where some of its numbers are sizes of open
axes.  It costs nothing in a plan.  Tensors whose values are asked for (the shape that ``Reshape``
is given, say) are read: a capture makes sizes of them, which only its runs know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.open_numbers import any_open, as_size, open_number
from hybrid.core.types import DType, dtype_of, float64, int64
from hybrid.errors import OnnxError
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.ops.support.operand_checks import is_number, is_traced_number

_UNIT = 2.0**40  # of which floats that are not tiny are whole multiples


def is_known(inputs: Sequence[Any]) -> bool:
    """Whether all of ``inputs`` that are given are known values."""
    return all(type(value) is np.ndarray or value is None for value in inputs)


def constant(value: Any, dtype: DType = int64) -> np.ndarray:
    """A known value of a number or list of numbers, as the text of a model writes it."""
    return np.array(value, dtype.numpy)


def sizes(numbers: Sequence[Any]) -> np.ndarray:
    """A known value of sizes, ints or those of open axes."""
    if all(type(number) is int for number in numbers):
        return np.array(numbers, np.int64)
    found = np.empty(len(numbers), object)
    for at, number in enumerate(numbers):
        found[at] = number
    return found


def known_index(number: Any) -> np.ndarray:
    """The index of a loop as a known value: what is added to it stays a number of Python's."""
    return sizes([number]).reshape(())


def as_known(result: Any) -> Any:
    """What NumPy computed of known values, as one: of no axes it gives the number itself."""
    if isinstance(result, np.generic):
        return np.asarray(result)
    return known_index(result) if is_number(result) else result


def is_traced(inputs: Sequence[Any]) -> bool:
    """Whether some of these known values hold numbers that only a run knows."""
    return any(
        value is not None and value.dtype == object and any(map(is_traced_number, value.flat))
        for value in inputs
    )


def is_open(inputs: Sequence[Any]) -> bool:
    """Whether some of these known values hold sizes of open axes."""
    return any(
        type(value) is np.ndarray and value.dtype == object and any_open(*value.flat)
        for value in inputs
    )


def as_operand(value: np.ndarray) -> Any:
    """A known value as a tensor."""
    if value.dtype != object:
        return ops.as_tensor(value)
    items = [ops.astype(ops.as_tensor(number), int64) for number in value.reshape(-1).tolist()]
    if not items:
        return ops.zeros(value.shape, dtype=int64)
    return ops.reshape(ops.stack(items), value.shape)


def tensor(value: Any) -> Any:
    """``value``, a tensor, number, known value, or list of these, as a tensor or a list."""
    if isinstance(value, list):
        return [tensor(item) for item in value]
    return as_operand(value) if type(value) is np.ndarray else ops.as_tensor(value)


def numbers_of(value: Any) -> list[Any]:
    """The numbers in a known value or tensor of rank 1 at most, as Python's.

    A capture makes sizes of a tensor's integers, which its runs know; what asks such a number for
    its value (``int(n)``, ``n > 3``) makes a condition of it, under which a plan is used.  Floats
    are numbers under such a condition from the first.
    """
    if type(value) is np.ndarray:
        return value.reshape(-1).tolist()
    if isinstance(value, (list, tuple)):
        return list(value)
    flat = ops.reshape(value, (-1,))
    if not (ACTIVE and current().traces):
        return flat.tolist()
    if flat.dtype.is_floating:
        wide = ops.multiply(ops.astype(flat, float64), _UNIT)
        return [int(number) / _UNIT for number in numbers_of(ops.astype(wide, int64))]
    whole = ops.astype(flat, int64)
    return [open_number(as_size(whole[index])) for index in range(int(flat.shape[0]))]


def number_of(value: Any) -> Any:
    """The only number in a known value or tensor."""
    found = numbers_of(value)
    if len(found) != 1:
        raise OnnxError(f"{len(found)} numbers in place of one")
    return found[0]


def scalar(value: Any) -> Any:
    """The only number in a known value, or a tensor without axes: for what computes with it."""
    return number_of(value) if type(value) is np.ndarray else ops.reshape(value, ())


def count(value: Any) -> Any:
    """How often a loop goes round: an int, the size of an open axis, or a tensor of no axes."""
    if type(value) is not np.ndarray:
        return ops.reshape(value, ())
    return number_of(value) if is_open([value]) else int(number_of(value))


def rows(value: Any, axis: int = 0, backwards: bool = False, batches: bool = False) -> Any:
    """``value`` with the axis that is gone over in front (behind the batches), from its end on."""
    front = int(batches)
    axis = axis + front if axis >= 0 else axis + value.ndim
    moved = value if axis == front else ops.moveaxis(value, axis, front)
    return ops.flip(moved, axis=front) if backwards else moved


def axis_of(value: Any, rank: int) -> int:
    """An axis of a tensor of ``rank``, counted from the front."""
    axis = int(value)
    if not -rank <= axis < rank:
        raise OnnxError(
            f"axis {axis} of a tensor of rank {rank}",
            why=f"Axes are from {-rank} to {rank - 1} here.",
        )
    return axis % rank


def axes_of(value: Any, rank: int) -> list[int]:
    """Axes, counted from the front."""
    return [axis_of(axis, rank) for axis in numbers_of(value)]


def dtype_of_known(value: Any) -> DType:
    """The dtype of a tensor or known value."""
    if type(value) is np.ndarray:
        return int64 if value.dtype == object else dtype_of(value.dtype)
    return value.dtype
