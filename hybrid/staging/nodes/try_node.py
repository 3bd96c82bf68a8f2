"""Staging of ``try``: a pass of the whole statement, and one for each error pending for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.staging.constructs.try_ import Last, Marked, catching, is_refusal
from hybrid.staging.nodes.error_session import ErrorSession, Names, Passes, raise_again
from hybrid.trace.regions.handlers import Handler, Raised
from hybrid.trace.regions.pending_errors import EndOfPath, PendingError
from hybrid.trace.regions.tracer import Tracer


class StagedTry(ErrorSession):
    """The session of a ``try`` whose clauses catch what ``catches`` says.

    It ``ends`` with a ``finally``, or does not.
    """

    wants = True  # all local variables, at the end of each pass

    def __init__(
        self, site: Site, frame: FrameType, catches: Callable[[Raised | None], bool], ends: bool
    ) -> None:
        super().__init__(site, frame)
        self.catches, self.ends = catches, ends
        self.last = Last(site.location)
        noted = self.last.noting(catches)
        handler = Handler(at=site.location, frame=id(frame), catches=noted, stop=self)
        self.mark = Marked(handler)
        self.begun = False
        self.passes: Passes | None = None  # once there is more than one
        self.entering: BaseException | None = None  # what the next pass raises

    def concerns(self, kind: Raised) -> bool:
        return self.ends or self.catches(kind)

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass; ``found`` are the author's local variables."""
        if not self.begun:
            self.begun = True
            return True
        ended = self.ended if self.path is None else self.path.ended
        names: Names = None if ended else self.names_after(found)
        self.ended, self.path = False, None
        if self.passes is None:
            if self.tracer.rest is None and not ended:
                self.frame, self.loads = None, False
                return False
            self.passes = self.closed(self.tracer, names)
            names = None
        try:
            self.passes.send(names)
        except StopIteration as end:
            self.conclude(end.value)
            return False
        return True

    def handled(self, tracer: Tracer, pending: PendingError) -> Passes:
        self.path = None if tracer is self.tracer else tracer.path
        self.entering = pending.error
        self._tell_users(pending.names)
        self.load(pending.names)
        names = yield
        return names if tracer is not self.tracer else (yield from self.closed(tracer, names))

    def enter(self) -> None:
        """The body begins: where an error is pending, with that."""
        error, self.entering = self.entering, None
        if error is not None:
            raise_again(error)
        self.mark.__enter__()

    def leave(self) -> None:
        """The body is over, in whatever way."""
        self.mark.remove()

    def clause(self) -> Callable[..., Any]:
        """What gives the classes that a clause catches, of those that the author has written."""
        self.leave()
        return catching

    def goes_on(self) -> bool:
        """Whether a run gets to the ``finally`` from here."""
        self.leave()
        return type(sys.exc_info()[1]) is not EndOfPath

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self.leave()
        if self.path is not None:
            return super().__exit__(kind, error, trace)
        if isinstance(error, RecursionError):
            raise self.endless() from None
        if error is None or (is_refusal(error) and type(error) is not EndOfPath):
            return False
        return self.left_by(error)
