"""Replay of a run: a graph executed op by op, eagerly, along the path that its run has taken.

So values get the history that they have where the function runs eagerly.  What a run has done
outside itself is not done again: nothing is printed; but a graph that was not run is run so.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.dataclass import dataclass, field
from hybrid.core.exceptions import Leaving, is_interrupt
from hybrid.core.types import TensorType
from hybrid.eager.execution import from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Node, Value
from hybrid.ir.record import AnyRecord, Leaf, is_recording, node_of
from hybrid.number.staging import OwnCall
from hybrid.ops.flow.call_nodes import checkpoint_call
from hybrid.ops.flow.control import cond, for_, py_call, while_
from hybrid.ops.index.items import item, item_at
from hybrid.ops.shapes.concatenation import join
from hybrid.ops.shapes.shape import reshape_to
from hybrid.ops.support.dtypes import fresh_variable, identity
from hybrid.trace.gradients.checkpoint import forgotten
from hybrid.trace.regions.build import apply_node, replay


class Unrepeatable(Exception):
    """The exception for a run that has called Python in a way that cannot be repeated."""


class _Ended(Exception):
    def __init__(self, operands: list[Tensor]) -> None:
        self.operands = operands


@dataclass(slots=True)
class _Stack:
    """Rows that a loop has stacked; items of it are those rows themselves."""

    type: TensorType
    rows: dict[int, Tensor] = field(default_factory=dict)
    made: Tensor | None = None

    def whole(self) -> Tensor:
        if self.made is None:
            self.made = self.stacked()
        return self.made

    def stacked(self) -> Tensor:
        """The rows in a tensor of its own."""
        size, shape = self.type.shape[0], self.type.shape[1:]
        found = sorted(self.rows)
        first, end = (found[0], found[-1] + 1) if found else (0, 0)
        parts = [ops.zeros((n, *shape), dtype=self.type.dtype) for n in (first, size - end)]
        if found:
            parts.insert(1, ops.stack([self.rows[at] for at in found]))
        parts = [part for part in parts if part.shape[0]] or parts[:1]
        return parts[0] if len(parts) == 1 else ops.concat(parts)

    def detach(self) -> _Stack:
        """The same without a history."""
        return _Stack(self.type, {at: row.detach() for at, row in self.rows.items()})


def followed(
    graph: Graph,
    operands: Sequence[Tensor],
    recorded: Collection[Value] | None,
    wanted: Sequence[int],
) -> list[Tensor]:
    """The ``wanted`` results of ``graph`` on ``operands``, with the history that eager code gives.

    Values that are not in ``recorded`` are constants to gradients.
    """
    results = _Follower(None).results(graph, operands, recorded)
    return [_whole(results[at]) for at in wanted]


def done(
    graph: Graph, operands: Sequence[Tensor], recorded: Collection[Value] | None
) -> list[Tensor]:
    """The results of ``graph`` on ``operands``, with all its calls into Python."""
    follower = _Follower(None)
    follower.rules[py_call] = follower._apply
    return [_whole(value) for value in follower.results(graph, operands, recorded)]


def leaving_operands(
    graph: Graph, operands: Sequence[Tensor], recorded: Collection[Value] | None, leaving: Leaving
) -> list[Tensor]:
    """The operands of ``leaving`` behind its own, at the point where a run raises in it.

    Raises Untold.
    """
    try:
        _Follower(leaving).results(graph, operands, recorded)
    except _Ended as ended:
        return ended.operands
    raise Unrepeatable


class _Follower:
    def __init__(self, leaving: Leaving | None) -> None:
        """``leaving``: what is to raise in the end, if anything is."""
        self.leaving = leaving
        self.rules = {
            cond: self._cond,
            while_: self._while,
            for_: self._for,
            py_call: self._call,
            checkpoint_call: self._checkpoint,
            identity: self._identity,
            fresh_variable: self._variable,
            item: self._item,
            item_at: self._item,
            reshape_to: self._reshape,
            join: self._join,
        }
        self.packed: dict[int, tuple[Tensor, dict[int, Tensor]]] = {}  # rows by the id of a stack

    def results(
        self, graph: Graph, operands: Sequence[Any], recorded: Collection[Value] | None = None
    ) -> list[Any]:
        return replay(graph, operands, recorded, self._run)

    def _run(self, node: Node, operands: list[Any]) -> Sequence[Any]:
        return self.rules.get(node.op, self._apply)(node, operands)

    def _apply(self, node: Node, operands: list[Any]) -> Sequence[Tensor]:
        return apply_node(node, [_whole(value) for value in operands])

    def _variable(self, node: Node, operands: list[Any]) -> Sequence[Tensor]:
        (made,) = self._apply(node, operands)
        if made.record is None and is_recording():
            made.record = Leaf(made.type)
        return (made,)

    def _item(self, node: Node, operands: list[Any]) -> Sequence[Tensor]:
        at = node.attributes["at"] if node.op is item else int(operands[1].numpy())
        row = self._rows(operands[0]).get(at)
        return self._apply(node, operands) if row is None else (row,)

    def _rows(self, value: Tensor | _Stack) -> dict[int, Tensor]:
        """The rows of a stack that are known to be tensors of their own."""
        if type(value) is _Stack:
            return value.rows
        return self.packed[id(value)][1] if id(value) in self.packed else {}

    def _pack(self, made: Sequence[Any], rows: dict[int, Tensor]) -> Sequence[Any]:
        """Remember the rows of a tensor, which is kept alive: its id is the key."""
        self.packed[id(made[0])] = made[0], rows
        return made

    def _reshape(self, node: Node, operands: list[Any]) -> Sequence[Any]:
        """What makes a stack of one item, or one of all items of rows that hold several."""
        (value,) = operands
        before, after = value.type.shape, node.attributes["shape"]
        if type(value) is not _Stack:
            made = self._apply(node, operands)
            return self._pack(made, {0: value}) if after == (1, *before) else made
        rows = {at: self._rows(row) for at, row in value.rows.items()}
        per = before[1] if len(before) > 1 else 0
        if after[1:] != before[2:] or any(len(each) != per for each in rows.values()):
            return self._apply(node, operands)
        items = {at * per + i: t for at, each in rows.items() for i, t in each.items()}
        return (_Stack(node.results[0].type, items),)

    def _join(self, node: Node, operands: list[Any]) -> Sequence[Any]:
        known = [self._rows(value) for value in operands]
        sizes = [value.type.shape[0] if value.type.rank else 0 for value in operands]
        lists = [type(value) is _Stack for value in operands]
        whole = any(
            not is_list and len(rows) != size
            for is_list, rows, size in zip(lists, known, sizes, strict=True)
        )
        if whole or node.attributes["axis"]:
            return self._apply(node, operands)
        starts = [0, *itertools.accumulate(sizes)]
        rows = {start + at: t for start, each in zip(starts, known, strict=False)
                for at, t in each.items()}  # fmt: skip
        if any(lists):
            return (_Stack(node.results[0].type, rows),)
        return self._pack(self._apply(node, operands), rows)

    def _identity(self, node: Node, operands: list[Any]) -> Sequence[Tensor]:
        (value,) = operands
        if type(value) is _Stack:  # what the author has stacked, each time anew
            return (value.stacked(),)
        return self._apply(node, operands)

    def _cond(self, node: Node, operands: list[Any]) -> list[Any]:
        pred, *rest = operands
        return self.results(node.regions[0 if pred.numpy() else 1], rest)

    def _checkpoint(self, node: Node, operands: list[Any]) -> list[Tensor]:
        outs, again = node.attributes["outs"], node.regions[1]
        made = [_whole(value).detach() for value in operands[:outs]]
        read = operands[outs:]
        outside = {node_of(record): record for value in read for record in _records(value)}
        if outside and is_recording():
            run = functools.partial(self._again, again, read)
            for t, record in zip(made, forgotten(made, outside.values(), run), strict=True):
                t.record = record
        return made

    def _again(self, again: Graph, read: Sequence[Any]) -> list[Tensor]:
        return [_whole(value) for value in self.results(again, read)]

    def _while(self, node: Node, operands: list[Any]) -> list[Any]:
        carried = node.attributes["carried"]
        go, values, rest = operands[0], operands[1 : 1 + carried], operands[1 + carried :]
        stacks = [_Stack(v.type) for v in node.results[1 + carried :]]
        trips = 0
        while go.numpy():
            go, *found = self.results(node.regions[0], [*values, *rest])
            values = found[:carried]
            _add_rows(stacks, trips, found[carried:])
            trips += 1
        return [from_numpy(np.asarray(trips, np.int64), copy=True), *values, *stacks]

    def _for(self, node: Node, operands: list[Any]) -> list[Any]:
        attrs = node.attributes
        carried, sliced = attrs["carried"], attrs["sliced"]
        values, rest = operands[1 : 1 + carried], operands[1 + carried + sliced :]
        slices = operands[1 + carried : 1 + carried + sliced]
        stacks = [_Stack(v.type) for v in node.results[carried:]]
        count = max(int(operands[0].numpy()), 0)
        if (slices or stacks) and not attrs["overruns"]:
            count = min(count, attrs["length"])
        for i in reversed(range(count)) if attrs["reverse"] else range(count):
            rows = [s.rows[i] if type(s) is _Stack else s[i] for s in slices]
            index = from_numpy(np.asarray(i, np.int64), copy=True)
            found = self.results(node.regions[0], [index, *values, *rows, *rest])
            values = found[:carried]
            _add_rows(stacks, i, found[carried:])
        return [*values, *stacks]

    def _call(self, node: Node, operands: list[Any]) -> list[Tensor]:
        function = inner = node.attributes["function"]
        own, further = operands, []
        if type(function) is Leaving:
            inner = function.function
            own, further = operands[: function.own], operands[function.own :]
        ends = function is self.leaving
        if self.leaving is None:
            return list(self._apply(node, operands)) if node.results else []
        if not isinstance(inner, OwnCall) or (ends and inner.raises == ()):
            raise Unrepeatable
        if not ends and not node.results:
            return []  # what it had to print is printed, and it has not raised
        try:
            found = inner(*[_whole(value).numpy() for value in own])
        except Exception as error:
            if is_interrupt(error):
                raise
            if not ends:
                raise Unrepeatable from None
            raise _Ended([_whole(value) for value in further]) from None
        return [from_numpy(array, copy=True) for array in found]


def _whole(value: Tensor | _Stack) -> Tensor:
    return value.whole() if type(value) is _Stack else value


def _records(value: Tensor | _Stack) -> list[AnyRecord]:
    """The histories that a value has."""
    rows = list(value.rows.values()) if type(value) is _Stack else [value]
    return [t.record for t in rows if t.record is not None]


def _add_rows(stacks: Sequence[_Stack], at: int, rows: Sequence[Tensor]) -> None:
    for stack, row in zip(stacks, rows, strict=True):
        if at < stack.type.shape[0]:
            stack.rows[at] = _whole(row)
