"""Growth: a list that gains the same number of items in every iteration of a loop.

Each item's tensors become stacked results of the node.  After the loop the list holds the rows;
joined again with ``stack`` they are the stacked result itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hybrid.errors import CaptureError
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.merge import describe, kind_of, number_tensor
from hybrid.trace.places import CONTENT, Slot
from hybrid.trace.region import Region
from hybrid.trace.tracer import Tracer
from hybrid.tree import Structure, flatten, unflatten


@dataclass(slots=True)
class Growth:
    """What one iteration appends to a list: leaves, and the tree that they make."""

    slot: Slot
    leaves: list[Any]
    structure: Structure

    def rows(self, region: Region) -> list[Tensor]:
        """What an iteration returns."""
        found = []
        with interpreting(region):
            for leaf in self.leaves:
                if isinstance(leaf, Tensor):
                    found.append(region.traced(leaf))
                elif isinstance(leaf, Number) or type(leaf) in (bool, int, float):
                    found.append(region.traced(number_tensor(leaf, kind_of(leaf))))
                else:
                    raise CaptureError(
                        f"{describe(leaf)} is appended to a list in every iteration of a loop",
                        why="What a loop node returns for each iteration are tensors and numbers.",
                        fix="append tensors, and keep other values outside the loop",
                    )
        return found

    def apply(self, parent: Tracer, stacks: Sequence[Tensor], count: int) -> None:
        """Let the list hold what all iterations have appended."""
        items = list(self.slot.original)
        for at in range(count):
            row = [
                self._row(parent, leaf, s, at) for leaf, s in zip(self.leaves, stacks, strict=True)
            ]
            items += unflatten(self.structure, row)
        parent.put(self.slot.owner, CONTENT, items)

    def _row(self, parent: Tracer, leaf: Any, stack: Tensor, at: int) -> Any:
        row = parent.row_of(stack, at)
        return row if isinstance(leaf, Tensor) else Number(kind_of(leaf), row)


def grown(slot: Slot, final: Any) -> Growth | None:
    """How a list has grown at its end, if that is all that an iteration does to it."""
    before = slot.original
    if slot.read or not isinstance(before, list) or not isinstance(final, list):
        return None
    if len(final) <= len(before) or any(x is not y for x, y in zip(before, final, strict=False)):
        return None
    leaves, structure = flatten(final[len(before) :])
    return Growth(slot, leaves, structure)
