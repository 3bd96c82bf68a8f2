"""The program of one rank of a pipeline: its stage of each microbatch, in the order of a schedule.

Of a step whose model is cut into two stages, with three microbatches by "1f1b"::

    stage 0:  f0 f1 b0 f2 b1 b2             f: send what stage 1 reads; receive, then b
    stage 1:  f0 b0 f1 b1 f2 b2

What is computed of all microbatches together, such as the steps of an optimizer, is computed by
every rank: a sum or a result of a stage is made in the order of the microbatches, whatever the
schedule, and broadcast.  So all schedules have the same bits, by any number of ranks.  Where ranks
hold the parameters of their stages (``Held``), what needs those of one stage alone is computed
there, and nothing is broadcast but what others read: the same bits again.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from hybrid.core.layouts import (
    PARTIAL,
    MeshAxis,
    Placement,
    Split,
    cut,
    whole_of,
)
from hybrid.core.types import TensorType
from hybrid.ir import Builder, Graph, Node, Value, inlined, rewrite
from hybrid.ir.interpreter import interpreting
from hybrid.ops.communication.layout_op import is_laid, layout_of, rows_of
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.held_stages import (
    choice_beside,
    held_cells,
    holder,
    is_holding,
    part_here,
    require_held,
)
from hybrid.passes.layouts.layout_choice import LayoutChoice
from hybrid.passes.layouts.layout_search import HeldCell
from hybrid.passes.layouts.local_graph import (
    Choose,
    asked_layouts,
    computed_by,
    laid_like,
    layout_page,
    local_graph,
)
from hybrid.passes.layouts.pipeline_stages import (
    Microbatches,
    Stages,
    is_pipelined,
    not_by_microbatches,
    pipe_of,
)
from hybrid.passes.layouts.work import Work

FORWARD = -1  # the level of what is computed by microbatches before anything goes back
BEFORE = -2  # that of what depends on no stage


def pipelined(graph: Graph, wanted: Mapping[int, TensorType]) -> tuple[Graph, str]:
    """The graph of this rank of the pipeline in ``graph``, and a text about its stages.

    ``wanted`` are the types of some results.
    """
    pipe = pipe_of(graph)
    small = Microbatches(graph, pipe.microbatches)
    stages = Stages(graph, pipe, small, held_cells(graph, pipe))
    kept = {at: holder(t, pipe) for at, t in wanted.items()}
    kept = {at: stage for at, stage in kept.items() if stage is not None}
    program = StageProgram(graph, pipe, small, stages, kept=kept)
    return program.graph_of_rank(), _page(pipe, stages, program)


def graphs_of_stages(graph: Graph) -> list[Graph]:
    """What each rank of the pipeline in ``graph`` runs."""
    pipe = pipe_of(graph)
    small = Microbatches(graph, pipe.microbatches)
    stages = Stages(graph, pipe, small)
    ranks = [pipe._replace(rank=rank) for rank in range(pipe.ranks)]
    return [StageProgram(graph, own, small, stages).graph_of_rank() for own in ranks]


def stages_of_cells(
    graph: Graph, cells: Sequence[HeldCell], weights: Collection[int]
) -> dict[int, int]:
    """The stage that is to hold each of ``cells``, by parameter, where one alone needs it.

    ``weights`` lie with the stage that reads them first, others with the one that writes them.
    """
    pipe = pipe_of(graph)
    small = Microbatches(graph, pipe.microbatches)
    stages = Stages(graph, pipe, small, held_cells(graph, pipe))
    params = [graph.params[at] for at in weights]
    read = {v: min(stages.readers[v]) for v in params if v in stages.readers}
    program = StageProgram(graph, pipe, small, stages, held=read)
    found = {}
    for at, results in cells:
        param = graph.params[at]
        places = {program.held.get(graph.results[result]) for result in results}
        if param in read:
            found[at] = read[param]
        elif at not in weights and len(places) == 1 and None not in places:
            (found[at],) = places
    return found


class StageProgram:
    """What is computed when: nodes by level, and what goes from stage to stage."""

    def __init__(
        self,
        graph: Graph,
        pipe: Pipe,
        small: Microbatches,
        stages: Stages,
        held: Mapping[Value, int] | None = None,
        kept: Mapping[int, int] | None = None,
    ) -> None:
        """``held``: the stages of parameters; ``kept``: those of results, by number."""
        self.graph, self.pipe, self.small, self.stages = graph, pipe, small, stages
        self.forward = set(stages.forward)
        self.level: dict[Node, int] = {}  # of a node, among those after which it can be computed
        self.of_value: dict[Value, int] = {}
        self._levels()
        self.kept = dict(kept or {})
        # What one stage alone has: cells, and what is made of them.
        self.held = dict(held_cells(graph, pipe) if held is None else held)
        self.home: dict[Node, int] = {}  # of nodes of no stage: the one that computes them
        if self.held:
            self._homes()
        self.last = max([0, *self.level.values()])
        self.nodes: dict[tuple[int, int], list[Node]] = {}  # by level and stage
        for node in graph.nodes:
            stage = stages.stage.get(node)
            if stage is not None:
                self.nodes.setdefault((self.level[node], stage), []).append(node)
        # What a stage receives at a level, and from which.
        self.arrivals: dict[tuple[int, int], dict[Value, int]] = {}
        self._transfers()
        self.wholes = self._wholes()

    def _levels(self) -> None:
        """How often all microbatches have to be through before a node can be computed."""
        seen = BEFORE  # that of effects, which stay in their order
        for node in self.graph.nodes:
            staged = node in self.stages.stage
            level = BEFORE if not staged else FORWARD if node in self.forward else 0
            way = self.small.ways[node]
            for value, place in zip(node.operands, way.operands, strict=True):
                own = self.of_value.get(value, BEFORE)
                if own > BEFORE and staged and self._is_of_all(value, place):
                    own = max(own, 0) + 1
                level = max(level, own)
            if not staged and level > BEFORE:
                level = max(level, 0)
            if node.observable and not staged:
                level = seen = max(level, seen)
            if node in self.forward and level > FORWARD:
                raise not_by_microbatches(node, self.pipe)
            self.level[node] = level
            self.of_value.update(dict.fromkeys(node.results, level))

    def _is_of_all(self, value: Value, place: Placement) -> bool:
        """Whether ``value`` at ``place`` is made of what stages make of all microbatches."""
        return value not in self.stages.made or self.small.place[value] != place

    def stage_of(self, value: Value) -> int | None:
        """The stage that alone has ``value``, until others ask for it."""
        return self.held.get(value, self.stages.made.get(value))

    def _homes(self) -> None:
        """Which stage computes what needs what it holds, and nothing that another one has."""
        for node in self.graph.nodes:
            if node in self.stages.stage or self.small.is_small(node):
                continue
            found = {self.stage_of(v) for v in node.operands} - {None}
            if len(found) != 1 or not (node.pure or self._is_of_stage(node)):
                continue
            (self.home[node],) = found
            self.held.update(dict.fromkeys(node.results, self.home[node]))

    def _is_of_stage(self, node: Node) -> bool:
        """Whether ``node`` is a collective along another axis: its ranks have the same stage."""
        return node.op.communicates and node.attributes["comm"] != self.pipe.comm

    def asked_for_all(self, level: int) -> list[Value]:
        """The values of all microbatches that stages read at ``level``, and of others' cells."""
        found: dict[Value, None] = {}
        for node in self.graph.nodes:
            stage = self.stages.stage.get(node)
            if stage is None and not self.small.is_small(node):
                continue
            if max(self.level[node], 0) != max(level, 0):
                continue
            pairs = zip(node.operands, self.small.ways[node].operands, strict=True)
            for value, place in pairs:
                if value in self.held:
                    if self.held[value] != stage:
                        found[value] = None
                elif value in self.stages.made and self._is_of_all(value, place):
                    found[value] = None
        return list(found)

    def _transfers(self) -> None:
        """Which values of other stages a stage reads at a level: once for each microbatch.

        They come from the next stage that has them: forward from one before, then from one behind.
        """
        at: dict[Value, set[int]] = {v: {stage} for v, stage in self.stages.made.items()}
        for level in range(FORWARD, self.last + 1):
            stages = range(self.pipe.stages)
            for stage in stages if level == FORWARD else reversed(stages):
                found: dict[Value, int] = {}
                for node in self.nodes.get((level, stage), []):
                    way = self.small.ways[node]
                    for value, place in zip(node.operands, way.operands, strict=True):
                        if value in at and place is not None and stage not in at[value]:
                            found[value] = (
                                max([s for s in at[value] if s < stage])
                                if level == FORWARD
                                else min([s for s in at[value] if s > stage])
                            )
                self.arrivals[level, stage] = found
                for value in found:
                    at[value].add(stage)

    def _wholes(self) -> set[Value]:
        """The values of microbatches that are needed as a whole: sums, and all rows."""
        found = set(self.graph.results)
        for node in self.graph.nodes:
            way = self.small.ways[node]
            for value, place in zip(node.operands, way.operands, strict=True):
                if place != self.small.place[value]:
                    found.add(value)
        return {v for v in found if self.small.place[v] is not None}

    def units(self, stage: int) -> Iterator[tuple[int, int]]:
        """The (level, microbatch) of what ``stage`` computes, in its order."""
        count = self.pipe.microbatches
        early = count
        if self.pipe.schedule == "1f1b":
            early = min(self.pipe.stages - 1 - stage, count)
        yield from [(FORWARD, at) for at in range(early)]
        for at in range(count):
            if early + at < count:
                yield FORWARD, early + at
            yield 0, at
        for level in range(1, self.last + 1):
            yield from [(level, at) for at in range(count)]

    def graph_of_rank(self) -> Graph:
        """What the rank computes: its stage, or all of them if it is alone."""
        writer = RankWriter(self)
        return writer.graph()


