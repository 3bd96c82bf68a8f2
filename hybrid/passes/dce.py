"""Dead-code elimination: nodes whose results nobody uses go, if nothing else shows that they ran.

Before::                          After::

    %a: f32[4] = exp %x               %b: f32[4] = sin %x
    %b: f32[4] = sin %x               return %b
    return %b
"""

from __future__ import annotations

from hybrid.ir import Graph, with_regions


def dce(graph: Graph) -> Graph:
    """``graph`` with only those nodes that its results, or the world, depend on."""
    used = set(graph.results)
    kept = []
    for node in reversed(graph.nodes):
        if used.isdisjoint(node.results) and not node.observable:
            continue
        used.update(node.operands)
        kept.append(with_regions(node, dce) if node.regions else node)
    kept.reverse()
    if tuple(kept) == graph.nodes:  # nodes are equal to themselves only
        return graph
    return Graph(graph.name, graph.params, tuple(kept), graph.results)
