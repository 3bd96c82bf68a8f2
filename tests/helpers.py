"""What tests of graphs and passes share."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np

from hybrid.ir import Graph, parse, verify


def graph_of(text: str) -> Graph:
    """The graph that ``text`` describes, verified."""
    graph = parse(dedent(text))
    verify(graph)
    return graph


def assert_rewrites(change: Callable[[Graph], Graph], before: str, after: str) -> None:
    """``change`` turns the graph ``before`` into ``after``, and leaves ``after`` as it is."""
    given, expected = graph_of(before), graph_of(after)
    result = change(given)
    verify(result)
    # Text against text, so that a failure shows the difference; both sides print from a parse.
    assert normal_text(result) == normal_text(expected)
    assert result == expected
    assert change(result) == expected, "a second application changes the graph again"


def normal_text(graph: Graph) -> str:
    """The text of ``graph`` with values numbered, so that names do not matter."""
    return str(without_hints(graph))


def without_hints(graph: Graph) -> Graph:
    from hybrid.ir import Node, Value

    renamed: dict[Value, Value] = {}

    def copies(values: tuple[Value, ...]) -> tuple[Value, ...]:
        for value in values:
            renamed[value] = Value(value.type)
        return tuple(renamed[v] for v in values)

    params = copies(graph.params)
    nodes = []
    for node in graph.nodes:
        operands = tuple(renamed[v] for v in node.operands)
        regions = tuple(without_hints(region) for region in node.regions)
        nodes.append(Node(node.op, operands, node.attrs, copies(node.results), regions))
    return Graph(graph.name, params, tuple(nodes), tuple(renamed[v] for v in graph.results))


def interpret(graph: Graph, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The results of ``graph`` on ``arrays`` by the ops' NumPy references."""
    values: dict[Any, np.ndarray] = dict(zip(graph.params, arrays, strict=True))
    for node in graph.nodes:
        extra: dict[str, Any] = {"regions": node.regions} if node.regions else {}
        results = node.op.reference_rule(
            *[values[v] for v in node.operands], **node.attributes, **extra
        )
        results = results if isinstance(results, tuple) else (results,)
        values.update(zip(node.results, results, strict=True))
    return tuple(values[v] for v in graph.results)


def bits(arrays: tuple[np.ndarray, ...]) -> list[tuple[Any, tuple[int, ...], bytes]]:
    """What equal bits are compared by."""
    return [(a.dtype, a.shape, np.ascontiguousarray(a).tobytes()) for a in map(np.asarray, arrays)]
