"""Aliases of list items: other names of the rows that a loop stacks, known statically.

::

    for x in xs:
        old.append(h)       item 0 is what h was before the loop, item i + 1 is item i of new
        h = cell(x, h)
        new.append(h)       the last item is what h is after the loop
"""

from __future__ import annotations

from collections.abc import Iterator

from hybrid.core.dataclass import dataclass
from hybrid.ir import Graph, Node
from hybrid.ops.flow.control import for_
from hybrid.ops.shapes.creation import fill


@dataclass(frozen=True, slots=True)
class RowTies:
    """The ties of one stack: other stacks, and carried values, with the same rows."""

    duplicate_of: int = -1  # an earlier stack of the same values
    behind: int = -1  # the stack whose items these are, one iteration later
    first: int = -1  # the carried value that is the first item before the loop
    ends: tuple[tuple[int, int], ...] = ()  # carried values after it: items so far from the last


def row_ties(body: Graph, carried: int) -> dict[int, RowTies]:
    """The ties of each stacked result of ``body(i, carried..., ...)`` that has any."""
    found = {}
    results, params = body.results, body.params[1 : 1 + carried]
    for at in range(carried, len(results)):
        row = results[at]
        first = params.index(row) if row in params else -1
        if first >= 0 and results[first] is row:
            first = -1  # it never changes
        earliest = results.index(row, carried)
        ties = RowTies(
            earliest if earliest < at else -1,
            _index(results, results[first], carried, len(results)) if first >= 0 else -1,
            first,
            tuple(_ends(results, params, row)),
        )
        if ties != RowTies():
            found[at] = ties
    return found


def _ends(results: tuple, params: tuple, row: object) -> Iterator[tuple[int, int]]:
    """The carried values that are the last ``row`` of a stack after the loop, or one before it."""
    found: set[int] = set()
    for far in range(len(params)):
        at = _index(results, row, 0, len(params))
        if at < 0 or at in found:
            return
        found.add(at)
        yield at, far
        row = params[at]


def _index(results: tuple, value: object, start: int, stop: int) -> int:
    return next((i for i in range(start, stop) if results[i] is value), -1)


def same_item(node: Node, count: Node | None, result: int, at: int) -> tuple[str, int, int] | None:
    """Another name of item ``at`` of the stack that is a ``result`` of ``node``; or None.

    That is a "result" (of which index) or "operand"; or an "item" of another stack (and where).
    ``count`` is the node that makes the number of iterations.
    """
    if node.op is not for_ or count is None or count.op is not fill:
        return None
    attrs, length = node.attributes, count.attributes["value"]
    if attrs["reverse"] or length != attrs["length"]:
        return None
    ties = row_ties(node.regions[0], attrs["carried"]).get(result)
    if ties is None:
        return None
    for carried, far in ties.ends:
        if at == length - 1 - far:
            return "result", carried, 0
    if ties.first >= 0 and at == 0:
        return "operand", 1 + ties.first, 0
    if ties.behind >= 0:
        return "item", ties.behind, at - 1
    return ("item", ties.duplicate_of, at) if ties.duplicate_of >= 0 else None
