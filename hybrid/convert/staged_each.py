"""Comprehensions while a function is captured.

Each item is traced by itself as long as their number is known, else a loop node appends them to a
list.  An item that a condition on a tensor keeps is a Grown of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hybrid.convert.effects import gone_over
from hybrid.convert.feed import Feed, Walk, feed_of
from hybrid.convert.folds import collected
from hybrid.convert.lists import compacted
from hybrid.convert.site import Site
from hybrid.convert.staged_logic import Choice
from hybrid.convert.traced import is_grown, look, refuse_partial
from hybrid.errors import CaptureError, author_location
from hybrid.number import Number
from hybrid.progress import unwrapped
from hybrid.tensor import Tensor
from hybrid.trace.grown import Grown, refuse_grown

Step = Callable[[Iterable[Any]], Any]


def each(site: Site, iterable: Any) -> Any:
    """The rows of a tensor; anything else as Python goes over it."""
    iterable = unwrapped(iterable)
    if isinstance(iterable, Tensor):
        return iter(iterable)
    look(iterable)
    gone_over(iterable, "a comprehension", site.location)
    refuse_grown(iterable, "gone over by a comprehension")
    refuse_partial(iterable, "gone over by a comprehension")
    return iterable


def kept(site: Site, test: Any, item: Callable[[], Any]) -> list[Any]:
    """The item where ``test``, which is traced, holds."""
    return Choice(site, "an item").between(test, lambda: [item()], list)


class Listed:
    """Makes the list of a comprehension."""

    __slots__ = ("site", "step")

    def __init__(self, site: Site, step: Step) -> None:
        self.site, self.step = site, step

    def __call__(self, iterable: Any) -> list[Any]:
        if type(iterable) is Generated:
            iterable = iterable.collected()
        if _is_counted(iterable):
            return compacted(self.step(each(self.site, iterable)))
        return collected(feed_of(iterable), self.step)


def generator(site: Site, step: Step, filtered: bool) -> Step:
    """What makes a generator."""

    def make(iterable: Any) -> Any:
        if filtered or not _is_counted(iterable):
            return Generated(site, step, iterable)
        return step(each(site, iterable))

    return make


def _is_counted(iterable: Any) -> bool:
    """Whether it is known how many items there are to go over."""
    iterable = unwrapped(iterable)
    look(iterable)
    if isinstance(iterable, Walk):
        return type(iterable.length) is not Number
    return not is_grown(iterable)


class Generated:
    """A generator expression of which only the run may know how many items it gives.

    What is to go over it one by one gets them as long as each is surely there.
    """

    def __init__(self, site: Site, step: Step, iterable: Any) -> None:
        self.site, self.step, self.iterable = site, step, iterable
        self.is_counted = _is_counted(iterable)
        self._native: Any = step(each(site, iterable)) if self.is_counted else None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._certain(next(self.native))

    def send(self, value: Any) -> Any:
        return self._certain(self.native.send(value))

    def throw(self, *error: Any) -> Any:
        return self.native.throw(*error)

    def close(self) -> None:
        if self._native is not None:
            self._native.close()

    @property
    def native(self) -> Any:
        """The generator itself, which may give a Grown for what is there or not."""
        if self._native is None:
            self._native = self.step(each(self.site, self.iterable))
        return self._native

    def collected(self) -> list[Any]:
        """All its items."""
        if self.is_counted:
            return compacted(list(self.native))
        return collected(self.feed(), self.step)

    def feed(self) -> Feed:
        """What it goes over; the number of that is not known."""
        found = feed_of(self.iterable)
        if found is None:
            raise self._refusal()
        return found

    def _certain(self, item: Any) -> Any:
        if type(item) is Grown:
            raise self._refusal()
        return item

    def _refusal(self) -> CaptureError:
        return CaptureError(
            "the items of a generator are asked for one by one, and which there are is known only "
            "when the plan runs",
            at=author_location(),
            why="A condition on the value of a tensor decides whether the generator gives an item "
            f"({self.site.location}).",
            fix="make a list of it, [...] in place of (...), or give it to sum(), any(), all(), "
            "min(), max(), list() or tuple()",
        )
