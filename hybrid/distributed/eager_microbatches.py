"""Microbatches of a pipelined model that is called eagerly: one after the other, as in plans.

::

    y = model(x)    ==>    y = concat([model(rows) for rows in split(x)])

Gradients by the parameters are summed up within a microbatch, and these in their order: the bits
of a hybridized step.  Random numbers are those that each row has in the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid import ops
from hybrid.calls.hybridized import Hybridized
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import int64
from hybrid.eager.execution import EAGER
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ShapeError, author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import is_recording, record_call
from hybrid.nn.modules.module import Module
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.ops.support.row_scope import entered, row_scope, stretch_of
from hybrid.random import default_generator


class EagerMicrobatches:
    """What stands around the eager calls of a pipelined model."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, module: Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if (
            self.pipe.microbatches == 1
            or isinstance(call, Hybridized)
            or current().traces
            or current().batches
            or row_scope() is not None
        ):
            return call(*args, **kwargs)
        cells = [*module.parameters(), *module.buffers()]
        if any([cell.type.layout is not None for cell in cells]):  # bits are those of its ranks
            return call(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        parts = [_rows_of(leaf, self.pipe.microbatches) for leaf in leaves]
        if not any([isinstance(part, list) for part in parts]):
            return call(*args, **kwargs)
        state, kept = default_generator().state, [*module.buffers()]
        begun = [(cell, cell.detach()) for cell in (state, *kept)]
        twins = _Twins(module, self.pipe.microbatches)
        made = []
        for at in range(self.pipe.microbatches):
            given = [part[at] if isinstance(part, list) else part for part in parts]
            rows = next(part[at].shape[0] for part in parts if isinstance(part, list))
            if at:  # each draws and writes what one call for all rows would
                for cell, value in begun:
                    cell.assign(value)
            own_args, own_kwargs = unflatten(structure, given)
            with entered(_Microbatch(rows, at)), twins.of(at):
                made.append(flatten(call(*own_args, **own_kwargs)))
            if not at and not _is_by_rows(made[0][0], rows):
                for cell, value in begun:
                    cell.assign(value)
                return call(*args, **kwargs)
        found = [
            ops.concat([leaves[i] for leaves, _ in made], axis=0)
            if isinstance(made[0][0][i], Tensor)
            else made[-1][0][i]
            for i in range(len(made[0][0]))
        ]
        return unflatten(made[0][1], found)


def _rows_of(leaf: Any, count: int) -> Any:
    """The rows of an argument by microbatch, a list; what has none is itself."""
    if not isinstance(leaf, Tensor) or not leaf.type.rank:
        return leaf
    require_rows(leaf, count)
    return ops.split(leaf, leaf.shape[0] // count) if leaf.shape[0] else [leaf] * count


def require_rows(x: Tensor, count: int) -> None:
    """Raise ShapeError unless the rows of ``x`` can be cut into ``count`` microbatches."""
    if x.shape[0] % count:
        raise ShapeError(
            f"a batch of {x.shape[0]} rows and {count} microbatches",
            at=author_location(),
            why="Each microbatch has equally many rows: of the first axis of arguments.",
            fix=f"give a multiple of {count} rows, or pad the batch",
        )


def _is_by_rows(results: Sequence[Any], rows: int) -> bool:
    """Whether results can be put together along their rows."""
    tensors = [result for result in results if isinstance(result, Tensor)]
    return all([t.type.rank and t.shape[0] % max(rows, 1) == 0 for t in tensors])


class _Microbatch:
    """The scope of the rows of one microbatch."""

    def __init__(self, rows: int, at: int) -> None:
        self.rows, self.at = rows, at

    def first_element(self, shape: tuple[Any, ...]) -> Tensor | None:
        """Where a draw of ``shape`` begins in that for the whole batch; None: it has other rows."""
        before = EAGER.lift(self.at * self.rows, int64)
        return stretch_of(shape, self.rows, lambda: ops.reshape(before, (1,)))

    def batch_norm(self, x: Tensor, *_given: Any) -> Any:
        """Raise: it looks at all rows."""
        raise ShapeError(
            "batch_norm in a pipelined model cannot be computed by microbatches",
            at=author_location(),
            why="It needs all of them at once, and a stage gets them one by one.",
            fix="leave it out of the pipelined model, or give microbatches=1",
        )


class _Twins:
    """Histories in place of those of the parameters, one for each microbatch.

    ``backward()`` goes back through the latest first: so those of the first microbatch are made
    last, and gradients are added in the order of the microbatches.
    """

    def __init__(self, module: Module, count: int) -> None:
        self._records: list[tuple[Tensor, Any, list[Any]]] = []
        if not is_recording():
            return
        for p in module.parameters():
            if p.record is None:
                continue
            whole = _same(p)
            twins = [_same(whole).record for _ in range(count)]
            self._records.append((p, p.record, twins[::-1]))

    @contextmanager
    def of(self, at: int) -> Iterator[None]:
        """A context in which parameters have the histories of microbatch ``at``."""
        for p, _, twins in self._records:
            p.record = twins[at]
        try:
            yield
        finally:
            for p, record, _ in self._records:
                p.record = record


def _same(x: Tensor) -> Tensor:
    """``x`` with a step of history of its own, and the same memory."""
    made = make_tensor(x.type, x.content)
    record_call(ops.identity, (x,), {}, (made,))
    return made
