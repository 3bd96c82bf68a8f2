"""What silenced channels send: which of the values along an axis are one number, whatever comes in.

Numbers are carried through a graph from the cells on.  Along each axis of a group, an array has
the number that all elements at a place are, or NaN where they vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.compress.channels.channel_groups import ChannelGroup, Key
from hybrid.compress.channels.loop_bodies import LoopBody
from hybrid.compress.weights import PRODUCTS
from hybrid.ir import Node, Value

# Where all that lies at a place is 0, so is what these make of it.
_KEEP_ZERO = frozenset(
    {
        "sum", "avg_pool", "resample", "unfold", "fold", "cumulative_sum", "attention",
        "attention_masked",
    }
)  # fmt: skip
# What is made of one number everywhere is that number, as it is where elements are only moved.
_KEEP_ALL = frozenset({"concat", "pad", "take", "mean", "max", "min", "max_pool"})
_VALUES_OF_ATTENTION = 2  # the operand that heads are means of


class SentValues:
    """The numbers along the axes of ``group``, if ``cells`` gives the arrays of its cells."""

    def __init__(self, group: ChannelGroup, cells: Callable[[Value], np.ndarray]) -> None:
        self.group, self.graph, self.cells = group, group.graph, cells
        self._arrays: dict[Value, np.ndarray] = {}
        self.along: dict[Key, np.ndarray] = {}
        for value in self.graph.graph.params:
            self._keep(value, self._of_static)
        self._go(self.graph.top)

    def _go(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node in self.graph.loops:
                self._loop(self.graph.loops[node])
                continue
            for result in node.results:
                static = result in self.graph.static
                self._keep(result, self._of_static if static else self._of_node, node)

    def _loop(self, body: LoopBody) -> None:
        """What the values of a loop are in every iteration: its body is gone through until it is
        known of what it carries.
        """
        for start, within, _, _ in body.carried:
            self._copy(start, within)
        for rows, row in body.sliced:
            self._copy(rows, row, 1, 0)
        changes = True
        while changes:
            self._go(body.nodes)
            changes = False
            for _, within, following, _ in body.carried:
                for axis in range(within.type.rank):
                    own = self.along.get((within, axis))
                    if own is not None:
                        differs = (own != self.along[following, axis]) & ~np.isnan(own)
                        own[differs] = np.nan
                        changes |= bool(differs.any())
        for _, within, _, end in body.carried:
            self._copy(within, end)
        for row, rows in body.stacked:
            self._copy(row, rows, 0, 1)

    def _copy(self, value: Value, to: Value, first: int = 0, then: int = 0) -> None:
        """Let ``to`` have along its axes from ``then`` on what ``value`` has from ``first`` on."""
        for axis in range(value.type.rank - first):
            found = self.along.get((value, axis + first))
            if found is not None:
                self.along[to, axis + then] = found.copy()

    def _keep(self, value: Value, found: Callable[..., np.ndarray], *node: Node) -> None:
        for axis in range(value.type.rank):
            if (value, axis) in self.group.axes:
                known = value in self.graph.static or bool(node)
                size = value.type.shape[axis]
                self.along[value, axis] = (
                    found(value, axis, *node) if known else np.full(size, np.nan)
                )

    def array(self, value: Value) -> np.ndarray:
        """The elements of a value that is known without the arguments."""
        found = self._arrays.get(value)
        if found is None:
            if value in self.graph.cells:
                found = self.cells(value)
            else:
                node, place = self.graph.makers[value]
                made = node.op.reference_rule(*map(self.array, node.operands), **node.attributes)
                found = made[~place] if isinstance(made, tuple) else made
            found = self._arrays[value] = np.asarray(found)
        return found

    def _of_static(self, value: Value, axis: int, *_: Node) -> np.ndarray:
        """The number that each slice consists of."""
        rows = np.moveaxis(self.array(value), axis, 0).reshape(value.type.shape[axis], -1)
        if rows.shape[1] == 0:
            return np.full(len(rows), np.nan)
        return np.where((rows == rows[:, :1]).all(axis=1), rows[:, 0], np.nan)

    def _of_node(self, value: Value, axis: int, node: Node) -> np.ndarray:
        size, name = value.type.shape[axis], node.op.name
        unknown = np.full(size, np.nan)
        place = ~node.results.index(value)
        ties = self.graph.tied(node, place, axis)
        if len(ties) > 1:  # of a reshape: the tie that the units follow
            chosen = self.group._choice(node, place, axis)
            ties = [] if chosen is None else [chosen]
        if not ties:
            return unknown
        own, tie = ties[0]
        parts = [
            (part, self.along[node.operands[part.place], part.axis])
            for part in tie
            if part.place >= 0 and (node.operands[part.place], part.axis) in self.along
        ]
        if node.op.elementwise:
            return self._elementwise(node, size, {part.place: found for part, found in parts})
        if name in ("attention", "attention_masked"):
            parts = [part for part in parts if part[0].place == _VALUES_OF_ATTENTION]
        if name in PRODUCTS or name in _KEEP_ZERO:
            zeros = [_by_number(own.numbers, p.numbers, found == 0) for p, found in parts]
            combined = np.any if name in PRODUCTS else np.all
            return np.where(combined(zeros, axis=0), 0.0, np.nan) if zeros else unknown
        if not node.op.moves and name not in _KEEP_ALL:
            return unknown
        found = _moved(own.numbers, parts)
        widths = node.attributes["widths"] if name == "pad" else ()
        if any(any(width) for other, width in enumerate(widths) if other != axis):
            found[found != node.attributes["value"]] = np.nan
        return found

    def _elementwise(self, node: Node, size: int, tied: dict[int, np.ndarray]) -> np.ndarray:
        numbers = []
        for place, operand in enumerate(node.operands):
            found = tied.get(place)
            if found is None:
                found = np.full(size, self._everywhere(operand))
            numbers.append(found)
        known = ~np.isnan(numbers).any(axis=0)
        made = np.full(size, np.nan)
        if known.any():
            dtypes = [np.dtype(v.type.dtype.name) if v.type.dtype.name != "bfloat16" else np.float32
                      for v in node.operands]  # fmt: skip
            given = [n[known].astype(d) for n, d in zip(numbers, dtypes, strict=True)]
            with np.errstate(all="ignore"):
                made[known] = node.op.reference_rule(*given, **node.attributes)
        if node.op.name == "multiply":
            made[(np.array(numbers) == 0).any(axis=0)] = 0.0
        return made

    def _everywhere(self, value: Value) -> float:
        """The number that all elements of ``value`` are, or NaN."""
        if value not in self.graph.static:
            return np.nan
        array = self.array(value).reshape(-1)
        return float(array[0]) if array.size and (array == array[0]).all() else np.nan


def _by_number(own: np.ndarray, numbers: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Whether something holds for all places of each number of ``own``."""
    table = np.ones(1 + max(int(own.max(initial=0)), int(numbers.max(initial=0))), bool)
    table[numbers[~holds]] = False
    return table[own]


def _moved(own: np.ndarray, parts: Any) -> np.ndarray:
    """The number that the places of each number of ``own`` have in all ``parts``."""
    found: dict[int, float] = {}
    for part, values in parts:
        for number, value in zip(part.numbers.tolist(), values.tolist(), strict=True):
            same = found.setdefault(number, value) == value
            found[number] = value if same else np.nan
    return np.array([found.get(number, np.nan) for number in own.tolist()])
