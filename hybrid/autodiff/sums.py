"""Accumulation of cotangents as running sums, where no value may be an alias."""

from __future__ import annotations

import heapq

from hybrid.autodiff.origins import Node
from hybrid.autodiff.presence import Ct, added
from hybrid.ir.record import AnyRecord, Output, Record


class Sums:
    """The running sum of cotangents of each value."""

    __slots__ = ("queue", "sums")

    def __init__(self) -> None:
        self.sums: dict[Node, list[Ct | None]] = {}
        self.queue: list[tuple[int, Node]] = []

    def send(self, record: AnyRecord, ct: Ct) -> None:
        """Add ``ct`` to the sum of the value that has this record."""
        node, index = (record.record, record.index) if type(record) is Output else (record, 0)
        sums = self.sums.get(node)
        if sums is None:
            sums = self.sums[node] = [None] * results_of(node)
            heapq.heappush(self.queue, (-node.sequence, node))
        before = sums[index]
        sums[index] = ct if before is None else added(before, ct)

    def pop(self) -> Node | None:
        """The last made of the nodes at which something has arrived."""
        return heapq.heappop(self.queue)[1] if self.queue else None

    def at(self, node: Node) -> list[Ct | None]:
        """The sum for each result of ``node``."""
        found = self.sums.get(node)
        return [None] * results_of(node) if found is None else found

    def end(self) -> None:
        """No more will arrive."""


def results_of(node: Node) -> int:
    """The number of results of a node."""
    return len(node.results) if type(node) is Record else 1
