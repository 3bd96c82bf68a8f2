"""Dead-code elimination: nodes whose results nobody uses go, if nothing else shows that they ran.

Before::                          After::

    %a: f32[4] = exp %x               %b: f32[4] = sin %x
    %b: f32[4] = sin %x               return %b
    return %b

In control flow also results, operands and carried values go: see prune.py.
"""

from __future__ import annotations

from hybrid.ir import Graph, Node, Value, steady, with_regions
from hybrid.passes.control.prune import prune


@steady
def dce(graph: Graph) -> Graph:
    """``graph`` with only those nodes that its results, or the world, depend on."""
    used = set(graph.results)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if used.isdisjoint(node.results) and not node.observable:
            continue
        for new in reversed(_cleaned(node, used) if node.regions else [node]):
            used.update(new.operands)
            kept.append(new)
    kept.reverse()
    if tuple(kept) == graph.nodes:  # nodes are equal to themselves only
        return graph
    return Graph(graph.name, graph.params, tuple(kept), graph.results)


def _cleaned(node: Node, used: set[Value]) -> list[Node]:
    """``node`` with regions that compute what is ``used``, and the nodes that it needs for that."""
    node = with_regions(node, dce)
    needed: list[Node] = []
    while True:
        *new, pruned = prune(node, used)
        if pruned is node:
            return [*needed, node]
        needed += new
        node = with_regions(pruned, dce)
