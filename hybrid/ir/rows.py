"""Graphs as rows of plain values, such as JSON holds, and back.

Where the text of ``printer.py`` is for people, rows are for files that are read often: they keep
the hints and locations of values, too, and reading them takes a fraction of the time.  Reading
trusts nothing: whatever the rows are, they give a graph that is right by the rules of its ops, or
GraphError.

::

    {"types": ["f32", [2, 3]] ..., "places": [path, line, text] ..., "attrs": {name: value} ...,
     "graphs": [name, [value ...], [node ...], [number ...]] ...,
     "sizes": {"symbols": [name, value, low, high] ..., "conditions": [size, relation, true] ...}}
    value = [type, hint, place]
    node  = [op, [number ...], attrs, [value ...], [graph ...], place]

Types, places and attributes are numbers of rows (no place: -1), values are numbers in the order of
their definition.  Of a value, 1, 0.5, "a", None, true stand for themselves but for floats, which
are their bits.  Graphs whose types are open have "sizes", others have none: the size 2*n-1 is
``["size", [2, 0], [-1]]``, in which symbols are numbers, and n // 2 is ``["//", n, 2]``.  What the
rules of the ops ask of sizes is asked again as the rows are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.core.exceptions import is_interrupt
from hybrid.core.size_conditions import Condition
from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import HIGHEST, OpenSizes, Size, SizeSymbol
from hybrid.core.types import BY_SHORT, DType, TensorType, tensor_type
from hybrid.errors import GraphError, Location
from hybrid.ir.graph import Attrs, Graph, Node, Value
from hybrid.ir.op import REGISTRY


class Unwritable(Exception):
    """Something that rows do not hold; the text says what."""


def plain(value: Any) -> Any:
    """An attribute's value as JSON has it; raises Unwritable."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is not Size and isinstance(value, SizeValue):
        raise Unwritable(f"{value}, which is computed for each size")
    if isinstance(value, float):
        return ["float", struct.pack("<d", value).hex()]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is tuple:
        return ["tuple", *map(plain, value)]
    if isinstance(value, DType):
        return ["dtype", value.short]
    if kind is Size:
        return ["size", *[[count, *map(_variable, monomial)] for monomial, count in value.terms]]
    if isinstance(value, TensorType):
        return ["type", value.dtype.short, [*map(plain, value.shape)]]
    raise Unwritable(f"a {kind.__name__}")


def _variable(variable: Any) -> Any:
    """A variable of sizes: the number of the symbol, or the quotient that it is."""
    if isinstance(variable, SizeSymbol):
        return variable.order
    if variable.function.name not in _DIVISIONS:
        raise Unwritable(f"{variable}, which is computed for each size")
    return [variable.function.name, *map(plain, variable.operands)]


def _condition(condition: Any) -> list[Any]:
    """A condition of a size; raises Unwritable for others."""
    if type(condition) is not Condition:
        raise Unwritable(f"the condition {condition}, which is computed for each size")
    return [plain(condition.size), condition.relation, condition.holds]


def value_of(row: Any, sizes: OpenSizes | None = None) -> Any:
    """What ``plain`` has made ``row`` of; raises ValueError and the like for any other row.

    ``sizes`` has the symbols of open sizes.
    """
    if row is None or type(row) in (bool, int, str):
        return row
    kind, *items = row
    if kind == "tuple":
        return tuple([value_of(item, sizes) for item in items])
    if kind == "type":
        dtype, shape = items
        return tensor_type(BY_SHORT[dtype], tuple([_size(size, sizes) for size in shape]))
    if kind == "size":
        return _open_size(items, sizes)
    (item,) = items
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(item))[0]
    if kind == "bytes":
        return bytes.fromhex(item)
    if kind == "dtype":
        return BY_SHORT[item]
    raise ValueError(kind)


def _size(size: Any, sizes: OpenSizes | None = None) -> Any:
    if type(size) is list and size[0] == "size":
        size = _open_size(size[1:], sizes)
        if type(size) is Size and size.value >= 0:
            return size
    if type(size) is not int or size < 0:
        raise ValueError(size)
    return size


def _open_size(terms: Sequence[Any], sizes: OpenSizes | None) -> Any:
    if sizes is None:
        raise ValueError("there are no symbols")
    total: Any = 0
    for count, *variables in terms:
        if type(count) is not int or len(variables) > _MOST_FACTORS:
            raise ValueError(count)
        product: Any = count
        for variable in variables:
            product = product * _factor(variable, sizes)
        total = total + product
    return total


def _factor(row: Any, sizes: OpenSizes) -> Any:
    if type(row) is int:
        symbol = at(sizes.symbols, row)
        return Size(sizes, (((symbol,), 1),))
    kind, left, right = row
    left, right = value_of(left, sizes), value_of(right, sizes)
    sides = {type(left), type(right)}
    if kind not in _DIVISIONS or not sides <= {int, Size} or Size not in sides or right == 0:
        raise ValueError(kind)
    return sizes.divided(kind, left, right)


_DIVISIONS = ("//", "%")
_MOST_FACTORS = 64  # of a product of sizes


def _sizes_in(row: Any) -> OpenSizes | None:
    """The symbols in a row, whose conditions are still to come."""
    if row is None:
        return None
    sizes = OpenSizes()
    for name, value, low, high in row["symbols"]:
        if _size(high) > HIGHEST or not _text(name).isidentifier():
            raise ValueError(name)
        sizes.symbol(name, _size(value), _size(low), high)
    return sizes


def _ask(sizes: OpenSizes, conditions: Any) -> None:
    """Ask of ``sizes`` what was asked before; ValueError where it is not so."""
    for row, relation, holds in conditions:
        size = value_of(row, sizes)
        if type(size) is not Size or relation not in ("==", "<", "<=") or type(holds) is not bool:
            raise ValueError(relation)
        if sizes.compare(size, relation) is not holds:
            raise ValueError(f"{size} {relation} 0 is not {holds}")


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
        self.rows: dict[str, Any] = {"types": [], "places": [], "attrs": [], "graphs": []}
        self._known: dict[Any, int] = {}

    def graph(self, graph: Graph) -> int:
        """The number of ``graph``, which is added; raises Unwritable."""
        numbers: dict[Value, int] = {}
        params = self._values(graph.params, numbers)
        nodes = [self._node(node, numbers) for node in graph.nodes]
        row = [graph.name, params, nodes, [numbers[v] for v in graph.results]]
        return self._add("graphs", row)

    def sizes(self, sizes: OpenSizes) -> None:
        """Add the symbols of the graphs, and the conditions under which these hold."""
        self.rows["sizes"] = {
            "symbols": [[s.name, s.value, s.low, s.high] for s in sizes.symbols],
            "conditions": [*map(_condition, sizes.conditions.values())],
        }

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
            row = [kind.dtype.short, [*map(plain, kind.shape)]]
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
            self.sizes = sizes = _sizes_in(rows.get("sizes"))
            self.types = [
                tensor_type(BY_SHORT[dtype], tuple([_size(size, sizes) for size in shape]))
                for dtype, shape in rows["types"]
            ]
            self.places = [
                Location(_text(path), _size(line), _text(text))
                for path, line, text in rows["places"]
            ]
            self.attrs = [
                {_text(name): value_of(value, sizes) for name, value in row.items()}
                for row in rows["attrs"]
            ]
            self.graphs: list[Graph] = []
            self._given: dict[tuple[str, int], Attrs] = {}
            for row in rows["graphs"]:  # regions come before the graphs whose nodes own them
                self.graphs.append(self._graph(*row))
            if sizes is not None:
                _ask(sizes, rows["sizes"]["conditions"])
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
