"""Print a graph as text; ``parser.py`` reads it back.

::

    graph @f(%x: f32[2,3], %y: f32[3]) {
      %a: f32[2] = sum %x {axis=(1,), keepdims=false}
      %r: f32[3] = map %y {
        (%v: f32[3]) {
          %0: f32[3] = exp %v
          return %0
        }
      }
      return %a, %r
    }

Symbols of open types are listed first: ``graph @f<n = 37>(%x: f32[n,3]) {``, each with its value
at the call at hand, and its range if that is not 2 and more.

The regions of control flow print under their names: ``then(%x: f32[]) {``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import HIGHEST, LOWEST
from hybrid.core.types import DType, TensorType
from hybrid.errors import Location
from hybrid.ir.graph import Graph, Node, Value, sizes_of

_NAME = re.compile(r"(?!(?:inf|nan)$)[A-Za-z_]\w*", re.ASCII)  # those two are numbers
_LOCATION_COLUMN = 64
# Attributes that few loops have: where they are as in all others they are not shown.
UNSHOWN: dict[str, Any] = {"overruns": False, "apart": 0, "follows": (), "begins": ()}

Line = tuple[str, "Node | Graph"]


def print_graph(graph: Graph, *, locations: bool = False) -> str:
    """The text of ``graph``; with ``locations``, each node's place in the source as a comment."""
    lines = []
    for text, source in print_lines(graph):
        if locations and isinstance(source, Node) and source.location and text.strip() != "}":
            text = f"{text:<{_LOCATION_COLUMN}}  # {place_of(source.location)}"
        lines.append(text)
    return "\n".join(lines)


def place_of(location: Location) -> str:
    """``file:line``, from the current directory when the file lies in it."""
    here = os.getcwd() + os.sep
    return f"{location.path.removeprefix(here)}:{location.line}"


def print_lines(graph: Graph) -> Iterator[Line]:
    """Each line of the text with the node that it prints, or the graph."""
    head = "graph @" + (_graph_name(graph.name) or '""')
    yield from _graph_lines(graph, head + _symbols(graph), "")


def _symbols(graph: Graph) -> str:
    """``<n = 37, m = 12 from 1 to 512>``: the symbols of open types, values and ranges."""
    sizes = sizes_of(graph)
    if sizes is None:
        return ""
    parts = []
    for symbol in sizes.symbols:
        least = "" if symbol.low == LOWEST else f" from {symbol.low}"
        most = "" if symbol.high == HIGHEST else f" to {symbol.high}"
        parts.append(f"{symbol.name} = {symbol.value}{least}{most}")
    return f"<{', '.join(parts)}>"


def _graph_lines(graph: Graph, head: str, indent: str) -> Iterator[Line]:
    names = names_of(graph)
    yield f"{indent}{head}({_typed(graph.params, names)}) {{", graph
    for node in graph.nodes:
        yield from _node_lines(node, names, indent + "  ")
    yield f"{indent}  return {_listed(graph.results, names)}".rstrip(), graph
    yield f"{indent}}}", graph


def _node_lines(node: Node, names: dict[Value, str], indent: str) -> Iterator[Line]:
    parts = [node.op.name]
    if node.results:
        parts.insert(0, f"{_typed(node.results, names)} =")
    if node.operands:
        parts.append(_listed(node.operands, names))
    if node.attrs:
        attrs = [(name, value) for name, value in node.attrs if UNSHOWN.get(name, ...) != value]
        shown = ", ".join([f"{name}={print_attribute(value)}" for name, value in attrs])
        parts.append(f"{{{shown}}}")
    if not node.regions:
        yield indent + " ".join(parts), node
        return
    yield indent + " ".join(parts) + " {", node
    for region in node.regions:
        yield from _graph_lines(region, _graph_name(region.name), indent + "  ")
    yield indent + "}", node


def _typed(values: Sequence[Value], names: dict[Value, str]) -> str:
    return ", ".join([f"%{names[v]}: {v.type}" for v in values])


def _listed(values: Sequence[Value], names: dict[Value, str]) -> str:
    """A value that is defined nowhere prints as ``%?name``, which does not parse."""
    return ", ".join(["%" + (names.get(v) or f"?{v.hint}") for v in values])


def _graph_name(name: str) -> str:
    return name if not name or _NAME.fullmatch(name) else json.dumps(name)


def names_of(graph: Graph) -> dict[Value, str]:
    """A name for each value that ``graph`` defines: its hint made unique, or a number."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    last_suffix: dict[str, int] = {}  # so that n values of one hint take n steps, not n * n
    values = [*graph.params, *(v for node in graph.nodes for v in node.results)]
    unnamed = 0
    for value in values:
        if value in names:
            continue
        hint = value.hint
        if not _NAME.fullmatch(hint):
            names[value] = str(unnamed)
            unnamed += 1
            continue
        name = hint
        while name in taken:
            last_suffix[hint] = last_suffix.get(hint, 0) + 1
            name = f"{hint}_{last_suffix[hint]}"
        taken.add(name)
        names[value] = name
    return names


def print_attribute(value: Any) -> str:
    """``value`` as text; what has no text form prints as ``<...>``, which does not parse."""
    kind = type(value)
    if value is None or kind is bool:
        return str(value).lower()
    if kind is int or issubclass(kind, float):
        return repr(value)
    if issubclass(kind, SizeValue):
        return str(value)
    if kind is str:
        return json.dumps(value)
    if kind is bytes:
        return "0x" + value.hex()
    if kind is tuple:
        items = [print_attribute(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, DType):
        return value.short
    if isinstance(value, TensorType):
        return str(value)
    if callable(value):
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
    return f"<{value!r}>"
