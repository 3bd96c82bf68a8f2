"""The program of one rank of a pipeline: its stage of each microbatch, in the order of a schedule.

Of a step whose model is cut into two stages, with three microbatches by "1f1b"::

    stage 0:  f0 f1 b0 f2 b1 b2             f: send what stage 1 reads; receive, then b
    stage 1:  f0 b0 f1 b1 f2 b2

What is computed of all microbatches together, such as the steps of an optimizer, is computed by
every rank: a sum or a result of a stage is made in the order of the microbatches, whatever the
schedule, and broadcast.  What needs all rows of one stage alone, such as the mean of their losses,
is computed there.  So all schedules have the same bits, by any number of ranks.  Where ranks
hold the parameters of their stages (``Held``), what needs those of one stage alone is computed
there, and nothing is broadcast but what others read: the same bits again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hybrid.core.layouts import Placement, Split
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.held_stages import held_cells
from hybrid.passes.layouts.layout_search import HeldCell
from hybrid.passes.layouts.pipeline_stages import Microbatches, Stages, not_by_microbatches, pipe_of

FORWARD = -1  # the level of what is computed by microbatches before anything goes back
BEFORE = -2  # that of what depends on no stage


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
        self._homes(bool(self.held))
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

    def _homes(self, holds: bool) -> None:
        """Which stage computes what needs what it holds, and nothing that another one has.

        Unless stages hold cells, that is what all rows are put together for: losses, say.
        """
        for node in self.graph.nodes:
            if node in self.stages.stage or self.small.is_small(node):
                continue
            if not holds and not any([self._is_rows(v) for v in node.operands]):
                continue
            found = {self.stage_of(v) for v in node.operands} - {None}
            if len(found) != 1 or not (node.pure or self._is_of_stage(node)):
                continue
            (self.home[node],) = found
            self.held.update(dict.fromkeys(node.results, self.home[node]))

    def _is_rows(self, value: Value) -> bool:
        """Whether a stage makes ``value``, some rows at a time."""
        return value in self.stages.made and isinstance(self.small.place[value], Split)

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
