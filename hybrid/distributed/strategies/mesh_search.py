"""The search over the axes of a mesh: one after the other, as parts are cut.

Along each axis the step, or what is left of it along those before, is laid out by hand in each way,
and by the search.  The best of what comes of it goes on to the next axis; what was laid out by hand
along all axes goes on in any case, for the strategy may take no longer than any of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hybrid.core.layouts import MeshAxis, Placement, cut
from hybrid.distributed.strategies.axis_layouts import BY_HAND, by_hand, outers_of
from hybrid.distributed.strategies.captured_step import CapturedStep, Places
from hybrid.distributed.strategies.op_times import OpTimes
from hybrid.distributed.strategies.pipelined_steps import (
    marked_graph,
    pipes_of,
    rows_of_batch,
    seconds_of_stages,
    stages_of,
)
from hybrid.ir import Graph, Node, Op, Value
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.ops.shapes.creation import fill
from hybrid.ops.support.shared_work import SharedWay
from hybrid.passes.layouts.layout_choice import ways_of
from hybrid.passes.layouts.layout_search import (
    ChosenLayouts,
    FoundLayouts,
    LayoutSearch,
    Prices,
)
from hybrid.passes.layouts.local_graph import LayoutRow, along
from hybrid.passes.layouts.local_prices import LinkSeconds, LocalPrices

FOUND, PIPELINE = "found", "pipeline"
KEPT = 3  # of what was found by search, for the next axis
BYTE_PRICES = (0.0, 0.1, 0.4, 1.6, 6.4, 25.6, 1e3)  # of all bytes together, in times of the step


class AxisStrategy(NamedTuple):
    """What was chosen along one axis: by ops in their order, but for those that fill a tensor.

    These are left out as ranks may have more or fewer of them.
    """

    axis: MeshAxis
    cells: Mapping[int, Placement]
    ops: tuple[tuple[Op, tuple[object, ...]], ...]
    ways: tuple[SharedWay, ...]
    rows: tuple[LayoutRow, ...]
    seconds: tuple[float, ...]  # of what each row computes
    held: tuple[int, ...]  # bytes that a rank has then: of what is given, and is still needed


class Option(NamedTuple):
    """A strategy that may be taken: by which way along each axis, and what it takes."""

    kinds: tuple[str, ...]
    axes: tuple[AxisStrategy, ...]
    graph: Graph  # of the last rank, as far as axes have been gone through
    seconds: float
    exact: bool
    pipe: Pipe | None = None  # if ranks along one axis are stages
    stages: tuple[Option, ...] = ()  # along the other axes, by stage

    def of_stage(self, axes: Sequence[MeshAxis]) -> Option:
        """What the rank with the places ``axes`` does."""
        if self.pipe is None:
            return self
        return next(self.stages[axis.rank] for axis in axes if axis.comm == self.pipe.comm)

    @property
    def name(self) -> str:
        """What people call it."""
        if FOUND in self.kinds:
            return FOUND
        return self.kinds[0] if len(set(self.kinds)) == 1 else " x ".join(self.kinds)

    @property
    def places(self) -> Places:
        """Where cells are."""
        return {own.axis: dict(own.cells) for own in self.axes}


class MeshSearch:
    """Strategies of ``step`` along ``axes``, in the order in which parts are cut."""

    def __init__(
        self, step: CapturedStep, axes: Sequence[MeshAxis], times: OpTimes, links: LinkSeconds
    ) -> None:
        self.step, self.axes, self.times, self.links = step, tuple(axes), times, links
        self.outers = outers_of(step)
        self.prices = LocalPrices(times.seconds, links)
        self.alone = 0.0  # seconds of the step on one rank

    def options(self, memory: bool = False) -> list[Option]:
        """Strategies: all that are made by hand, and those that were found.

        Of these there are several if ``memory`` counts: some take longer and less of it.
        """
        if not self.axes:
            self.alone = self.times.calibrate(self.step.graph)
            return [self._begun("one rank", seconds=self.alone)]
        states = [self._begun()]
        for number, axis in enumerate(self.axes):
            following: list[Option] = []
            first = sorted(states, key=lambda s: s.seconds)[:KEPT]
            for state in states:
                search = self._search(state.graph, axis)
                if number == 0:
                    self.alone = self.times.calibrate(self.step.graph)
                self.prices = LocalPrices(self.times.seconds, self.links)
                search.go_by(self.prices)
                for kind in BY_HAND:
                    found = by_hand(kind, self.step, state.graph, axis, self.prices, self.outers)
                    if found is not None and self._is_usual((*state.kinds, kind)):
                        following.append(self._option(state, kind, axis, found))
                if state in first:
                    scale = self._byte_scale(state.graph)
                    for price in BYTE_PRICES if memory else BYTE_PRICES[:1]:
                        found = search.find(price * scale, self._kept(state.graph))
                        following.append(self._option(state, FOUND, axis, found))
            hand = [option for option in following if FOUND not in option.kinds]
            found_ = sorted(
                [option for option in following if FOUND in option.kinds], key=lambda o: o.seconds
            )
            is_last = number == len(self.axes) - 1
            states = hand + (found_ if is_last or memory else found_[:KEPT])
        return states + self._pipelines()

    def _begun(self, *kinds: str, seconds: float = 0.0) -> Option:
        """What no axis has been gone through for."""
        return Option(kinds=kinds, axes=(), graph=self.step.graph, seconds=seconds, exact=True)

    def _pipelines(self) -> list[Option]:
        """The best pipeline along each axis, with each kind by hand along the others."""
        step, best = self.step, dict[str, Option]()
        if step.loss is None or any([node.regions for node in step.graph.nodes]):
            return []
        for axis in self.axes:
            for pipe in pipes_of(axis, rows_of_batch(step.graph, step.batch)):
                graphs = stages_of(step.graph, step.batch, step.loss, pipe)
                for option in self._staged(axis, pipe, graphs) if graphs else ():
                    if option.name not in best or option.seconds < best[option.name].seconds:
                        best[option.name] = option
        return list(best.values())

    def _staged(self, axis: MeshAxis, pipe: Pipe, graphs: Sequence[Graph]) -> list[Option]:
        others = [other for other in self.axes if other != axis]
        place = self.axes.index(axis)
        found = []
        for kinds in itertools.product(BY_HAND[1:], repeat=len(others)):
            if len(set(kinds)) > 1 and not self._is_usual(kinds):
                continue
            stages = [self._stage(graph, others, kinds) for graph in graphs]
            if None in stages:
                continue
            self.times.waiting = {}
            for stage in stages:
                for node in stage.graph.nodes:
                    self.prices.of(node)
            waiting, self.times.waiting = self.times.waiting, None
            self.times.measure(waiting.values())
            seconds = seconds_of_stages(
                [stage.graph for stage in stages], self.prices.of, pipe.comm
            )
            named = (*kinds[:place], PIPELINE, *kinds[place:])
            largest = max([stage.graph for stage in stages], key=lambda g: len(g.nodes))
            found.append(
                Option(
                    kinds=named,
                    axes=(),
                    graph=largest,
                    seconds=seconds,
                    exact=False,
                    pipe=pipe,
                    stages=tuple(stages),
                )
            )
        return found

    def _stage(
        self, graph: Graph, others: Sequence[MeshAxis], kinds: Sequence[str]
    ) -> Option | None:
        """A stage, laid out along the ``others``."""
        option = self._begun()._replace(graph=graph, exact=False)
        for axis, kind in zip(others, kinds, strict=True):
            found = by_hand(
                kind, self.step, option.graph, axis, self.prices, self.outers, self.step.graph
            )
            if found is None:
                return None
            option = self._option(option, kind, axis, found)
        return option

    def _is_usual(self, kinds: Sequence[str]) -> bool:
        """Whether somebody would do ``kinds``: one along all axes, or tensor beside another."""
        several = set(kinds)
        return len(several) == 1 or ("replicated" not in several and several != {"data", "zero"})

    def _search(self, graph: Graph, axis: MeshAxis) -> LayoutSearch:
        """A search, all of whose prices are known: what is not is measured now."""
        self.times.waiting = {}
        search = LayoutSearch(
            graph, axis, LocalPrices(self.times.seconds, self.links), self.step.cells,
            outers=self.outers,
        )  # fmt: skip
        search.terms()
        waiting, self.times.waiting = self.times.waiting, None
        self.times.measure(waiting.values())
        return search

    def _byte_scale(self, graph: Graph) -> float:
        """Seconds that a byte counts for if all of them count as much as the step."""
        held = sum([graph.params[cell.param].type.nbytes for cell in self.step.cells])
        kept = sum([v.type.nbytes for v in self._kept(graph)])
        return self.alone / max(held + kept, 1)

    def _kept(self, graph: Graph) -> frozenset[Value]:
        """The values that are there when most bytes are."""
        last: dict[Value, int] = {}
        for at, node in enumerate(graph.nodes):
            last.update(dict.fromkeys(node.operands, at))
        there: set[Value] = set()
        best, most = frozenset[Value](), -1
        for at, node in enumerate(graph.nodes):
            there.update([v for v in node.results if v in last])
            nbytes = sum([v.type.nbytes for v in there])
            if nbytes > most:
                best, most = frozenset(there), nbytes
            there.difference_update([v for v in node.operands if last[v] == at])
        return best

    def _option(self, state: Option, kind: str, axis: MeshAxis, found: FoundLayouts) -> Option:
        layouts, graph = found.layouts, state.graph
        given = {v: layouts.place[v] for v in graph.params}
        local, _, rows = along(graph, axis, given, found.ends, self.outers, lambda *_: layouts)
        nodes = [node for node in graph.nodes if node.op is not fill]
        own = AxisStrategy(
            axis=axis,
            cells={c.param: layouts.place[graph.params[c.param]] for c in self.step.cells},
            ops=tuple([_like(node) for node in nodes]),
            ways=tuple([layouts.ways[node] for node in nodes]),
            rows=rows,
            seconds=tuple([self.prices.work(n, layouts.ways[n], axis) for n in graph.nodes]),
            held=_held(graph, layouts, axis),
        )
        exact = state.exact and found.exact
        return Option(
            kinds=(*state.kinds, kind),
            axes=(*state.axes, own),
            graph=local,
            seconds=found.seconds,
            exact=exact,
        )


def _held(graph: Graph, layouts: ChosenLayouts, axis: MeshAxis) -> tuple[int, ...]:
    """The bytes that a rank has while it computes each node, as it holds values."""
    nbytes = {v: cut(v.type, p, axis.ranks).nbytes for v, p in layouts.place.items()}
    last = {v: at for at, node in enumerate(graph.nodes) for v in node.operands}
    last |= dict.fromkeys((*graph.params, *graph.results), len(graph.nodes))
    now = sum([nbytes[v] for v in graph.params])
    found = []
    for at, node in enumerate(graph.nodes):
        now += sum([nbytes[v] for v in node.results])
        found.append(now)
        gone = dict.fromkeys([v for v in (*node.operands, *node.results) if last.get(v, at) == at])
        now -= sum([nbytes[v] for v in gone])
    return tuple(found)


def _like(node: Node) -> tuple[Op, tuple[object, ...]]:
    return node.op, tuple([v.type for v in node.results])


class Chosen:
    """How ranks share a graph by an option: see ``ChosenSharing``."""

    def __init__(
        self, option: Option, axes: Sequence[MeshAxis], step: CapturedStep, prices: Prices
    ) -> None:
        """``axes`` are those of this rank."""
        self.pipe, self.step, self.prices = option.pipe, step, prices
        self._of = {own.axis.comm: own for own in option.of_stage(axes).axes}
        self.axes = tuple([axis for axis in axes if axis.comm in self._of])
        for axis in axes:
            if self.pipe is not None and axis.comm == self.pipe.comm:
                self.pipe = self.pipe._replace(rank=axis.rank)

    def marked(self, graph: Graph) -> Graph:
        """``graph`` with the edges of the pipeline, if its batch can be cut for it."""
        batch, loss, pipe = self.step.batch, self.step.loss, self.pipe
        if pipe is None or rows_of_batch(graph, batch) % pipe.microbatches:
            return graph
        return marked_graph(graph, batch, loss or 0, pipe)

    def choose(
        self,
        graph: Graph,
        axis: MeshAxis,
        given: Mapping[Value, Placement],
        asked: Mapping[int, Placement],
        outers: Sequence[int],
    ) -> ChosenLayouts:
        """The ways of the option, if ``graph`` is what it was found for; else of another search.

        A batch of other sizes is another graph.
        """
        own = self._of[axis.comm]
        nodes = [node for node in graph.nodes if node.op is not fill]
        if tuple([_like(node) for node in nodes]) != own.ops:
            places = {at: given[v] for at, v in enumerate(graph.params) if v in given}
            search = LayoutSearch(graph, axis, self.prices, (), places, outers, asked)
            return search.find().layouts
        ways = dict(zip(nodes, own.ways, strict=True))
        for node in graph.nodes:
            if node.op is fill:
                ways[node] = ways_of(node, axis)[0]
        return ChosenLayouts(graph, given, ways)
