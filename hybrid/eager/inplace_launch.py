"""Calls of one op that put their results into cells that they have read: steps of optimizers.

Eagerly each call is remembered with its launch and its pointers.  Like a hybridized call it writes
over old values in place when nothing but their cell holds them (see ``generate.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from hybrid.eager.launch import fill, launch_for, plan_into
from hybrid.eager.tensor import Tensor, refuse_leaked
from hybrid.ir import Op
from hybrid.ir.record import Leaf, set_record
from hybrid.memory import native
from hybrid.memory.buffers import UNSHARED


class Calls:
    """Remembered calls by number; a copy starts without them."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[int, InplaceCall] = {}

    def __reduce__(self) -> Any:
        return Calls, ()


class InplaceCall:
    """``op`` of some cells, which get its results, and of other operands that come with each run.

    ``key`` is the caller's, to tell whether a call is still the one that is meant.
    """

    __slots__ = (
        "at", "cells", "externals", "handle", "key", "kind", "made", "plan", "rest", "storages"
    )  # fmt: skip

    def __init__(
        self,
        key: Any,
        op: Op,
        attrs: tuple[tuple[str, Any], ...],
        operands: Sequence[Tensor],
        written: Sequence[Tensor],
        given: Sequence[int],
    ) -> None:
        """``given`` are the positions of the operands that come with each run."""
        self.key, self.kind = key, written[0].type  # converted modules have other types
        types, results = [tuple([t.type for t in ts]) for ts in (operands, written)]
        self.plan = launch_for(op, types, attrs).plan
        if self.plan.output_types != results:  # ranks share some of them, and hold results so
            self.plan = plan_into(op, types, attrs, results)
        self.handle = self.plan.handle
        self.storages = [native.storage(t.nbytes) for t in self.plan.output_types]
        count = len(written)
        self.externals = native.pointers(count + len(operands))
        self.at = tuple([count + position for position in given])
        places = {id(t): count + position for position, t in enumerate(operands)}
        self.cells = tuple([(i, places[id(t)], t) for i, t in enumerate(written)])
        known = {*given, *[place - count for _, place, _ in self.cells]}
        self.rest = [(count + i, t) for i, t in enumerate(operands) if i not in known]
        self.made: list[Any] = [None] * count

    def run(self, given: Sequence[Tensor]) -> None:
        """Call it, unrecorded; it is the caller's to hold ``generate.WRITER``."""
        externals, made, cells = self.externals, self.made, self.cells
        moved = recorded = False
        try:
            for at, operand in zip(self.at, given, strict=True):
                externals[at] = operand.content
            for at, operand in self.rest:
                externals[at] = operand.content
            for i, at, cell in cells:
                data = cell.content
                if cell.record.__class__ not in _AS_BEFORE:
                    recorded = True
                if data is not made[i] or getrefcount(data) != UNSHARED:
                    moved = True
                    externals[at] = data
                    make, storage = self.storages[i]
                    externals[i] = made[i] = make(storage)
        except TypeError:
            operands = (*given, *[t for *_, t in (*self.rest, *cells)])
            for operand in operands:
                refuse_leaked(operand)
            if fill(operands):
                self.run(given)
                return
            raise
        status = run_plan(self.handle, externals)
        if status:
            self.plan.fail(status)
        if moved:
            for i, at, cell in cells:
                cell.content = data = made[i]
                externals[at] = data
        if recorded:
            for _, _, cell in cells:
                set_record(cell, None)


getrefcount, run_plan = sys.getrefcount, native.run_plan
_AS_BEFORE = (type(None), Leaf)  # records that writing an unrecorded value leaves alone
