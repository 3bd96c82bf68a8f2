"""Supply: what a captured loop gets from outside, item by item, each time its plan runs.

How many items there are, and of what types, is settled when the loop is captured; which they are is
settled by each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import Structure
from hybrid.core.types import TensorType


@dataclass(frozen=True, slots=True)
class Kind:
    """What items look like: trees of tensors."""

    structure: Structure
    types: tuple[TensorType, ...]


class Supplying:
    """What a captured loop may go over although only its runs know the items."""

    def supply(self) -> Supply:
        """What such a loop has to know; raises CaptureError where that cannot be said."""
        raise NotImplementedError


class Items(Iterator[Any], Protocol):
    """A pass: the items in order."""

    @property
    def queue(self) -> int:
        """The number of the queue that they come from, which plans ask themselves; 0: of none."""

    @property
    def given(self) -> int:
        """How many were given."""

    def leave(self) -> None:
        """No more are wanted."""


class Supply(Protocol):
    """The passes that a captured loop makes over a ``Supplying`` object."""

    length: int | None  # items of a pass; None: its end says
    even: int  # of these the first ones, which are of one kind
    kinds: tuple[Kind, ...]  # that one, and the kind of the others if there are any
    cells: tuple[Any, ...]  # tensors that a pass reads and writes as it begins
    draws: bool  # whether it does so for each item, too

    def fact(self) -> Any:
        """What a plan counts on: another one is made when it has become something else."""

    def begin(self) -> Items:
        """Begin a pass."""

    @property
    def waits(self) -> bool:
        """Whether other threads make the items, and may run plans for that."""

    def waiting(self) -> AbstractContextManager[Any]:
        """Around the wait for an item."""

    def refuse_end(self, count: int) -> Exception:
        """What is wrong where a pass ends after ``count`` items, or goes on after all of them."""

    def refuse_kind(self, at: int, found: Kind | None, wanted: Kind) -> Exception:
        """What is wrong with item ``at``, which is no tree of tensors if it has no kind."""
