"""Alias analysis of regions: which results are operands, or one another, and where that holds.

::

    %y = cond %p, %x {             %y is %x itself where %p holds; so is %z, unless %q holds, which
      then(%x) { return %x }       is known only inside: a further result says it
      else(%x) { ... }
    }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.presence import disjoined, flag
from hybrid.autodiff.record_values import Aliases
from hybrid.core.dataclass import dataclass, replace
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import apart
from hybrid.ir.record import recording
from hybrid.ops.flow.control import FLAG, cond, for_, while_
from hybrid.trace.alias.carried_aliases import CarriedAliases, Holds
from hybrid.trace.regions.build import as_of_for, known_int, remembered
from hybrid.trace.regions.tracer import Tracer

Regions = tuple[Graph, Graph]


@dataclass(frozen=True, slots=True)
class ResultAlias:
    """An alias of a result: the value at ``place`` (an operand; ~i for result i), and where.

    The flag is one of each region, if these are known, else a further result of the node.
    """

    place: int
    known: tuple[bool, bool]
    result: int = -1


@dataclass(frozen=True, slots=True)
class RegionAliases:
    """The aliases of all results of two regions, whose flags the regions return as well."""

    regions: Regions
    aliases: tuple[tuple[ResultAlias, ...], ...]  # of each result
    made: tuple[bool, ...]  # whether it may be none of these


def region_aliases(regions: Regions) -> RegionAliases:
    """The aliases of the results of ``regions``, the two of a ``cond``; remembered."""
    return remembered(regions, "handed on", lambda: _region_aliases(regions))


def _region_aliases(regions: Regions) -> RegionAliases:
    sides = [_Side(region) for region in regions]
    further: list[tuple[Value, Value]] = []
    count = len(regions[0].results)

    def alias(place: int, holds: list[Holds]) -> ResultAlias | None:
        first, second = holds
        if isinstance(first, bool) and isinstance(second, bool):
            return ResultAlias(place, (first, second)) if first or second else None
        values = [side.value(h) for side, h in zip(sides, holds, strict=True)]
        further.append((values[0], values[1]))
        return ResultAlias(place, (False, False), count + len(further) - 1)

    aliases, made = [], []
    for j, result in enumerate(regions[0].results):
        found: list[ResultAlias | None] = []
        own = not result.type.floating
        for side in sides if not own else ():
            own = own or not side.params.issuperset(side.aliases(side.graph.results[j]))
        made.append(own)
        if result.type.floating:
            for at in range(len(regions[0].params)):
                found.append(alias(1 + at, [side.is_param(j, at) for side in sides]))
            taken: list[Holds] = [False, False]
            for i in range(j):
                shared = [
                    side.both(side.shared(j, i), side.negated(t))
                    for side, t in zip(sides, taken, strict=True)
                ]
                taken = [s.any(t, h) for s, t, h in zip(sides, taken, shared, strict=True)]
                found.append(alias(~i, shared))
        aliases.append(tuple([w for w in found if w is not None]))
    made_regions = tuple(
        Graph(
            region.name,
            region.params,
            tuple(side.tracer.builder.nodes),
            (*region.results, *[pair[at] for pair in further]),
        )
        for at, (region, side) in enumerate(zip(regions, sides, strict=True))
    )
    return RegionAliases(made_regions, tuple(aliases), tuple(made))


def aliases_in(graph: Graph) -> Callable[[Value], set[Value]]:
    """A function from a value of ``graph`` to the set of values that it may be."""
    side = _Side(graph)
    return lambda value: set(side.aliases(value))


class _Side:
    """One region, and what its values may be."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tracer = tracer = Tracer(builder=Builder(graph.name))
        tracer.builder.params, tracer.builder.nodes = list(graph.params), list(graph.nodes)
        self.makers = {v: node for node in graph.nodes for v in node.results}
        tracer.owned.update(graph.params, self.makers)
        tracer.owned.update(v for node in graph.nodes for v in node.operands)  # of a part, too
        self.params = set(graph.params)
        self.known: dict[Value, dict[Value, Holds]] = {}
        self.flags: dict[Node, list[Tensor]] = {}
        self.loops: dict[Node, Aliases] = {}

    # Flags ------------------------------------------------------------------------------------

    def value(self, holds: Holds) -> Value:
        if isinstance(holds, bool):
            with apart(self.tracer), recording(False):
                holds = flag(holds)
        return holds.content

    def both(self, a: Holds, b: Holds) -> Holds:
        if isinstance(a, bool) or isinstance(b, bool):
            return (b if a else False) if isinstance(a, bool) else a if b else False
        with apart(self.tracer), recording(False):
            return ops.logical_and(a, b)

    def any(self, a: Holds, b: Holds) -> Holds:
        if isinstance(a, bool) or isinstance(b, bool):
            return (True if a else b) if isinstance(a, bool) else True if b else a
        with apart(self.tracer), recording(False):
            return disjoined(a, b)

    def negated(self, a: Holds) -> Holds:
        if isinstance(a, bool):
            return not a
        with apart(self.tracer), recording(False):
            return ops.logical_not(a)

    # Values -----------------------------------------------------------------------------------

    def is_param(self, result: int, at: int) -> Holds:
        """Whether a result is a parameter."""
        return self.aliases(self.graph.results[result]).get(self.graph.params[at], False)

    def shared(self, result: int, other: int) -> Holds:
        """Whether two results are one value that is made here."""
        found: Holds = False
        one, two = (self.aliases(self.graph.results[i]) for i in (result, other))
        for value, holds in one.items():
            if value in two and value not in self.params:
                found = self.any(found, self.both(holds, two[value]))
        return found

    def aliases(self, value: Value) -> dict[Value, Holds]:
        """The values that ``value`` may be, itself among them, and where it is each of them."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._aliases(value)
        return found

    def uses(self, wanted: Sequence[bool] | None = None) -> dict[Value, int]:
        """How many terms cotangents of values may have, by uses that do more than hand them on.

        Those of values that lead to results, of which ``wanted`` tells; loops count for several.
        """
        results = self.graph.results
        flows = [v.type.floating for v in results] if wanted is None else wanted
        alive = {v for v, flow in zip(results, flows, strict=True) if flow}
        found: dict[Value, int] = {}
        for node in reversed(self.graph.nodes):
            if alive.isdisjoint(node.results):
                continue
            if node.op.record_of is not None:
                alive.add(node.operands[node.op.record_of])
            if not node.op.differentiable:
                continue
            counts = [2 if node.regions else 1] * len(node.operands)
            if node.op is cond:
                live = [v in alive for v in node.results]
                inner = [(_Side(region).uses(live), region.params) for region in node.regions]
                given = range(len(node.operands) - 1)
                counts = [0, *[sum([n.get(ps[i], 0) for n, ps in inner]) for i in given]]
            for v, count in zip(node.operands, counts, strict=True):
                if v.type.floating:
                    alive.add(v)
                    for base in self.aliases(v) if count else ():
                        found[base] = found.get(base, 0) + count
        return found

    def _aliases(self, value: Value) -> dict[Value, Holds]:
        node = self.makers.get(value)
        if node is None or not value.type.floating:
            return {value: True}
        if node.op is for_ or node.op is while_:
            return self._aliases_of_loop(node, node.results.index(value))
        if node.op.record_of is not None:
            return self.aliases(node.operands[node.op.record_of])
        if node.op is not cond:
            return {value: True}
        inner, at = region_aliases(node.regions), node.results.index(value)
        found: dict[Value, Holds] = {}
        other: Holds = False
        for alias in inner.aliases[at]:
            holds = self._flag(node, inner, alias)
            source = node.operands[alias.place] if alias.place >= 0 else node.results[~alias.place]
            other = self.any(other, holds)
            for base, where in self.aliases(source).items():
                found[base] = self.any(found.get(base, False), self.both(holds, where))
        if inner.made[at]:
            found[value] = self.negated(other)
        return found

    def _aliases_of_loop(self, node: Node, at: int) -> dict[Value, Holds]:
        with apart(self.tracer), recording(False):
            if node not in self.loops:
                tensors = [make_tensor(v.type, v) for v in node.operands]
                attrs, trips = node.attributes, tensors[0]
                body = node.regions[0]
                if node.op is while_:
                    trips = make_tensor(node.results[0].type, node.results[0])
                    self.loops[node] = aliases_of_while(body, trips, tensors[1:], attrs)
                else:
                    self.loops[node] = aliases_of_loop(body, trips, tensors[1:], attrs)
            aliases = self.loops[node]
            flags = aliases.flags()[at] if aliases.places[at] else []
        found: dict[Value, Holds] = {}
        other: Holds = False
        for place, holds in zip(aliases.places[at], flags, strict=True):
            other = self.any(other, holds)
            source = node.operands[place] if place >= 0 else node.results[~place]
            for base, where in self.aliases(source).items():
                found[base] = self.any(found.get(base, False), self.both(holds, where))
        if aliases.made[at]:
            found[node.results[at]] = self.negated(other)
        return found

    def _flag(self, node: Node, inner: RegionAliases, alias: ResultAlias) -> Holds:
        if alias.result < 0:
            if alias.known[0] == alias.known[1]:
                return alias.known[0]
            pred = make_tensor(FLAG, node.operands[0])
            return pred if alias.known[0] else self.negated(pred)
        if node not in self.flags:
            made = self.tracer.extend(node.results[0], inner.regions, {})
            self.flags[node] = [make_tensor(FLAG, v) for v in made]
        return self.flags[node][alias.result - len(node.results)]


# Loops ------------------------------------------------------------------------------------------


def aliases_of_while(
    region: Graph, trips: Tensor, operands: list[Tensor], attrs: Mapping[str, Any]
) -> Aliases:
    """The aliases of the results of a ``while`` of this body after ``trips`` iterations."""
    body = remembered((region,), "as of for", lambda: as_of_for(region))
    attrs = dict(for_.attributes({"carried": attrs["carried"]}))
    found = aliases_of_loop(body, trips, operands, attrs)
    places = ((), *[tuple([at - (at < 0) for at in each]) for each in found.places])
    return replace(
        found,
        places=places,
        made=(True, *found.made),
        flags=lambda: [[], *found.flags()],
        lasting={1 + at: operands for at, operands in found.lasting.items()},
    )


def aliases_of_loop(
    body: Graph, count: Tensor, operands: list[Tensor], attrs: Mapping[str, Any]
) -> Aliases:
    """The aliases of the results of a ``for`` of this body after ``count`` iterations."""
    attrs = {name: attr for name, attr in attrs.items() if name != "regions"}
    carried = carried_of(body, attrs["carried"], attrs["sliced"])
    return carried.aliases(count, known_int(count), operands, attrs)


def carried_of(body: Graph, carried: int, sliced: int) -> CarriedAliases:
    """The alias analysis of a loop's carried values; its body is as that of ``for``."""
    key = ("carried on", carried)
    return remembered((body,), key, lambda: CarriedAliases(body, carried, sliced, _Side(body)))
