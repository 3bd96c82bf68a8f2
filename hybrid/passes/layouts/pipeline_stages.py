"""Stages: which rank of a pipeline computes what, and which microbatch a value is of.

A batch is cut into microbatches as ranks would cut it (``op.shares``), but in time: a value of a
microbatch is a part, and a gradient of the weights by one a term of a sum.  What lies between the
edges of the model is cut where few bytes cross, such that no stage takes much longer than others.
What goes back lies in the stage of what it goes back through: of the values that it reads, that of
the one that was made first.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from hybrid.core.layouts import PARTIAL, MeshAxis, Placement, Split, cut
from hybrid.errors import ShapeError
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.pipeline_op import Pipe, pipeline_edge
from hybrid.ops.support.shared_work import SharedWay
from hybrid.passes.layouts.layout_choice import LayoutChoice
from hybrid.passes.layouts.layout_costs import BYTES, computing

_NEVER = 1e6  # the cost of what is only done if it has to be
_HARD = 100.0  # how often, rather than to wait with what goes on by rows
_LITTLE = 0.01
_IN_VAIN = 3.0  # the cost of taking apart what is whole; more than that of computing all at once
_PLACES = 64  # where a model may be cut
_SLACK = (1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0, 1e9)  # that a stage may take longer


def is_pipelined(graph: Graph) -> bool:
    """Whether a part of ``graph`` is to be cut into stages: it has both edges of a model.

    A gradient that is taken outside has one at most; all ranks compute all of it.
    """
    edges = {node.attributes["begins"] for node in graph.nodes if is_edge(node)}
    return len(edges) == 2


def is_edge(node: Node) -> bool:
    """Whether it marks where the model begins or ends, going forward."""
    return node.op is pipeline_edge and not node.attributes["back"]


def pipe_of(graph: Graph) -> Pipe:
    """How ``graph`` is pipelined; all edges say the same."""
    pipes = {node.attributes["pipe"] for node in graph.nodes if node.op is pipeline_edge}
    if len(pipes) > 1:
        node = next(node for node in graph.nodes if node.op is pipeline_edge)
        raise ShapeError(
            "two pipelines in one hybridized function",
            at=node.location,
            why="One plan has one schedule.",
            fix="pipeline a model that holds both, or call them in functions of their own",
        )
    return Pipe._make(pipes.pop())


def between(graph: Graph) -> tuple[list[Node], list[Node]]:
    """What is computed from what the edges let in, and what of it is for what they let out."""
    inside: set[Value] = set()
    behind = []
    for node in graph.nodes:
        begins = is_edge(node) and node.attributes["begins"]
        if begins or not inside.isdisjoint(node.operands):
            inside.update(node.results)
            if not begins:
                behind.append(node)
    needed: set[Value] = set()
    found = []
    for node in reversed(behind):
        ends = is_edge(node) and not node.attributes["begins"]
        if ends or not needed.isdisjoint(node.results):
            needed.update(node.operands)
            found.append(node)
    return behind, found[::-1]


def outside(graph: Graph, forward: Sequence[Node]) -> set[Node]:
    """What eager code computes of all rows at once: neither in the model nor on its way back.

    Nothing where the model ends in numbers without rows, which eager code computes of all rows,
    and stages as sums.
    """
    ends = [node for node in forward if is_edge(node) and not node.attributes["begins"]]
    if not all([node.operands[0].type.rank for node in ends]):
        return set()
    inside = set(forward)
    back: set[Value] = set()  # gradients on their way back through the model
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op is pipeline_edge and node.attributes["back"]:
            if not node.attributes["begins"]:
                back.update(node.results)
        elif node not in inside and not is_edge(node):
            if back.isdisjoint(node.operands):
                found.add(node)
            else:
                back.update(node.results)
    return found


class Microbatches(LayoutChoice):
    """Which values are of one microbatch each: all that can be, from where a pipeline begins.

    Outside the model nothing is summed up by microbatches, so all bits are those of eager code.
    """

    def __init__(self, graph: Graph, count: int) -> None:
        axis = MeshAxis("microbatches", count, 0)
        behind, self.forward = between(graph)
        self.outside = outside(graph, self.forward)
        self._whole = dict.fromkeys(behind, 1.0) | dict.fromkeys(self.forward, _NEVER * _NEVER)
        super().__init__(graph, axis, {}, dict.fromkeys(range(len(graph.results))))

    def candidates(self, node: Node) -> list[SharedWay]:
        found = self._candidates.get(node)
        if found is None:
            ways = super().candidates(node)
            ways = [way for way in ways if self._in_time(node, way)]
            if node in self.outside:
                ways = [way for way in ways if _is_by_rows(node, way, self.axis.ranks)]
            found = self._candidates[node] = ways
        return found

    def moving(self, value: Value, now: Placement, then: Placement) -> float:
        if now == then:
            return 0.0
        if now is None or (now == PARTIAL and then is None):
            return _LITTLE
        times = 2 if isinstance(now, Split) and isinstance(then, Split) else 1  # by way of None
        return times * (_NEVER + value.type.nbytes / BYTES)

    def work(self, node: Node, way: SharedWay) -> float:
        """A node is computed of all microbatches at once only if it has to be."""
        is_small = any([p is not None for p in (*way.operands, *way.results)])
        if not is_small:
            waits = node in self.outside and any(
                [self._goes_on(node, w) for w in self.candidates(node)]
            )
            return _NEVER * _HARD if waits else self._whole.get(node, 0.0)
        return _IN_VAIN if self._takes_apart(node, way) else 0.0

    def _in_time(self, node: Node, way: SharedWay) -> bool:
        pairs = zip(node.operands, way.operands, strict=True)
        if any([place == PARTIAL and not self.is_filled(v) for v, place in pairs]):
            # Sums are made before anything is made of them.
            return is_edge(node) and not node.attributes["begins"]
        if is_edge(node) and node.attributes["begins"]:
            return way.results == (Split(0),)
        return way.compute is None or way.alone or node.op.name == "mean"

    def _goes_on(self, node: Node, way: SharedWay) -> bool:
        """Whether ``way`` goes on with the rows of each microbatch as they come."""
        pairs = zip(node.operands, way.operands, strict=True)
        read = [(v, p) for v, p in pairs if isinstance(p, Split) and not self.is_filled(v)]
        return bool(read) and all([self.place[v] == p for v, p in read])

    def _takes_apart(self, node: Node, way: SharedWay) -> bool:
        """Whether all that ``node`` reads by microbatches is of all of them: norms of gradients."""
        if node.op is pipeline_edge:
            return False
        pairs = zip(node.operands, way.operands, strict=True)
        read = [v for v, place in pairs if isinstance(place, Split) and not self.is_filled(v)]
        return bool(read) and not any([isinstance(self.place[v], Split) for v in read])

    def is_small(self, node: Node) -> bool:
        """Whether ``node`` is computed for one microbatch at a time."""
        way = self.ways[node]
        return any([p is not None for p in (*way.operands, *way.results)])


def _is_by_rows(node: Node, way: SharedWay, count: int) -> bool:
    """Whether all microbatches together have the bits of all rows."""
    if PARTIAL in way.results:
        return False
    if not node.op.name.startswith("matmul") or not any(way.results):
        return True
    (row,) = way.results  # one row has another kernel than several
    return cut(node.results[0].type, row, count).shape[-2:-1] != (1,)


def not_by_microbatches(node: Node, pipe: Pipe) -> ShapeError:
    """What is raised for a model with an op that stages cannot compute."""
    return ShapeError(
        f"{node.op.name} in a pipelined model cannot be computed by microbatches",
        at=node.location,
        why=f"It needs all {pipe.microbatches} of them at once, and a stage gets them one by one.",
        fix="leave it out of the pipelined model, or give microbatches=1",
    )


class Stages:
    """Where the nodes of ``graph`` that are computed by microbatches are computed."""

    def __init__(
        self,
        graph: Graph,
        pipe: Pipe,
        small: Microbatches,
        held: Mapping[Value, int] | None = None,
    ) -> None:
        """``held`` are parameters that a stage has alone: cuts are such that it reads them."""
        self.graph, self.pipe, self.small = graph, pipe, small
        self.held = dict(held or {})
        self.forward = small.forward
        for node in self.forward:
            if not small.is_small(node):
                raise not_by_microbatches(node, pipe)
        self.stage: dict[Node, int] = {}  # no stage: wherever it is needed
        self.root = self._roots()  # of what is made of one parameter alone
        self.cuts, self.crossing = self._cut()
        self.readers: dict[Value, set[int]] = {}  # the stages that read a parameter going forward
        for node in self.forward:
            for value in node.operands:
                if value in self.root:
                    self.readers.setdefault(self.root[value], set()).add(self.stage[node])
        # Where each value of a stage is, once what is forward has run: the last place counts.
        self.made: dict[Value, int] = {}
        self.there: dict[Value, set[int]] = {}
        for node in self.forward:
            for value in node.results:
                self.made[value] = self.stage[node]
                self.there[value] = {self.stage[node]}
        for node in self.forward:
            for value in node.operands:
                if value in self.there:
                    self.there[value].add(self.stage[node])
        self._backward()

    def _cut(self) -> tuple[list[int], list[int]]:
        """The numbers of the nodes that later stages begin with, and the bytes that cross there."""
        nodes, stages = self.forward, self.pipe.stages
        if len(nodes) < stages:
            raise ShapeError(
                f"a model of {len(nodes)} ops cannot be cut into {stages} stages",
                at=nodes[0].location if nodes else None,
                fix="ask for fewer stages",
            )
        costs = [0.0]
        for node in nodes:
            types = [v.type for v in node.operands], [v.type for v in node.results]
            costs.append(costs[-1] + computing(node.op.name, *types, 1.0))
        crossing = self._bytes()
        places = _places(costs, crossing, max(_PLACES, 4 * stages))
        bounds = self._bounds()
        for low, high in bounds if self.held else ():
            places = sorted({*places, *range(low, high + 1)})
        fair = costs[-1] / stages
        best: tuple[float, list[int]] | None = None
        for slack in _SLACK:
            found = _cheapest(costs, crossing, places, bounds, slack * fair)
            if found is None:
                continue
            ends = [0, *found, len(nodes)]
            longest = max([costs[b] - costs[a] for a, b in itertools.pairwise(ends)])
            moved = sum([crossing[at] for at in found]) / BYTES
            total = longest * (1 + (stages - 1) / self.pipe.microbatches) + moved
            if best is None or total < best[0]:
                best = total, found
        cuts = best[1] if best is not None else list(range(1, stages))
        for at, node in enumerate(nodes):
            self.stage[node] = sum([at >= cut for cut in cuts])
        return cuts, [crossing[at] for at in cuts]

    def _bounds(self) -> list[tuple[int, int]]:
        """Between which nodes each stage ends, so that the next one's cells are read behind."""
        stages, count = self.pipe.stages, len(self.forward)
        anywhere = [(1, count - 1)] * (stages - 1)
        first: dict[Value, int] = {}
        for at, node in enumerate(self.forward):
            for value in node.operands:
                if value in self.root:
                    first.setdefault(self.root[value], at)
        read = [(first[v], stage) for v, stage in self.held.items() if v in first]
        bounds = [
            (
                1 + max([n for n, own in read if own < end], default=0),
                min([n for n, own in read if own >= end], default=count - 1),
            )
            for end in range(1, stages)
        ]
        is_in_order = all([low <= high for low, high in bounds])
        return bounds if is_in_order else anywhere

    def _roots(self) -> dict[Value, Value]:
        """The parameter that a value is made of alone, by nodes of no stage."""
        root = {v: v for v in self.graph.params}
        inside = set(self.forward)
        for node in self.graph.nodes:
            found = {root.get(v) for v in node.operands}
            alone = len(found) == 1 and None not in found
            if alone and node not in inside and not self.small.is_small(node):
                root.update(dict.fromkeys(node.results, *found))
        return root

    def _bytes(self) -> list[int]:
        """How many bytes cross before each node."""
        last: dict[Value, int] = {}
        for at, node in enumerate(self.forward):
            last.update(dict.fromkeys(node.operands, at))
        found = [0] * (len(self.forward) + 1)
        for at, node in enumerate(self.forward):
            for value in node.results:
                for between in range(at + 1, last.get(value, at) + 1):
                    found[between] += value.type.nbytes
        return found

    def _backward(self) -> None:
        inside = set(self.forward)
        for node in self.graph.nodes:
            if node in inside or not self.small.is_small(node):
                continue
            places = [max(self.there[v]) for v in node.operands if v in self.there]
            if not places:
                continue
            stage = min(places)
            for weight in [self.root[v] for v in node.operands if v in self.root]:
                readers = self.readers.get(weight, {stage})
                if stage not in readers:  # what it goes back through has read the weight
                    stage = max([s for s in readers if s < stage], default=stage)
            self.stage[node] = stage
            for value in node.results:
                self.made[value], self.there[value] = stage, {stage}


