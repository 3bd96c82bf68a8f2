"""Binding: a graph of open types at given sizes.

::

    graph @f<n = 37>(%x: f32[n,4]) {          graph @f(%x: f32[5,4]) {
      %y: f32[4*n] = reshape %x            ->   %y: f32[20] = reshape %x
        {shape=(4*n,)}                            {shape=(20,)}
      return %y                                 return %y
    }                                         }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import GraphError
from hybrid.ir.graph import Graph, Node, Value, sizes_of
from hybrid.ir.op import frozen


def bind(graph: Graph, values: Sequence[int]) -> Graph:
    """``graph`` with ``values`` for its symbols, in their order.

    GraphError where they do not meet the conditions under which the graph was made.
    """
    sizes = sizes_of(graph)
    if sizes is None:
        return graph
    if len(values) != len(sizes.symbols) or not sizes.holds(values):
        raise GraphError(
            f"@{graph.name} is not made for {sizes.named(values) or 'no sizes'}",
            why="It holds where: " + ", ".join(map(str, sizes.conditions.values())),
            fix="capture the function at these sizes",
        )
    return SizeBinding(sizes, values).graph(graph)


class SizeBinding:
    """Values for symbols, and what open types, values and graphs become by them."""

    def __init__(self, sizes: OpenSizes, values: Sequence[int]) -> None:
        self.sizes, self.values = sizes, values
        self.types: dict[TensorType, TensorType] = {}
        self.graphs: dict[int, Graph] = {}  # regions may be one and the same
        self.made: dict[Value, Value] = {}

    def type(self, type_: TensorType) -> TensorType:
        found = self.types.get(type_)
        if found is None:
            shape = self.sizes.bound(type_.shape, self.values)
            found = self.types[type_] = tensor_type(type_.dtype, shape)
        return found

    def attribute(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple([self.attribute(item) for item in value])
        if isinstance(value, SizeValue):
            return frozen(self.sizes.bound(value, self.values))
        return self.type(value) if isinstance(value, TensorType) else value

    def graph(self, graph: Graph) -> Graph:
        found = self.graphs.get(id(graph))
        if found is None:
            found = self.graphs[id(graph)] = self._graph(graph)
        return found

    def _graph(self, graph: Graph) -> Graph:
        known = self.made

        def made(value: Value) -> Value:
            new = known[value] = Value(self.type(value.type), value.hint, value.location)
            return new

        params = tuple([made(value) for value in graph.params])
        nodes = tuple(
            [
                Node(
                    op=node.op,
                    operands=tuple([known[v] for v in node.operands]),
                    attrs=tuple([(name, self.attribute(value)) for name, value in node.attrs]),
                    results=tuple([made(value) for value in node.results]),
                    regions=tuple([self.graph(region) for region in node.regions]),
                    location=node.location,
                )
                for node in graph.nodes
            ]
        )
        return Graph(graph.name, params, nodes, tuple([known[v] for v in graph.results]))


class TypesAt:
    """Types, and what those of symbols are at values of these."""

    def __init__(self, sizes: OpenSizes, types: Sequence[TensorType]) -> None:
        self.types = tuple(types)
        self.opened = list(dict.fromkeys([t for t in types if t.is_open]))
        shapes = [[n for n in t.shape if isinstance(n, SizeValue)] for t in self.opened]
        self._numbers = sizes.evaluator([n for shape in shapes for n in shape])

    def at(self, values: Sequence[int]) -> tuple[TensorType, ...]:
        """The types at ``values``, in their order.

        ShapeError where one would have more bytes than there can be.
        """
        numbers = iter(self._numbers(*values))
        made = {}
        for open_type in self.opened:
            shape = [next(numbers) if isinstance(n, SizeValue) else n for n in open_type.shape]
            made[open_type] = tensor_type(open_type.dtype, tuple(shape))
        return tuple([made.get(t, t) for t in self.types])
