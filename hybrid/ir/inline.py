"""Inline: a node that stands for a call becomes the nodes of what it calls.

Before::                                            After::

    %y, %r = custom_vjp %x {                            %y = sin %x
      forward(%x: f32[]) { ... return %y, %r }          %r = cos %x
      backward(%r: f32[], %ct: f32[]) { ... }
    }
"""

from __future__ import annotations

from hybrid.ir.builder import Builder
from hybrid.ir.graph import Graph, Node, Value
from hybrid.ir.rewrite import rewrite


def inlined(graph: Graph) -> Graph:
    """``graph`` without nodes of ops that are ``inline``."""
    if not any(node.op.inline for node in graph.walk()):
        return graph
    return rewrite(graph, _spliced, regions=inlined)


def _spliced(node: Node, builder: Builder) -> tuple[Value, ...] | None:
    if not node.op.inline:
        return None
    region = node.regions[0]
    known = dict(zip(region.params, node.operands, strict=True))
    for inner in region.nodes:
        operands = [known[v] for v in inner.operands]
        made = builder.apply(
            inner.op, operands, inner.attrs, regions=inner.regions, location=inner.location
        )
        known.update(zip(inner.results, made, strict=True))
    return tuple([known[v] for v in region.results])
