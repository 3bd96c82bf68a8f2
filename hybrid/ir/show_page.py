"""A graph as one HTML page of nested boxes: no script, nothing to fetch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape

from hybrid.ir.graph import Graph, Node, Value
from hybrid.ir.printer import names_of, place_of
from hybrid.ir.show_dot import attributes_of, kind, tooltip, typed

MANY = 2000  # nodes, of which a notebook is spared
PAGE_STYLE = """
  body { margin: 1.5em; }
"""
STYLE = """
  .hybrid-graph { color-scheme: light dark; --line: #94a3b8; --box: #ffffff; --ends: #dbeafe;
    --constant: #e5e7eb; --call: #fde68a; --region: #f1f5f9; --faint: #64748b; color: #0f172a;
    font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
  @media (prefers-color-scheme: dark) { .hybrid-graph { --line: #475569; --box: #1e293b;
    --ends: #1e3a5f; --constant: #374151; --call: #78540a; --region: #0f172a; --faint: #94a3b8;
    color: #e2e8f0; } }
  .hybrid-graph h1 { font-size: 1.2em; }
  .hybrid-graph .box { background: var(--box); border: 1px solid var(--line); border-radius: 6px;
    margin: 4px 0; padding: 2px 8px; width: fit-content; max-width: 100%; }
  .hybrid-graph .ends { background: var(--ends); }
  .hybrid-graph .constant { background: var(--constant); }
  .hybrid-graph .call { background: var(--call); }
  .hybrid-graph summary { cursor: pointer; }
  .hybrid-graph .regions { display: flex; flex-wrap: wrap; gap: 8px; align-items: flex-start;
    margin: 4px 0; }
  .hybrid-graph .region { background: var(--region); border: 1px dashed var(--line);
    border-radius: 6px; padding: 4px 8px; }
  .hybrid-graph .faint { color: var(--faint); }
  .hybrid-graph .place { color: var(--faint); padding-left: 2em; }
"""


def page(graph: Graph) -> str:
    """The page of ``graph``: its text, every region in a box that can be closed."""
    title = escape(f"@{graph.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"{_drawn(graph)}\n</body>\n</html>\n"
    )


def graph_fragment(graph: Graph) -> str:
    """The page without what surrounds it, for a notebook."""
    count = len(list(itertools.islice(graph.walk(), MANY + 1)))
    if count <= MANY:
        return _drawn(graph)
    return f"<pre>{escape(repr(graph))}: too many to draw here; show() draws them into a file</pre>"


def _drawn(graph: Graph) -> str:
    body = "\n".join(_graph_lines(graph, graph.name and f"@{graph.name}"))
    title = escape(f"@{graph.name}")
    return f'<style>{STYLE}</style>\n<div class="hybrid-graph">\n<h1>{title}</h1>\n{body}\n</div>'


def _graph_lines(graph: Graph, name: str) -> Iterator[str]:
    names = names_of(graph)
    yield _box(escape(f"{name}({', '.join(typed(graph.params, names))})"), "ends")
    for node in graph.nodes:
        yield from _node_lines(node, names)
    yield _box(escape(f"return {_listed(graph.results, names)}"), "ends")


def _node_lines(node: Node, names: dict[Value, str]) -> Iterator[str]:
    head = _head(node, names)
    if not node.regions:
        yield _box(head, kind(node), tooltip(node))
        return
    tip = escape(tooltip(node), quote=True)
    yield f'<details open class="box {kind(node)}"><summary title="{tip}">{head}</summary>'
    yield '<div class="regions">'
    for region in node.regions:
        yield '<div class="region">'
        yield from _graph_lines(region, region.name)
        yield "</div>"
    yield "</div></details>"


def _head(node: Node, names: dict[Value, str]) -> str:
    given = f"{escape(', '.join(typed(node.results, names)))} = " if node.results else ""
    operands = escape(_listed(node.operands, names))
    attrs = escape(", ".join(attributes_of(node)))
    attrs = f' <span class="faint">{{{attrs}}}</span>' if attrs else ""
    place = escape(place_of(node.location)) if node.location else ""
    place = f'<span class="place">{place}</span>' if place else ""
    return f"{given}<b>{escape(node.op.name)}</b> {operands}{attrs}{place}"


def _listed(values: Sequence[Value], names: dict[Value, str]) -> str:
    return ", ".join([f"%{names[v]}" for v in values])


def _box(text: str, fill: str, tip: str = "") -> str:
    title = f' title="{escape(tip, quote=True)}"' if tip else ""
    return f'<div class="box {fill}"{title}>{text}</div>'