def _places(costs: Sequence[float], crossing: Sequence[int], most: int) -> list[int]:
    """Where few bytes cross: the best place of each of ``most`` stretches of equal time."""
    best: dict[int, int] = {}
    for at in range(1, len(costs) - 1):
        stretch = int(costs[at] / (costs[-1] or 1.0) * most)
        if stretch not in best or crossing[at] < crossing[best[stretch]]:
            best[stretch] = at
    return sorted(best.values())


def _cheapest(
    costs: Sequence[float],
    crossing: Sequence[int],
    places: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    longest: float,
) -> list[int] | None:
    """The cuts over which the fewest bytes go, of stages that take no longer; None: there are none.

    By dynamic programming over the places of the next cut; ``bounds`` are the first and the last
    place of each.
    """
    stages = len(bounds) + 1
    ends = [*places, len(costs) - 1]
    reached: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for stage in range(stages):
        following: dict[int, tuple[float, list[int]]] = {}
        for start, (moved, cuts) in reached.items():
            for end in ends:
                is_last = end == len(costs) - 1
                if end <= start or is_last != (stage == stages - 1):
                    continue
                if not is_last and not bounds[stage][0] <= end <= bounds[stage][1]:
                    continue
                if costs[end] - costs[start] > longest:
                    break
                total = moved + (0 if is_last else crossing[end])
                if end not in following or total < following[end][0]:
                    following[end] = total, cuts if is_last else [*cuts, end]
        reached = following
    found = reached.get(len(costs) - 1)
    return None if found is None else found[1]
