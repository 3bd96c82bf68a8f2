"""Canonical forms: ops that exist for eager calls' sake become those that the other passes know.

Before::                                      After::

    %y: f32[2,5] = matmul_nt %x, %w               %t: f32[3,5] = permute_dims %w {axes=(1, 0)}
                                                  %y: f32[2,5] = matmul %x, %t

Eagerly a transpose is a copy, in a graph it is a way to read; the kernel gets the same strides in
both cases.
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite

TRANSPOSED = {"matmul_nt": 1, "matmul_tn": 0}  # op -> the operand that it reads transposed


def canonical(graph: Graph) -> Graph:
    """``graph`` with products of transposed operands as transposes and products."""

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        which = TRANSPOSED.get(node.op.name)
        if which is None:
            return None
        operands = list(node.operands)
        rank = operands[which].type.rank
        axes = (*range(rank - 2), rank - 1, rank - 2)
        (operands[which],) = builder.apply(
            get_op("permute_dims"), [operands[which]], {"axes": axes}, location=node.location
        )
        return builder.apply(get_op("matmul"), operands, location=node.location)

    return rewrite(graph, rule, regions=canonical)
