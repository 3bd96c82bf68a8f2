"""Canonical forms: ops that exist for eager calls' sake become those that the other passes know.

Before::                                      After::

    %y: f32[2,5] = matmul_nt %x, %w               %t: f32[3,5] = permute_dims %w {axes=(1, 0)}
                                                  %y: f32[2,5] = matmul %x, %t

Eagerly a transpose is a copy, in a graph it is a way to read; the kernel gets the same strides in
both cases.
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite

# Op -> the product that it is, and the operand that it reads transposed.
TRANSPOSED = {
    "matmul_nt": ("matmul", 1),
    "matmul_tn": ("matmul", 0),
    "matmul_integer_nt": ("matmul_integer", 1),
}


def canonical(graph: Graph) -> Graph:
    """``graph`` with products of transposed operands as transposes and products."""

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        if node.op.name not in TRANSPOSED:
            return None
        product, which = TRANSPOSED[node.op.name]
        operands = list(node.operands)
        rank = operands[which].type.rank
        axes = (*range(rank - 2), rank - 1, rank - 2)
        (operands[which],) = builder.apply(
            get_op("permute_dims"), [operands[which]], {"axes": axes}, location=node.location
        )
        return builder.apply(get_op(product), operands, location=node.location)

    return rewrite(graph, rule, regions=canonical)
