"""Folding of norms: the scale of a channel goes into the weights of the convolution that makes it.

Before::                                          After::

    %y: f32[8,4,9,9] = conv %x, %w                    %k: f32[4,1,1,1] = reshape %s
    %d: f32[8,4,9,9] = subtract %y, %m                %v: f32[4,3,3,3] = multiply %w, %k
    %z: f32[8,4,9,9] = multiply %d, %s                %y: f32[8,4,9,9] = conv %x, %v
                                                      %c: f32[4,1,1] = multiply %m, %s
                                                      %z: f32[8,4,9,9] = subtract %y, %c

for %m and %s of f32[4,1,1], which batch norm in evaluation has.  Products are rounded elsewhere, so
bits change: it runs for ``optimize="fast"`` alone.  Weights are scaled at each run, so only results
that are several times as large are worth it.
"""

from __future__ import annotations

from collections import Counter

from hybrid.core.types import TensorType
from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite
from hybrid.passes.scalar.facts import Facts

WORTH = 4  # results for each weight


def fold_norms(graph: Graph) -> Graph:
    """``graph`` with the scales of channels in the weights of convolutions."""
    facts = Facts()
    uses = Counter([v for node in graph.nodes for v in node.operands] + list(graph.results))

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op.name != "multiply" or len(node.operands) != 2:
            return None
        away, scale = node.operands
        shifted = facts.by("subtract", away)
        conv = facts.by("conv", shifted.operands[0]) if shifted is not None else None
        if shifted is None or conv is None or uses[away] > 1 or uses[conv.results[0]] > 1:
            return None
        (x, weight), mean = conv.operands, shifted.operands[1]
        of_y, of_w = conv.results[0].type, weight.type
        if not _is_column(mean, of_y) or not _is_column(scale, of_y):
            return None
        if of_w.size * WORTH > of_y.size:
            return None
        kernel = (of_w.shape[0], *(1,) * (of_w.rank - 1))
        (column,) = builder.apply(get_op("reshape"), [scale], {"shape": kernel})
        (scaled,) = builder.apply(get_op("multiply"), [weight, column])
        (y,) = builder.apply(conv.op, [x, scaled], conv.attrs, location=conv.location)
        (shift,) = builder.apply(get_op("multiply"), [mean, scale])
        return builder.apply(get_op("subtract"), [y, shift])

    return rewrite(graph, rule, regions=fold_norms)


def _is_column(value: Value, of_y: TensorType) -> bool:
    """Whether ``value`` has one element for each channel of a convolution's result."""
    shape = value.type.shape
    channels = of_y.shape[1]
    return shape[-(of_y.rank - 1) :] == (channels, *(1,) * (of_y.rank - 2)) and (
        value.type.size == channels
    )
