"""Shared histories: which results of a graph have come of a common operation, and of which inputs.

``backward()`` of one result of a call frees the histories of those that share an operation with it,
and of no others::

    a = (w * w).sum()
    b = (v * 3).sum()  # a.backward(); b.backward() is no error
    c = a * b  # c.backward(); a.backward() is one

Sets of results are the bits of an integer.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from operator import or_

from hybrid.autodiff.flow import control_flows, node_flows
from hybrid.ir import Graph, Node, Value
from hybrid.ops.flow.control import CONTROL
from hybrid.ops.index.items import item

MOST_ITEMS = 256  # iterations of a loop that makes a list, to be looked at one by one


class SharedHistories:
    """The histories of the results ``outputs`` of ``graph`` as functions of its ``inputs``.

    ``recorded`` are the values that have one; None: all that gradients reach.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[int],
        outputs: Sequence[int],
        recorded: Collection[Value] | None,
    ) -> None:
        self._sharing = [1 << at for at in range(len(outputs))]
        wanted = [0] * len(graph.results)
        for at, index in enumerate(outputs):
            wanted[index] |= 1 << at
        flows = [index in inputs for index in range(len(graph.params))]
        reached = self._sources(graph, flows, wanted, recorded)
        self._reached = [reached[index] for index in inputs]

    def sharing(self, output: int) -> set[int]:
        """The outputs whose histories share an operation with that of ``output``: itself, too."""
        return _members(self._sharing[output])

    def inputs_of(self, output: int) -> list[int]:
        """The inputs that gradients of ``output`` reach, as positions among the inputs."""
        return [at for at, mask in enumerate(self._reached) if mask >> output & 1]

    def _sources(
        self,
        graph: Graph,
        flows: Sequence[bool],
        wanted: Sequence[int],
        recorded: Collection[Value] | None = None,
    ) -> list[int]:
        """The sets of results that each parameter of ``graph`` reaches.

        ``flows`` says which parameters have a history, ``wanted`` what each of its results is in.
        """
        has = dict(zip(graph.params, flows, strict=True))
        for node in graph.nodes:
            found = node_flows(node, [has[v] for v in node.operands])
            for value, flow in zip(node.results, found, strict=True):
                kept = recorded is None or value in recorded
                has[value] = flow and kept and value.type.floating
        reached = dict.fromkeys(has, 0)
        rows: dict[Value, dict[int, int]] = {}  # of lists: the sets that their items are in
        for value, mask in zip(graph.results, wanted, strict=True):
            reached[value] |= mask if has[value] else 0
        for node in reversed(graph.nodes):
            masks = [reached[value] for value in node.results]
            if node.op is item and has[node.results[0]] and type(node.attributes["at"]) is int:
                known = rows.setdefault(node.operands[0], {})
                at = node.attributes["at"]
                known[at] = known.get(at, 0) | masks[0]
                continue
            items = [rows.get(value, {}) for value in node.results]
            if any(masks) or any(items):
                found = self._through(node, [has[v] for v in node.operands], masks, items)
                for value, mask in zip(node.operands, found, strict=True):
                    reached[value] |= mask if has[value] else 0
        return [reached[param] for param in graph.params]

    def _through(
        self,
        node: Node,
        flows: Sequence[bool],
        masks: Sequence[int],
        items: Sequence[Mapping[int, int]],
    ) -> list[int]:
        """The sets that the operands of ``node`` are in, given those of its results and items."""
        attrs = node.attributes
        counted = node.op.name == "for" and any(items) and type(attrs["length"]) is int
        if counted and attrs["length"] <= MOST_ITEMS:
            return self._through_iterations(node, flows, masks, items)
        each = zip(masks, items, strict=True)
        masks = [functools.reduce(or_, own.values(), mask) for mask, own in each]
        source = node.op.record_of
        if source is not None:
            return [masks[0] if at == source else 0 for at in range(len(flows))]
        if node.op.name == "cond" and node.op in CONTROL:
            both = [self._sources(region, flows[1:], masks) for region in node.regions]
            return [0, *[a | b for a, b in zip(*both, strict=True)]]
        if node.op in CONTROL:
            return self._through_loop(node, flows, masks)
        whole = 0
        for mask in masks:
            whole |= mask
        for at in _members(whole):
            self._sharing[at] |= whole
        return [whole] * len(flows)

    def _through_iterations(
        self,
        node: Node,
        flows: Sequence[bool],
        masks: Sequence[int],
        items: Sequence[Mapping[int, int]],
    ) -> list[int]:
        """``_through`` a loop of known length, an iteration at a time."""
        n, length = node.attributes["carried"], node.attributes["length"]
        rest, carried = _loop_flows(node, flows), list(masks[:n])
        others = [0] * (len(rest) - n)
        for at in range(length) if node.attributes["reverse"] else reversed(range(length)):
            wanted = [m | own.get(at, 0) for m, own in zip(masks[n:], items[n:], strict=True)]
            reached = self._sources(node.regions[0], [False, *rest], [*carried, *wanted])[1:]
            carried = reached[:n]
            others = [a | b for a, b in zip(others, reached[n:], strict=True)]
        return [0, *carried, *others]

    def _through_loop(self, node: Node, flows: Sequence[bool], masks: Sequence[int]) -> list[int]:
        n, skip = node.attributes["carried"], int(node.op.name == "while")
        rest = _loop_flows(node, flows)
        wanted, first = list(masks[skip:]), [False] * (1 - skip)
        while True:  # until an iteration asks for no more than what comes behind it
            reached = self._sources(node.regions[0], [*first, *rest], [*[0] * skip, *wanted])
            reached = reached[1 - skip :]
            settled = [a | b for a, b in zip(wanted[:n], reached[:n], strict=True)]
            if settled == wanted[:n]:
                return [0, *settled, *reached[n:]]
            wanted[:n] = settled


def _loop_flows(node: Node, flows: Sequence[bool]) -> list[bool]:
    """The flags of the parameters of a loop's body, the index left out, that have a history."""
    n, skip = node.attributes["carried"], int(node.op.name == "while")
    found = control_flows(node.op, flows, node.attributes, node.regions)
    return [*found[skip : skip + n], *flows[1 + n :]]


def _members(mask: int) -> set[int]:
    return {at for at in range(mask.bit_length()) if mask >> at & 1}
