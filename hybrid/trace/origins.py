"""Which results of a cond are one of its operands itself: the regions hand it on.

::

    %y = cond %p, %x {             %y is %x itself where %p holds; so is %z, unless %q holds, which
      then(%x) { return %x }       is known only inside: a further result says it
      else(%x) { ... }
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from hybrid import ops
from hybrid.autodiff.arrivals import Origins
from hybrid.autodiff.presence import either, flag
from hybrid.autodiff.tape import make_snapshot, restored
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import interpreting
from hybrid.ops.control import cond
from hybrid.record import Record, recording
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.differentiate import FLAG, here, remembered
from hybrid.trace.tracer import Tracer

Holds = bool | Tensor  # where something is so; a bool if that is known
Regions = tuple[Graph, Graph]


@dataclass(frozen=True, slots=True)
class Way:
    """A result is the value at ``place`` (an operand; ~i for result i) where a flag says so.

    The flag is one of each region, if these are known, else a further result of the node.
    """

    place: int
    known: tuple[bool, bool]
    result: int = -1


@dataclass(frozen=True, slots=True)
class Handed:
    """What regions hand on, and those regions with the flags that tell it as further results."""

    regions: Regions
    ways: tuple[tuple[Way, ...], ...]  # of each result
    made: tuple[bool, ...]  # whether it may be none of these


@cond.origins
def cond_origins(record: Record) -> Origins | None:
    """What may be what, for the way back through ``record``."""
    regions: Regions = record.attrs["regions"]
    found = handed(regions)
    if not any(found.ways):
        return None
    places = tuple([tuple([way.place for way in ways]) for ways in found.ways])

    def flags() -> list[list[Tensor]]:
        results = [restored(record, i) for i in range(len(record.results))]
        pred, *operands = [make_snapshot(saved) for saved in record.saved]
        node = here(cond, record, results, (pred, *operands), {}, regions)
        now = handed(node.regions)
        with recording(False):
            outcome = node.extended(len(now.regions[0].results) - len(node.results), now.regions)
            return [[_flag(way, pred, outcome) for way in now.ways[i]] for i in range(len(places))]

    return Origins(places, found.made, flags)


def handed(regions: Regions) -> Handed:
    """What ``regions`` hand on."""
    return remembered(regions, "handed on", lambda: _handed(regions))


def _flag(way: Way, pred: Tensor, results: list[Tensor]) -> Tensor:
    if way.result >= 0:
        return results[way.result]
    if way.known[0] == way.known[1]:
        return flag(way.known[0])
    return pred if way.known[0] else ops.logical_not(pred)


def _handed(regions: Regions) -> Handed:
    sides = [_Side(region) for region in regions]
    further: list[tuple[Value, Value]] = []
    count = len(regions[0].results)

    def way(place: int, holds: list[Holds]) -> Way | None:
        first, second = holds
        if isinstance(first, bool) and isinstance(second, bool):
            return Way(place, (first, second)) if first or second else None
        values = [side.value(h) for side, h in zip(sides, holds, strict=True)]
        further.append((values[0], values[1]))
        return Way(place, (False, False), count + len(further) - 1)

    ways, made = [], []
    for j, result in enumerate(regions[0].results):
        found: list[Way | None] = []
        own = not result.type.floating
        for side in sides if not own else ():
            own = own or not side.params.issuperset(side.ways(side.graph.results[j]))
        made.append(own)
        if result.type.floating:
            for at in range(len(regions[0].params)):
                found.append(way(1 + at, [side.is_param(j, at) for side in sides]))
            taken: list[Holds] = [False, False]
            for i in range(j):
                shared = [
                    side.both(side.shared(j, i), side.negated(t))
                    for side, t in zip(sides, taken, strict=True)
                ]
                taken = [s.any(t, h) for s, t, h in zip(sides, taken, shared, strict=True)]
                found.append(way(~i, shared))
        ways.append(tuple([w for w in found if w is not None]))
    made_regions = tuple(
        Graph(
            region.name,
            region.params,
            tuple(side.tracer.builder.nodes),
            (*region.results, *[pair[at] for pair in further]),
        )
        for at, (region, side) in enumerate(zip(regions, sides, strict=True))
    )
    return Handed(made_regions, tuple(ways), tuple(made))


class _Side:
    """One region, and what its values may be."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tracer = tracer = Tracer(Builder(graph.name))
        tracer.builder.params, tracer.builder.nodes = list(graph.params), list(graph.nodes)
        self.makers = {v: node for node in graph.nodes for v in node.results}
        tracer.owned.update(graph.params, self.makers)
        self.params = set(graph.params)
        self.known: dict[Value, dict[Value, Holds]] = {}
        self.flags: dict[Node, list[Tensor]] = {}

    # Flags ------------------------------------------------------------------------------------

    def value(self, holds: Holds) -> Value:
        if isinstance(holds, bool):
            with interpreting(self.tracer), recording(False):
                holds = flag(holds)
        return holds.data

    def both(self, a: Holds, b: Holds) -> Holds:
        if isinstance(a, bool) or isinstance(b, bool):
            return (b if a else False) if isinstance(a, bool) else a if b else False
        with interpreting(self.tracer), recording(False):
            return ops.logical_and(a, b)

    def any(self, a: Holds, b: Holds) -> Holds:
        if isinstance(a, bool) or isinstance(b, bool):
            return (True if a else b) if isinstance(a, bool) else True if b else a
        with interpreting(self.tracer), recording(False):
            return either(a, b)

    def negated(self, a: Holds) -> Holds:
        if isinstance(a, bool):
            return not a
        with interpreting(self.tracer), recording(False):
            return ops.logical_not(a)

    # Values -----------------------------------------------------------------------------------

    def is_param(self, result: int, at: int) -> Holds:
        """Whether a result is a parameter."""
        return self.ways(self.graph.results[result]).get(self.graph.params[at], False)

    def shared(self, result: int, other: int) -> Holds:
        """Whether two results are one value that is made here."""
        found: Holds = False
        one, two = (self.ways(self.graph.results[i]) for i in (result, other))
        for value, holds in one.items():
            if value in two and value not in self.params:
                found = self.any(found, self.both(holds, two[value]))
        return found

    def ways(self, value: Value) -> dict[Value, Holds]:
        """The values that ``value`` may be, itself among them, and where it is each of them."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._ways(value)
        return found

    def _ways(self, value: Value) -> dict[Value, Holds]:
        node = self.makers.get(value)
        if node is None or node.op is not cond or not value.type.floating:
            return {value: True}
        inner, at = handed(node.regions), node.results.index(value)
        found: dict[Value, Holds] = {}
        other: Holds = False
        for way in inner.ways[at]:
            holds = self._flag(node, inner, way)
            origin = node.operands[way.place] if way.place >= 0 else node.results[~way.place]
            other = self.any(other, holds)
            for base, where in self.ways(origin).items():
                found[base] = self.any(found.get(base, False), self.both(holds, where))
        if inner.made[at]:
            found[value] = self.negated(other)
        return found

    def _flag(self, node: Node, inner: Handed, way: Way) -> Holds:
        if way.result < 0:
            if way.known[0] == way.known[1]:
                return way.known[0]
            pred = make_tensor(FLAG, node.operands[0])
            return pred if way.known[0] else self.negated(pred)
        if node not in self.flags:
            made = self.tracer.extend(node.results[0], inner.regions, {})
            self.flags[node] = [make_tensor(FLAG, v) for v in made]
        return self.flags[node][way.result - len(node.results)]
