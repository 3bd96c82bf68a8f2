"""Loops over rows as nodes among others: their bodies, and a node that ties each to its outside.

Before, the body being a region that is closed::

    %h, %rows = for %n, %start, %xs, %w {carried=1, length=5, sliced=1} {
      body(%i, %carry, %x, %v) {
        %y = matmul_nt %carry, %v
        %z = add %x, %y
        return %z, %z
      }
    }

After, with what does not change in the place of its name within::

    %y = matmul_nt %carry, %w
    %z = add %x, %y
    %h, %rows, %carry, %x = for %start, %xs, %z, %z

Axes of what is carried run through ``start``, ``carry``, ``z`` and ``h``; the rows of ``xs`` and
``rows`` are ``x`` and ``z``.  Units of a recurrent layer are found so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybrid.core.dataclass import dataclass, replace
from hybrid.ir import Node, Value
from hybrid.ops.flow.control import for_
from hybrid.ops.support.axis_ties import Tie, along


@dataclass(frozen=True)
class LoopBody:
    """What happens in a loop: its nodes, and what its node reads and makes at which places."""

    nodes: tuple[Node, ...]  # loops within are nodes of these, with bodies of their own
    carried: tuple[tuple[Value, Value, Value, Value], ...]  # start, within, its next, at the end
    sliced: tuple[tuple[Value, Value], ...]  # rows, and one of them
    stacked: tuple[tuple[Value, Value], ...]  # a row, and all of them

    def ties(self, node: Node) -> list[Tie]:
        """The ties of the ``node`` that stands for the loop."""
        operands, results = ([v.type for v in values] for values in (node.operands, node.results))
        carried, sliced = len(self.carried), len(self.sliced)
        first = len(self.carried) + len(self.stacked)  # of what is within, among results
        found = []
        for at, (start, _, _, _) in enumerate(self.carried):
            places = (at, carried + sliced + at, ~at, ~(first + at))
            for axis in range(start.type.rank):
                found.append(along(operands, results, [(place, axis) for place in places]))
        for at, (_, row) in enumerate(self.sliced):
            for axis in range(row.type.rank):
                pairs = [(carried + at, axis + 1), (~(first + carried + at), axis)]
                found.append(along(operands, results, pairs))
        for at, (row, _) in enumerate(self.stacked, carried):
            for axis in range(row.type.rank):
                pairs = [(carried + sliced + at, axis), (~at, axis + 1)]
                found.append(along(operands, results, pairs))
        return found


class OpenedLoops:
    """The nodes of a graph, those of loops' bodies among them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.loops: dict[Node, LoopBody] = {}
        self.nodes: list[Node] = []  # all of them, those of a body before their loop
        self.top = self._opened(nodes, {})

    def _opened(self, nodes: Sequence[Node], names: Mapping[Value, Value]) -> tuple[Node, ...]:
        """``nodes`` with other ``names`` for some values, and loops opened."""
        found = []
        for node in nodes:
            if any(operand in names for operand in node.operands):
                node = replace(node, operands=tuple([names.get(v, v) for v in node.operands]))
            if node.op is for_:
                node = self._loop(node, names)
            found.append(node)
            self.nodes.append(node)
        return tuple(found)

    def _loop(self, node: Node, names: Mapping[Value, Value]) -> Node:
        attrs = node.attributes
        count, sliced = attrs["carried"], attrs["sliced"]
        (body,) = node.regions
        given, within = node.operands[1:], body.params[1:]
        fixed = dict(zip(within[count + sliced :], given[count + sliced :], strict=True))
        names = {**names, **fixed}
        inner = self._opened(body.nodes, names)
        made = tuple([names.get(v, v) for v in body.results])
        ends = zip(given[:count], within[:count], made[:count], node.results[:count], strict=True)
        rows = slice(count, count + sliced)
        loop = Node(
            node.op,
            (*given[: count + sliced], *made),
            node.attrs,
            (*node.results, *within[: count + sliced]),
            (),
            node.location,
        )
        self.loops[loop] = LoopBody(
            nodes=inner,
            carried=tuple(ends),
            sliced=tuple(zip(given[rows], within[rows], strict=True)),
            stacked=tuple(zip(made[count:], node.results[count:], strict=True)),
        )
        return loop
