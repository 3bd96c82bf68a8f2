"""Graph, Node, Value: typed static single assignment.

A Value is defined once, as a parameter of a graph or a result of a node.  Control-flow nodes own
closed regions: graphs that use nothing but their own parameters and nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.core.imports import above
from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType
from hybrid.errors import Location
from hybrid.ir.op import Op, has_size

Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A typed name; equal to itself only.  ``hint`` is what the printer would like to call it."""

    type: TensorType
    hint: str = ""
    location: Location | None = None

    def __repr__(self) -> str:
        return f"<%{self.hint or '?'}: {self.type}>"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One application of an op; equal to itself only."""

    op: Op
    operands: tuple[Value, ...]
    attrs: Attrs
    results: tuple[Value, ...]
    regions: tuple[Graph, ...] = ()
    location: Location | None = None

    @property
    def pure(self) -> bool:
        """Whether the node, with all it owns, only computes its results."""
        return self.op.pure and (not self.regions or all([r.pure for r in self.regions]))

    @property
    def observable(self) -> bool:
        """Whether it shows, in the world or by an error, that the node ran: how often, and when."""
        op = self.op
        shows = not op.pure or op.raises
        return shows or (bool(self.regions) and any([r.observable for r in self.regions]))

    @property
    def is_open(self) -> bool:
        """Whether it computes with sizes of open axes: of its types, or as attributes."""
        values = (*self.operands, *self.results)
        return any([v.type.is_open for v in values]) or any([has_size(a) for _, a in self.attrs])

    @property
    def key(self) -> Hashable:
        """Equal for nodes that compute the same.

        That is: the same op, operands and attributes.  Operands of an op that commutes may stand in
        either order, but not if the result is floating: of two NaN the first gives its bits.
        """
        operands: Hashable = self.operands
        types = tuple([v.type for v in self.results])
        if self.op.commutative and len(operands) == 2 and not types[0].dtype.is_floating:
            operands = tuple(sorted(self.operands, key=id))
        return self.op, operands, _typed(self.attrs) if self.attrs else (), types, self.regions

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.attrs)


def _typed(value: Any) -> Any:
    """``value`` such that 1, 1.0, True, 0.0 and -0.0 stay apart as keys."""
    if isinstance(value, tuple):
        return tuple([_typed(item) for item in value])
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Parameters, nodes in order, and the values returned."""

    name: str
    params: tuple[Value, ...]
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]
    # What was worked out from the graph, by what that is: it goes when the graph goes.
    derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def pure(self) -> bool:
        """Whether all nodes are."""
        found = self.derived.get("pure")
        if found is None:
            found = self.derived["pure"] = all(node.pure for node in self.nodes)
        return found

    @property
    def observable(self) -> bool:
        """Whether a node is."""
        found = self.derived.get("observable")
        if found is None:
            found = self.derived["observable"] = any(node.observable for node in self.nodes)
        return found

    def __str__(self) -> str:
        return above.print_graph(self)

    def show(self, path: str | PathLike[str] | None = None) -> Path:
        """Draw the graph, regions nested, into an SVG or HTML file; see ``hybrid/ir/show.py``."""
        return above.show_graph(self, path)

    def _repr_html_(self) -> str:
        """The nested boxes of the page that ``show`` draws, for notebooks."""
        return above.graph_fragment(self)

    def __repr__(self) -> str:
        sizes = f"{len(self.params)} in, {len(self.nodes)} nodes, {len(self.results)} out"
        return f"<graph @{self.name}: {sizes}>"

    def __eq__(self, other: object) -> bool:
        """Same structure: equal after renaming values; locations and hints do not count."""
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or structure(self) == structure(other)

    def __hash__(self) -> int:
        # Coarse, for it is asked often: equal hashes are followed by a comparison.
        types = tuple([v.type for v in (*self.params, *self.results)])
        return hash((self.name, types, tuple([node.op.name for node in self.nodes])))

    def walk(self) -> Iterator[Node]:
        """All nodes, those of regions included, owners first."""
        rest = [iter(self.nodes)]  # no recursion: each level of it would hand on every node
        while rest:
            for node in rest[-1]:
                yield node
                if node.regions:
                    rest += [iter(region.nodes) for region in reversed(node.regions)]
                    break
            else:
                rest.pop()


def sizes_of(graph: Graph) -> OpenSizes | None:
    """The symbols of ``graph``; None where neither its types nor its attributes are open."""
    for value in (*graph.params, *(v for node in graph.nodes for v in node.results)):
        if value.type.is_open:
            return value.type.scope
    for node in graph.walk():
        for result in node.results:
            if result.type.is_open:
                return result.type.scope
        for _, value in node.attrs:
            for item in value if type(value) is tuple else (value,):
                if isinstance(item, SizeValue):
                    return item.scope
    return None


def open_numbers(graph: Graph) -> Iterator[SizeValue]:
    """The sizes, and numbers made of sizes, in the types and attributes of ``graph``."""
    for value in (*graph.params, *[v for node in graph.nodes for v in node.results]):
        yield from [n for n in value.type.shape if isinstance(n, SizeValue)]
    for node in graph.nodes:
        for _, attribute in node.attrs:
            yield from _open_numbers_of(attribute)
        for region in node.regions:
            yield from open_numbers(region)


def _open_numbers_of(value: Any) -> Iterator[SizeValue]:
    if type(value) is tuple:
        for item in value:
            yield from _open_numbers_of(item)
    elif isinstance(value, SizeValue):
        yield value


def structure(graph: Graph) -> Hashable:
    """``graph`` as nested tuples with values replaced by their order of definition."""
    number: dict[Value, int] = {}
    for value in graph.params:
        number[value] = len(number)
    rows = []
    for node in graph.nodes:
        rows.append(
            (
                node.op.name,
                tuple(number.get(v, -1) for v in node.operands),
                _typed(node.attrs),
                tuple(v.type for v in node.results),
                tuple(structure(region) for region in node.regions),
            )
        )
        for value in node.results:
            number[value] = len(number)
    return (
        graph.name,
        tuple(v.type for v in graph.params),
        tuple(rows),
        tuple(number.get(v, -1) for v in graph.results),
    )
