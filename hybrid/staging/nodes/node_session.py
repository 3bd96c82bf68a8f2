"""The base class of staged sessions: passes of a construct, traced into regions of a node.

Each pass runs the author's own statements once more, in the author's frame, with the names and
places of the construct set to what they hold on that path; the ops of the pass go into a region.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.core.exceptions import is_interrupt, settle
from hybrid.errors import CaptureError, ends_capture
from hybrid.ir.interpreter import current, interpreting
from hybrid.staging.constructs.try_ import of_open_sizes, refused_to_handlers
from hybrid.trace.regions.branch import Path
from hybrid.trace.regions.checks import place_of
from hybrid.trace.regions.continuation import end_by_error, leave_by
from hybrid.trace.regions.handlers import stop_for
from hybrid.trace.regions.pending_errors import EndOfPath
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND

THEN, ELSE = "where the condition holds", "where it does not"


class Staged:
    """A session whose passes are traced into regions of a node."""

    suspends = False  # whether what it holds may hand out values in the middle

    def __init__(self, site: Site) -> None:
        self.site = site
        self.tracer: Tracer = current()
        self.loads = False
        self.values: tuple[Any, ...] = ()
        self.held: Mapping[str, Any] = {}  # what variables hold where the next pass begins
        self.path: Path | None = None  # the branch that the next pass is traced into
        self.peeled: Path | None = None  # the branch in which a loop was entered
        self._context: AbstractContextManager[None] | None = None
        if site.yields and not self.suspends:
            raise CaptureError(
                f"a {site.kind} on the value of a tensor holds a yield or an await",
                at=site.location,
                why="The graph would have to hand out values in the middle of a branch or loop.",
                fix="collect the values in a list and return it",
            )

    def snapshot(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """What the names of the construct hold, given all local variables."""
        return {name: found.get(name, UNBOUND) for name in self.site.names}

    def load(self, names: Mapping[str, Any]) -> None:
        """Let the author's variables hold ``names`` from here on."""
        self.loads = bool(self.site.names)
        self.held = names
        self.values = tuple([names[name] for name in self.site.names])

    def inside(self, tracer: Tracer) -> AbstractContextManager[Any]:
        """Give op calls the meaning of ``tracer``, which is this session's or a region below it."""
        chain = []
        while tracer is not self.tracer:
            chain.append(tracer)
            tracer = tracer.parent
        return interpreting(*reversed(chain))

    def __enter__(self) -> None:
        if self.path is not None:
            self.path.region.begin(self.held)
            self._context = self.inside(self.path.region)
            self._context.__enter__()

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        path, context = self.path, self._context
        self._context = None
        if error is None or path is None or context is None:
            if context is not None:
                context.__exit__(None, None, None)
            return False
        if isinstance(error, RecursionError):
            context.__exit__(None, None, None)
            self.abandon()
            raise self.endless() from None
        if is_interrupt(error):
            context.__exit__(None, None, None)
            self.abandon()
            return False
        if type(error) is EndOfPath:
            end_by_error(path, pending=True)
            context.__exit__(None, None, None)
            return True
        ends = not isinstance(error, Exception) or ends_capture(error)
        told = error
        if not ends and of_open_sizes(error):
            ends, told = True, self._refused_to_handlers(error)
        if ends:
            context.__exit__(None, None, None)
            self.take_back(path)
            if self.caught(told):
                settle(told)
                return True
            self.abandon()
            if told is not error:
                raise told from None
            return False
        try:
            leave_by(error, path)
        except BaseException:
            self.abandon()
            raise
        finally:
            context.__exit__(None, None, None)
        return True

    def _refused_to_handlers(self, error: BaseException) -> BaseException:
        """``error``, which names open sizes; if a handler would take it, what refuses to follow."""
        taken = stop_for(current().handlers, type(error), place_of(error).location) is not None
        return refused_to_handlers(error) if taken else error

    def endless(self) -> CaptureError:
        return CaptureError(
            "a recursion does not end while it is captured",
            at=self.site.location,
            why="Both sides of a condition on the value of a tensor are captured, and one of them "
            "calls on.",
            fix="write the recursion as a while loop, or let a Python value end it",
        )

    def abandon(self) -> None:
        """An error ends the capture: attributes are what they were before the construct."""
        for path in (self.path, self.peeled):
            if path is not None:
                self.take_back(path)

    def take_back(self, path: Path) -> None:
        """Attributes are what they were before a path, and before those that it is a part of."""
        region = path.region
        while region.rest is not None:
            region = region.rest.path.region
        while region is not self.tracer:
            region.mark.undo()
            region = region.parent

    def caught(self, error: BaseException) -> bool:
        """Whether the session knows what to do about an error that is the capture's own."""
        return False
