"""What passes know of values: their nodes, which are constant, and what one flag says of others."""

from __future__ import annotations

import math
from collections.abc import Callable

from hybrid.core.size_functions import SizeValue
from hybrid.ir import Node, Value
from hybrid.ops.flow.control import FLAG

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
        if number is None or isinstance(number, SizeValue):  # nothing is asked of sizes
            return False
        return number == 0 and math.copysign(1, number) > 0


Defining = Callable[[Value], "Node | None"]


def implied(value: Value, truth: bool, defining: Defining) -> dict[Value, bool]:
    """The flags that are known where ``value`` is ``truth``, itself among them.

    If ``p and not q`` holds then p is true and q is false; if a branch of a cond returns false and
    the result is true, then the other branch was taken.
    """
    found: dict[Value, bool] = {}
    waiting = [(value, truth)]
    while waiting:
        value, truth = waiting.pop()
        if value in found or value.type is not FLAG:
            continue
        found[value] = truth
        node = defining(value)
        if node is None:
            continue
        match node.op.name, truth:
            case ("logical_not", _):
                waiting.append((node.operands[0], not truth))
            case ("logical_and", True) | ("logical_or", False):
                waiting += [(operand, truth) for operand in node.operands]
            case ("cond", _):
                waiting += _taken(node, node.results.index(value), truth)
    return found


def _taken(node: Node, result: int, truth: bool) -> list[tuple[Value, bool]]:
    """What the predicate of a cond must have been for the result to be ``truth``."""
    for region, other in zip(node.regions, (False, True), strict=True):
        value = region.results[result]
        constants = {n.results[0]: n for n in region.nodes if n.op.name == "full"}
        if value in constants and bool(constants[value].attributes["value"]) != truth:
            return [(node.operands[0], other)]
    return []
