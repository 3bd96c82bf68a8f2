"""What a rank runs of a graph that ranks share: its stage of a pipeline, its parts of tensors."""

from __future__ import annotations

from hybrid.core.types import TensorType
from hybrid.ir import Graph, inlined, rewrite
from hybrid.passes.layouts.local_graph import is_laid, layout_page, local_graph
from hybrid.passes.layouts.pipeline_stages import is_pipelined
from hybrid.passes.layouts.stage_program import pipelined


def is_shared(graph: Graph) -> bool:
    """Whether ranks share tensors of ``graph``, or its work."""
    return is_laid(graph) or is_pipelined_within(graph)


def is_pipelined_within(graph: Graph) -> bool:
    """Whether ``graph``, or a region in it, has stages."""
    return is_pipelined(graph) or any(
        [is_pipelined(region) for node in graph.walk() for region in node.regions]
    )


def graph_of_rank(
    graph: Graph, wanted: dict[int, TensorType]
) -> tuple[Graph, tuple[TensorType, ...], str]:
    """The graph of this rank, the types of its results with their layouts, and a text about it.

    ``wanted`` are the types of some results.
    """
    graph = inlined(graph)
    pages: list[str] = []

    def staged(graph: Graph) -> Graph:
        graph = rewrite(graph, lambda _node, _builder: None, regions=staged)
        if is_pipelined(graph):
            graph, page = pipelined(graph)
            pages.append(page)
        return graph

    if is_pipelined_within(graph):
        graph = staged(graph)
    page = "\n".join(pages)
    if not is_laid(graph):
        return graph, tuple([v.type for v in graph.results]), page
    local = local_graph(graph, wanted)
    return local.graph, local.results, "\n".join(filter(None, [page, layout_page(local)]))
