"""Replay: the nodes of a graph run one by one under the current interpreter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Node, Value
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of


def apply_node(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """The results of ``node``, by the current interpreter."""
    return results_of(current().apply(node.op, tuple(operands), node.attributes, node.regions))


def replay(
    graph: Graph,
    operands: Sequence[Any],
    recorded: Collection[Value] | None = None,
    run: Callable[[Node, list[Any]], Sequence[Any]] = apply_node,
) -> list[Any]:
    """The results of ``graph`` on ``operands``: eager ops, recorded for gradients as usual.

    Values that are not in ``recorded`` are constants, as they were when the graph was captured.
    ``run`` makes the results of a node of those of its operands.
    """
    known: dict[Value, Any] = dict(zip(graph.params, operands, strict=True))
    for node in graph.nodes:
        results = run(node, [known[v] for v in node.operands])
        for value, result in zip(node.results, results, strict=True):
            constant = recorded is not None and value not in recorded
            known[value] = result.detach() if constant else result
    return [known[v] for v in graph.results]