class RankWriter:
    """Writes the graph of one rank."""

    def __init__(self, program: StageProgram) -> None:
        self.program, self.pipe, self.small = program, program.pipe, program.small
        self.stages, graph = program.stages, program.graph
        self.builder = Builder(graph.name)
        self.mine = range(self.pipe.stages) if self.pipe.ranks == 1 else (self.pipe.rank,)
        count = self.pipe.microbatches
        axes = [MeshAxis("microbatches", count, at) for at in range(count)]
        self.works = [Work(self.builder, axis) for axis in axes]
        self.whole: dict[Value, Value] = {}
        self.own: dict[Value, Value] = {}  # what this rank holds, or computes, alone
        for value in graph.params:
            made = self.builder.param(part_here(value.type, self.pipe), value.hint)
            stage = program.held.get(value)
            if stage is None:
                self.whole[value] = made
            elif stage in self.mine:
                self.own[value] = made
        self.parts: dict[tuple[Value, Placement, int], Value] = {}
        self.sums: dict[Value, Value] = {}
        self.makers = {v: node for node in graph.nodes for v in node.results}
        self.marked: set[tuple[Value, Placement, int]] = set()  # that are read once more
        self.before: tuple[int, int, int] | None = None  # the unit before
        self.newest: Value | None = None  # of what this rank has made by microbatches

    def graph(self) -> Graph:
        program, graph = self.program, self.program.graph
        self._all_of(range(-2, -1))
        for value in program.asked_for_all(FORWARD):
            if value in program.held:
                self._as_whole(value)
        levels = itertools.groupby(self._units(), key=lambda unit: max(unit[1], 0))
        for level, units in levels:
            for stage, own, at in list(units):
                self._unit(stage, own, at)
            self._all_of(range(level, level + 1))
            for value in program.asked_for_all(level + 1):
                self._as_whole(value)
        found = [self._result(v, program.kept.get(at)) for at, v in enumerate(graph.results)]
        return self.builder.finish(found)

    def _result(self, value: Value, stage: int | None) -> Value:
        """A result of the graph: on all ranks, or on that which is to hold it."""
        if stage is None:
            return self._as_whole(value)
        if self.program.stage_of(value) != stage:
            self._as_whole(value)
        if stage in self.mine:
            return self._here(value)
        with interpreting(self.works[0]):
            return self.works[0].nothing(value.type)

    def _units(self) -> list[tuple[int, int, int]]:
        """(stage, level, microbatch) in the order of this rank; one alone takes turns."""
        if self.pipe.ranks > 1:
            stage = self.pipe.rank
            return [(stage, *unit) for unit in self.program.units(stage)]
        waiting = {stage: list(self.program.units(stage)) for stage in self.mine}
        found: list[tuple[int, int, int]] = []
        done: set[tuple[int, int, int]] = set()
        while any(waiting.values()):
            for stage, units in waiting.items():
                while units and self._is_ready(stage, units[0], done):
                    unit = (stage, *units.pop(0))
                    done.add(unit)
                    found.append(unit)
        return sorted(found, key=lambda unit: max(unit[1], 0))

    def _is_ready(self, stage: int, unit: tuple[int, int], done: set[tuple[int, int, int]]) -> bool:
        """Whether what the unit reads is there, if one process computes all stages."""
        level, at = unit
        if level == FORWARD:
            return stage == 0 or (stage - 1, FORWARD, at) in done
        return stage == self.pipe.stages - 1 or (stage + 1, level, at) in done

    # What all ranks compute -------------------------------------------------------------------

    def _all_of(self, levels: range) -> None:
        """The nodes of these levels that are of no stage, by every rank."""
        for node in self.program.graph.nodes:
            if node in self.stages.stage or self.program.level[node] not in levels:
                continue
            if self.small.is_small(node):
                continue  # where it is needed
            home = self.program.home.get(node)
            if home is None or home in self.mine:
                self._put(node, None)

    def _put(self, node: Node, at: int | None) -> None:
        """Compute ``node``, for microbatch ``at`` unless it is of all."""
        way = self.small.ways[node]
        self.builder.location = node.location
        alone = at is not None or node in self.program.home
        operands = [
            self._operand(value, place, at, alone)
            for value, place in zip(node.operands, way.operands, strict=True)
        ]
        work = self.works[at or 0]
        results: Sequence[Value]
        if is_holding(node, self.pipe):
            results = [self._laid(node, operands[0])]
        else:
            results = computed_by(work, node, way, operands)
        for value, place, made in zip(node.results, way.results, results, strict=True):
            if at is None:
                (self.own if value in self.program.held else self.whole)[value] = made
            else:
                self.parts[value, place, at] = made

    def _laid(self, node: Node, x: Value) -> Value:
        """``x`` in the layout of ``node`` along other axes than that of the pipeline."""
        rows = layout_of(node.attributes["layout"])
        rest = tuple([(axis, p) for axis, p in rows if axis.comm != self.pipe.comm])
        return self.works[0].call("laid_out", x, layout=rows_of(rest)) if rest else x

    def _operand(self, value: Value, place: Placement, at: int | None, alone: bool) -> Value:
        """What a node reads; ``alone``: other ranks do not compute it."""
        if place is None or at is None:
            is_here = alone and self.program.held and self.program.stage_of(value) in self.mine
            return self._here(value) if is_here else self._as_whole(value)
        found = self.parts.get((value, place, at))
        if found is not None:
            return found
        own = self.small.place[value]
        if own == place:  # of no stage: each rank that needs it computes it
            self._put(self.makers[value], at)
            return self.parts[value, place, at]
        if self.small.is_filled(value):
            with interpreting(self.works[at]):
                found = self.works[at].constant(self.makers[value], place)
        else:
            found = self.works[at].moved_to(self._as_whole(value), None, place, value.type)
        self.parts[value, place, at] = found
        return found

    def _as_whole(self, value: Value) -> Value:
        """``value`` of all microbatches, on all ranks."""
        found = self.whole.get(value)
        if found is not None:
            return found
        place, count = self.small.place[value], self.pipe.microbatches
        stage = self.program.stage_of(value)
        if stage is None:
            if place is None:  # of no stage, and not computed yet
                self._put(self.makers[value], None)
                return self.whole[value]
            parts = [self._operand(value, place, at, False) for at in range(count)]
            found = self._joined(parts, place)
        elif stage in self.mine:
            found = self._here(value)
        if stage is not None and self.pipe.ranks > 1:
            found = self._broadcast(value, found, stage)
        assert found is not None
        self.whole[value] = found
        return found

    def _here(self, value: Value) -> Value:
        """``value`` of all microbatches, on a rank that has it."""
        found = self.whole.get(value) or self.own.get(value)
        if found is None:
            found = self.sums.get(value)
            if found is None:
                place, count = self.small.place[value], self.pipe.microbatches
                found = self._joined([self.parts[value, place, at] for at in range(count)], place)
            self.own[value] = found
        return found

    def _joined(self, parts: Sequence[Value], place: Placement) -> Value:
        """The whole of the parts of all microbatches; sums are made in their order."""
        if len(parts) == 1:
            return parts[0]
        work = self.works[0]
        if place == PARTIAL:
            total = parts[0]
            for part in parts[1:]:
                total = work.call("add", total, part)
            return total
        assert isinstance(place, Split)
        return work.joined_parts(parts, place)

    def _broadcast(self, value: Value, found: Value | None, stage: int) -> Value:
        work, type = self.works[0], value.type
        if found is None:
            found = work.call("full", shape=type.shape, value=0, dtype=type.dtype)
        return work.call("broadcast", found, root=stage, comm=self.pipe.comm, ranks=self.pipe.ranks)

    # What a stage computes --------------------------------------------------------------------

    def _unit(self, stage: int, level: int, at: int) -> None:
        """What ``stage`` computes for microbatch ``at`` at ``level``, and what it sends."""
        program = self.program
        nodes = program.nodes.get((level, stage), [])
        if self.pipe.ranks > 1:
            for value, source in program.arrivals[level, stage].items():
                self._receive(value, at, source)
        if level == 0 and self.pipe.recompute and self.before != (stage, FORWARD, at):
            self._again(stage, at)
        self.before = stage, level, at
        for node in nodes:
            self._put(node, at)
            for value, place in zip(node.results, self.small.ways[node].results, strict=True):
                if place == PARTIAL and value in program.wholes:
                    self._add(value, self.parts[value, place, at])
        if nodes and nodes[-1].results:
            value = nodes[-1].results[0]
            self.newest = self.parts[value, self.small.place[value], at]
        if self.pipe.ranks > 1:
            for other in range(self.pipe.stages):
                for value, source in program.arrivals[level, other].items():
                    if source == stage:
                        self._send(value, at, other)

    def _add(self, value: Value, part: Value) -> None:
        """Add the term of one microbatch to those before it."""
        before = self.sums.get(value)
        with interpreting(self.works[0]):
            self.sums[value] = part if before is None else self.works[0].call("add", before, part)

    def _receive(self, value: Value, at: int, source: int) -> None:
        place = self.small.place[value]
        type = cut(value.type, place, self.pipe.microbatches)
        work = self.works[at]
        like = work.call("full", shape=type.shape, value=0, dtype=type.dtype)
        found = work.call("recv", like, source=source, comm=self.pipe.comm, ranks=self.pipe.ranks)
        self.parts[value, place, at] = self.newest = found

    def _send(self, value: Value, at: int, to: int) -> None:
        place = self.small.place[value]
        part = self.parts[value, place, at]
        sent = self.works[at].call("send", part, to=to, comm=self.pipe.comm, ranks=self.pipe.ranks)
        self.newest = sent

    def _again(self, stage: int, at: int) -> None:
        """Compute once more what ``stage`` has computed forward, from what it was given.

        What it is given now is "after" what came last, so it is not the same to passes.
        """
        nodes = self.program.nodes.get((FORWARD, stage), [])
        made = {v for node in nodes for v in node.results}
        newest = self.newest
        if newest is None:
            return
        for node in nodes:
            way = self.small.ways[node]
            for value, place in zip(node.operands, way.operands, strict=True):
                if place is not None and value not in made:
                    held = self._operand(value, place, at, True)
                    key = value, place, at
                    if held is not newest and key not in self.marked:
                        self.marked.add(key)
                        self.parts[key] = self.works[at].call("after", held, newest)
        for node in nodes:
            self._put(node, at)


