"""Run-time half of ``for``: the session of a loop over an iterable, plain or staged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.eager.progress import unwrapped
from hybrid.errors import CaptureError
from hybrid.ir.interpreter import current
from hybrid.staging.constructs.try_ import catching_in
from hybrid.staging.effects.library_effects import gone_over
from hybrid.staging.sessions.session import ONE_BY_ONE, Session, going_on, unrolled
from hybrid.staging.sessions.views import look, refuse_partial, tracing
from hybrid.trace.values.varlist import VarList


class For(Session):
    """The session of a ``for`` that takes its items from a Python iterator."""

    __slots__ = ("_item", "count", "iterator")

    def __init__(self, site: Site, iterable: Any) -> None:
        super().__init__(site)
        self.iterator: Any = None
        self.count = 0
        if tracing():
            iterable = unwrapped(iterable)
            look(iterable)
            refuse_partial(iterable, "gone over")
            gone_over(iterable, "a for loop", site.location)
            self.staged = hyb__.staged_for(site, iterable)
        if self.staged is None:
            self.iterator = iter(iterable)

    @property
    def item(self) -> Any:
        """The item of this pass, to be asked for once: the session does not keep it alive."""
        if self.staged is not None:
            return self.staged.item
        item, self._item = self._item, None
        return item

    def again(self, found: Mapping[str, Any]) -> bool:
        if self.staged is not None:
            return self.staged_again(found) or going_on()
        if self.count:
            for flag in self.site.stops:
                if found[flag]:
                    return self._over()
        try:
            self._item = following(self.site, self.iterator)
        except StopIteration:
            return self._over()
        self.count += 1
        return True

    def _over(self) -> bool:
        self.iterator = None
        if tracing():
            current().note(self.site.location, unrolled(self.count, ONE_BY_ONE))
        return False

    def abandon(self) -> None:
        self.iterator = None


def for_(site: Site, iterable: Any) -> For:
    """The session of a ``for`` over ``iterable``, plain or staged."""
    return For(site, iterable)


class _Indexed:
    """Gone over by index."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError


_BY_INDEX = type(iter(_Indexed()))


def following(site: Site, iterator: Iterator[Any]) -> Any:
    """The next item of ``iterator``; a handler of the loop takes its end."""
    if not tracing():
        return next(iterator)
    ends = (StopIteration, IndexError) if type(iterator) is _BY_INDEX else (StopIteration,)
    with catching_in(site, "for", *ends):
        item = next(iterator)
    if type(item) is VarList:
        raise CaptureError(
            "a list grows on some paths while a loop goes over it",
            at=site.location,
            why="Whether the loop has another iteration would depend on the value of a tensor.",
            fix="go over a copy of it (for x in list(xs)), or let it grow on every path",
        )
    return item
