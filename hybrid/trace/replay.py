"""Replay: run a graph's nodes one by one under the current interpreter."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.tensor import Tensor


def replay(
    graph: Graph, operands: Sequence[Tensor], recorded: Collection[Value] | None = None
) -> list[Tensor]:
    """The results of ``graph`` on ``operands``: eager ops, recorded for gradients as usual.

    Values that are not in ``recorded`` are constants, as they were when the graph was captured.
    """
    interpreter = current()
    known: dict[Value, Tensor] = dict(zip(graph.params, operands, strict=True))
    for node in graph.nodes:
        results = interpreter.apply(
            node.op, tuple(known[v] for v in node.operands), node.attributes, node.regions
        )
        for value, result in zip(node.results, results_of(results), strict=True):
            constant = recorded is not None and value not in recorded
            known[value] = result.detach() if constant else result
    return [known[v] for v in graph.results]
