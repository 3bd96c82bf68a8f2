"""Lists that gain the same number of items in every iteration of a loop, as stacked rows.

Each item's tensors become stacked results of the node.  After the loop the list holds the rows;
joined again with ``stack`` they are the stacked result itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.staging.loops.carry import Carry
from hybrid.trace.places.code_owner import ATOMS
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import CONTENT
from hybrid.trace.regions.merge import describe, kind_of, number_tensor
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.ties import DOUBT
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.traced_text import Text
from hybrid.trace.values.varlist import VarList


class Growth:
    """The items that a known number of iterations append to a list: leaves, and their tree."""

    carries: tuple[Carry, ...] = ()  # what it needs carried from one iteration to the next
    unsure = False  # whether rows may be tensors that go on in the loop, or after it

    def __init__(self, place: LoggedPlace, items: Sequence[Any]) -> None:
        self.place = place
        self.leaves, self.structure = flatten(list(items))
        self._stacked: list[bool] = []  # of each leaf: whether it is one of the rows

    def known(self, carries: Sequence[Carry]) -> Sequence[Any]:
        """Its leaves; one that stays the same in all iterations is what it was before them."""
        given = [leaf for carry in carries for leaf in carry.leaves if leaf.given is not None]
        fixed = {id(leaf.given): leaf.initial for leaf in given if leaf.is_fixed}
        self.leaves = [fixed.get(id(leaf), leaf) for leaf in self.leaves]
        return self.leaves

    def rows(self, region: Region) -> list[Tensor]:
        """The rows that an iteration returns."""
        self._stacked = [is_row(leaf, region) for leaf in self.leaves]
        with interpreting(region):
            return [
                row_tensor(leaf, region)
                for leaf, stacked in zip(self.leaves, self._stacked, strict=True)
                if stacked
            ]

    def apply(self, parent: Tracer, stacks: Sequence[Tensor], count: int) -> None:
        """Let the list hold what all iterations have appended."""
        items = list(self.place.original)
        for at in range(count):
            mine = iter(stacks)
            row = [
                self._row(parent, leaf, next(mine), at) if stacked else leaf
                for leaf, stacked in zip(self.leaves, self._stacked, strict=True)
            ]
            items += unflatten(self.structure, row)
        parent.put(self.place.owner, CONTENT, items)

    def _row(self, parent: Tracer, leaf: Any, stack: Tensor, at: int) -> Any:
        row = parent.row_of(stack, at)
        if self.unsure:
            parent.ties.tie(row, None, DOUBT)
        return row if isinstance(leaf, Tensor) else Number(kind_of(leaf), row)


def appended(before: Any, after: Any) -> list[Any] | None:
    """The items that a list has gained at its end; None if it was changed otherwise."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) <= len(before):
        return None
    if any(x is not y for x, y in zip(before, after, strict=False)):
        return None
    return after[len(before) :]


def has_one(items: Sequence[Any]) -> bool:
    """Whether each of ``items`` is one item for sure."""
    return all(type(item) is not VarList for item in items)


# The leaves of an item --------------------------------------------------------------------------


def is_row(leaf: Any, region: Region) -> bool:
    """Whether ``leaf`` is another value in each iteration and not one object for all."""
    if isinstance(leaf, Tensor):
        return region.owns(leaf)
    if isinstance(leaf, Number):
        return True
    text = type(leaf) is Text
    if text or (not isinstance(leaf, ATOMS) and not region.is_outside(leaf)):
        raise CaptureError(
            f"{'the text of a traced value' if text else describe(leaf)} is appended to a list in "
            "every iteration of a loop",
            at=author_location(),
            why="What a loop node returns for each iteration are tensors and numbers.",
            fix="append tensors, and keep other values outside the loop",
        )
    return False


def row_tensor(leaf: Any, region: Region) -> Tensor:
    """A tensor or number as the row that an iteration returns."""
    if isinstance(leaf, Tensor):
        return region.traced(leaf)
    return region.traced(number_tensor(leaf, kind_of(leaf)))
