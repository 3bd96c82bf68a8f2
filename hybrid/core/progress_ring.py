"""Ring: rows of scalars that a plan writes while it runs, and that Python looks at meanwhile.

The plan writes those of step n into row ``(n - 1) % ROWS``.  Now and then, before a row is written
again and about ten times a second, it calls Python to look at the new ones, which says when to call
next.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

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
