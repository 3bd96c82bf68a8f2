"""The batcher: the interpreter under which an op call means that op on many rows at once.

A tensor inside has the type of one row, and a lane that holds the tensor of all rows (or one that
is the same in each) at the level around.  So histories inside are those of one row, as they are in
a function that is called for it; gradients from outside flow through the tensors of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hybrid.autodiff.presence import plain
from hybrid.core.types import DType
from hybrid.eager.batched_value import Lane
from hybrid.eager.execution import as_tensor, prepare, variable
from hybrid.eager.tensor import Tensor, make_tensor, refuse_leaked
from hybrid.errors import ArgumentError, RowSizeError, author_location
from hybrid.ir import Op
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.record import (
    AnyRecord,
    Record,
    is_recording,
    latest,
    node_of,
    record_call,
    with_regions,
)
from hybrid.trace.regions.tracer import inside_leaf
from hybrid.transforms.batch import apply_batched, row_type


class Batcher:
    """One level of vmap over ``rows`` rows, while nothing is captured."""

    traces = False
    batches = True
    watches = False
    queues = False
    repeats = False
    exports = False

    def __init__(self, rows: int) -> None:
        self.rows, self.around, self._start = rows, current(), latest()
        # A power of two, so that few captures differ in the number of rows alone.
        self.many = (1 << max(rows - 1, 0).bit_length()) * self.around.many

    # Tensors ----------------------------------------------------------------------------------

    def owns(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` is one of this level."""
        return isinstance(tensor.content, Lane) and tensor.content.level is self

    def row_of(self, outer: Tensor, batched: bool) -> Tensor:
        """What stands inside for a tensor of the level around."""
        kind = row_type(outer.type, batched)
        made = make_tensor(kind, Lane(kind, level=self, outer=outer, batched=batched))
        if is_recording():
            made.record = inside_leaf(kind, outer.record)
        return made

    def traced(self, tensor: Tensor) -> Tensor:
        """``tensor``, or what stands for it here when it comes from outside."""
        if self.owns(tensor):
            return tensor
        refuse_leaked(tensor)
        record = tensor.record
        if not self._is_own(record):
            return self.row_of(tensor, False)
        made = self.row_of(make_tensor(tensor.type, tensor.content), False)
        made.record = record
        return made

    def _is_own(self, record: AnyRecord | None) -> bool:
        return record is not None and node_of(record)[0].sequence > self._start

    # The interpreter's half -------------------------------------------------------------------

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        tensors = [self.traced(t) for t in prepare(self, op, operands)]
        lanes = [t.content for t in tensors]
        given = op.attributes(attrs)
        with interpreting(self.around):
            results, batched = apply_batched(
                op,
                [lane.outer for lane in lanes],
                tuple([lane.batched for lane in lanes]),
                dict(given),
                regions,
                self.rows,
            )
        made = []
        for outer, b in zip(results, batched, strict=True):
            kind = row_type(outer.type, b)
            made.append(make_tensor(kind, Lane(kind, level=self, outer=outer, batched=b)))
        if any(t.record is not None for t in tensors):
            record_call(op, tensors, with_regions(given, regions), tuple(made))
        return made[0] if len(made) == 1 else tuple(made)

    def lift(self, obj: Any, dtype: DType | None = None) -> Tensor:
        made = as_tensor(obj, dtype)
        return made if isinstance(obj, Tensor) else self.traced(made)

    def sized(self, op: Op, operand: Tensor) -> Tensor:
        content = self.traced(operand).content
        with interpreting(self.around):
            if content.batched:
                raise RowSizeError(str(content.type), self.rows, at=author_location())
            return current().sized(op, content.outer)

    def size_value(self, number: Any) -> None:
        return None

    def stack_of(self, rows: Sequence[Any]) -> Tensor | None:
        return None

    def converted(self, function: Any, optional: bool = False) -> Any:
        return function

    def will_host(self, function: Any) -> None:
        """Nothing is captured."""

    variable = staticmethod(variable)

    def assign(self, cell: Tensor, value: Tensor) -> None:
        value = self.traced(value)
        if self.owns(cell):
            cell.content, cell.record = value.content, value.record or getattr(cell, "leaf", None)
            return
        self._require_shared(value, "a tensor from outside was written")
        with interpreting(self.around):
            self.around.assign(cell, value.content.outer)

    def read_tensor_attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def first_gradient(self, leaf: Any, value: Tensor) -> Tensor:
        return value

    def gradient_on_paths(self, old: Any, grad: Any) -> Any:
        return plain(grad)  # of rows for which there is none, too

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            value = self.traced(value)
            self._require_shared(value, f"{type(owner).__name__}.{name} was written")
            value = value.content.outer
        with interpreting(self.around):
            self.around.write_tensor_attribute(owner, name, value)

    def require_history(self, record: Any, cts: Sequence[Any], error: Any) -> None:
        """There is one, or backward() has raised."""

    def going_back(self, ends: Sequence[Any], nodes: Sequence[Any]) -> AbstractContextManager:
        return nullcontext()

    def use_up(self, records: Sequence[Record]) -> None:
        for record in records:
            record.free()

    def _require_shared(self, value: Tensor, what: str) -> None:
        if value.content.batched:
            raise ArgumentError(
                f"{what} inside vmap with a value that differs from row to row",
                at=author_location(),
                why=f"There is one place for the values of {self.rows} rows.",
                fix="return the value from the function; in place of backward() call hybrid.grad",
            )
