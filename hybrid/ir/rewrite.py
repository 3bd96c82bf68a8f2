"""Make a graph from a graph: the one driver behind the passes."""

from __future__ import annotations

from collections.abc import Callable

from hybrid.errors import GraphError
from hybrid.ir.builder import Builder
from hybrid.ir.graph import Graph, Node, Value

Rule = Callable[[Node, Builder], "tuple[Value, ...] | None"]
Pass = Callable[[Graph], Graph]


def rewrite(graph: Graph, rule: Rule, *, regions: Pass | None = None) -> Graph:
    """``graph`` with ``rule`` asked about each node in order.

    The rule gets the node with its operands already replaced, and a builder to append new nodes to;
    these take the node's location and hints.  It answers with a value for each of the node's
    results, or None to keep the node.  ``regions`` is applied to the regions of every node first; a
    pass gives itself here, so that what it remembers of one graph does not leak into another.  A
    graph in which nothing changes comes back itself.
    """
    builder = Builder(graph.name)
    builder.params = list(graph.params)
    nodes = builder.nodes
    replaced: dict[Value, Value] = {}
    changed = False
    for node in graph.nodes:
        updated = with_replaced(node, replaced)
        if regions is not None and node.regions:
            updated = with_regions(updated, regions)
        builder.location = node.location
        builder.hints = tuple([v.hint for v in node.results])
        results = rule(updated, builder)
        if results is None:
            nodes.append(updated)
            changed = changed or updated is not node
            continue
        changed = True
        if tuple([v.type for v in results]) != tuple([v.type for v in node.results]):
            raise GraphError(
                f"a rule replaced the results of {node.op.name} by values of other types: "
                + ", ".join(f"{v.type}" for v in node.results)
                + " by "
                + ", ".join(f"{v.type}" for v in results),
                at=node.location,
            )
        for old, new in zip(node.results, results, strict=True):
            replaced[old] = replaced.get(new, new)
    if not changed:
        return graph
    return builder.finish([replaced.get(v, v) for v in graph.results])


def with_replaced(node: Node, replaced: dict[Value, Value]) -> Node:
    """``node`` with operands looked up in ``replaced``; itself when none is there."""
    if replaced.keys().isdisjoint(node.operands):
        return node
    operands = tuple([replaced.get(v, v) for v in node.operands])
    return Node(node.op, operands, node.attrs, node.results, node.regions, node.location)


def with_regions(node: Node, change: Pass) -> Node:
    """``node`` with ``change`` applied to its regions; itself when it changes none."""
    regions = tuple([change(region) for region in node.regions])
    if all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    return Node(node.op, node.operands, node.attrs, node.results, regions, node.location)