def _page(pipe: Pipe, stages: Stages, program: StageProgram) -> str:
    """The stages, for people."""
    name = pipe.comm.partition(" ")[0]
    again = ", activations computed again" if pipe.recompute else ""
    lines = [
        f"{name}: {pipe.stages} stages, {pipe.microbatches} microbatches by {pipe.schedule}{again}"
    ]
    for stage in range(pipe.stages):
        nodes = program.nodes.get((FORWARD, stage), [])
        lines_of = [n.location.line for n in nodes if n.location is not None]
        where = f", lines {min(lines_of)} to {max(lines_of)}" if lines_of else ""
        after = f"; {stages.crossing[stage]} bytes go on" if stage < pipe.stages - 1 else ""
        lines.append(f"  stage {stage}: {len(nodes)} ops forward{where}{after}")
    return "\n".join(lines)


# What a rank runs --------------------------------------------------------------------------------

CHOSEN = "chosen layouts"  # in what is derived from a graph: its ChosenSharing


class ChosenSharing(Protocol):
    """How ranks share a graph whose layouts somebody has chosen, op by op."""

    axes: Sequence[MeshAxis]
    choose: Choose

    def marked(self, graph: Graph) -> Graph:
        """``graph`` with the edges of a pipeline, if it is to be one."""


