"""The choice of layouts: where each value of a graph is along one axis of a mesh.

Each node can be computed in some ways (``op.shares``); where what a way needs is not where the
value is, it has to be moved.  The first choice goes forward through the graph: of the ways of each
node the cheapest, moves of its operands included.  Then it goes back and forth, and takes another
way of a node where all is cheaper so, moves of its results included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybrid.core.layouts import PARTIAL, Held, MeshAxis, Placement, Split, placement_in
from hybrid.core.types import TensorType
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.layout_op import laid_out, layout_of
from hybrid.ops.communication.point_to_point import recv, send
from hybrid.ops.flow.control import CONTROL, cond, for_
from hybrid.ops.shapes.creation import fill
from hybrid.ops.support.shared_work import AxisCut, SharedWay, every_element
from hybrid.passes.layouts.layout_costs import asking, computing, is_long, moving

_ROUNDS = 8  # at most
_LATER = 0.01
_LITTLE = 1e-9


class LayoutChoice:
    """The way of each node of ``graph`` for the ranks along ``axis``."""

    def __init__(
        self,
        graph: Graph,
        axis: MeshAxis,
        given: Mapping[Value, Placement],
        wanted: Mapping[int, Placement],
        outers: Sequence[int] = (1,),
    ) -> None:
        """``given`` are placements of parameters, ``wanted`` those of results, by number.

        ``outers`` are the numbers of blocks that axes may be cut in (see ``Split``).
        """
        self.graph, self.axis = graph, axis
        self.place: dict[Value, Placement] = {v: given.get(v) for v in graph.params}
        self.ways: dict[Node, SharedWay] = {}
        self.targets: dict[Value, list[Node]] = {v: [] for v in graph.params}
        self._uses: dict[Value, list[tuple[Node, int]]] = {}
        self.ends: dict[Value, list[Placement]] = {}
        self._free = {v for at, v in enumerate(graph.results) if at not in wanted}
        for at, placement in wanted.items():
            self.ends.setdefault(graph.results[at], []).append(placement)
        self.outers = outers
        # Of branches and loops: where parameters and results of their regions are.
        self.inner: dict[Node, list[tuple[list[Placement], list[Placement]]]] = {}
        self._candidates: dict[Node, list[SharedWay]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.operands):
                self.targets[value].append(node)
            for at, value in enumerate(node.operands):
                self._uses.setdefault(value, []).append((node, at))
            for value in node.results:
                self.targets[value] = []
        # Ranks of a pipeline choose for graphs of their own: what goes between them is whole.
        messages = [node for node in graph.nodes if node.op in (send, recv)]
        self._uneven = {node.attributes["comm"] for node in messages}
        self._filled = {v for node in graph.nodes if node.op is fill for v in node.results}
        self._makers = {v: node for node in graph.nodes for v in node.results}
        self._forward()
        self._improve()
        while any([self._gathers(region) for region in self._regions()]):
            self._improve()

    # Ways ---------------------------------------------------------------------------------------

    def candidates(self, node: Node) -> list[SharedWay]:
        """The ways of ``node``, the one in which each rank computes all among them."""
        found = self._candidates.get(node)
        if found is None:
            found = known_ways(self.graph, node, self.axis, self.outers)
            if node.op.communicates and node.attributes["comm"] in self._uneven:
                found = found[:1]
            self._candidates[node] = found
        return found

    # Costs --------------------------------------------------------------------------------------

    def is_filled(self, value: Value) -> bool:
        """Whether ``value`` is one number everywhere: it is made where it is needed."""
        return value in self._filled

    def moving(self, value: Value, now: Placement, then: Placement) -> float:
        """What it costs to move ``value`` once."""
        return moving(value.type, now, then, self.axis.ranks)

    def _moves(self, value: Value) -> float:
        """What it costs to move ``value`` to where it is needed, once to each place."""
        if value in self._filled:
            return 0.0
        needed: dict[Placement, None] = {}
        for node, at in self._uses.get(value, ()):
            way = self.ways.get(node)
            if way is not None:
                needed[way.operands[at]] = None
        needed.update(dict.fromkeys(self.ends.get(value, ())))
        now = self.place[value]
        total = sum([self.moving(value, now, then) for then in needed])
        if value in self._free and None not in needed:  # as if whoever gets it will ask for all
            total += self.moving(value, now, None)
        return total

    def work(self, node: Node, way: SharedWay) -> float:
        split = any([p is not None for p in (*way.operands, *way.results)])
        only_terms = split and all([p in (None, PARTIAL) for p in (*way.operands, *way.results)])
        share = 1.0 if not split or only_terms else 1 / self.axis.ranks
        types = [v.type for v in node.operands], [v.type for v in node.results]
        found = computing(node.op.name, *types, share)
        if PARTIAL in way.operands:  # of equals the one that sums before: others need it, too
            found += _LATER
        return found if way.compute is None else found + asking(types[1], self.axis.ranks)

    def _put(self, node: Node, way: SharedWay) -> None:
        self.ways[node] = way
        self.place.update(zip(node.results, way.results, strict=True))

    # The search ---------------------------------------------------------------------------------

    def _forward(self) -> None:
        for node in self.graph.nodes:
            if node.op in CONTROL:
                way = self._as_given(node)
                self._candidates[node] = [way]
                self._put(node, way)
                continue
            best, least = None, 0.0
            for way in self.candidates(node):
                cost = self.work(node, way)
                for value, then in dict.fromkeys(zip(node.operands, way.operands, strict=True)):
                    if value not in self._filled:
                        cost += self.moving(value, self.place[value], then)
                if PARTIAL in way.results:  # it is a sum before long
                    cost += sum([self.moving(v, PARTIAL, None) for v in node.results]) / 2
                if best is None or cost < least - _LITTLE:
                    best, least = way, cost
            assert best is not None
            self._put(node, best)

    def _as_given(self, node: Node) -> SharedWay:
        """The way of a branch or loop: what it is given stays where it is, within and behind it."""
        places = [
            None if p == PARTIAL or isinstance(p, Held) else p
            for p in [self.place[v] for v in node.operands]
        ]
        first = 1  # behind the test or the count
        given = places[first:]
        if node.op is cond:
            ends = self._natural(node.regions[0], given, {})
            self.inner[node] = [(given, ends)] * 2
            return SharedWay((None, *given), tuple(ends))
        carried = node.attributes["carried"]
        before: list[Placement] = [None] if node.op is for_ else []
        last = carried + node.attributes.get("sliced", 0)
        rows = [_moved_axis(p, -1) for p in given[carried:last]]
        given[carried:last] = [
            p if r else None for p, r in zip(given[carried:last], rows, strict=True)
        ]
        shown = 0 if node.op is for_ else 1  # results of the body before those that are carried

        def inside() -> list[Placement]:
            return [*before, *given[:carried], *rows, *given[last:]]

        ends = self._natural(node.regions[0], inside(), {})
        for at in range(carried):  # zeros, say, become what is added up
            if node.operands[first + at] in self._filled:
                given[at] = ends[shown + at]
        asked = {shown + at: p for at, p in enumerate(given[:carried])}
        asked |= dict.fromkeys(range(shown))
        ends = self._natural(node.regions[0], inside(), asked)
        ends[: shown + carried] = [*[None] * shown, *given[:carried]]
        self.inner[node] = [(inside(), ends)]
        stacks = [_moved_axis(p, 1) for p in ends[shown + carried :]]
        return SharedWay((None, *given), (*[None] * shown, *given[:carried], *stacks))

    def _natural(
        self, region: Graph, given: Sequence[Placement], asked: Mapping[int, Placement]
    ) -> list[Placement]:
        """Where the results of ``region`` are, of parameters that are ``given`` so."""
        places = dict(zip(region.params, given, strict=True))
        inner = type(self)(region, self.axis, places, asked, self.outers)
        found = [inner.place[v] for v in region.results]
        return [asked.get(at, None if p == PARTIAL else p) for at, p in enumerate(found)]

    def _improve(self) -> None:
        order = [node for node in self.graph.nodes if len(self.candidates(node)) > 1]
        stale = set(order)  # what is round them has changed since they were looked at
        for turn in range(_ROUNDS):
            changed = False
            for node in order if turn % 2 else reversed(order):
                if node not in stale:
                    continue
                stale.discard(node)
                if self._better(node):
                    changed = True
                    stale.update(self._around(node))
            if not changed and turn:
                break

    def _around(self, node: Node) -> list[Node]:
        """The nodes that make, or need, what ``node`` needs or makes."""
        found = [self._makers[v] for v in node.operands if v in self._makers]
        for value in (*node.operands, *node.results):
            found += self.targets[value]
        return found

    def _better(self, node: Node) -> bool:
        """Take the cheapest way of ``node`` as things stand; whether it is another one."""
        own = self.ways[node]
        touched = [*dict.fromkeys(node.operands), *node.results]

        def cost(way: SharedWay) -> float:
            self._put(node, way)
            return self.work(node, way) + sum([self._moves(value) for value in touched])

        best, least = own, cost(own)
        for way in self.candidates(node):
            if way is own:
                continue
            found = cost(way)
            if found < least - _LITTLE:
                best, least = way, found
        self._put(node, best)
        return best is not own

    def _regions(self) -> list[list[Node]]:
        """Nodes that hand on parts to each other or need the same ones; none that takes long."""
        parent: dict[Node, Node] = {}

        def root(node: Node) -> Node:
            while parent[node] is not node:
                node = parent[node]
            return node

        for node in self.graph.nodes:
            way = self.ways[node]
            if way.compute is None and not is_long(node.op.name) and any(way.results):
                parent[node] = node
        first: dict[tuple[Value, Placement], Node] = {
            (v, self.place[v]): node for node in parent for v in node.results
        }
        for node in parent:
            for value, place in zip(node.operands, self.ways[node].operands, strict=True):
                if place is not None:  # whoever makes it so, or needs it so as well
                    other = first.setdefault((value, place), node)
                    parent[root(other)] = root(node)
        found: dict[Node, list[Node]] = {}
        for node in parent:
            found.setdefault(root(node), []).append(node)
        return list(found.values())

    def _gathers(self, region: Sequence[Node]) -> bool:
        """Let each rank compute all of ``region`` if that is cheaper; whether it is."""
        values = [v for node in region for v in (*node.operands, *node.results)]
        touched = list(dict.fromkeys(values))

        def cost() -> float:
            work = sum([self.work(node, self.ways[node]) for node in region])
            return work + sum([self._moves(value) for value in touched])

        before, own = cost(), [self.ways[node] for node in region]
        for node in region:
            self._put(node, self.candidates(node)[0])
        if any([any(self.ways[node].results) for node in region]) or cost() >= before - _LITTLE:
            for node, way in zip(region, own, strict=True):
                self._put(node, way)
            return False
        return True


class EachComputesAll(LayoutChoice):
    """That each rank along the axis computes all that its graph has: graphs may differ."""

    def candidates(self, node: Node) -> list[SharedWay]:
        found = self._candidates.get(node)
        if found is None:
            found = known_ways(self.graph, node, self.axis, self.outers)[:1]
            self._candidates[node] = found
        return found


def _moved_axis(place: Placement, by: int) -> Placement:
    """Where a row of a stack is that is at ``place``, or a stack of rows."""
    if not isinstance(place, Split) or place.axis + by < 0:
        return None
    return Split(place.axis + by, place.outer)


def has_rule(node: Node) -> bool:
    """Whether it is known how ranks share the work of ``node``."""
    op = node.op
    return op is laid_out or op in CONTROL or op.elementwise or op.share_rule is not None


def known_ways(graph: Graph, node: Node, axis: MeshAxis, outers: Sequence[int]) -> list[SharedWay]:
    """The ways of a ``node`` of ``graph``, which are worked out once."""
    known = graph.derived.setdefault(("ways", axis, tuple(outers)), {})
    found = known.get(node)
    if found is None:
        found = known[node] = ways_of(node, axis, outers)
    return found


def ways_of(node: Node, axis: MeshAxis, outers: Sequence[int] = (1,)) -> list[SharedWay]:
    """The ways of ``node`` along ``axis``, that of each rank computing all first."""
    op, ranks = node.op, axis.ranks
    if op is laid_out:
        rows = node.attributes["layout"]
        place = placement_in(tuple(layout_of(rows)), axis)
        left = {"layout": tuple([row for row in rows if row[0] != axis.comm])}  # parts are cut so
        return [SharedWay((place,), (place,), attrs=lambda _given, _types: left)]
    whole = SharedWay((None,) * len(node.operands), (None,) * len(node.results))
    if node.regions or not _is_beside(node, axis):
        return [whole]
    rule = op.share_rule or (every_element if op.elementwise else None)
    if rule is None or node.is_open:
        return [whole]
    operands, results = ([v.type for v in values] for values in (node.operands, node.results))
    found: list[SharedWay] = []
    for outer in outers:
        found += rule(AxisCut(ranks, outer), operands, results, **node.attributes)
    return [whole, *dict.fromkeys([way for way in found if _fits(way, operands, results, ranks)])]


def _fits(
    way: SharedWay, operands: Sequence[TensorType], results: Sequence[TensorType], ranks: int
) -> bool:
    """Whether all that is cut can be cut so, and all terms be added."""
    pairs = [*zip(operands, way.operands, strict=True), *zip(results, way.results, strict=True)]
    if any([p == PARTIAL and t.dtype.kind == "bool" for t, p in pairs]):
        return False
    return all([not isinstance(p, Split) or p.fits(t.shape, ranks) for t, p in pairs])


def _is_beside(node: Node, axis: MeshAxis) -> bool:
    """Whether what ``node`` does, if it communicates, is along another axis of the same mesh."""
    if not node.op.communicates:
        return node.op.pure
    comm = node.attributes["comm"]
    own, mesh = axis.comm.partition(" ")[::2]
    other, of = comm.partition(" ")[::2]
    return bool(of) and of == mesh and own != other
