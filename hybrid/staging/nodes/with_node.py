"""Staging of ``with``: its end, run where nothing is raised, and for each error pending for it."""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from types import FrameType
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.errors import CaptureError
from hybrid.staging.constructs.try_ import Last, Marked, is_refusal
from hybrid.staging.constructs.with_ import (
    GENERATOR,
    catches_of,
    converted_end,
    is_authors,
    resumed,
    suppresses,
    takes_errors,
)
from hybrid.staging.nodes.error_session import (
    ErrorSession,
    Names,
    Passes,
    exhausted,
    left_with,
    raise_again,
)
from hybrid.trace.regions.continuation import leave_all_by, leave_by
from hybrid.trace.regions.handlers import Handler, Raised
from hybrid.trace.regions.pending_errors import EndOfPath, PendingError
from hybrid.trace.regions.tracer import Tracer


class StagedWith(ErrorSession):
    """The session of a ``with``, and the context manager in the place of the author's."""

    def __init__(self, site: Site, frame: FrameType, manager: Any) -> None:
        super().__init__(site, frame)
        self.authors = manager
        self.enter = type(manager).__enter__
        self.last = Last(site.location, f"the end of a with ({type(manager).__name__})", "with")
        handler = Handler(
            at=site.location,
            frame=id(frame),
            catches=catches_of(manager, self.last),
            resumes=functools.partial(resumed, manager),
            kind="with",
            stop=self,
        )
        self.mark = Marked(handler)
        self.served_by: list[ErrorSession] = []  # those that wait in its generator

    @property
    def manager(self) -> StagedWith:
        """What the author's code enters."""
        return self

    def concerns(self, kind: Raised) -> bool:
        manager = self.authors
        if isinstance(manager, GENERATOR) or not takes_errors(manager):
            return False  # its generator may take some; or something else has been entered since
        return is_authors(manager) or suppresses(manager, kind)

    def leave(self, kind: Any, error: Any, trace: Any) -> Any:
        """The end of the block, as often as it takes."""
        manager = self.authors
        if isinstance(manager, contextlib.ExitStack):
            callbacks = [(sync, converted_end(end)) for sync, end in manager._exit_callbacks]
            manager = type(manager)()
            manager._exit_callbacks = deque(callbacks)
        end = converted_end(types.MethodType(type(manager).__exit__, manager))
        return end(kind, error, trace)

    def __enter__(self) -> Any:
        value = self.enter(self.authors)
        waiting = [*resumed(self.authors)]
        for frame in waiting:
            for handler in self.tracer.handlers:
                if handler.frame == id(frame):
                    waiting += handler.resumes()
                    if handler.stop is not None:
                        handler.stop.serves(self)
                        self.served_by.append(handler.stop)
        self.mark.__enter__()
        return value

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        self.mark.__exit__()
        suppressed = self._end(kind, error, trace)
        if isinstance(error, RecursionError):
            raise self.endless() from None
        return suppressed

    def _end(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        if isinstance(self.authors, GENERATOR):
            return self._resume(kind, error, trace)
        if type(error) is not EndOfPath and (self.tracer.rest is None or is_refusal(error)):
            self.frame = None
            with self.last:
                suppressed = self.leave(kind, error, trace)
            return suppressed and not is_refusal(error)
        names = self._left(kind, error, trace)
        self.conclude(exhausted(self.closed(self.tracer, names)))
        return True

    def _resume(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        """Let the generator go on, whose own sessions take what is pending for them."""
        with left_with(self.frame, self.names_now()) as names, self.last:
            try:
                suppressed = self.leave(kind, error, trace)
            except RuntimeError:
                if any(session.path is not None for session in self.served_by):
                    self.authors.gen.close()
                    raise self._yields_again() from None
                raise
        self.frame = None
        if error is None or suppressed:
            self.load(self.snapshot(names))
        return suppressed and (type(error) is EndOfPath or not is_refusal(error))

    def _yields_again(self) -> CaptureError:
        return CaptureError(
            "the generator of a context manager yields again where an error is caught",
            at=self.site.location,
            why="The error depends on the value of a tensor, and so does whether this is one.",
            fix="let the generator end after its first yield",
        )

    def _left(self, kind: Any, error: BaseException | None, trace: Any) -> Names:
        """The names at the end of the block, where nothing is pending."""
        if type(error) is not EndOfPath:
            suppressed, error = self._run_end(kind, error, trace)
            if error is None or suppressed:
                return self.names_after(self.names_now())
        self.left_by(error)
        return None

    def _run_end(self, kind: Any, error: BaseException | None, trace: Any) -> tuple[Any, Any]:
        """What the end of the block answers, and the exception that leaves it."""
        try:
            with self.last:
                return self.leave(kind, error, trace), error
        except Exception as other:
            if is_refusal(other):
                raise
            return False, other

    def handled(self, tracer: Tracer, pending: PendingError) -> Passes:
        self._tell_users(pending.names)
        own = {name: pending.names[name] for name in self.site.names}
        with self.inside(tracer), left_with(self.frame, own):
            try:
                raise_again(pending.error)
            except BaseException as error:
                suppressed, left = self._run_end(type(error), error, error.__traceback__)
            if suppressed:
                return self.names_after(pending.names)
            if tracer is not self.tracer:
                leave_by(left, tracer.path)
            elif not leave_all_by(left):
                raise left
        return None
        yield  # it needs no pass of the author's code
