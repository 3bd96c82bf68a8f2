"""Final leaves: told of while the way back goes on, as soon as nothing more arrives at them.

Before::                                  After::

    visit z = y * b                           visit z = y * b
    visit y = x * a                           told of b
    a, b are known                            visit y = x * a
                                              told of a

A leaf gets terms from the records that it is an operand of, and records are visited from the last
made to the first: so it is final when the way back has come to what was made before the first of
these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hybrid.autodiff.cotangent_sums import Sums
from hybrid.autodiff.presence import Ct
from hybrid.autodiff.record_values import Node
from hybrid.ir.record import Leaf, Record

Told = Callable[[Leaf, "Ct | None"], None]


class FinalLeaves:
    """The leaves among ``targets`` that ``told`` is yet to be called with, and their cotangents.

    Those at which the way back ends, and all where a value may be another one, it is not told of.
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
