"""Run-time half of ``while``: the session of plain tests; a node takes over on a traced one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from hybrid.convert.runtime import Site, hyb__
from hybrid.errors import CaptureError, NeedsValue, PathError
from hybrid.ir.interpreter import current
from hybrid.number import as_number
from hybrid.staging.sessions.session import Session, going_on, unrolled
from hybrid.staging.sessions.views import decided, is_traced, look, tracing
from hybrid.trace.places.objects import is_plain

PATIENCE = 64  # iterations that are traced one by one before the rest becomes a node


class While(Session):
    """The session of a ``while`` whose tests have been plain so far."""

    __slots__ = ("begun", "count", "found", "more", "tracer")

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.more = True
        self.begun = False
        self.tracer: Any = None  # what the loop has begun in
        self.count = 0
        self.found: Mapping[str, Any] = {}  # what the variables were an iteration before

    @property
    def body(self) -> bool:
        """Whether this pass runs the body without a test."""
        return self.staged is not None and self.staged.body

    def test(self, value: Any) -> bool:
        """Whether the body runs, now that the test has given ``value``."""
        if self.staged is not None:
            return self.staged.test(value)
        self._stage_sizes(None)
        value = decided(self.site, value)
        if is_traced(value):
            return self._stage().test(value)
        self.more = bool(look(value))
        self.count += self.more
        return self.more

    def again(self, found: Mapping[str, Any]) -> bool:
        if self.staged is not None:
            return self._staged_again(found) or going_on()
        if self.begun:
            stopped = any(found[flag] is True for flag in self.site.stops)
            self.more = self.more and not stopped
            if not stopped and self.tracer is not None and self.tracer.rest is not None:
                self.staged = hyb__.StagedWhile(self.site, self.tracer)
                return self.staged.stop_raised(found)
            for flag in () if stopped else self.site.stops:
                stops = decided(self.site, found[flag])
                if is_traced(stops):
                    return self._stage().stop_traced(found)
                self.more = self.more and not stops
        elif tracing():
            self.tracer = current()
        self.begun = True
        by_path = tracing() and current().decides(self.site)
        if (
            self.more
            and self.count >= PATIENCE
            and tracing()
            and not (by_path or current().unrolls)
        ):
            if any(v is not found.get(n) and _is_of_before(v) for n, v in self.found.items()):
                self._need_each()  # an object that leads on to another: no node has those
            self._stage()
            return self._by_node(lambda: self.staged.stop_never(found))
        if self.count >= PATIENCE - 1:
            self.found = dict(found)
        if not self.more and tracing():
            why = "its test is a Python value"
            current().note(self.site.location, unrolled(self.count, why))
        if self.more:
            self._stage_sizes(_of_run)
        return self.more

    def _stage_sizes(self, compare: Callable[..., Any] | None) -> None:
        """Let the test compare sizes of open axes by ``compare``: they are no conditions, then."""
        if tracing() and current().opens is not None and not current().unrolls:
            current().opens.staged = compare

    def _staged_again(self, found: Mapping[str, Any]) -> bool:
        return self._by_node(lambda: self.staged_again(found))

    def _by_node(self, step: Callable[[], bool]) -> bool:
        try:
            return step()
        except (NeedsValue, PathError):
            raise
        except CaptureError as error:
            plain = self.count >= PATIENCE
            if not tracing() or current().unrolls or (current().opens is None and not plain):
                raise
            # Where an open size or Python values decide, each iteration may be traced by itself.
            self._need_each(error)

    def _need_each(self, error: CaptureError | None = None) -> NoReturn:
        """Begin the capture again, with each iteration traced by itself."""
        raise NeedsValue("the test of a while", "int", None, at=self.site.location) from error

    def _stage(self) -> Any:
        self.staged = hyb__.StagedWhile(self.site)
        return self.staged


def _is_of_before(value: Any) -> bool:
    """Whether ``value`` is an object of the author's that was there before the capture."""
    return is_plain(value) and current().is_known(value)


def _of_run(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """A comparison that a node of the graph makes."""
    return function(as_number(a), b)


def while_(site: Site) -> While:
    """The session of a ``while``."""
    return While(site)
