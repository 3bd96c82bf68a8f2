"""Common-subexpression elimination: equal pure nodes become one node.

Before::                          After::

    %a: f32[4] = exp %x               %a: f32[4] = exp %x
    %b: f32[4] = exp %x               %c: f32[4] = add %a, %a
    %c: f32[4] = add %a, %b
"""

from __future__ import annotations

from collections.abc import Hashable

from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady


@steady
def cse(graph: Graph) -> Graph:
    """``graph`` without a second computation of what has been computed."""
    first: dict[Hashable, Node] = {}

    def reuse(node: Node, _: Builder) -> tuple[Value, ...] | None:
        if not node.pure:
            return None
        earlier = first.setdefault(node.key, node)
        return None if earlier is node else earlier.results

    return rewrite(graph, reuse, regions=cse)
