"""Generator expressions, displays and unpacking during a capture, over items of unknown number.

A generator expression may go over what only the run can count: something else stands for it then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.eager.progress import unwrapped
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.staging.constructs.loads import spread
from hybrid.staging.effects.library_effects import gone_over
from hybrid.staging.sessions.views import is_varlist, look, refuse_partial, tracing
from hybrid.staging.values import dicts
from hybrid.staging.values.feed import Feed, StagedIterable
from hybrid.staging.values.lists import compacted
from hybrid.staging.values.walks import feed_of
from hybrid.trace.values.varlist import VarList, refuse_varlist

Step = Callable[[Iterable[Any]], Any]


def is_counted(iterable: Any) -> bool:
    """Whether the number of items of ``iterable`` is known during the capture."""
    iterable = unwrapped(iterable)
    look(iterable)
    if isinstance(iterable, Tensor) and iterable.ndim:
        return type(iterable.shape[0]) is int
    if isinstance(iterable, StagedIterable):
        return type(iterable.length) is int
    return not is_varlist(iterable)


def gone_over_by(site: Site, iterable: Any) -> Any:
    """The iterable that a comprehension goes over: rows of a tensor, or Python's iterator."""
    iterable = unwrapped(iterable)
    if isinstance(iterable, Tensor):
        return iter(iterable)
    look(iterable)
    gone_over(iterable, "a comprehension", site.location)
    refuse_varlist(iterable, "gone over by a comprehension")
    refuse_partial(iterable, "gone over by a comprehension")
    return iterable


class Generated:
    """A generator expression that may give a number of items known only to a run.

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
        """The generator itself, which may give a VarList for what is there or not."""
        if self._native is None:
            self._native = self._begun()
        return self._native

    def _begun(self) -> Any:
        return self.step(gone_over_by(self.site, self.iterable))

    def collected(self) -> list[Any]:
        """All its items."""
        if self.is_counted:
            return compacted(list(self.native))
        return hyb__.collected(self.feed(), self.step)

    def feed(self) -> Feed:
        """The feed of what it goes over, whose length is not known."""
        found = feed_of(self.iterable)
        if found is None:
            raise self._refusal()
        return found

    def _certain(self, item: Any) -> Any:
        if type(item) is VarList:
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


def list_of(iterable: Any) -> list[Any]:
    """The list of the items of ``iterable``, one of unknown length included."""
    if type(iterable) is Generated:
        return iterable.collected()
    if not is_uncounted(iterable):
        return list(iterable)

    return hyb__.collected(feed_of(iterable), list)


def is_uncounted(iterable: Any) -> bool:
    """Whether ``iterable`` is no list and has a number of items known only to a run."""
    if isinstance(iterable, Tensor) and iterable.ndim:
        return type(iterable.shape[0]) is not int
    if isinstance(iterable, StagedIterable):
        return type(iterable.length) is not int
    return type(iterable) is Generated


def joined(value: Any) -> Any:
    """An iterable over ``value``, whose items become those of another list or tuple."""
    spread(value)
    refuse_partial(value, "gone over")
    if tracing():
        return list_of(value) if is_uncounted(value) else value
    return value


def united(*parts: dict[Any, Any]) -> dict[Any, Any]:
    """The dict of the items of all ``parts``."""
    if tracing() and current().indefinite_values:
        return dicts.united(*parts)
    made: dict[Any, Any] = {}
    for part in parts:
        made.update(part)
    return made
