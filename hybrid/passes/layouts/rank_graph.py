"""What one rank runs of a graph that ranks share: its stages, then its parts of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from hybrid.core.layouts import MeshAxis, whole_of
from hybrid.core.types import TensorType
from hybrid.ir import Graph, inlined, rewrite
from hybrid.ops.communication.layout_op import is_laid
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.held_stages import (
    choice_beside,
    held_cells,
    holder,
    part_here,
    require_held,
)
from hybrid.passes.layouts.layout_choice import LayoutChoice
from hybrid.passes.layouts.local_graph import (
    Choose,
    asked_layouts,
    laid_like,
    layout_page,
    local_graph,
)
from hybrid.passes.layouts.pipeline_stages import Microbatches, Stages, is_pipelined, pipe_of
from hybrid.passes.layouts.stage_program import FORWARD, StageProgram
from hybrid.passes.layouts.stage_writer import RankWriter


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
    return RankWriter(program).graph(), _page(pipe, stages, program)


def graphs_of_stages(graph: Graph) -> list[Graph]:
    """What each rank of the pipeline in ``graph`` runs."""
    pipe = pipe_of(graph)
    small = Microbatches(graph, pipe.microbatches)
    stages = Stages(graph, pipe, small)
    ranks = [pipe._replace(rank=rank) for rank in range(pipe.ranks)]
    return [RankWriter(StageProgram(graph, own, small, stages)).graph() for own in ranks]


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
