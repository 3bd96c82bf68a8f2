"""Folds: loop nodes for sums, searches and comprehensions over items of unknown number.

They are the loops that an author would write, over items of which only the run knows how many
there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.core.dataclass import dataclass
from hybrid.errors import author_frame
from hybrid.ir.interpreter import current
from hybrid.number import Number, choose
from hybrid.staging.constructs.logic import not_
from hybrid.staging.loops.for_node import StagedFor
from hybrid.staging.values.feed import Feed
from hybrid.staging.values.iterables import index_of, not_negative
from hybrid.staging.values.lists import here, item_at, length_of, list_feed
from hybrid.trace.regions.continuation import go_on, require

Step = Callable[[Iterable[Any]], Iterable[Any]]
RESULT = "the result"


def fold(
    feed: Feed, initial: Any, body: Callable[[Any, Any], Any], *, label: str, stops: bool = False
) -> Any:
    """The last result of ``body(result, item)`` over all items, from ``initial`` on.

    With ``stops`` the result is a truth, and the loop ends once that holds.
    """
    found = {label: initial}

    def once(item: Any) -> None:
        found[label] = body(found[label], item)

    _loop(feed, found, once, names=(label,), stops=(label,) if stops else ())
    return found[label]


def _loop(
    feed: Feed,
    found: dict[str, Any],
    body: Callable[[Any], None],
    names: tuple[str, ...] = (),
    stops: tuple[str, ...] = (),
) -> None:
    """``for item in feed: body(item)`` with the variables ``found``; it binds ``names``."""
    frame = author_frame(sys._getframe(1))
    around = {} if frame is None else dict(frame.f_locals)
    at, function = here()
    all_names = frozenset(names)
    site = Site(
        kind="for",
        location=at,
        function=function,
        names=names,
        after=all_names,
        head=all_names,
        rebound=all_names,
        stops=stops,
    )
    session = StagedFor(site, feed)
    while session.again({**around, **found}):
        if session.loads:
            found.update(zip(names, session.values, strict=True))
        with session:
            body(session.item)
    if session.loads:
        found.update(zip(names, session.values, strict=True))
    go_on()


def collected(feed: Feed, step: Step) -> list[Any]:
    """The list of what ``step`` makes of each item of ``feed``."""
    out: list[Any] = []

    def body(item: Any) -> None:
        made = list(step([item]))
        current().will_write_container(out)
        out.extend(made)

    _loop(feed, {"a list": out}, body)
    return out


def decided(feed: Feed, truth: Callable[[Any], Any], decides: bool) -> Any:
    """Whether ``truth`` of an item is ``decides``; items after the first such one are skipped."""

    def body(_before: Any, item: Any) -> Any:
        found = truth(item)
        return found if decides else not_(None, found)

    return fold(feed, False, body, label="what decides", stops=True)


def extreme(
    items: Sequence[Any],
    rate: Callable[[Any], Any] | None,
    replaced: Callable[[Any, Any], tuple[Any, Any]],
    empty: Exception,
) -> Any:
    """The best item: ``replaced`` chooses one of two pairs of a rate and an item."""
    length = length_of(items)
    some = length > 0
    if type(some) is Number:
        require(some, empty)
    first = item_at(items, 0)

    def rated(item: Any) -> tuple[Any, Any]:
        return (item if rate is None else rate(item)), item

    def body(best: tuple[Any, Any], item: Any) -> tuple[Any, Any]:
        return replaced(best, rated(item))

    left = length - 1
    rest = Part(list_feed(items), not_negative(left) if type(left) is Number else left, 1)
    return fold(rest, rated(first), body, label="the best item")[1]


def part_of(items: Sequence[Any], taken: slice) -> list[Any]:
    """The slice ``items[taken]`` where a length or bound is known only to a run."""
    step = 1 if taken.step is None else taken.step
    length = length_of(items)
    first, last = (0, length) if step > 0 else (-1, length - 1)  # what the bounds lie between
    start, stop = (last, first) if step < 0 else (first, last)
    if taken.start is not None:
        start = _clamped(index_of(taken.start), length, first, last)
    if taken.stop is not None:
        stop = _clamped(index_of(taken.stop), length, first, last)
    count = (stop - start + step - (1 if step > 0 else -1)) // step
    count = not_negative(count) if type(count) is Number else max(count, 0)
    return collected(Part(list_feed(items), count, start, step), lambda items: items)


def _clamped(bound: Any, length: Any, first: Any, last: Any) -> Any:
    """A bound of a slice as an index from the front that lies between ``first`` and ``last``."""
    bound = choose(bound < 0, bound + length, bound)
    bound = choose(bound < first, first, bound)
    return choose(bound > last, last, bound)


@dataclass(frozen=True, slots=True)
class Part:
    """A slice of items: from ``start`` on, every ``step``-th."""

    items: Feed
    length: Any
    start: Any
    step: int = 1
    python = False

    def row(self, index: Any) -> Any:
        return self.items.row(self.start + index * self.step)
