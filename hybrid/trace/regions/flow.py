"""Gradient flow analysis: which values of a graph gradients reach, by its ops and regions.

On some paths or, asked so, whatever path a run takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.ir import Graph, Node, Op
from hybrid.ops.flow.control import CONTROL


def flows_of(graph: Graph, params: Sequence[bool], *, surely: bool = False) -> list[bool]:
    """The flags of results of ``graph`` that gradients reach from the ``params`` marked.

    On some path, or ``surely``: on each.
    """
    flows = dict(zip(graph.params, params, strict=True))
    for node in graph.nodes:
        reached = _node_flows(node, [flows[v] for v in node.operands], surely)
        for value, flow in zip(node.results, reached, strict=True):
            flows[value] = flow and value.type.floating
    return [flows[v] for v in graph.results]


def _node_flows(node: Node, operands: Sequence[bool], surely: bool) -> Sequence[bool]:
    if node.op.record_of is not None:
        return [operands[node.op.record_of]]
    if not any(operands):
        return [False] * len(node.results)
    if node.op in CONTROL:
        return control_flows(node.op, operands, node.attributes, node.regions, surely=surely)
    if node.regions and surely:
        return [False] * len(node.results)  # what its rule makes of them is not known
    return [node.op.differentiable] * len(node.results)


def control_flows(
    op: Op,
    operands: Sequence[bool],
    attrs: dict[str, Any],
    regions: Sequence[Graph],
    *,
    surely: bool = False,
) -> list[bool]:
    """The flags of results of a control-flow node that gradients reach."""
    rest = list(operands[1:])
    if op.name == "cond":
        first, second = (flows_of(region, rest, surely=surely) for region in regions)
        return [a and b if surely else a or b for a, b in zip(first, second, strict=True)]
    n = attrs["carried"]
    before = [] if op.name == "while" else [False]
    skip = 1 if op.name == "while" else 0
    while True:  # until an iteration leaves what it was given, or a loop without any
        found = flows_of(regions[0], [*before, *rest], surely=surely)[skip:]
        pairs = zip(rest[:n], found[:n], strict=True)
        settled = [a and b if surely else a or b for a, b in pairs]
        if settled == rest[:n]:
            return [*[False] * skip, *settled, *found[n:]]
        rest[:n] = settled
