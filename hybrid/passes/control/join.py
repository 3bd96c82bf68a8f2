"""Joining: conds on one predicate become one.

Before::                                        After::

    %a: f32[] = cond %p, %x {                       %a: f32[], %b: f32[] = cond %p, %x {
      then(%x: f32[]) { A return %a }                 then(%x: f32[]) { A C return %a, %b }
      else(%x: f32[]) { B return %a }                 else(%x: f32[]) { B D return %a, %b }
    }                                               }
    %b: f32[] = cond %p, %a {
      then(%a: f32[]) { C return %b }
      else(%a: f32[]) { D return %b }
    }

Nodes between the two stay outside: before the cond what does not depend on the first one, behind it
the rest; the few that lie on the way from the first to the second are copied into both branches.
What can be seen to run keeps its order.  Early returns make such chains: the code behind
``if p: return x`` is ``if not p: ...``.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.ir import Graph, Node, Value, steady, with_regions
from hybrid.ops.flow.control import cond
from hybrid.passes.control.parts import (
    Cond,
    CondInput,
    CondOutput,
    Renaming,
    copied,
    copied_region,
    fresh,
    holds_control_flow,
    used_values,
)

MAX_BETWEEN = 8  # nodes copied into both branches


@steady
def join(graph: Graph) -> Graph:
    """``graph`` with conds on the same predicate joined, where the order of things allows it."""
    if not holds_control_flow(graph):
        return graph
    nodes = list(graph.nodes)
    at = 0
    while at < len(nodes):
        joined = _join_into(nodes, at, set(graph.results)) if nodes[at].op is cond else None
        if joined is None:
            at += 1
        else:
            nodes, at = joined
    nodes = [with_regions(node, join) if node.regions else node for node in nodes]
    if tuple(nodes) == graph.nodes:
        return graph
    return Graph(graph.name, graph.params, tuple(nodes), graph.results)


def _join_into(
    nodes: list[Node], second: int, returned: set[Value]
) -> tuple[list[Node], int] | None:
    """``nodes`` with the cond at ``second`` joined to the last one before it on its predicate.

    And the place of the new cond.
    """
    pred = nodes[second].operands[0]
    for first in reversed(range(second)):
        if nodes[first].op is cond and nodes[first].operands[0] is pred:
            break
    else:
        return None
    before, way, after = _parted(nodes, first, second)
    if len(way) > MAX_BETWEEN or any(node.observable or node.regions for node in way):
        return None
    old = [node for node in nodes[first : second + 1] if node.observable]
    new = [n for n in (*before, nodes[first], nodes[second], *after) if n.observable]
    if old != new:
        return None
    rest = nodes[second + 1 :]
    needed = used_values([*after, *rest], returned)
    joined = _joined(nodes[first], way, nodes[second], needed)
    return [*nodes[:first], *before, joined, *after, *rest], first + len(before)


def _parted(
    nodes: Sequence[Node], first: int, second: int
) -> tuple[list[Node], list[Node], list[Node]]:
    """The nodes between the two: independent of the first, on the way to the second, others."""
    behind = set(nodes[first].results)
    before, depending = [], []
    for node in nodes[first + 1 : second]:
        if behind.isdisjoint(node.operands):
            before.append(node)
        else:
            behind.update(node.results)
            depending.append(node)
    ahead = set(nodes[second].operands)
    way, after = [], []
    for node in reversed(depending):
        if ahead.isdisjoint(node.results):
            after.append(node)
        else:
            ahead.update(node.operands)
            way.append(node)
    return before, way[::-1], after[::-1]


def _joined(first: Node, way: Sequence[Node], second: Node, needed: set[Value]) -> Node:
    """One cond for ``first``, ``second`` and what lies between; ``needed`` of it comes out."""
    parts = Cond(first)
    behind = Cond(with_regions(second, copied_region))  # regions may be one and the same
    inside: tuple[Renaming, Renaming] = ({}, {})  # values of the graph as the branches call them
    for given in parts.inputs:
        _learn(inside, given.operand, given.params)
    for output in parts.outputs:
        _learn(inside, output.result, output.values)

    def take(value: Value) -> None:
        """Make ``value`` known in both branches."""
        if value not in inside[0]:
            given = CondInput(value, (fresh(value), fresh(value)))
            parts.inputs.append(given)
            _learn(inside, value, given.params)

    for node in way:
        for value in node.operands:
            take(value)
        for nodes, names in zip(parts.nodes, inside, strict=True):
            nodes.append(copied(node, names))
        exported = [v for v in node.results if v in needed]
        parts.outputs += [CondOutput((inside[0][v], inside[1][v]), v) for v in exported]
    for given in behind.inputs:
        take(given.operand)
    for branch, names in enumerate(inside):
        behind.rename(branch, {i.params[branch]: names[i.operand] for i in behind.inputs})
        parts.nodes[branch] += behind.nodes[branch]
    parts.outputs += behind.outputs
    return parts.node()


def _learn(inside: tuple[Renaming, Renaming], value: Value, names: tuple[Value, Value]) -> None:
    for renaming, name in zip(inside, names, strict=True):
        renaming[value] = name
