"""Pruning: control flow gives only what is used, and loops carry only what that depends on.

Before::                                                  After::

    %a: f32[], %b: f32[] = for %n, %x, %y {                   %a: f32[] = for %n, %x {
      body(%i: i64[], %a: f32[], %b: f32[]) {                   body(%i: i64[], %a: f32[]) {
        %a_1: f32[] = exp %a                                      %a_1: f32[] = exp %a
        %b_1: f32[] = sin %b                                      return %a_1
        return %a_1, %b_1                                       }
      }                                                       }
    }                                                         return %a
    return %a
"""

from __future__ import annotations

from hybrid.ir import Builder, Node, Value
from hybrid.ops.flow.control import LOOPS, cond
from hybrid.passes.control.parts import CarriedValue, Cond, LoopParts


def prune(node: Node, used: set[Value]) -> list[Node]:
    """``node`` with only those results that are ``used``, after the nodes that it then needs."""
    if node.op is cond:
        return [_pruned_cond(node, used)]
    if node.op in LOOPS:
        return _pruned_loop(node, used)
    return [node]


def _pruned_cond(node: Node, used: set[Value]) -> Node:
    parts = Cond(node)
    parts.outputs = [output for output in parts.outputs if output.result in used]
    if not parts.drop_unused() and len(parts.outputs) == len(node.results):
        return node
    return parts.node()


def _pruned_loop(node: Node, used: set[Value]) -> list[Node]:
    loop = LoopParts(node)
    before = len(loop.stacks), len(loop.carried)
    loop.stacks = [stack for stack in loop.stacks if stack.result in used]
    loop.carried = _needed(loop, used)
    if not loop.drop_unused() and before == (len(loop.stacks), len(loop.carried)):
        return [node]
    builder = Builder()
    builder.location = node.location
    new = loop.node(builder)
    return [*builder.nodes, new]


def _needed(loop: LoopParts, used: set[Value]) -> list[CarriedValue]:
    """The carried values that are used, or that these, the test, rows and observable nodes need."""
    kept = [c for c in loop.carried if c.result in used]
    while len(kept) < len(loop.carried):
        read = _read_in_body(loop, kept)
        more = [c for c in loop.carried if c in kept or c.param in read]
        if len(more) == len(kept):
            break
        kept = more
    return kept


def _read_in_body(loop: LoopParts, carried: list[CarriedValue]) -> set[Value]:
    """What an iteration needs in order to return ``carried``, the test and the rows."""
    test = [] if loop.test is None else [loop.test]
    return _reached(loop.nodes, {*test, *[c.next for c in carried], *[s.row for s in loop.stacks]})


def _reached(nodes: list[Node], values: set[Value]) -> set[Value]:
    """``values`` and all that they, and the observable ones of ``nodes``, are computed from."""
    for node in reversed(nodes):
        if node.observable or not values.isdisjoint(node.results):
            values.update(_operands_for(node, values))
    return values


def _operands_for(node: Node, used: set[Value]) -> list[Value]:
    """The operands that ``node`` needs for those of its results that are ``used``."""
    if node.op is cond:
        parts = Cond(node)
        read: set[Value] = set()
        for branch, nodes in enumerate(parts.nodes):
            wanted = {o.values[branch] for o in parts.outputs if o.result in used}
            read |= _reached(nodes, wanted)
        return [parts.pred, *[i.operand for i in parts.inputs if not read.isdisjoint(i.params)]]
    if node.op in LOOPS:
        loop = LoopParts(node)
        loop.stacks = [stack for stack in loop.stacks if stack.result in used]
        kept = _needed(loop, used)
        read = _read_in_body(loop, kept)
        given = [g.operand for g in (*loop.slices, *loop.invariants) if g.param in read]
        return [loop.head, *[c.initial for c in kept], *given]
    return list(node.operands)
