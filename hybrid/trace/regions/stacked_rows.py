"""Items of lists that a loop has made: rows of a stack, nodes once somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.types import tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Value
from hybrid.ir.record import Output, node_of, recording
from hybrid.ops.index.items import item
from hybrid.trace.regions.row_names import same_item


class StackedRows:
    """The part of a tracer that knows which values are rows of which stacks."""

    owned: set[Value]
    pending: dict[Value, tuple[Tensor, int]]
    rows: dict[Value, tuple[Tensor, int]]
    taken: dict[tuple[Value, int], Tensor]
    apply: Any
    maker: Any

    def row_of(self, stack: Tensor, at: int) -> Tensor:
        """Row ``at`` of ``stack``: a node only once somebody asks for it."""
        kind = stack.type
        value = Value(tensor_type(kind.dtype, kind.shape[1:]), stack.content.hint)
        self.owned.add(value)
        self.pending[value] = self.rows[value] = (stack, at)
        row = make_tensor(value.type, value)
        row.record = stack.record
        return row

    def stack_of(self, rows: Sequence[Any]) -> Tensor | None:
        """The stack whose rows, all of them and in order, are ``rows``."""
        found = [self.rows.get(r.content) if isinstance(r, Tensor) else None for r in rows]
        if not found or found[0] is None:
            return None
        stack = found[0][0]
        whole = len(rows) == stack.type.shape[0] and all(
            f is not None and f[0] is stack and f[1] == at for at, f in enumerate(found)
        )
        return stack if whole else None

    def _take_row(self, tensor: Tensor) -> None:
        stack, at = self.pending[tensor.content]
        row = self._item(stack, at)
        self.rows.setdefault(row.content, (stack, at))
        tensor.content, tensor.record = row.content, row.record

    def _item(self, stack: Tensor, at: int) -> Tensor:
        """Item ``at`` of a list, by the first of its names."""
        found = self.taken.get((stack.content, at))
        if found is None:
            found = self._other_name(stack, at)
            if found is None:
                with recording(True):
                    found = self.apply(item, (stack,), {"at": at})
            self.taken[stack.content, at] = found
        return found

    def _other_name(self, stack: Tensor, at: int) -> Tensor | None:
        node = self.maker(stack.content)
        count = None if node is None else self.maker(node.operands[0])
        same = (
            None if node is None else same_item(node, count, node.results.index(stack.content), at)
        )
        if same is None:
            return None
        kind, index, row = same
        value = (node.operands if kind == "operand" else node.results)[index]
        found = make_tensor(value.type, value)
        if stack.record is not None:
            record = node_of(stack.record)[0]
            found.record = record.parents[index] if kind == "operand" else Output(record, index)
        return self._item(found, row) if kind == "item" else found
