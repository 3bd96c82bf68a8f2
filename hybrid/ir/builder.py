"""Builder: append nodes to a graph that is being made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.errors import Location
from hybrid.ir.graph import Attrs, Graph, Node, Value
from hybrid.ir.op import Op


class Builder:
    """Collects parameters and nodes, infers result types, and ends in a Graph."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self.location: Location | None = None  # of nodes that are given none
        self.hints: tuple[str, ...] = ()  # of results that are given none

    def param(self, type: TensorType, hint: str = "") -> Value:
        value = Value(type, hint)
        self.params.append(value)
        return value

    def apply(
        self,
        op: Op,
        operands: Sequence[Value],
        attrs: Attrs | dict[str, Any] = (),
        *,
        regions: tuple[Graph, ...] = (),
        location: Location | None = None,
        types: tuple[TensorType, ...] | None = None,
        hints: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Append ``op``; its result types are inferred unless ``types`` gives them."""
        if isinstance(attrs, dict):
            attrs = op.attributes(attrs)
        operands = tuple(operands)
        if types is None:
            types = op.infer(tuple([v.type for v in operands]), attrs, regions)
        location = location or self.location
        names = [*(hints or self.hints), *[""] * len(types)]
        results = tuple([Value(t, hint, location) for t, hint in zip(types, names, strict=False)])
        self.nodes.append(Node(op, operands, attrs, results, regions, location))
        return results

    def append(self, node: Node) -> None:
        self.nodes.append(node)

    def finish(self, results: Sequence[Value]) -> Graph:
        return Graph(self.name, tuple(self.params), tuple(self.nodes), tuple(results))
