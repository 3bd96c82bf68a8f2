"""Hoisting: what every iteration of a loop would compute anew is computed once, before it.

Before::                                              After::

    %y: f32[] = for %n, %x, %w {                     %e: f32[] = exp %w
      body(%i: i64[], %x: f32[], %w: f32[]) {        %y: f32[] = for %n, %x, %e {
        %e: f32[] = exp %w                             body(%i: i64[], %x: f32[], %e: f32[]) {
        %x_1: f32[] = add %x, %e                         %x_1: f32[] = add %x, %e
        return %x_1                                      return %x_1
      }                                                }
    }                                                }

The loop may run no iteration, so nothing moves that could fail, act on the world or never end.
Views and constants cost nothing where they are: they move only in front of what uses them, and so
does an elementwise node whose result is much larger than its operands, for reading it each time
costs more than to compute it in the cache.  Of a product by a weight that no iteration changes,
what needs the weight alone moves (weight_parts.py), as long as that does not take much memory.
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady
from hybrid.ops.flow.control import LOOPS, while_
from hybrid.passes.control.parts import Given, LoopParts, copied, holds_control_flow
from hybrid.passes.scalar.facts import CONSTANTS
from hybrid.passes.weights.weight_parts import in_two, prepared_values

SMALL_NBYTES = 32768  # results up to this size stay in the cache
PREPARED_NBYTES = 1 << 26  # of weights, beside which a loop keeps what is prepared of them


@steady
def hoist(graph: Graph) -> Graph:
    """``graph`` with loops that compute only what changes."""
    if not holds_control_flow(graph):
        return graph

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        if node.op not in LOOPS:
            return None
        loop = LoopParts(node)
        if not loop.is_for or not loop.clamps or loop.length > 1:
            _prepare(loop)
        moved = _invariant_nodes(loop)
        if not moved:
            return None
        names = {given.param: given.operand for given in loop.invariants}
        for inner in moved:
            builder.append(copied(inner, names))
        _take_in(loop, moved, names)
        builder.append(loop.node(builder))
        return node.results

    return rewrite(graph, rule, regions=hoist)


def _prepare(loop: LoopParts) -> None:
    """Take products by weights that stay the same apart."""
    same = {given.param for given in loop.invariants}
    room = PREPARED_NBYTES - sum([v.type.nbytes for v in {*prepared_values(loop.nodes)}])
    nodes: list[Node] = []
    for node in loop.nodes:
        parts = in_two(node, same)
        if parts is not None and (nbytes := parts[0].results[0].type.nbytes) <= room:
            room -= nbytes
            nodes += parts
        else:
            nodes.append(node)
        if same.issuperset(node.operands) and _may_move(node):
            same.update(node.results)
    loop.nodes = nodes


def _invariant_nodes(loop: LoopParts) -> list[Node]:
    """The nodes that move, in order."""
    same = {given.param for given in loop.invariants}
    movable = []
    for node in loop.nodes:
        if same.issuperset(node.operands) and _may_move(node):
            movable.append(node)
            same.update(node.results)
    wanted: set[Value] = set()
    moved = []
    for node in reversed(movable):
        if _worth_moving(node) or not wanted.isdisjoint(node.results):
            wanted.update(node.operands)
            moved.append(node)
    return moved[::-1]


def _may_move(node: Node) -> bool:
    """Whether running ``node`` once too often does not show."""
    if node.observable:
        return False
    return not any(inner.op is while_ for inner in Graph("", (), (node,), ()).walk())


def _worth_moving(node: Node) -> bool:
    if node.op.name in CONSTANTS or node.op.view_rule is not None:
        return False
    size = sum([v.type.nbytes for v in node.results])
    read = sum([v.type.nbytes for v in node.operands])
    return not node.op.elementwise or size <= max(read, SMALL_NBYTES)


def _take_in(loop: LoopParts, moved: list[Node], names: dict[Value, Value]) -> None:
    """Let the body of ``loop`` get what ``moved`` computes, where it uses that, from outside."""
    gone = set(moved)
    used = set(loop.returned)
    kept: list[Node] = []
    for node in reversed(loop.nodes):
        if node not in gone or not (_worth_moving(node) or used.isdisjoint(node.results)):
            used.update(node.operands)
            kept.append(node)
    loop.nodes = kept[::-1]
    for node in moved:
        if _worth_moving(node):
            taken = [v for v in node.results if v in used]
            loop.invariants += [Given(names[v], v) for v in taken]
