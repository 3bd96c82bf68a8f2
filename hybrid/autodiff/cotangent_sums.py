"""Sums of cotangents: running sums, and terms with the turn and the flag of each addition.

``Sums`` is for values none of which may be another one; a ``Term`` is added in its turn, and where
it counts.  ``FinalLeaves`` are told of while the way back goes on::

    visit z = y * b
    visit y = x * a, and tell of b: nothing more arrives there
    visit a, and tell of a
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from hybrid import ops
from hybrid.autodiff.presence import Ct, added, disjoined, marked
from hybrid.autodiff.record_values import Node
from hybrid.core.dataclass import dataclass
from hybrid.eager.batched_value import is_known
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import AnyRecord, Leaf, Output, Record

Told = Callable[[Leaf, "Ct | None"], None]


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


class FinalLeaves:
    """The leaves among ``targets`` that ``told`` is yet to be called with, and their cotangents.

    A leaf gets terms from the records that it is an operand of, and records are visited from the
    last made to the first: so it is final when the way back has come to what was made before the
    first of these.  Of those that it never gets past nobody is told.
    """

    def __init__(self, targets: Collection[Node], needed: Collection[Node], told: Told) -> None:
        self._told = told
        uses: dict[Leaf, int] = {}  # the first record of each
        for node in needed:
            if type(node) is Record:
                for parent in node.parents:
                    if isinstance(parent, Leaf) and parent in targets:
                        uses[parent] = min(uses.get(parent, node.sequence), node.sequence)
        self._left = sorted(uses.items(), key=lambda use: use[1])

    def passed(self, node: Node, sums: Sums) -> None:
        """The way back has come to ``node``, and to nothing that was made before it."""
        left = self._left
        while left and left[-1][1] > node.sequence:
            leaf, _ = left.pop()
            self._told(leaf, sums.at(leaf)[0])


def results_of(node: Node) -> int:
    """The number of results of a node."""
    return len(node.results) if type(node) is Record else 1


@dataclass(slots=True)
class Term:
    """One addition to a cotangent; ``flag``: where it counts."""

    turn: float
    ct: Ct
    flag: Tensor | None = None
    many: bool = False  # whether it is a sum itself
    own: bool = False  # whether it counts only where the value is no other one

    def tensor(self) -> Ct | None:
        if self.flag is None or not is_known(self.flag):
            return marked(self.ct, self.flag)
        return self.ct if self.flag.item() else None


def conjoined(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The flag that both hold; None holds everywhere."""
    return b if a is None else a if b is None else ops.logical_and(a, b)


def join(terms: list[Term], new: Term) -> None:
    """Add a term to a list; one that comes by two ways gets the flag of either."""
    for term in terms:
        if term.turn == new.turn and term.flag is not None:
            term.flag = disjoined(term.flag, new.flag)
            return
    terms.append(new)
