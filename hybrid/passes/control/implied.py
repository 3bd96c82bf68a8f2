"""What the truth of one flag says of others."""

from __future__ import annotations

from collections.abc import Callable

from hybrid.ir import Node, Value
from hybrid.ops.flow.control import FLAG

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
