"""Which channels of a model leave together: read from its captured graph.

A unit is a set of places along axes of values: channel 3 of a convolution with its filter, its bias
and norm, and what the next layers read of it.  A walk over the graph carries units along the ties
of the ops (``op.couples``) from axis to axis, and joins units that meet.  It ends where an op sums
over the axis; results, inputs and ops that compute with the axis as a whole refuse the unit.
Loops over rows are walked through: see ``loop_bodies.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.autodiff import no_grad
from hybrid.calls.hybridized import Hybridized
from hybrid.compress.channels.loop_bodies import OpenedLoops
from hybrid.compress.channels.uncoupled_ops import reason_of
from hybrid.core.dataclass import dataclass
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, author_location
from hybrid.ir import Node, Value
from hybrid.nn.modules.module import Mode, Module
from hybrid.ops.support.axis_ties import Tie, TiedAxis, aligned

Key = tuple[Value, int]  # an axis of a value


@dataclass(frozen=True)
class Refusal:
    """Why a channel has to stay: the op that it ends at, its line, and the reason."""

    why: str
    op: str = ""
    at: Location | None = None


class EvaluatedGraph:
    """The graph of a model that evaluates ``example``, its cells, and the ties of its ops."""

    def __init__(
        self, model: Module, example: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> None:
        self._caller = author_location()  # the line of what no line of the author's is nearer to
        with Mode(model, False), no_grad():
            call, capture = Hybridized(model).captured(tuple(example), dict(named or {}))
        self.graph = capture.graph
        self.cells: dict[Value, Tensor] = {}
        self.arguments: set[Value] = set()
        for source, value in zip(capture.sources, self.graph.params, strict=True):
            if source.kind == "cell":
                self.cells[value] = source.tensor
            elif source.kind == "attribute":
                self.cells[value] = source.address.read(call.leaves)
            else:
                self.arguments.add(value)
        self.results = set(self.graph.results)
        opened = OpenedLoops(self.graph.nodes)
        self.top, self.loops = opened.top, opened.loops  # nodes outside of loops; of which bodies
        self.nodes = opened.nodes
        self.uses: dict[Value, list[tuple[Node, int]]] = {}
        self.makers: dict[Value, tuple[Node, int]] = {}
        self.static: set[Value] = set(self.cells)  # known without the arguments
        for node in self.nodes:
            for place, operand in enumerate(node.operands):
                self.uses.setdefault(operand, []).append((node, place))
            for i, result in enumerate(node.results):
                self.makers[result] = (node, ~i)
            alone = node.pure and not node.regions and node not in self.loops
            if alone and self.static.issuperset(node.operands):
                self.static.update(node.results)
        self._ties: dict[Node, list[Tie]] = {
            node: body.ties(node) for node, body in self.loops.items()
        }

    def line(self, node: Node) -> Location | None:
        """The author's line of ``node``; None if only lines of this package are nearer."""
        return None if node.location == self._caller else node.location

    def ties(self, node: Node) -> list[Tie]:
        """What ``couples`` says of ``node``; none where there is no rule."""
        found = self._ties.get(node)
        if found is None:
            rule = node.op.couple_rule or (aligned if node.op.elementwise else None)
            types = [v.type for v in node.operands], [v.type for v in node.results]
            found = [] if rule is None else rule(*types, **node.attributes)
            self._ties[node] = found
        return found

    def at(self, node: Node, place: int) -> Value:
        """The operand ``place``, or the result ``~place``."""
        return node.operands[place] if place >= 0 else node.results[~place]

    def touching(self, value: Value) -> Iterator[tuple[Node, int]]:
        """The nodes that make and use ``value``, each with its place there."""
        if value in self.makers:
            yield self.makers[value]
        yield from self.uses.get(value, ())

    def tied(self, node: Node, place: int, axis: int) -> list[tuple[TiedAxis, Tie]]:
        """The ties that an axis is in, each with its own part."""
        return [
            (part, tie)
            for tie in self.ties(node)
            for part in tie
            if part.place == place and part.axis == axis
        ]


