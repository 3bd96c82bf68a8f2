"""Which results of a cond are one of its operands itself: the regions hand it on.

::

    %y = cond %p, %x {             %y is %x itself where %p holds; so is %z, unless %q holds, which
      then(%x) { return %x }       is known only inside: a further result says it
      else(%x) { ... }
    }
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from hybrid import ops
from hybrid.autodiff.kept import make_snapshot, restored
from hybrid.autodiff.origins import Items, Origins
from hybrid.autodiff.presence import either, flag
from hybrid.classes import dataclass, replace
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import interpreting
from hybrid.ops.control import cond, for_, while_
from hybrid.record import Record, recording
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.differentiate import FLAG, applied, computing, here, remembered
from hybrid.trace.differentiate_for import known_int
from hybrid.trace.differentiate_while import as_of_for
from hybrid.trace.kin import kin_of
from hybrid.trace.tracer import Tracer

ALL, SEVERAL = "all", "several"
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
def cond_origins(record: Record) -> Origins:
    """What may be what, for the way back through ``record``."""
    regions: Regions = record.attrs["regions"]
    found = handed(regions)
    places = tuple([tuple([way.place for way in ways]) for ways in found.ways])

    def flags() -> list[list[Tensor]]:
        results = [restored(record, i) for i in range(len(record.results))]
        pred, *operands = [make_snapshot(saved) for saved in record.saved]
        node = here(cond, record, results, (pred, *operands), {}, regions)
        now = handed(node.regions)
        with recording(False):
            outcome = node.extended(len(now.regions[0].results) - len(node.results), now.regions)
            return [[_flag(way, pred, outcome) for way in now.ways[i]] for i in range(len(places))]

    return Origins(places, found.made, flags, asks=ALL)


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


def any_may_be_given(graph: Graph, values: Collection[Value]) -> bool:
    """Whether one of ``values`` is a parameter where only a run knows that, and not always."""
    side = _Side(graph)
    ways = [side.ways(value) for value in values]
    return any(len(each) > 1 and not side.params.isdisjoint(each) for each in ways)


def origins_in(graph: Graph) -> Callable[[Value], set[Value]]:
    """What tells which values of ``graph`` one of them may be: parameters, or such as it makes."""
    side = _Side(graph)
    return lambda value: set(side.ways(value))


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
        self.loops: dict[Node, Origins] = {}

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
        if node is None or not value.type.floating:
            return {value: True}
        if node.op is for_ or node.op is while_:
            return self._ways_of_loop(node, node.results.index(value))
        if node.op is not cond:
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

    def _ways_of_loop(self, node: Node, at: int) -> dict[Value, Holds]:
        with interpreting(self.tracer), recording(False):
            if node not in self.loops:
                tensors = [make_tensor(v.type, v) for v in node.operands]
                attrs, trips = node.attributes, tensors[0]
                body = node.regions[0]
                if node.op is while_:
                    trips = make_tensor(node.results[0].type, node.results[0])
                    self.loops[node] = _while_origins(body, trips, tensors[1:], attrs)
                else:
                    self.loops[node] = _loop_origins(body, trips, tensors[1:], attrs)
            origins = self.loops[node]
            flags = origins.flags()[at] if origins.places[at] else []
        found: dict[Value, Holds] = {}
        other: Holds = False
        for place, holds in zip(origins.places[at], flags, strict=True):
            other = self.any(other, holds)
            origin = node.operands[place] if place >= 0 else node.results[~place]
            for base, where in self.ways(origin).items():
                found[base] = self.any(found.get(base, False), self.both(holds, where))
        if origins.made[at]:
            found[node.results[at]] = self.negated(other)
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


# Loops ------------------------------------------------------------------------------------------


@for_.origins
def for_origins(record: Record) -> Origins:
    """What the carried values may be after the loop."""
    count, *operands = [make_snapshot(saved) for saved in record.saved]
    attrs, body = record.attrs, record.attrs["regions"][0]
    found = _loop_origins(body, count, operands, attrs)
    if attrs["reverse"]:  # the way back of a loop makes no lists
        return found
    most = attrs["length"] if attrs["sliced"] or attrs["length"] else None
    return replace(found, items=_items(body, attrs["carried"], 0, lambda: _trips(count, most)))


def _trips(count: Tensor, most: int | None) -> int | Tensor:
    """How many iterations there are."""
    known = known_int(count)
    if known is not None:
        return known if most is None else min(known, most)
    return count if most is None else ops.minimum(count, most)


def _items(
    body: Graph, carried: int, skip: int, count: Callable[[], int | Tensor]
) -> dict[int, Items]:
    """What is known of the lists that a loop of this body, which is as that of ``for``, makes."""
    kin = remembered((body,), ("kin", carried), lambda: kin_of(body, carried))
    return {
        at + skip: Items(
            *[i if i < 0 else i + skip for i in (of.twin, of.behind)],
            of.first if of.first < 0 else 1 + of.first,
            of.last if of.last < 0 else of.last + skip,
            count,
        )
        for at, of in kin.items()
        if body.results[at].type.floating
    }


@while_.origins
def while_origins(record: Record) -> Origins:
    """The same; the number of iterations is nobody else."""
    _, *operands = [make_snapshot(saved) for saved in record.saved]
    region = record.attrs["regions"][0]
    trips = restored(record, 0)
    found = _while_origins(region, trips, operands, record.attrs)
    body = remembered((region,), "as of for", lambda: as_of_for(region))
    items = _items(body, record.attrs["carried"], 1, lambda: _trips(trips, None))
    return replace(found, items=items)


def _while_origins(
    region: Graph, trips: Tensor, operands: list[Tensor], attrs: Mapping[str, Any]
) -> Origins:
    body = remembered((region,), "as of for", lambda: as_of_for(region))
    attrs = {"carried": attrs["carried"], "length": 0, "reverse": False, "sliced": 0}
    found = _loop_origins(body, trips, operands, attrs)
    places = ((), *[tuple([at - (at < 0) for at in each]) for each in found.places])
    return replace(
        found,
        places=places,
        made=(True, *found.made),
        flags=lambda: [[], *found.flags()],
        kept={1 + at: operands for at, operands in found.kept.items()},
    )


def _loop_origins(
    body: Graph, count: Tensor, operands: list[Tensor], attrs: Mapping[str, Any]
) -> Origins:
    attrs = {name: attrs[name] for name in ("carried", "length", "reverse", "sliced")}
    history = remembered((body,), ("carried on", attrs["carried"]), lambda: _Kept(body, attrs))
    return history.origins(count, known_int(count), operands, attrs)


class _Kept:
    """What the carried values of a loop may be after it: operands, as positions among them."""

    def __init__(self, body: Graph, attrs: dict[str, Any]) -> None:
        n = self.carried = attrs["carried"]
        self.body, self.side = body, _Side(body)
        self.first_invariant = n + attrs["sliced"]
        position = {v: at for at, v in enumerate(body.params[1:])}
        self.steps = [
            {position.get(v, -1): holds for v, holds in self.side.ways(result).items()}
            if result.type.floating
            else {}
            for result in body.results[:n]
        ]
        used = {v for node in body.nodes for v in node.operands}
        inside = list(enumerate(body.params))[1 + self.first_invariant :]
        self.read = [at for at, value in inside if value in used]
        self.steps = [self._without_rows(step) for step in self.steps]
        results = body.results[:n]
        self.twins = [results.index(v) if v.type.floating else i for i, v in enumerate(results)]
        self.possible: list[set[int]] = [set() for _ in range(n)]
        now: list[set[int]] = [{at} for at in range(n)]
        while True:
            now = [
                set().union(*[now[b] if 0 <= b < n else {b} for b in step]) for step in self.steps
            ]
            grown = [old | new for old, new in zip(self.possible, now, strict=True)]
            if grown == self.possible:
                break
            self.possible = grown
        keys = {(at, o) for at in range(n) for o in (at, *self.possible[at])}
        self.keys = sorted([key for key in keys if key[1] >= 0])
        self.telling: Graph | None = None

    def _without_rows(self, step: dict[int, Holds]) -> dict[int, Holds]:
        return {-1 if self.carried <= b < self.first_invariant else b: h for b, h in step.items()}

    def origins(
        self, count: Tensor, known: int | None, operands: list[Tensor], attrs: dict[str, Any]
    ) -> Origins:
        may_run, may_not = known is None or known > 0, known is None or known <= 0
        places, made, wanted = [], [], []
        for at in range(self.carried):
            found = {at} if may_not else set()
            twin = self.twins[at]
            if may_run and twin == at:
                found |= self.possible[at]
            floats = self.body.params[1 + at].type.floating
            wanted.append([o for o in sorted(found) if o >= 0] if floats else [])
            other = [~twin] if twin < at and may_run else []
            places.append((*other, *[1 + o for o in wanted[-1]]))
            made.append(-1 in found or not floats)
        results = len(self.body.results) - self.carried

        def flags() -> list[list[Tensor]]:
            with recording(False):
                ran = [ops.greater(count, 0)]
                found = self.flags(wanted, count, operands, attrs)
                each = [
                    [*ran[: len(place) - len(own)], *own]
                    for place, own in zip(places, found, strict=True)
                ]
                return [*each, *[[] for _ in range(results)]]

        every = (*places, *[()] * results), (*made, *[True] * results)
        kept = {at: [1 + o for o in found if o >= 0] for at, found in enumerate(self.possible)}
        return Origins(*every, flags, SEVERAL, kept=kept if may_run else {}, read=self.read)

    def flags(
        self,
        wanted: list[list[int]],
        count: Tensor,
        operands: list[Tensor],
        attrs: dict[str, Any],
    ) -> list[list[Tensor]]:
        """Where each carried value is each of the operands ``wanted``."""
        ran = ops.greater(count, 0)
        simple = [self._simple(at, each, ran) for at, each in enumerate(wanted)]
        if all(each is not None for each in simple):
            return [each for each in simple if each is not None]
        keys = self.keys
        if self.telling is None:
            self.telling = self._telling(keys)
        start = [flag(at == o) for at, o in keys]
        n = self.carried
        if attrs["sliced"] or (len(self.body.results) > n and attrs["length"]):
            count = ops.minimum(count, attrs["length"])
        every = (count, *operands[:n], *start, *operands[n:])
        found = applied(for_, every, (self.telling,), **attrs | {"carried": n + len(keys)})
        result = dict(zip(keys, found[n:], strict=True))
        return [
            simple[at] if self.twins[at] < at else [result[at, o] for o in each]
            for at, each in enumerate(wanted)
        ]

    def _simple(self, at: int, wanted: list[int], ran: Tensor) -> list[Tensor] | None:
        """The flags where it is one thing if the loop runs, and its first value if not."""
        if self.twins[at] < at:
            return [ops.logical_not(ran) for _ in wanted]
        if len(self.possible[at] | {-1}) > 2 or at in self.possible[at]:
            return None if wanted else []
        if -1 in self.possible[at] and len(self.possible[at]) > 1:
            return None
        return [ops.logical_not(ran) if o == at else ran for o in wanted]

    def _telling(self, keys: list[tuple[int, int]]) -> Graph:
        """The body that carries flags beside the values."""
        side, n = self.side, self.carried
        given = {key: Value(FLAG, "same") for key in keys}
        side.tracer.owned.update(given.values())
        flags = []
        for at, o in keys:
            holds: Holds = False
            for b, where in self.steps[at].items():
                before: Holds = b == o
                if 0 <= b < n:
                    before = make_tensor(FLAG, given[b, o]) if (b, o) in given else False
                holds = side.any(holds, side.both(where, before))
            flags.append(side.value(holds))
        index, *rest = self.body.params
        params = (index, *rest[:n], *given.values(), *rest[n:])
        whole = Graph("body", params, tuple(side.tracer.builder.nodes), ())
        return computing(whole, (*self.body.results[:n], *flags))
