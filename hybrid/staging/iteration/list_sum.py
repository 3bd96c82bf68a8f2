"""``sum`` of a list of unknown length: a loop node that adds item by item."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.core.tree import LEAF
from hybrid.core.types import TensorType, bool_, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.iteration.folds import fold
from hybrid.staging.values.lists import length_of, list_feed
from hybrid.trace.values.varlist import Column, OptionalResult, VarList


def sum_of(items: Sequence[Any], start: Any) -> Any:
    """The result of ``sum(items, start)``."""
    kinds = {_kind_of(item) for item in items}
    if "float" in kinds and sys.version_info >= (3, 12):
        raise CaptureError(
            "sum() of Python floats of which only the run knows how many there are",
            at=author_location(),
            why="Python adds floats up with a running correction, which a loop node does not have.",
            fix="add them up in a for loop, or append tensors",
        )
    first = start
    if type(start) is int and start == 0:
        first = _zero(kinds)
    total = fold(list_feed(items), first, operator.add, label="the sum")
    some = length_of(items) > 0
    if first is not start and type(some) is Number:
        flag = some.tensor
        tensor = current().traced(total.tensor if isinstance(total, Number) else total)
        current().indefinite_values.append(OptionalResult(tensor.content, flag, start))
    return total


def _kind_of(item: Any) -> Any:
    """The TensorType of a tensor, the kind of a number; of a VarList, that of its items."""
    if type(item) is VarList:
        column = item.columns[0] if item.structure == LEAF else None
        if isinstance(column, Column):
            stack = column.stack.type
            return column.kind or tensor_type(stack.dtype, stack.shape[1:])
        return _kind_of(column)
    if isinstance(item, Tensor):
        return item.type
    return item.kind if isinstance(item, Number) else type(item).__name__


def _zero(kinds: set[Any]) -> Any:
    """What a sum may begin with in place of 0, so that it is of one type from the beginning."""
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if isinstance(kind, TensorType) and kind.dtype is not bool_:
        return ops.zeros(kind.shape, dtype=kind.dtype)
    return 0.0 if kind == "float" else 0
