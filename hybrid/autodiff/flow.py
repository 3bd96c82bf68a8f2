"""Gradient flow analysis: which values of a graph gradients reach, by its ops and regions.

Forwards (``flows_of``, ``control_flows``): which results gradients reach from given operands, on
some path or, asked so, whatever path a run takes.  Backwards (``control_sources``): from which
operands they reach given results, on some path.
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
        reached = node_flows(node, [flows[v] for v in node.operands], surely)
        for value, flow in zip(node.results, reached, strict=True):
            flows[value] = flow and value.type.floating
    return [flows[v] for v in graph.results]


def node_flows(node: Node, operands: Sequence[bool], surely: bool = False) -> Sequence[bool]:
    """The flags of results of ``node`` that gradients reach from the ``operands`` marked."""
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


def control_sources(
    op: Op, results: Sequence[bool], attrs: dict[str, Any], regions: Sequence[Graph]
) -> list[bool]:
    """The flags of operands of a control-flow node from which gradients reach the marked results.

    On some path; the operand that decides is none of them.
    """
    if op.name == "cond":
        found = zip(*(_sources_of(region, results) for region in regions), strict=True)
        return [False, *map(any, found)]
    n, skip = attrs["carried"], 1 if op.name == "while" else 0
    wanted = list(results[skip:])
    while True:  # until an iteration asks for no more than what comes behind it
        found = _sources_of(regions[0], [*[False] * skip, *wanted])[1 - skip :]
        settled = [a or b for a, b in zip(wanted[:n], found[:n], strict=True)]
        if settled == wanted[:n]:
            return [False, *settled, *found[n:]]
        wanted[:n] = settled


def _sources_of(graph: Graph, results: Sequence[bool]) -> list[bool]:
    """The flags of parameters from which gradients reach the marked results of ``graph``."""
    wanted = {value for value, flag in zip(graph.results, results, strict=True) if flag}
    for node in reversed(graph.nodes):
        reached = [value in wanted and value.type.floating for value in node.results]
        if not any(reached):
            continue
        if node.op.record_of is not None:
            wanted.add(node.operands[node.op.record_of])
        elif node.op in CONTROL:
            flags = control_sources(node.op, reached, node.attributes, node.regions)
            wanted.update(v for v, flag in zip(node.operands, flags, strict=True) if flag)
        elif node.op.differentiable or node.regions:
            wanted.update(node.operands)
    return [param in wanted and param.type.floating for param in graph.params]
