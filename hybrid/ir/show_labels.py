"""What drawings of graphs write into their boxes."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.ir.graph import Node, Value
from hybrid.ir.printer import place_of, print_attribute

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
