"""Reverse mode through loops of unknown length: stacks of limited size, and checkpoints.

What the way back reads of each iteration lies in stacks of so many rows as a budget of bytes holds.
A loop that made more iterations is run again: first to keep what it carries at some iterations
(checkpoints), then block by block, the last block first, to fill the stacks from the checkpoint
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from hybrid import config, ops
from hybrid.core.dataclass import dataclass, replace
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Node, Value
from hybrid.ops.elementwise.arithmetic import add, subtract
from hybrid.ops.flow.control import COUNT, applied, cond, for_
from hybrid.trace.gradients.budget import LEAST_ROWS
from hybrid.trace.gradients.loop_body import DerivedLoop
from hybrid.trace.gradients.loop_run import BackwardRun
from hybrid.trace.regions.build import computing, remembered, silent
from hybrid.trace.regions.tracer import region_of


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A loop back over ``count`` iterations, a number that only the run knows."""

    derived: DerivedLoop
    count: Tensor
    reverse: bool
    carried: tuple[Tensor, ...]  # before the loop
    invariants: tuple[Tensor, ...]  # of the forward loop
    run: BackwardRun  # without stacks, when the loop must run again to fill them
    rows: int  # how many iterations the stacks, or the cotangents of rows, hold
    kept: int  # how many checkpoints there may be

    def go(self, known: int | None) -> list[Tensor]:
        """The final carried values of the loop back."""
        if known is not None and known <= self.rows:
            length = 1 << (max(known, LEAST_ROWS) - 1).bit_length()
            return self.straight(min(length, self.rows))  # few lengths: each has a plan
        fast = self.as_region("straight", lambda loop: loop.straight(loop.rows))
        slow = self.as_region("piecewise", lambda loop: loop.piecewise())
        fits = ops.less_equal(self.count, self.rows)
        return applied(cond, (fits, *self.tensors()), (fast, slow))

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that the loop reads."""
        run = self.run
        read = (run.start, run.stacks, run.row_cts, run.invariants)
        return (self.count, *self.carried, *self.invariants, *[t for part in read for t in part])

    def as_region(self, name: str, function: Callable[[Unbounded], list[Tensor]]) -> Graph:
        """``function`` of this loop as a region on its tensors."""
        tensors = self.tensors()
        types = tuple([t.type for t in tensors])
        sizes = (self.rows, self.kept, config.RESIDUAL_NBYTES, len(self.run.stacks))
        key = (name, sizes, self.reverse, types)
        graphs = (self.derived.forward, self.derived.backward)
        return remembered(
            graphs, key, lambda: region_of(name, types, lambda *ts: function(self.on(ts)))
        )

    def on(self, tensors: Sequence[Tensor]) -> Unbounded:
        """This loop on other tensors."""
        rest = iter(tensors)
        run = self.run
        return Unbounded(
            derived=self.derived,
            count=next(rest),
            reverse=self.reverse,
            carried=_like(self.carried, rest),
            invariants=_like(self.invariants, rest),
            run=BackwardRun(
                derived=self.derived,
                start=_like(run.start, rest),
                stacks=_like(run.stacks, rest),
                row_cts=_like(run.row_cts, rest),
                slices=(),
                invariants=_like(run.invariants, rest),
            ),
            rows=self.rows,
            kept=self.kept,
        )

    # All at once ------------------------------------------------------------------------------

    def straight(self, length: int) -> list[Tensor]:
        """Over stacks that hold all iterations."""
        run = self.run
        stacks = run.stacks
        if not stacks and self.derived.stacks:
            found = applied(
                for_,
                (self.count, *self.carried, *self.invariants),
                (silent(self.derived.forward),),
                carried=len(self.carried),
                length=length,
                reverse=self.reverse,
            )
            stacks = [found[i] for i in self.derived.stacks]
        row_cts = [ct if ct.shape[0] == length else ct[:length] for ct in run.row_cts]
        run = BackwardRun(
            derived=self.derived,
            start=run.start,
            stacks=tuple(stacks),
            row_cts=tuple(row_cts),
            slices=(),
            invariants=run.invariants,
        )
        return run.go(self.count, length, not self.reverse)

    # Block by block ---------------------------------------------------------------------------

    def piecewise(self) -> list[Tensor]:
        """From checkpoints, so many iterations at a time as the stacks hold."""
        n, rows, run = len(self.carried), self.rows, self.run
        forward = self.derived.forward
        step = numbered(computing(forward, forward.results[:n]), self.reverse)
        fill = numbered(silent(forward), self.reverse)
        back = replace(self.derived, backward=numbered(self.derived.backward, self.reverse))
        kept = self.kept
        blocks = _ceil_divide(self.count, rows)
        stride = _ceil_divide(blocks, kept)  # blocks from checkpoint to checkpoint
        numbers = (self.count, stride, self.count - 1)

        def segment(c: Tensor, carried: Tensors, shared: Tensors) -> list[Tensor]:
            rest = iter(shared)
            invariants = _like(self.invariants, rest)
            count, stride, last = rest
            base = c * stride * rows
            length = ops.minimum(stride * rows, count - base)
            end = applied(for_, (length, *carried, *invariants, base, last), (step,), carried=n)
            return [*end, *carried]

        segments = _ceil_divide(self.count, stride * rows)
        marks = _looped(segments, self.carried, (*self.invariants, *numbers), segment, length=kept)[
            n:
        ]

        def block(b: Tensor, carried: Tensors, shared: Tensors) -> list[Tensor]:
            rest = iter(shared)
            marks = _like(self.carried, rest)
            invariants = _like(self.invariants, rest)
            row_cts = _like(run.row_cts, rest)
            own = _like(run.invariants, rest)
            count, stride, last = rest
            c = ops.floor_divide(b, stride)
            state = [_row(mark, c) for mark in marks]
            skipped, start = (b - c * stride) * rows, c * stride * rows
            state = applied(for_, (skipped, *state, *invariants, start, last), (step,), carried=n)
            base = b * rows
            length = ops.minimum(count - base, rows)
            operands = (length, *state, *invariants, base, last)
            found = applied(for_, operands, (fill,), carried=n, length=rows)
            stacks = tuple([found[i] for i in back.stacks])
            row_cts = tuple([_rows(ct, base, rows) for ct in row_cts])
            return BackwardRun(
                derived=back,
                start=carried,
                stacks=stacks,
                row_cts=row_cts,
                slices=(),
                invariants=(*own, base, last),
            ).go(length, rows, reverse=True)

        shared = (*marks, *self.invariants, *run.row_cts, *run.invariants, *numbers)
        return _looped(blocks, run.start, shared, block, reverse=True)


Tensors = tuple[Tensor, ...]


def _like(tensors: Tensors, rest: Iterator[Tensor]) -> Tensors:
    """As many of ``rest`` as there are ``tensors``."""
    return tuple(islice(rest, len(tensors)))


def _looped(
    count: Tensor,
    carried: Sequence[Tensor],
    shared: Sequence[Tensor],
    function: Callable[[Tensor, Tensors, Tensors], list[Tensor]],
    length: int = 0,
    reverse: bool = False,
) -> list[Tensor]:
    """The results of a for loop whose body is ``function(i, carried, shared)``."""
    n = len(carried)
    types = [COUNT, *[t.type for t in carried], *[t.type for t in shared]]
    body = region_of("body", types, lambda i, *ts: function(i, ts[:n], ts[n:]))
    operands = (count, *carried, *shared)
    return applied(for_, operands, (body,), carried=n, length=length, reverse=reverse)


def numbered(body: Graph, reverse: bool) -> Graph:
    """``body`` for iterations numbered from ``base`` on, backwards from ``last`` if ``reverse``.

    The two numbers are further invariants.
    """
    index, *rest = body.params
    step, base, last = (Value(COUNT, hint) for hint in ("step", "base", "last"))
    at = Value(COUNT) if reverse else index
    nodes = [Node(add, (base, step), add.attributes({}), (at,))]
    if reverse:
        nodes.append(Node(subtract, (last, at), subtract.attributes({}), (index,)))
    params = (step, *rest, base, last)
    return Graph(body.name, params, (*nodes, *body.nodes), body.results)


def _ceil_divide(a: Tensor, b: Tensor | int) -> Tensor:
    return ops.floor_divide(a + (b - 1), b)


def _row(stack: Tensor, at: Tensor) -> Tensor:
    found = ops.take(stack, ops.reshape(at, (1,)), axis=0)
    return ops.reshape(found, stack.shape[1:])


def _rows(stack: Tensor, base: Tensor, count: int) -> Tensor:
    """Rows ``base`` and following, zeros where ``stack`` has none."""
    at = ops.arange(count) + base
    length = stack.shape[0]
    found = ops.take(stack, ops.minimum(at, length - 1), axis=0)
    there = ops.reshape(ops.less(at, length), (count, *[1] * (len(stack.shape) - 1)))
    return ops.where(there, found, ops.zeros((), dtype=stack.dtype))
