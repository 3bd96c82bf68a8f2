"""A graph in the language of Graphviz: a cluster per region, an edge per use of a value.

What stands in the boxes is what pages write into theirs (``show_page.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.ir.graph import Graph, Node, Value
from hybrid.ir.printer import names_of, place_of, print_attribute

FILLS = {"op": "#ffffff", "constant": "#e5e7eb", "call": "#fde68a", "ends": "#dbeafe"}
CLUSTER_FILLS = ("#f1f5f9", "#e2e8f0")  # of nested clusters, in turn

HEAD = """\
  graph [fontname="Helvetica", fontsize=11, labeljust=l, nodesep=0.25, ranksep=0.3];
  node [fontname="Helvetica", fontsize=10, shape=box, style="rounded,filled", height=0.3,
        fillcolor="#ffffff", color="#64748b", margin="0.1,0.05"];
  edge [fontname="Helvetica", fontsize=9, color="#64748b", arrowsize=0.6];
"""


def dot_source(graph: Graph) -> str:
    """The drawing of ``graph`` as Graphviz reads it."""
    drawing = _Drawing()
    drawing.graph(graph, 1)
    body = "\n".join([*drawing.lines, *drawing.edges])
    return f"digraph {_quoted(graph.name)} {{\n{HEAD}{body}\n}}\n"


class _Drawing:
    """The lines of a drawing; boxes are named by numbers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.edges: list[str] = []
        self._count = 0

    def graph(self, graph: Graph, depth: int) -> tuple[list[str], str]:
        """Draw the insides of ``graph``; the boxes of its parameters, and of its return."""
        names = names_of(graph)
        indent = "  " * depth
        boxes: dict[Value, str] = {}
        for param in graph.params:
            boxes[param] = self.box(indent, typed([param], names), "ends")
        for node in graph.nodes:
            draw = self.cluster if node.regions else self.plain
            box = draw(node, names, boxes, depth)
            boxes.update(dict.fromkeys(node.results, box))
        end = self.box(indent, ["return"], "ends")
        for value in graph.results:
            self.edge(boxes[value], end, value, names)
        return [boxes[param] for param in graph.params], end

    def plain(
        self, node: Node, names: dict[Value, str], boxes: dict[Value, str], depth: int
    ) -> str:
        """A node without regions; its box."""
        lines = [node.op.name, *attributes_of(node), *typed(node.results, names)]
        box = self.box("  " * depth, lines, kind(node), tooltip(node))
        for value in node.operands:
            self.edge(boxes[value], box, value, names)
        return box

    def cluster(
        self, node: Node, names: dict[Value, str], boxes: dict[Value, str], depth: int
    ) -> str:
        """A node with regions: what it takes on top, its regions, what it gives below."""
        indent = "  " * depth
        self._count += 1
        fill = CLUSTER_FILLS[depth // 2 % 2]
        self.lines.append(f"{indent}subgraph cluster_{self._count} {{")
        self.lines.append(
            f'{indent}  label=""; style="rounded,filled"; color="#475569"; '
            f'fillcolor="{fill}"; tooltip={_quoted(tooltip(node))};'
        )
        lines = [node.op.name, *attributes_of(node)]
        head = self.box(indent + "  ", lines, kind(node), tooltip(node))
        ends = [self.region(region, head, depth + 1) for region in node.regions]
        foot = self.box(indent + "  ", typed(node.results, names) or ["done"], "ends")
        self.lines.append(indent + "}")
        for value in node.operands:
            self.edge(boxes[value], head, value, names)
        for end in ends:
            self.edges.append(f"  {end} -> {foot} [style=dashed];")
            if "carried" in node.attributes:
                self.edges.append(f'  {end} -> {head} [style=dotted, xlabel="next"];')
        return foot

    def region(self, region: Graph, head: str, depth: int) -> str:
        """The cluster of one region; the box of its return."""
        indent = "  " * depth
        self._count += 1
        self.lines.append(f"{indent}subgraph cluster_{self._count} {{")
        self.lines.append(
            f'{indent}  label={_quoted(region.name)}; style="rounded,filled"; color="#94a3b8"; '
            f'fillcolor="#ffffff"; tooltip={_quoted(region.name)};'
        )
        params, end = self.graph(region, depth + 1)
        self.lines.append(indent + "}")
        for box in params or [end]:
            self.edges.append(f"  {head} -> {box} [style=dashed];")
        return end

    def box(self, indent: str, lines: Sequence[str], fill: str, tip: str = "") -> str:
        self._count += 1
        name = f"n{self._count}"
        label = _quoted("\n".join(lines))
        tip = _quoted(tip or lines[0])
        self.lines.append(
            f'{indent}{name} [label={label}, tooltip={tip}, fillcolor="{FILLS[fill]}"];'
        )
        return name

    def edge(self, source: str, target: str, value: Value, names: dict[Value, str]) -> None:
        tip = _quoted(f"%{names[value]}: {value.type}")
        self.edges.append(f"  {source} -> {target} [tooltip={tip}];")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


MAX_ATTRIBUTE = 40  # characters; the bytes of a literal are longer


def attributes_of(node: Node) -> list[str]:
    """``name=value`` for each attribute, long values cut short."""
    return [f"{name}={_short(print_attribute(value))}" for name, value in node.attrs]


def _short(text: str) -> str:
    return text if len(text) <= MAX_ATTRIBUTE else text[: MAX_ATTRIBUTE - 3] + "..."


def typed(values: Sequence[Value], names: dict[Value, str]) -> list[str]:
    """``%name: type`` for each value."""
    return [f"%{names[v]}: {v.type}" for v in values]


def tooltip(node: Node) -> str:
    """The place that ``node`` comes from and the line that stands there."""
    if node.location is None:
        return node.op.name
    place, text = place_of(node.location), node.location.text.strip()
    return f"{place}\n{text}" if text else place


def kind(node: Node) -> str:
    """What a box is coloured by: "call" into the world, "constant", or "op"."""
    if not node.op.pure:
        return "call"
    return "op" if node.operands or node.regions else "constant"
