"""The graph of one rank of a pipeline, written unit by unit in the order of its program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hybrid.core.layouts import PARTIAL, MeshAxis, Placement, Split, cut
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import apart
from hybrid.ops.communication.layout_op import layout_of, rows_of
from hybrid.passes.layouts.held_stages import is_holding, part_here
from hybrid.passes.layouts.local_graph import computed_by
from hybrid.passes.layouts.stage_program import BEFORE, FORWARD, StageProgram
from hybrid.passes.layouts.work import Work


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
        pipe = self.pipe
        self.across = Work(self.builder, MeshAxis(pipe.comm, pipe.ranks, pipe.rank))
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
        self._all_of(range(BEFORE, FORWARD))
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
        return self.across.nothing(value.type)

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
            with apart(self.works[at]):
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
            found = self.across.sent_to_all(found, stage, value.type)
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
        with apart(self.works[0]):
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