class ChannelGroup:
    """The units of axes that run through a graph together; see ``groups_of``."""

    def __init__(self, graph: EvaluatedGraph, seeds: Iterable[Key]) -> None:
        self.graph = graph
        self.axes: dict[Key, np.ndarray] = {}  # the unit of each place, or -1
        self.refusals: dict[int, Refusal] = {}  # by units
        self._parents: list[int] = []
        self._table: np.ndarray | None = None  # the roots of all units, while none are joined
        self._waiting: list[Key] = []
        self.seeds = set(seeds)

    # The walk ------------------------------------------------------------------------------------

    def start(self, key: Key) -> None:
        """Go from an axis, each of its places being a unit; axes of other seeds met are completed.

        So two groups never share a place.
        """
        waiting: list[Key] = [key]
        while waiting:
            value, axis = waiting.pop()
            old = self.axes.get((value, axis))
            size = value.type.shape[axis]
            fresh = np.full(size, -1)
            free = np.arange(size) if old is None else np.flatnonzero(old < 0)
            fresh[free] = len(self._parents) + np.arange(len(free))
            self._parents += range(len(self._parents), len(self._parents) + len(free))
            self._table = None
            self._mark((value, axis), fresh)
            while self._waiting:
                self._follow(self._waiting.pop(0))
            waiting += [k for k in self.seeds & self.axes.keys() if (self.axes[k] < 0).any()]
        self._finish()

    def root(self, unit: int) -> int:
        """The first of the units that leave together with ``unit``."""
        while self._parents[unit] != unit:
            unit = self._parents[unit]
        return unit

    def _roots(self, units: np.ndarray) -> np.ndarray:
        if self._table is None:
            self._table = np.array([*map(self.root, range(len(self._parents))), -1])
        return self._table[units]

    def _join(self, a: np.ndarray, b: np.ndarray) -> None:
        for one, other in {*zip(a.tolist(), b.tolist(), strict=True)}:
            first, second = sorted((self.root(one), self.root(other)))
            if first != second:
                self._parents[second], self._table = first, None

    def _mark(self, key: Key, units: np.ndarray) -> None:
        """Let the places of an axis belong to ``units`` as well."""
        old = self.axes.get(key)
        if old is None:
            old = self.axes[key] = np.full(len(units), -1)
        fresh = (old < 0) & (units >= 0)
        met = (old >= 0) & (units >= 0)
        met &= self._roots(old) != self._roots(units)
        self._join(old[met], units[met])
        if fresh.any():
            old[fresh] = units[fresh]
        if (fresh.any() or met.any()) and key not in self._waiting:
            self._waiting.append(key)

    def _follow(self, key: Key) -> None:
        value, axis = key
        for node, place in self.graph.touching(value):
            chosen = self._choice(node, place, axis)
            if chosen is not None:
                self._spread(node, *chosen, self.axes[key])

    def _choice(self, node: Node, place: int, axis: int) -> tuple[TiedAxis, Tie] | None:
        """The tie along which the units of an axis go on: of several the one that they follow."""
        ties = self.graph.tied(node, place, axis)
        units = self._roots(self.axes[self.graph.at(node, place), axis])
        ties = [tie for tie in ties if len(ties) == 1 or _is_function(units, tie[0].numbers)]
        return ties[0] if len(ties) == 1 else None

    def _spread(self, node: Node, own: TiedAxis, tie: Tie, units: np.ndarray) -> None:
        """Give units along one axis of a tie to all others, and to equal numbers of its own."""
        there = (own.numbers >= 0) & (units >= 0)
        table = np.full(1 + max(int(part.numbers.max(initial=0)) for part in tie), -1)
        table[own.numbers[there]] = units[there]
        self._join(table[own.numbers[there]], units[there])
        for part in tie:
            found = np.where(part.numbers >= 0, table[part.numbers], -1)
            self._mark((self.graph.at(node, part.place), part.axis), found)

    # What stays ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Refuse units, and number what is left: ``axes`` has roots of units from now on."""
        for (value, axis), units in self.axes.items():
            if value in self.graph.results:
                maker = self.graph.makers.get(value)
                at = None if maker is None else self.graph.line(maker[0])
                self._refuse(units, Refusal("they are a result of the model", at=at))
            if value in self.graph.arguments:
                self._refuse(units, Refusal("they are an axis of the model's input"))
            for node, place in self.graph.touching(value):
                self._refuse_at(node, place, axis, units)
        for key in self.axes:
            self.axes[key] = self._roots(self.axes[key])
        for units in self.axes.values():
            if (units == units[0]).all():
                self._refuse(units[:1], Refusal("there would be none left"))
        self.refusals = {self.root(unit): why for unit, why in reversed(self.refusals.items())}

    def _refuse_at(self, node: Node, place: int, axis: int, units: np.ndarray) -> None:
        ties = self.graph.tied(node, place, axis)
        op, at = node.op.name, self.graph.line(node)
        if not ties:
            self._refuse(units, Refusal(reason_of(node.op), op, at))
        elif self._choice(node, place, axis) is None:
            self._refuse(
                units,
                Refusal("it cuts the axis into several, and one place is no block of them", op, at),
            )
        else:
            chosen = ties[0] if len(ties) == 1 else self._choice(node, place, axis)
            assert chosen is not None
            lost = units[chosen[0].numbers < 0]
            self._refuse(lost, Refusal("their number is in the author's code", op, at))

    def _refuse(self, units: np.ndarray, why: Refusal) -> None:
        for unit in np.unique(units[units >= 0]).tolist():
            self.refusals.setdefault(unit, why)

    # What there is -------------------------------------------------------------------------------

    @property
    def units(self) -> list[int]:
        """All units."""
        return sorted({self.root(unit) for unit in range(len(self._parents))})

    @property
    def free(self) -> list[int]:
        """The units that can leave."""
        return [unit for unit in self.units if unit not in self.refusals]

    def kinds(self) -> list[list[int]]:
        """The units that can leave, those together that have places along the same axes."""
        axes: dict[int, list[Key]] = {unit: [] for unit in self.free}
        for key, units in self.axes.items():
            for unit in np.unique(units).tolist():
                if unit in axes:
                    axes[unit].append(key)
        found: dict[tuple[Key, ...], list[int]] = {}
        for unit, keys in axes.items():
            found.setdefault(tuple(keys), []).append(unit)
        return list(found.values())

    def refuse(self, units: Iterable[int], why: Refusal) -> None:
        """``units`` cannot leave."""
        self.refusals = {**dict.fromkeys(units, why), **self.refusals}

    def of_copy(self, twins: dict[int, Tensor]) -> ChannelGroup:
        """This group in a copy of the model, whose cells are ``twins`` by the ids of these."""
        graph = copy.copy(self.graph)
        graph.cells = {value: twins.get(id(c), c) for value, c in graph.cells.items()}
        made = copy.copy(self)
        made.graph = graph
        return made

    def cells(self) -> Iterator[tuple[Value, Tensor, int, np.ndarray]]:
        """The cells with axes of the group: value, cell, axis and units."""
        for (value, axis), units in self.axes.items():
            if value in self.graph.cells:
                yield value, self.graph.cells[value], axis, units

    def sources(self) -> list[tuple[Value, Tensor, int, np.ndarray]]:
        """The cells that make what a unit sends, not those that read it: masks silence them."""
        reading = self._reading()
        return [found for found in self.cells() if (found[0], found[2]) not in reading]

    def _reading(self) -> set[Key]:
        """Axes of static values that some op sums over together with what the units send."""
        reading: set[Key] = set()
        static = [key for key in self.axes if key[0] in self.graph.static]
        changed = True
        while changed:
            changed = False
            for key in static:
                if key not in reading and self._is_read(key, reading):
                    reading.add(key)
                    changed = True
        return reading

    def _is_read(self, key: Key, reading: set[Key]) -> bool:
        value, axis = key
        for node, place in self.graph.uses.get(value, ()):
            for _, tie in self.graph.tied(node, place, axis):
                results = [(node.results[~p.place], p.axis) for p in tie if p.place < 0]
                if not results or not reading.isdisjoint(results):
                    return True
        return False


def _is_function(units: np.ndarray, numbers: np.ndarray) -> bool:
    """Whether places of one number have one unit."""
    table = np.full(int(numbers.max(initial=0)) + 1, -1)
    table[numbers] = units
    return bool((table[numbers] == units).all()) and len(np.unique(table)) > 1


def groups_of(graph: EvaluatedGraph, seeds: Sequence[Key]) -> list[ChannelGroup]:
    """The groups that the axes ``seeds`` lie in; no place is in two of them."""
    groups: list[ChannelGroup] = []
    for seed in seeds:
        if not any(seed in group.axes for group in groups):
            group = ChannelGroup(graph, seeds)
            group.start(seed)
            groups.append(group)
    return groups