def is_shared(graph: Graph) -> bool:
    """Whether ranks share tensors of ``graph``, or its work."""
    return CHOSEN in graph.derived or is_laid(graph) or is_pipelined_within(graph)


def is_pipelined_within(graph: Graph) -> bool:
    """Whether ``graph``, or a region in it, has stages."""
    return next(pipelined_graphs(graph), None) is not None


def pipelined_graphs(graph: Graph) -> Iterator[Graph]:
    """``graph`` and the regions in it, those that have stages."""
    if is_pipelined(graph):
        yield graph
    for node in graph.walk():
        yield from [region for region in node.regions if is_pipelined(region)]


def graph_of_rank(
    graph: Graph, wanted: dict[int, TensorType]
) -> tuple[Graph, tuple[TensorType, ...], str]:
    """The graph of this rank, the types of its results with their layouts, and a text about it.

    ``wanted`` are the types of some results.
    """
    chosen: ChosenSharing | None = graph.derived.get(CHOSEN)
    graph = inlined(graph)
    types = [v.type for v in graph.params]
    if chosen is not None:  # stages are cut alike, however ranks hold what they are made of
        graph = chosen.marked(laid_like(graph, [whole_of(type) for type in types]))
    pages: list[str] = []

    def staged(graph: Graph, wanted: Mapping[int, TensorType] | None = None) -> Graph:
        graph = rewrite(graph, lambda _node, _builder: None, regions=staged)
        if is_pipelined(graph):
            graph, page = pipelined(graph, wanted or {})
            pages.append(page)
        return graph

    holding: dict[int, TensorType] = {}
    choose: Choose = LayoutChoice
    if is_pipelined_within(graph):
        comms = {pipe_of(each).comm for each in pipelined_graphs(graph)}
        require_held(graph, comms)
        choose = choice_beside(comms)
        if is_pipelined(graph):
            pipe = pipe_of(graph)
            asked = asked_layouts(graph) | wanted
            holding = {at: t for at, t in asked.items() if holder(t, pipe) is not None}
            wanted = wanted | {at: part_here(t, pipe) for at, t in holding.items()}
        graph = staged(graph, holding)
    page = "\n".join(pages)
    if chosen is not None:
        graph = laid_like(graph, types)
        wanted = {at: v.type for at, v in enumerate(graph.results)} | wanted
        local = local_graph(graph, wanted, chosen.choose, chosen.axes)
    elif is_laid(graph):
        local = local_graph(graph, wanted, choose)
    else:
        types = [holding.get(at, v.type) for at, v in enumerate(graph.results)]
        return graph, tuple(types), page
    types = [holding.get(at, t) for at, t in enumerate(local.results)]
    return local.graph, tuple(types), "\n".join(filter(None, [page, layout_page(local)]))
