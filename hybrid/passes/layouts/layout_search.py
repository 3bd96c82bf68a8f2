"""The search for the layouts that take least time: of each node of a graph, and of its cells.

Unlike ``LayoutChoice``, which goes by given layouts, this one finds those of parameters, too; and
it goes by prices that whoever asks has measured.  The cost is a sum of terms: what a rank computes
of each node, by its way; what a value costs to move, by the ways of who makes it and who needs it.
A value that several nodes need is moved once to each place: so it has a variable of its own, the
set of places that it is moved to.  ``cheapest_assignment.py`` finds the ways with the least sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from hybrid.core.layouts import PARTIAL, MeshAxis, Placement, cut
from hybrid.core.types import TensorType
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.point_to_point import recv, send
from hybrid.ops.shapes.creation import fill
from hybrid.ops.support.shared_work import SharedWay
from hybrid.passes.layouts.cheapest_assignment import (
    BEAM,
    MOST,
    NEVER,
    CostTerm,
    cheapest_assignment,
    term_of,
)
from hybrid.passes.layouts.layout_choice import known_ways

_WHOLE_SETS = 4  # places of which all sets are looked at; of more, sets of two at most


class Prices(Protocol):
    """Seconds that things take."""

    def work(self, node: Node, way: SharedWay, axis: MeshAxis) -> float:
        """What a rank takes for its part of ``node``, what it asks of others included."""

    def moving(self, type: TensorType, now: Placement, then: Placement, axis: MeshAxis) -> float:
        """What it takes to make of what ``now`` says of a tensor what ``then`` says."""


class HeldCell(NamedTuple):
    """A parameter of a graph whose layout is open, and the results that are held as it is."""

    param: int
    results: tuple[int, ...]


class ChosenLayouts:
    """Where each value of ``graph`` is along one axis, and the way of each node."""

    def __init__(
        self, graph: Graph, given: Mapping[Value, Placement], ways: Mapping[Node, SharedWay]
    ) -> None:
        self.graph, self.ways = graph, dict(ways)
        self.place: dict[Value, Placement] = {v: given.get(v) for v in graph.params}
        for node in graph.nodes:
            self.place.update(zip(node.results, self.ways[node].results, strict=True))
        # Branches and loops are computed as they are, by every rank.
        self.inner: dict[Node, list[tuple[list[Placement], list[Placement]]]] = {}
        self._filled = filled_of(graph)

    def is_filled(self, value: Value) -> bool:
        """Whether ``value`` is one number everywhere: it is made where it is needed."""
        return value in self._filled

    def needs(self, ends: Mapping[int, Placement]) -> dict[Value, dict[Placement, None]]:
        """The places that each value is needed at; ``ends`` are those of results."""
        found: dict[Value, dict[Placement, None]] = {v: {} for v in self.place}
        for node in self.graph.nodes:
            for value, place in zip(node.operands, self.ways[node].operands, strict=True):
                found[value][place] = None
        for at, place in ends.items():
            found[self.graph.results[at]][place] = None
        return found

    def seconds(self, prices: Prices, axis: MeshAxis, ends: Mapping[int, Placement]) -> float:
        """What all of it takes, by ``prices``."""
        total = sum([prices.work(node, self.ways[node], axis) for node in self.graph.nodes])
        for value, places in self.needs(ends).items():
            if value not in self._filled:
                now = self.place[value]
                total += sum([prices.moving(value.type, now, p, axis) for p in places if p != now])
        return total


class FoundLayouts(NamedTuple):
    """What the search has found."""

    layouts: ChosenLayouts
    ends: dict[int, Placement]  # of all results
    seconds: float
    exact: bool  # whether nothing takes less, by the prices


def filled_of(graph: Graph) -> frozenset[Value]:
    """The values that are one number everywhere."""
    return frozenset([v for node in graph.nodes if node.op is fill for v in node.results])


class LayoutSearch:
    """The ways of ``graph`` along ``axis`` whose sum of ``prices`` is least."""

    def __init__(
        self,
        graph: Graph,
        axis: MeshAxis,
        prices: Prices,
        cells: Sequence[HeldCell] = (),
        given: Mapping[int, Placement] | None = None,
        outers: Sequence[int] = (1,),
        asked: Mapping[int, Placement] | None = None,
    ) -> None:
        """``given`` are the places of parameters, by number, that are no ``cells``.

        ``asked`` are those of results that belong to none; all others are to be whole.
        """
        self.graph, self.axis, self.prices, self.cells = graph, axis, prices, tuple(cells)
        messages = [node for node in graph.nodes if node.op in (send, recv)]
        uneven = {node.attributes["comm"] for node in messages}
        self.ways: list[list[SharedWay]] = []
        for node in graph.nodes:
            ways = known_ways(graph, node, axis, outers)
            whole = node.op.communicates and node.attributes["comm"] in uneven
            self.ways.append(ways[:1] if whole else ways)
        self.asked = dict(asked or {})
        self.given = {graph.params[at]: place for at, place in (given or {}).items()}
        self._filled = filled_of(graph)
        self._moving: dict[tuple[TensorType, Placement, Placement], float] = {}
        # A variable for each node, then one for each cell: the places that have been asked of it.
        self.choices: list[list[Any]] = [list(ways) for ways in self.ways]
        self.maker: dict[Value, tuple[int, int]] = {}  # variable, which result
        for at, node in enumerate(graph.nodes):
            for number, value in enumerate(node.results):
                self.maker[value] = at, number
        self.users: dict[Value, list[int]] = {v: [] for v in (*graph.params, *self.maker)}
        for at, node in enumerate(graph.nodes):
            for value in dict.fromkeys(node.operands):
                self.users[value].append(at)
        self.end_of = {at: cell.param for cell in self.cells for at in cell.results}
        for cell in self.cells:
            value = graph.params[cell.param]
            self.maker[value] = len(self.choices), 0
            self.choices.append(self._places_of(value, cell))
        self.cell_variable = {
            cell.param: len(graph.nodes) + at for at, cell in enumerate(self.cells)
        }

    def _places_of(self, value: Value, cell: HeldCell) -> list[Placement]:
        """Where a cell may be: where a node needs it, or makes what is written to it."""
        found: dict[Placement, None] = {None: None}
        for at in self.users[value]:
            for way in self.ways[at]:
                pairs = zip(self.graph.nodes[at].operands, way.operands, strict=True)
                found.update(dict.fromkeys([p for v, p in pairs if v is value]))
        for end in cell.results:
            at, number = self.maker.get(self.graph.results[end], (len(self.ways), 0))
            if at < len(self.ways):
                found.update(dict.fromkeys([way.results[number] for way in self.ways[at]]))
        found.pop(PARTIAL, None)
        return [p for p in found if p is None or p.fits(value.type.shape, self.axis.ranks)]

    # Costs ------------------------------------------------------------------------------------

    def move(self, type: TensorType, now: Placement, then: Placement) -> float:
        """The price of one move."""
        if now == then:
            return 0.0
        key = type, now, then
        found = self._moving.get(key)
        if found is None:
            found = self._moving[key] = self.prices.moving(*key, self.axis)
        return found

    def _made(self, value: Value) -> tuple[int | None, list[Placement]]:
        """The variable that decides where ``value`` is, and where, for each of its choices."""
        if value not in self.maker:
            return None, [self.given.get(value)]
        variable, number = self.maker[value]
        if variable >= len(self.ways):
            return variable, self.choices[variable]
        return variable, [way.results[number] for way in self.ways[variable]]

    def _needed(self, value: Value) -> list[tuple[int | None, list[frozenset[Placement]]]]:
        """The variables that decide where ``value`` is needed, and where, for each choice."""
        found: list[tuple[int | None, list[frozenset[Placement]]]] = []
        for at in self.users[value]:
            operands = self.graph.nodes[at].operands
            found.append(
                (
                    at,
                    [
                        frozenset(
                            [p for v, p in zip(operands, way.operands, strict=True) if v is value]
                        )
                        for way in self.ways[at]
                    ],
                )
            )
        for at, result in enumerate(self.graph.results):
            if result is value:
                if at in self.end_of:
                    variable = self.cell_variable[self.end_of[at]]
                    found.append((variable, [frozenset([p]) for p in self.choices[variable]]))
                else:
                    found.append((None, [frozenset([self.asked.get(at)])]))
        return found

    def terms(
        self, byte_price: float = 0.0, kept: frozenset[Value] = frozenset()
    ) -> tuple[list[int], list[CostTerm]]:
        """The sizes of all variables, and what they cost: see ``find``."""
        sizes = [len(choices) for choices in self.choices]
        terms: list[CostTerm] = []
        for at, node in enumerate(self.graph.nodes):
            costs = [self.prices.work(node, way, self.axis) for way in self.ways[at]]
            if byte_price:
                for number, value in enumerate(node.results):
                    if value in kept:
                        for i, way in enumerate(self.ways[at]):
                            costs[i] += byte_price * self._nbytes(value, way.results[number])
            terms.append(CostTerm((at,), np.array(costs)))
        if byte_price:
            for cell, variable in self.cell_variable.items():
                value = self.graph.params[cell]
                held = [self._nbytes(value, p) for p in self.choices[variable]]
                terms.append(CostTerm((variable,), byte_price * np.array(held)))
        for value in self.users:
            if value not in self._filled:
                terms += self._moves(value, sizes)
        return sizes, terms

    def _nbytes(self, value: Value, place: Placement) -> int:
        return cut(value.type, place, self.axis.ranks).nbytes

    def _moves(self, value: Value, sizes: list[int]) -> list[CostTerm]:
        """The terms of moving ``value``; they may take a further variable."""
        maker, places = self._made(value)
        needed = self._needed(value)
        if not needed:
            return []
        if len(needed) == 1:
            [(user, sets)] = needed
            costs = np.array([[self._to(value, now, then) for then in sets] for now in places])
            return [_term((maker, user), costs)]
        asked = list(
            dict.fromkeys([p for _, sets in needed for s in sets for p in sorted(s, key=str)])
        )
        most = len(asked) if len(asked) <= _WHOLE_SETS else 2
        every = [frozenset(s) for n in range(1, most + 1) for s in itertools.combinations(asked, n)]
        variable = len(sizes)
        sizes.append(len(every))
        costs = np.array([[self._to(value, now, then) for then in every] for now in places])
        found = [_term((maker, variable), costs)]
        for user, sets in needed:
            costs = np.array([[0.0 if s <= there else NEVER for there in every] for s in sets])
            found.append(_term((user, variable), costs))
        return found

    def _to(self, value: Value, now: Placement, then: frozenset[Placement]) -> float:
        # In one order on all ranks, which are to come to the same numbers.
        return sum([self.move(value.type, now, place) for place in sorted(then, key=str)])

    def go_by(self, prices: Prices) -> None:
        """From now on costs are those of ``prices``."""
        self.prices, self._moving = prices, {}

    # What is found ----------------------------------------------------------------------------

    def find(
        self,
        byte_price: float = 0.0,
        kept: frozenset[Value] = frozenset(),
        *,
        most: int = MOST,
        beam: int = BEAM,
    ) -> FoundLayouts:
        """The layouts that cost least.

        ``byte_price`` are seconds that a byte counts for which a rank holds of cells and of what
        is ``kept``: the higher, the fewer bytes.
        """
        sizes, terms = self.terms(byte_price, kept)
        found = cheapest_assignment(sizes, terms, most=most, beam=beam)
        chosen = [choices[v] for choices, v in zip(self.choices, found.values, strict=False)]
        return self.found(chosen, found.exact)

    def found(self, chosen: Sequence[Any], exact: bool) -> FoundLayouts:
        """The layouts that choices of all variables but sets are: ways, and places of cells."""
        nodes, places = self.graph.nodes, dict(self.given)
        for cell, variable in self.cell_variable.items():
            places[self.graph.params[cell]] = chosen[variable]
        layouts = ChosenLayouts(self.graph, places, dict(zip(nodes, chosen, strict=False)))
        ends = dict.fromkeys(range(len(self.graph.results))) | self.asked
        for at, cell in self.end_of.items():
            ends[at] = chosen[self.cell_variable[cell]]
        seconds = layouts.seconds(self.prices, self.axis, ends)
        return FoundLayouts(layouts, ends, seconds, exact)


def _term(variables: tuple[int | None, ...], costs: np.ndarray) -> CostTerm:
    """A term by those of ``variables`` that are some; the others have one value."""
    left = [v for v in variables if v is not None]
    shape = [n for v, n in zip(variables, costs.shape, strict=True) if v is not None]
    return term_of(left, costs.reshape(shape))
