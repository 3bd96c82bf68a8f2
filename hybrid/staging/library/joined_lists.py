"""``stack`` and ``concat`` of lists that a loop has filled; the rows of ``scan``.

Where a loop over an open axis has, a list has as many items as the axis has elements: its rows are
a tensor of that size already.  Where only a run knows how many there are, that is a size which
depends on values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.core.open_numbers import as_size
from hybrid.core.tree import LEAF, flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.ops.support.dtypes import identity
from hybrid.ops.support.keyword_names import with_others_words
from hybrid.ops.support.operand_checks import as_tensor, normalize_axis
from hybrid.staging.sessions.overrides import Override, overrides
from hybrid.staging.sessions.views import is_varlist, library_argument, look
from hybrid.staging.values.feed import stacked
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
    tensors = [item if isinstance(item, Tensor) else _shared(item) for item in items]
    kinds = {t.type for t in tensors if t is not None}
    known = [t is not None or _is_row(item) for t, item in zip(tensors, items, strict=True)]
    if len(kinds) > 1 or not all(known):
        library_argument(arrays, name)
    parts: list[Tensor] = []
    run: list[tuple[Any, Tensor]] = []
    for item, tensor in (*zip(items, tensors, strict=True), (None, None)):
        if tensor is not None:
            run.append((item, tensor))
            continue
        parts += [_present(run)] if run else []
        parts += [] if item is None else [_rows_of(item)]
        run = []
    parts = [part for part in parts if part.shape[0] != 0]
    if not parts:
        getattr(ops, name)([])  # raises what eager code raises
    return _joined_rows(parts)


def _joined_rows(parts: Sequence[Tensor]) -> Tensor:
    if len(parts) > 1:
        return ops.concat(parts)
    return parts[0] if parts[0].record is None else identity(parts[0])


def _is_full(item: Any) -> bool:
    """Whether ``item`` is of tensors, or many such items, of which each row is one."""
    if type(item) is not VarList:
        return all(isinstance(leaf, Tensor) for leaf in flatten(item)[0])
    item.require_readable()
    full = item.is_full or not item.columns
    return full and all(isinstance(c, Column) and not c.kind for c in item.columns)


def _structure(item: Any) -> Any:
    return item.structure if type(item) is VarList else flatten(item)[1]


def _leaves(item: Any) -> list[Tensor]:
    """The rows of each leaf."""
    if type(item) is VarList:
        return [column.stack for column in item.columns]
    return [ops.expand_dims(leaf, axis=0) for leaf in flatten(item)[0]]


@overrides(stacked)
def _stacked_trees(trees: Any) -> Any:
    if not is_varlist(trees):
        return NotImplemented
    look(trees)
    first, *others = list(trees)
    alike = all(_structure(item) == _structure(first) for item in others)
    if not alike or not all(_is_full(item) for item in (first, *others)):
        library_argument(trees, "scan")
    columns = zip(*[_leaves(item) for item in (first, *others)], strict=True)
    return unflatten(_structure(first), [_joined_rows(column) for column in columns])


def _present(run: Sequence[tuple[Any, Tensor]]) -> Tensor:
    """The rows of ``run`` that are there: tensors, and items of which only a run knows that."""
    rows = ops.stack([tensor for _, tensor in run])
    if all(item is tensor for item, tensor in run):
        return rows
    current().require_path("how many items a list has depends on values")
    flags = [True if item is tensor else item.count.tensor > 0 for item, tensor in run]
    return rows[ops.stack([as_tensor(flag) for flag in flags])]


def _rows_of(items: VarList) -> Tensor:
    """The items, one after the other."""
    column = items.columns[0]
    if items.is_full:
        return column.stack
    current().require_path("how many items a list has depends on values")
    count = as_size(items.count)
    if not isinstance(column, Column):  # one tensor, that many times
        return ops.stack([column] * count.__index__()) if count > 0 else column[None][:0]
    items.limit()
    order = items.row_order()
    if order is None:
        return column.stack[:count]
    order = order[:count]
    with current().certain():
        return ops.take(column.stack, order, axis=0)


def _shared(item: Any) -> Tensor | None:
    """The tensor that ``item`` is, if it is there."""
    column = item.columns[0] if type(item) is VarList and item.structure == LEAF else None
    return column if isinstance(column, Tensor) and item.count.high <= 1 else None


def _is_row(item: Any) -> bool:
    """Whether what a loop has appended are tensors."""
    if type(item) is not VarList or item.structure != LEAF:
        return False
    item.require_readable()
    column = item.columns[0]
    return isinstance(column, Tensor) or (isinstance(column, Column) and not column.kind)


overrides(ops.stack)(_joined(ops.stack, _stacked))
overrides(ops.concat)(_joined(ops.concat, _concatenated))
