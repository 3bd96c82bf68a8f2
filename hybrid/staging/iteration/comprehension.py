"""Run-time half of comprehensions: items traced one by one, or appended by a loop node.

Each item is traced by itself as long as their number is known, else a loop node appends them to a
list.  An item that a condition on a tensor keeps is a VarList of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.staging.iteration.folds import collected
from hybrid.staging.iteration.generators import Generated, Step, gone_over_by, is_counted
from hybrid.staging.nodes.choice import Choice
from hybrid.staging.sessions.views import is_traced, look, own_truth, tracing
from hybrid.staging.values.lists import compacted
from hybrid.staging.values.walks import feed_of


def each(site: Site, iterable: Any) -> Any:
    """The iterable that a comprehension goes over in place of ``iterable``."""
    return gone_over_by(site, iterable) if tracing() else iterable


def list_comprehension(site: Site, step: Step) -> Step:
    """The function that makes the list of a comprehension from its iterable."""
    return ListComprehension(site, step) if tracing() else step


def generated(site: Site, step: Step, filtered: bool) -> Step:
    """The function that makes a generator from its iterable."""
    if not tracing():
        return step

    def make(iterable: Any) -> Any:
        if filtered or not is_counted(iterable):
            return Generated(site, step, iterable)
        return step(gone_over_by(site, iterable))

    return make


def filtered_item(site: Site, test: Any, item: Callable[[], Any]) -> Iterable[Any]:
    """The items that a condition lets through: one, none, or one that is optional."""
    test = own_truth(test)
    if is_traced(test):
        return Choice(site, "an item").between(test, lambda: [item()], list)
    return (item(),) if look(test) else ()


class ListComprehension:
    """A function that makes the list of a comprehension during a capture."""

    __slots__ = ("site", "step")

    def __init__(self, site: Site, step: Step) -> None:
        self.site, self.step = site, step

    def __call__(self, iterable: Any) -> list[Any]:
        if type(iterable) is Generated:
            iterable = iterable.collected()
        if is_counted(iterable):
            return compacted(self.step(gone_over_by(self.site, iterable)))
        return collected(feed_of(iterable), self.step)
