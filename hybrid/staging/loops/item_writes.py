"""Writes of the code that makes a loop's items: they count only where the loop goes on.

::

    for w in self.batches():  # a generator, which counts: self.count += 1
        if hy.sum(w) > limit:
            break

Whether the loop has been left only a run knows, and the next item is made before that is looked
at.  So what its code writes is taken back behind it and written once more in the branch in which
the loop goes on.  The code itself finds what it has left, whether or not the loop was left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.trace.places.journal import LoggedPlace, Mark
from hybrid.trace.places.place import CONTENT, Key, same_items
from hybrid.trace.regions.merge import is_number
from hybrid.trace.regions.tracer import Tracer


class ItemWrites:
    """The places that the making of items has written, in and around the branch of an iteration."""

    def __init__(self) -> None:
        self.pending: list[tuple[LoggedPlace, Any]] = []  # to be written in the branch
        # What the code has left in a place, and what is there since the branch has ended.
        self.left: dict[Key, tuple[LoggedPlace, Any, Any]] = {}

    @contextmanager
    def apart(self, parent: Tracer) -> Iterator[None]:
        """Make an item in ``parent``; behind it places are what they are where the loop was left.

        They are put back where making it raises, too, so that the branch can write them.
        """
        around = {}
        for key, (place, left, now) in self.left.items():
            if _is_same(place, place.content(), now):  # the author's loop has not written it since
                around[key] = now
                place.put(left)
        with parent.journal.watched() as watch:
            try:
                yield
            finally:
                for place in [self.left[key][0] for key in around if key not in watch.places]:
                    watch.add(place)
                self._take_back(watch, around)

    def _take_back(self, watch: Mark, around: dict[Key, Any]) -> None:
        for key, place in watch.places.items():
            old, now = place.original, place.content()
            if key not in around and _is_same(place, old, now):
                continue
            if _is_of_iterator(place) and not (_can_merge(old) and _can_merge(now)):
                continue
            self.pending.append((place, now))
            place.put(around.get(key, old))

    def write(self, region: Tracer) -> None:
        """Write in the branch ``region`` what the making of its item has written."""
        for place, value in self.pending:
            region.put(place.owner, place.name, value)

    def end(self) -> None:
        """Note, at the end of the branch, what its code has not written itself."""
        self.pending = [
            (place, value)
            for place, value in self.pending
            if _is_same(place, place.content(), value)
        ]

    def settle(self) -> None:
        """Note what is in the places once the branch has met the path without it."""
        self.left = {place.key: (place, value, place.content()) for place, value in self.pending}
        self.pending = []


def _is_same(place: LoggedPlace, a: Any, b: Any) -> bool:
    return same_items(a, b) if place.name == CONTENT else a is b


def _is_of_iterator(place: LoggedPlace) -> bool:
    """Whether it is an attribute of an object that gives items: few ask for those afterwards."""
    return place.name != CONTENT and hasattr(type(place.owner), "__next__")


def _can_merge(value: Any) -> bool:
    """Whether of two such values a graph can choose one."""
    return isinstance(value, Tensor) or is_number(value)
