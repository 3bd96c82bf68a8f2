"""The items of a VarList, rebuilt from the stacked results of a run.

Each item becomes a tensor of its own.  Cotangents of the items go back as rows of one stack; rows
that no iteration has made are left unwritten, for nothing reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.tree import LEAF, Several, Structure, unflatten
from hybrid.core.types import TensorType, tensor_type
from hybrid.eager.execution import array_of
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir.interpreter import current
from hybrid.ir.record import Output, Record, is_recording
from hybrid.memory import native
from hybrid.trace.values.varlist import Column, VarList

Place = tuple[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The recipe for the items of a list, given a plan's results."""

    count: int  # the result that says how many there are
    structure: Structure  # of one item
    columns: tuple[Place, ...]  # its leaves: "rows" or "numbers" of a result, or what is shared
    gaps: tuple[int, int] | None  # the results that say which rows are items, and how many rows

    @property
    def places(self) -> Iterator[Place]:
        """The places of results that the items are made of."""
        for kind, what in self.columns:
            yield ("output" if kind in ("rows", "numbers") else kind), what
        for index in (self.count, *(self.gaps or ())):
            yield "output", index

    def build(self, results: Sequence[Tensor], value: Callable[[str, Any], Any]) -> Several:
        """The items; ``value`` gives what they share."""
        count = results[self.count].item()
        rows: Sequence[int] = range(count)
        if self.gaps is not None:
            filled, total = (results[i] for i in self.gaps)
            rows = np.flatnonzero(array_of(filled)[: total.item()]).tolist()
        last = rows[-1] + 1 if count else 0
        if self.gaps is not None:
            last = results[self.gaps[1]].item()
        columns: list[Sequence[Any]] = []
        for kind, what in self.columns:
            if kind == "rows":
                columns.append(_rows(results[what], rows, last))
            elif kind == "numbers":
                columns.append(array_of(results[what])[np.asarray(rows, np.int64)].tolist())
            else:
                columns.append([value(kind, what)] * count)
        if self.structure == LEAF:
            return Several(columns[0])
        return Several(
            [unflatten(self.structure, [column[i] for column in columns]) for i in range(count)]
        )


def items_of(varlist: VarList, leaf: Callable[[Any], Place]) -> Items:
    """The recipe for the items of ``varlist``; ``leaf`` makes a result of a tensor."""
    varlist.limit()
    columns = []
    for column in varlist.columns:
        if isinstance(column, Column):
            columns.append(("numbers" if column.kind else "rows", leaf(column.stack)[1]))
        else:
            columns.append(leaf(column))
    gaps = varlist.gaps
    found = None if gaps is None else (leaf(gaps.filled)[1], leaf(gaps.rows)[1])
    return Items(leaf(varlist.count.tensor)[1], varlist.structure, tuple(columns), found)


def _rows(stack: Tensor, rows: Sequence[int], count: int) -> list[Tensor]:
    """Some rows of an eager ``stack``, of whose first ``count`` rows a gradient may be asked."""
    type = tensor_type(stack.dtype, stack.shape[1:])
    nbytes = type.nbytes
    source = native.view(stack.content, stack.type.nbytes)
    made = []
    for at in rows:
        buffer = native.allocate(nbytes)
        native.view(buffer, nbytes)[:] = source[at * nbytes : (at + 1) * nbytes]
        made.append(make_tensor(type, buffer))
    if stack.record is not None and made:
        op = _StackRows(stack.type, tuple(rows), count)
        record = Record(op, {}, (stack.record,), (stack.type,), (type,) * len(made))
        for index, row in enumerate(made):
            row.record = record if len(made) == 1 else Output(record, index)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _StackRows:
    """Stands as the op of the record of the rows of a stack."""

    type: TensorType  # of the stack
    rows: tuple[int, ...]
    count: int
    differentiable = True
    jvp_rule = None
    name = "items of a list"

    def vjp_rule(self, cts: Any, _results: Any, _stack: Any) -> tuple[Tensor]:
        """The cotangent of the stack."""
        cts = cts if isinstance(cts, tuple) else (cts,)
        return (self._joined(cts) if is_recording() or current().traces else self._written(cts),)

    def _joined(self, cts: Sequence[Tensor]) -> Tensor:
        """By ops, which can be differentiated again."""
        whole, row = self.type, tensor_type(self.type.dtype, self.type.shape[1:])
        zero = ops.zeros(row.shape, dtype=row.dtype)
        at = dict(zip(self.rows, cts, strict=True))
        head = ops.stack([at.get(i, zero) for i in range(self.count)])
        left = (whole.shape[0] - self.count, *row.shape)
        return ops.concat([head, ops.zeros(left, dtype=row.dtype)], axis=0)

    def _written(self, cts: Sequence[Tensor]) -> Tensor:
        """Into memory of which the rest is not touched."""
        whole = self.type
        buffer = native.allocate(whole.nbytes)
        nbytes = whole.nbytes // whole.shape[0]
        target = native.view(buffer, whole.nbytes)
        if len(self.rows) < self.count:
            target[: self.count * nbytes] = bytes(self.count * nbytes)
        for at, ct in zip(self.rows, cts, strict=True):
            target[at * nbytes : (at + 1) * nbytes] = bytes(native.view(ct.content, nbytes))
        return make_tensor(whole, buffer)
