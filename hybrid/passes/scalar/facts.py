"""What passes know of values: the node that defines each, and which are constant."""

from __future__ import annotations

import math

from hybrid.ir import Node, Value

CONSTANTS = ("full", "literal")


class Facts:
    """The definitions seen so far, as a rule walks a graph."""

    def __init__(self) -> None:
        self._defined: dict[Value, Node] = {}

    def add(self, node: Node) -> None:
        for value in node.results:
            self._defined[value] = node

    def defining(self, value: Value) -> Node | None:
        """The node that defines ``value``; None for a parameter."""
        return self._defined.get(value)

    def by(self, op_name: str, value: Value) -> Node | None:
        """The node that defines ``value`` if it is an ``op_name``."""
        node = self._defined.get(value)
        return node if node is not None and node.op.name == op_name else None

    def repeats(self, value: Value) -> bool:
        """Whether ``value`` holds repeated elements of a smaller one."""
        node = self._defined.get(value)
        return node is not None and (
            node.op.name == "broadcast_to" or (node.op.name == "full" and value.type.rank > 0)
        )

    def constant(self, value: Value) -> Node | None:
        """The ``full`` or ``literal`` that defines ``value``."""
        node = self._defined.get(value)
        return node if node is not None and node.op.name in CONSTANTS else None

    def number(self, value: Value) -> bool | int | float | None:
        """What every element of ``value`` is, when a ``full`` says so."""
        node = self.by("full", value)
        return None if node is None else node.attributes["value"]

    def is_one(self, value: Value) -> bool:
        return self.number(value) == 1

    def is_zero(self, value: Value) -> bool:
        """Whether every element is 0, and not -0.0."""
        number = self.number(value)
        return number is not None and number == 0 and math.copysign(1, number) > 0
