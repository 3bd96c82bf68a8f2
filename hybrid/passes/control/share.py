"""Sharing: what a region would compute again is handed in; what both branches do moves out.

Before::                                              After::

    %a: f32[] = sum %x {...}                              %a: f32[] = sum %x {...}
    %y: f32[] = cond %p, %x, %w {                         %m: f32[] = max %w {...}
      then(%x: f32[8], %w: f32[8]) {                      %y: f32[] = cond %p, %a, %m {
        %s: f32[] = sum %x {...}                            then(%s: f32[], %m: f32[]) {
        %m: f32[] = max %w {...}                              %r: f32[] = add %s, %m
        %r: f32[] = add %s, %m                                return %r
        return %r                                           }
      }                                                     else(%s: f32[], %m: f32[]) {
      else(%x: f32[8], %w: f32[8]) {                          return %m
        %m: f32[] = max %w {...}                            }
        return %m                                         }
      }
    }

In branches elementwise nodes stay: there they are part of a map, and cost less than a value that is
kept for them.  What may raise moves nowhere, but is not done twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hybrid.core.dataclass import replace
from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady
from hybrid.ops.flow.control import LOOPS, cond
from hybrid.passes.control.parts import (
    Cond,
    CondInput,
    Given,
    LoopParts,
    Renaming,
    copied,
    fresh,
    holds_control_flow,
)
from hybrid.passes.scalar.facts import CONSTANTS

Known = dict[Hashable, Node]


@steady
def share(graph: Graph) -> Graph:
    """``graph`` with regions that do not compute what is there already."""
    if not holds_control_flow(graph):
        return graph
    known: Known = {}

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        begin, changed = len(builder.nodes), False
        if node.op is cond:
            changed = _share_cond(Cond(node), known, builder)
        elif node.op in LOOPS:
            changed = _share_loop(LoopParts(node), known, builder)
        for new in builder.nodes[begin:] if changed else [node]:
            if new.pure:
                known.setdefault(new.key, new)
        return node.results if changed else None

    return rewrite(graph, rule, regions=share)


def _share_cond(parts: Cond, known: Known, builder: Builder) -> bool:
    """Append ``parts`` with less to do, if there is less."""
    names = [{given.params[b]: given.operand for given in parts.inputs} for b in (0, 1)]
    own: Known = {}
    found = _matches(parts.nodes[0], names[0], known, own)
    again = _matches(parts.nodes[1], names[1], known | own, None)
    common = set(again.values()).intersection(own.values())
    moved = _to_move(parts.nodes[0], common, names[0])
    for node in moved:
        for v in node.operands:  # one that stands for equal values has just got a new name
            names[0][v] = names[0].get(names[0][v], names[0][v])
        builder.append(copied(node, names[0]))
    gone = [{n for n in (*found, *moved) if _is_costly(n)}, {n for n in again if _is_costly(n)}]
    for branch, nodes in enumerate(parts.nodes):
        parts.nodes[branch] = [node for node in nodes if node not in gone[branch]]
        for value in [v for node in nodes if node in gone[branch] for v in node.results]:
            other = fresh(value)
            outside = names[branch][value]
            params = (value, other) if branch == 0 else (other, value)
            parts.inputs.append(CondInput(names[0].get(outside, outside), params))
    if not any(gone):
        return False
    parts.drop_unused()
    builder.append(parts.node())
    return True


def _share_loop(loop: LoopParts, known: Known, builder: Builder) -> bool:
    """Append ``loop`` with less to do, if there is less."""
    names = {given.param: given.operand for given in loop.invariants}
    found = _matches(loop.nodes, names, known, None)
    gone = {node for node in found if not _is_free(node)}
    if not gone:
        return False
    values = [v for node in loop.nodes if node in gone for v in node.results]
    loop.nodes = [node for node in loop.nodes if node not in gone]
    loop.invariants += [Given(names[value], value) for value in values]
    loop.drop_unused()
    builder.append(loop.node(builder))
    return True


def _matches(
    nodes: Sequence[Node], names: Renaming, known: Known, own: Known | None
) -> dict[Node, Node]:
    """The nodes of a region that compute what one of ``known`` does, with that one.

    ``names`` says what values of the region are called outside, and learns it of results.  Nodes
    without a match are put into ``own``, if it is given, under their own names.
    """
    found: dict[Node, Node] = {}
    for node in nodes:
        if not node.pure or not all(v in names for v in node.operands):
            continue
        operands = tuple([names[v] for v in node.operands])
        key = replace(node, operands=operands).key
        earlier = known.get(key)
        if earlier is not None:
            found[node] = earlier
        elif own is not None and not node.observable:
            earlier = own.setdefault(key, node)
        if earlier is not None:
            names.update(zip(node.results, earlier.results, strict=True))
    return found


def _to_move(nodes: Sequence[Node], common: set[Node], names: Renaming) -> list[Node]:
    """Those nodes of ``common`` that are worth it, and what they need, in order.

    ``names`` says which of several equal values stands for them all.
    """
    wanted: set[Value] = set()
    moved = []
    for node in reversed(nodes):
        if node in common and (_is_costly(node) or not wanted.isdisjoint(node.results)):
            wanted.update([names.get(v, v) for v in node.operands])
            moved.append(node)
    return moved[::-1]


def _is_free(node: Node) -> bool:
    return node.op.name in CONSTANTS or node.op.view_rule is not None


def _is_costly(node: Node) -> bool:
    """Whether ``node`` takes more time than to hand in what it computes."""
    return not node.op.elementwise and not _is_free(node)
