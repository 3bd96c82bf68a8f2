"""Comprehensions while a function is captured.

Each item is traced by itself as long as their number is known, else a loop node appends them to a
list.  An item that a condition on a tensor keeps is a Grown of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.convert.effects import gone_over
from hybrid.convert.feed import feed_of
from hybrid.convert.folds import collected
from hybrid.convert.generated import Generated, Step, is_counted
from hybrid.convert.lists import compacted
from hybrid.convert.site import Site
from hybrid.convert.staged_logic import Choice
from hybrid.convert.traced import look, refuse_partial
from hybrid.progress import unwrapped
from hybrid.tensor import Tensor
from hybrid.trace.grown import refuse_grown


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
        if is_counted(iterable):
            return compacted(self.step(each(self.site, iterable)))
        return collected(feed_of(iterable), self.step)


def generator(site: Site, step: Step, filtered: bool) -> Step:
    """What makes a generator."""

    def make(iterable: Any) -> Any:
        if filtered or not is_counted(iterable):
            return Generated(site, step, iterable)
        return step(each(site, iterable))

    return make
