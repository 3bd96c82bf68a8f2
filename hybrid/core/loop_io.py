"""Loop input and output: items that a captured loop gets, rows of scalars that it writes.

How many items a ``Supply`` has, and of what types, is settled when the loop is captured; which they
are is settled by each run.

The rows are a ring, at which Python looks while the plan runs.  The plan writes those of step n
into row ``(n - 1) % ROWS``.  Now and then, before a row is written again and about ten times a
second, it calls Python to look at the new ones, which says when to call next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import Structure
from hybrid.core.types import TensorType


@dataclass(frozen=True, slots=True)
class ItemKind:
    """What items look like: trees of tensors."""

    structure: Structure
    types: tuple[TensorType, ...]


class Supplying:
    """What a captured loop may go over although only its runs know the items."""

    def supply(self, *, ahead: bool = True) -> Supply:
        """What such a loop has to know; raises CaptureError where that cannot be said.

        ``ahead`` says that nothing else is to be read, and nothing drawn, before the items are.
        """
        raise NotImplementedError


class SuppliedItems(Iterator[Any], Protocol):
    """A pass: the items in order."""

    @property
    def queue(self) -> int:
        """The number of the queue that they come from, which plans ask themselves; 0: of none."""

    @property
    def given(self) -> int:
        """How many were given."""

    def give_back(self, item: Any) -> None:
        """``item``, which was given last, is the next one again."""

    def leave(self) -> None:
        """No more are wanted."""


class Supply(Protocol):
    """The passes that a captured loop makes over a ``Supplying`` object."""

    length: int | None  # items of a pass; None: its end says
    even: int  # of these the first ones, which are of one kind
    kinds: tuple[ItemKind, ...]  # that one, and the kind of the others if there are any
    # Those of the first items, where others may look unlike them; else none.
    kinds_met: tuple[ItemKind, ...]
    batches_samples: bool  # whether the first axes of an item are those of its samples
    cells: tuple[Any, ...]  # tensors that a pass reads and writes as it begins
    draws: bool  # whether it does so for each item, too
    alike: bool  # whether all ranks of a job get as many items

    def fact(self) -> Any:
        """What a plan counts on: another one is made when it has become something else."""

    def begin(self) -> SuppliedItems:
        """Begin a pass."""

    @property
    def waits(self) -> bool:
        """Whether other threads make the items, and may run plans for that."""

    def waiting(self) -> AbstractContextManager[Any]:
        """Around the wait for an item."""

    def refuse_end(self, count: int) -> Exception:
        """What is wrong where a pass ends after ``count`` items, or goes on after all of them."""

    def refuse_kind(self, at: int, found: ItemKind | None, wanted: ItemKind) -> Exception:
        """What is wrong with item ``at``, which is no tree of tensors if it has no kind."""


ROWS = 1024
PERIOD = 0.1  # seconds between two looks

Told = Callable[[int, np.ndarray], None]  # gets the number of the first of the rows, and the rows


class Looker:
    """Looks at the rows; steps count from 1."""

    def __init__(self) -> None:
        self.told: Told | None = None
        self.seen, self._clock = 0, 0.0  # up to which step, and when

    def begin(self, done: int, told: Told | None) -> None:
        """Steps behind number ``done`` are to be told."""
        self.told, self.seen, self._clock = told, done, time.monotonic()

    def look(self, ring: np.ndarray, done: int) -> np.int64:
        """Tell of the steps up to number ``done``; after which one to look again."""
        done, first = int(done), self.seen
        self.seen = done  # also if what is told raises
        if self.told is not None and done > first:
            self.told(first + 1, ring[np.arange(first, done) % ROWS])
        now = time.monotonic()
        pace = (done - first) / max(now - self._clock, 1e-9)
        self._clock = now
        return np.int64(done + min(max(int(pace * PERIOD), 1), ROWS))
