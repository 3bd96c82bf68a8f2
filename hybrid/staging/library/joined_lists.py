"""``stack`` and ``concat`` of lists that a loop has filled.

Where a loop over an open axis has, a list has as many items as the axis has elements: its rows are
a tensor of that size already.  Where only a run knows how many there are, that is a size which
depends on values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.core.tree import LEAF
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.ops.support.dtypes import identity
from hybrid.ops.support.keyword_names import with_others_words
from hybrid.ops.support.operand_checks import normalize_axis
from hybrid.staging.sessions.overrides import Override, overrides
from hybrid.staging.sessions.views import is_varlist, library_argument, look
from hybrid.trace.values.varlist import Column, VarList


def _joined(join: Callable[..., Any], of_rows: Callable[[Tensor, Any], Any]) -> Override:
    """The override of ``join``: of a list that is full, what ``of_rows`` makes of its rows."""

    @with_others_words
    def joined(arrays: Any, /, axis: Any = 0) -> Any:
        return of_rows(_rows(arrays, join.__name__), axis)

    def override(*args: Any, **kwargs: Any) -> Any:
        if args and is_varlist(args[0]):
            return joined(*args, **kwargs)
        for argument in (*args, *kwargs.values()):
            library_argument(argument, join.__name__)
        return NotImplemented

    return override


def _stacked(rows: Tensor, axis: Any) -> Any:
    axis = normalize_axis("stack", axis, len(rows.shape))
    return ops.moveaxis(rows, 0, axis) if axis else rows


def _concatenated(rows: Tensor, axis: Any) -> Any:
    if axis is None:
        return ops.reshape(rows, (-1,))
    axis = normalize_axis("concat", axis, len(rows.shape) - 1)
    rows = ops.moveaxis(rows, 0, axis) if axis else rows
    shape = rows.shape
    return ops.reshape(rows, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _rows(arrays: Any, name: str) -> Tensor:
    """The items of ``arrays`` along a new first axis."""
    look(arrays)
    items: Sequence[Any] = list(arrays)
    if not all(_is_row(item) for item in items):
        library_argument(arrays, name)
    parts = []
    for item in items:
        part = _rows_of(item) if type(item) is VarList else ops.expand_dims(item, axis=0)
        if part is None:  # in a branch or loop
            library_argument(arrays, name)
        elif part.shape[0] != 0:
            parts.append(part)
    if not parts:
        getattr(ops, name)([])  # raises what eager code raises
    if len(parts) > 1:
        return ops.concat(parts)
    return parts[0] if parts[0].record is None else identity(parts[0])


def _rows_of(items: VarList) -> Tensor | None:
    """The items, one after the other; None where there can be no such size."""
    rows = items.columns[0].stack
    if items.is_full:
        return rows
    current().require_path("how many items a list has depends on values")
    count = current().size_value(items.count.tensor)
    if count is None:
        return None
    items.limit()
    order = items.row_order()
    return rows[:count] if order is None else ops.take(rows, order[:count], axis=0)


def _is_row(item: Any) -> bool:
    if type(item) is not VarList:
        return isinstance(item, Tensor)
    item.require_readable()
    column = item.columns[0] if item.structure == LEAF else None
    return isinstance(column, Column) and not column.kind


overrides(ops.stack)(_joined(ops.stack, _stacked))
overrides(ops.concat)(_joined(ops.concat, _concatenated))
