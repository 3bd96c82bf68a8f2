"""Graphs as rows of plain values, such as JSON holds, and back.

Where the text of ``printer.py`` is for people, rows are for files that are read often: they keep
the hints and locations of values, too, and reading them takes a fraction of the time.  Reading
trusts nothing: whatever the rows are, they give a graph that is right by the rules of its ops, or
GraphError.

::

    {"types": ["f32", [2, 3]] ..., "places": [path, line, text] ..., "attrs": {name: value} ...,
     "graphs": [name, [value ...], [node ...], [number ...]] ...}
    value = [type, hint, place]
    node  = [op, [number ...], attrs, [value ...], [graph ...], place]

Types, places and attributes are numbers of rows (no place: -1), values are numbers in the order of
their definition.  Of a value, 1, 0.5, "a", None, true stand for themselves but for floats, which
are their bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.core.exceptions import is_interrupt
from hybrid.core.types import BY_SHORT, DType, TensorType, tensor_type
from hybrid.errors import GraphError, Location
from hybrid.ir.graph import Attrs, Graph, Node, Value
from hybrid.ir.op import REGISTRY

Rows = dict[str, list[Any]]


class Unwritable(Exception):
    """Something that rows do not hold; the text says what."""


def plain(value: Any) -> Any:
    """An attribute's value as JSON has it; raises Unwritable."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, float):
        return ["float", struct.pack("<d", value).hex()]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is tuple:
        return ["tuple", *map(plain, value)]
    if isinstance(value, DType):
        return ["dtype", value.short]
    if isinstance(value, TensorType):
        return ["type", value.dtype.short, list(value.shape)]
    raise Unwritable(f"a {kind.__name__}")


def value_of(row: Any) -> Any:
    """What ``plain`` has made ``row`` of; raises ValueError and the like for any other row."""
    if row is None or type(row) in (bool, int, str):
        return row
    kind, *items = row
    if kind == "tuple":
        return tuple(map(value_of, items))
    if kind == "type":
        dtype, shape = items
        return tensor_type(BY_SHORT[dtype], tuple(map(_size, shape)))
    (item,) = items
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(item))[0]
    if kind == "bytes":
        return bytes.fromhex(item)
    if kind == "dtype":
        return BY_SHORT[item]
    raise ValueError(kind)


def _size(size: Any) -> int:
    if type(size) is not int or size < 0:
        raise ValueError(size)
    return size


def values_in(graph: Graph) -> Iterator[Value]:
    """The values that ``graph`` and the regions of its nodes define, in a fixed order."""
    yield from graph.params
    for node in graph.nodes:
        for region in node.regions:
            yield from values_in(region)
        yield from node.results


class RowWriter:
    """Collects graphs; ``rows`` is all of them."""

    def __init__(self) -> None:
        self.rows: Rows = {"types": [], "places": [], "attrs": [], "graphs": []}
        self._known: dict[Any, int] = {}

    def graph(self, graph: Graph) -> int:
        """The number of ``graph``, which is added; raises Unwritable."""
        numbers: dict[Value, int] = {}
        params = self._values(graph.params, numbers)
        nodes = [self._node(node, numbers) for node in graph.nodes]
        row = [graph.name, params, nodes, [numbers[v] for v in graph.results]]
        return self._add("graphs", row)

    def _node(self, node: Node, numbers: dict[Value, int]) -> list[Any]:
        operands = [numbers[v] for v in node.operands]
        regions = [self.graph(region) for region in node.regions]
        return [
            node.op.name,
            operands,
            self._attributes(node.op.name, node.attrs),
            self._values(node.results, numbers),
            regions,
            self._place(node.location),
        ]

    def _values(self, values: Sequence[Value], numbers: dict[Value, int]) -> list[Any]:
        for value in values:
            numbers[value] = len(numbers)
        return [[self._type(v.type), v.hint, self._place(v.location)] for v in values]

    def _add(self, table: str, row: Any) -> int:
        self.rows[table].append(row)
        return len(self.rows[table]) - 1

    def _type(self, kind: TensorType) -> int:
        number = self._known.get(kind)
        if number is None:
            row = [kind.dtype.short, list(kind.shape)]
            number = self._known[kind] = self._add("types", row)
        return number

    def _place(self, place: Location | None) -> int:
        if place is None:
            return -1
        number = self._known.get(place)
        if number is None:
            row = [place.path, place.line, place.text]
            number = self._known[place] = self._add("places", row)
        return number

    def _attributes(self, op: str, attrs: Attrs) -> int:
        try:
            row = {name: plain(value) for name, value in attrs}
        except Unwritable as error:
            raise Unwritable(f"the attributes of {op} hold {error}") from None
        key = repr(row)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._add("attrs", row)
        return number


class RowReader:
    """The graphs in ``rows``; what is wrong with them raises GraphError."""

    def __init__(self, rows: Any) -> None:
        try:
            self.types = [
                tensor_type(BY_SHORT[dtype], tuple(map(_size, shape)))
                for dtype, shape in rows["types"]
            ]
            self.places = [
                Location(_text(path), _size(line), _text(text))
                for path, line, text in rows["places"]
            ]
            self.attrs = [
                {_text(name): value_of(value) for name, value in row.items()}
                for row in rows["attrs"]
            ]
            self.graphs: list[Graph] = []
            self._given: dict[tuple[str, int], Attrs] = {}
            for row in rows["graphs"]:  # regions come before the graphs whose nodes own them
                self.graphs.append(self._graph(*row))
        except Exception as error:  # of whatever kind: rules meet what they were not made for
            if is_interrupt(error):
                raise
            raise GraphError(f"these rows are no graph: {type(error).__name__}: {error}") from error

    def graph(self, number: Any) -> Graph:
        """That of this number."""
        return at(self.graphs, number)

    def _graph(self, name: str, params: Any, nodes: Any, results: Any) -> Graph:
        values = self._values(params)
        made = tuple(values)
        rows = tuple([self._node(values, *row) for row in nodes])
        return Graph(_text(name), made, rows, tuple([at(values, i) for i in results]))

    def _values(self, rows: Any) -> list[Value]:
        return [
            Value(at(self.types, kind), _text(hint), self._place(place))
            for kind, hint, place in rows
        ]

    def _place(self, number: Any) -> Location | None:
        return None if number == -1 else at(self.places, number)

    def _node(
        self, values: list[Value], name: Any, operands: Any, attrs: Any, results: Any,
        regions: Any, place: Any,
    ) -> Node:  # fmt: skip
        op = REGISTRY[name]
        given = self._given.get((name, attrs))
        if given is None:
            given = self._given[name, attrs] = op.attributes(at(self.attrs, attrs))
        found = tuple([at(values, i) for i in operands])
        owned = tuple([self.graph(i) for i in regions])
        made = self._values(results)
        inferred = op.infer(tuple([v.type for v in found]), given, owned)
        if tuple([v.type for v in made]) != inferred:
            raise ValueError(f"{name} does not give what is declared")
        values += made
        return Node(
            op=op,
            operands=found,
            attrs=given,
            results=tuple(made),
            regions=owned,
            location=self._place(place),
        )


def at(items: Sequence[Any], number: Any) -> Any:
    """The item of this number; raises IndexError for whatever is none."""
    if type(number) is not int or not 0 <= number < len(items):
        raise IndexError(f"{number!r} of {len(items)}")
    return items[number]


def _text(text: Any) -> str:
    if type(text) is not str:
        raise ValueError(text)
    return text
