"""Generated: what stands for a generator expression over what only the run may be able to count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hybrid.convert.feed import Feed, Walk, feed_of
from hybrid.convert.lists import compacted
from hybrid.convert.site import Site
from hybrid.convert.traced import is_grown, look
from hybrid.errors import CaptureError, author_location
from hybrid.number import Number
from hybrid.progress import unwrapped
from hybrid.trace.grown import Grown

Step = Callable[[Iterable[Any]], Any]


def is_counted(iterable: Any) -> bool:
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
        self.is_counted = is_counted(iterable)
        self._native: Any = None
        if self.is_counted:
            self._native = self._begun()

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
            self._native = self._begun()
        return self._native

    def _begun(self) -> Any:
        from hybrid.convert.staged_each import each

        return self.step(each(self.site, self.iterable))

    def collected(self) -> list[Any]:
        """All its items."""
        if self.is_counted:
            return compacted(list(self.native))
        from hybrid.convert.folds import collected  # when it is needed: it brings staged loops

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
