"""Replay: run a graph's nodes one by one under the current interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.tensor import Tensor


def replay(graph: Graph, operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of ``graph`` on ``operands``: eager ops, recorded for gradients as usual."""
    interpreter = current()
    known: dict[Value, Tensor] = dict(zip(graph.params, operands, strict=True))
    for node in graph.nodes:
        results = interpreter.apply(
            node.op, tuple(known[v] for v in node.operands), node.attributes
        )
        known.update(zip(node.results, results_of(results), strict=True))
    return [known[v] for v in graph.results]
