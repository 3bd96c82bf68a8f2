"""Implicit broadcasting: elementwise nodes read the small operand instead of its repetition.

Before::                                          After::

    %o: f32[8,4] = full {shape=(8, 4), ...}           %o: f32[] = full {shape=(), ...}
    %b: f32[8,4] = broadcast_to %v {shape=(8, 4)}     %c: f32[8,4] = add %x, %v
    %c: f32[8,4] = add %x, %b                         %d: f32[8,4] = multiply %c, %o
    %d: f32[8,4] = multiply %c, %o

The op's own rule repeats the operand, so the same kernel sees the same elements.  An operand stays
when without it the result would have a smaller shape, or the rule refuses (steps of optimizers).
"""

from __future__ import annotations

from hybrid.core.types import TensorType
from hybrid.errors import ShapeError
from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady
from hybrid.passes.scalar.facts import Facts


@steady
def implicit_broadcast(graph: Graph) -> Graph:
    """``graph`` with elementwise nodes that do their own broadcasting."""
    facts = Facts()
    scalars: dict[Value, Value] = {}

    def source(value: Value, builder: Builder) -> Value:
        """The smallest value that repeats to ``value``."""
        match facts.defining(value):
            case Node(op=op, operands=(small,)) if op.name == "broadcast_to":
                return source(small, builder)
            case Node(op=op) as node if op.name == "full" and value.type.shape:
                if value not in scalars:
                    attrs = node.attributes | {"shape": ()}
                    (scalars[value],) = builder.apply(op, (), attrs, hints=(value.hint,))
                return scalars[value]
        return value

    def shrink(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if not node.op.elementwise or len(node.operands) < 2:
            return None
        operands = list(node.operands)
        types = tuple([v.type for v in node.results])
        for i, value in enumerate(node.operands):
            if not facts.repeats(value):
                continue
            operands[i] = source(value, builder)
            if _types(node, operands) != types:
                operands[i] = value
        if tuple(operands) == node.operands:
            return None
        return builder.apply(node.op, operands, node.attrs)

    return rewrite(graph, shrink, regions=implicit_broadcast)


def _types(node: Node, operands: list[Value]) -> tuple[TensorType, ...] | None:
    """The types of the results of ``node`` with other operands; None when it does not take them."""
    try:
        return node.op.infer(tuple([v.type for v in operands]), node.attrs)
    except ShapeError:
        return None
