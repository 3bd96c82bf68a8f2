"""Known control flow: what is decided before the run is no control flow any more.

Before::                                              After::

    %p: bool[] = full {shape=(), value=true, ...}         %a: f32[] = exp %x
    %y: f32[] = cond %p, %x {                             return %a
      then(%x: f32[]) { %a: f32[] = exp %x return %a }
      else(%x: f32[]) { return %x }
    }
    return %y

A cond on a constant is the branch that it takes; a loop that makes no iteration is its initial
values, and one that makes one is its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite, steady
from hybrid.ops.flow.control import COUNT, LOOPS, cond
from hybrid.ops.shapes.creation import fill
from hybrid.passes.control.parts import LoopParts, holds_control_flow, inlined
from hybrid.passes.scalar.facts import Facts


@steady
def known(graph: Graph) -> Graph:
    """``graph`` without branches that are never, or always, taken."""
    if not holds_control_flow(graph):
        return graph
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        begin, results = len(builder.nodes), None
        if node.op is cond:
            pred = facts.number(node.operands[0])
            if pred is not None:
                results = inlined(builder, node.regions[0 if pred else 1], node.operands[1:])
        elif node.op in LOOPS:
            loop = LoopParts(node)
            trips = _trips(loop, facts)
            if trips == 0:
                results = _without_iteration(loop, builder)
            elif trips == 1 and (not loop.stacks or loop.length <= 1):
                results = _once(loop, builder)
        for new in (node,) if results is None else builder.nodes[begin:]:
            facts.add(new)
        return results

    return rewrite(graph, rule, regions=known)


def _trips(loop: LoopParts, facts: Facts) -> int | None:
    """0 or 1 when the loop is known to make so many iterations, else None."""
    if loop.test is not None:
        if facts.number(loop.head) == 0:
            return 0
        ends = any(_is_false(node) and node.results[0] is loop.test for node in loop.nodes)
        return 1 if facts.number(loop.head) and ends else None
    count: Any = facts.number(loop.head)
    if count is None:
        return 0 if loop.clamps and loop.length == 0 else None
    trips = max(count if isinstance(count, int) else int(count), 0)
    trips = min(trips, loop.length) if loop.clamps else trips
    return trips if trips <= 1 else None


def _is_false(node: Node) -> bool:
    return node.op is fill and node.attributes["value"] == 0


def _without_iteration(loop: LoopParts, builder: Builder) -> tuple[Value, ...]:
    return (
        *_counted(loop, 0, builder),
        *[c.initial for c in loop.carried],
        *[_full(s.result.type, 0, builder) for s in loop.stacks],
    )


def _once(loop: LoopParts, builder: Builder) -> tuple[Value, ...]:
    index = [] if loop.index is None else [_full(COUNT, 0, builder)]
    given = (
        *index,
        *[c.initial for c in loop.carried],
        *[_row(g.operand, builder) for g in loop.slices],
        *[g.operand for g in loop.invariants],
    )
    returned = inlined(builder, loop.source.regions[0], given)
    if loop.test is not None:
        returned = returned[1:]
    carried, rows = returned[: len(loop.carried)], returned[len(loop.carried) :]
    stacks = [
        _stacked(row, s.result.type, builder) for row, s in zip(rows, loop.stacks, strict=True)
    ]
    return (*_counted(loop, 1, builder), *carried, *stacks)


def _counted(loop: LoopParts, trips: int, builder: Builder) -> Sequence[Value]:
    return () if loop.trips is None else (_full(COUNT, trips, builder),)


def _row(operand: Value, builder: Builder) -> Value:
    """The first row of ``operand``."""
    shape = operand.type.shape
    attrs = {"start": (0,) * len(shape), "size": (1, *shape[1:]), "step": (1,) * len(shape)}
    (row,) = builder.apply(get_op("slice"), (operand,), attrs)
    return builder.apply(get_op("reshape"), (row,), {"shape": shape[1:]})[0]


def _stacked(row: Value, type: TensorType, builder: Builder) -> Value:
    """``row`` as a stack of length 1, or of none."""
    if not type.shape[0]:
        return _full(type, 0, builder)
    return builder.apply(get_op("reshape"), (row,), {"shape": type.shape})[0]


def _full(type: TensorType, value: Any, builder: Builder) -> Value:
    attrs = {"shape": type.shape, "dtype": type.dtype, "value": value}
    return builder.apply(fill, (), attrs)[0]
