"""Run-time half of ``try``: the capture knows its handlers, and nothing catches a refusal."""

from __future__ import annotations

import builtins
import functools
import operator
import re
import sys
from collections.abc import Callable
from contextlib import _GeneratorContextManager, nullcontext
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.core.exceptions import is_interrupt
from hybrid.errors import (
    CaptureError,
    EagerOnlyError,
    HybridError,
    Location,
    author_location,
    ends_capture,
)
from hybrid.ir.interpreter import current
from hybrid.staging.sessions.views import tracing
from hybrid.trace.regions.checks import place_of
from hybrid.trace.regions.handlers import Handler, Raised
from hybrid.trace.regions.pending_errors import EndOfPath


class Marked:
    """The context in which the capture knows that ``handler`` would catch."""

    __slots__ = ("handler", "handlers", "last")

    def __init__(self, handler: Handler, last: Last | None = None) -> None:
        self.handler, self.handlers, self.last = handler, current().handlers, last

    def __enter__(self) -> None:
        self.handlers.append(self.handler)

    def __exit__(self, *_error: Any) -> None:
        self.handlers.remove(self.handler)

    def remove(self) -> None:
        """Leave the context, if it has been entered and is not left yet."""
        if self.handler in self.handlers:
            self.handlers.remove(self.handler)


BEGIN_OF_MANAGER = _GeneratorContextManager.__enter__.__code__
END_OF_MANAGER = _GeneratorContextManager.__exit__.__code__
_WORD = re.compile(r"\w+")
_GROUPS = (builtins.BaseExceptionGroup,) if sys.version_info >= (3, 11) else ()


class Last:
    """The context of a ``finally`` or ``__exit__``, which a plan that raises cannot run."""

    __slots__ = ("at", "before", "begin", "block", "raised", "refusal", "tracer", "what")

    def __init__(self, at: Location, what: str = "a finally", block: str = "try") -> None:
        self.at, self.what, self.block = at, what, block  # of the block, and its end
        self.raised = ""  # in the body, when the plan runs

    def __enter__(self) -> None:
        self.tracer = current()
        self.refusal = refusal()
        if self.raised:
            self.begin = len(self.tracer.builder.nodes)
            self.before = self.tracer.abort_effects.state(self.tracer)

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None and self.refusal is not None:
            raise self.refusal  # variables may have been in disorder
        if error is not None or not self.raised:
            return
        for node in self.tracer.builder.nodes[self.begin :]:
            if not node.pure:
                raise self.refused("does this", node.location)
        now = self.tracer.abort_effects.state(self.tracer)
        if len(now) != len(self.before) or any(map(operator.is_not, now, self.before)):
            raise self.refused("writes what is seen after the call", self.at)

    def noting(self, catches: Callable[[Raised | None], bool]) -> Callable[[Raised | None], bool]:
        """``catches``; what it does not catch is raised before this."""

        def caught(kind: Raised | None) -> bool:
            if catches(kind):
                return True
            self.raised = "an exception" if kind is None else kind.__name__
            return False

        return caught

    def refused(self, does: str, at: Location | None) -> CaptureError:
        return CaptureError(
            f"{self.what} {does} when {self.raised} is raised, too",
            at=at,
            why="That is known only when the plan runs, and an exception ends the plan.",
            fix=f"do it after the {self.block}, or put the {self.block} around the call of the "
            "hybridized function",
        )


class _Unmarked(nullcontext):
    """What there is to enter while nothing is captured."""

    last = nullcontext()


_UNMARKED = _Unmarked()


class PlainTry:
    """The session of a ``try`` while nothing is captured."""

    loads, values = False, ()
    last: Any = nullcontext()
    wants = False

    def __init__(self) -> None:
        self.passes = 0

    def again(self, _found: Any) -> bool:
        self.passes += 1
        return self.passes == 1

    def enter(self) -> None:
        """The body begins."""

    def leave(self) -> None:
        """The body is over, in whatever way."""

    def clause(self) -> Callable[..., Any]:
        """What gives the classes that a clause catches, of those that the author has written."""
        self.leave()
        return catching

    def goes_on(self) -> bool:
        """Whether a run gets to the ``finally`` from here."""
        self.leave()
        return True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: Any) -> None:
        self.leave()


class _SingleTry(PlainTry):
    """The session of a ``try`` in a generator that is gone over, which cannot be run again."""

    def __init__(self, mark: Marked) -> None:
        super().__init__()
        self.mark, self.last = mark, mark.last

    def enter(self) -> None:
        self.mark.__enter__()

    def leave(self) -> None:
        self.mark.remove()


def try_(site: Site, types: Callable[[], Any] | None, ends: bool) -> Any:
    """The session of a ``try``, which ``ends`` with a ``finally`` or does not.

    Its clauses catch what ``types`` gives.
    """
    if not tracing():
        return PlainTry()
    frame = sys._getframe(1)
    if site.yields and is_iterated(frame):
        return _SingleTry(_marked(site, frame, types))
    return hyb__.StagedTry(site, frame, functools.partial(among, types=types), ends)


def is_iterated(frame: FrameType) -> bool:
    """Whether ``frame`` is one of a generator that is no context manager."""
    around: FrameType | None = frame
    while around is not None and around.f_code.co_flags & CO_GENERATOR:
        around = around.f_back
    return around is None or around.f_code is not BEGIN_OF_MANAGER


def catching_in(site: Site, kind: str, *types: Raised) -> Marked:
    """The context in which Python catches ``types`` around methods that it calls."""
    frame = id(sys._getframe(1))
    at = site.location
    catches = functools.partial(_is_one_of, types)
    return Marked(Handler(at=at, frame=frame, catches=catches, kind=kind))


def _is_one_of(types: tuple[Raised, ...], kind: Raised | None) -> bool:
    return kind is not None and issubclass(kind, types)


def handled(site: Site, types: Callable[[], Any] | None) -> Any:
    """The context of the body of a ``try`` whose clauses catch what ``types`` gives."""
    return _marked(site, sys._getframe(1), types) if tracing() else _UNMARKED


def _marked(site: Site, frame: FrameType, types: Callable[[], Any] | None) -> Marked:
    last = Last(site.location)
    catches = last.noting(functools.partial(among, types=types))
    return Marked(Handler(at=site.location, frame=id(frame), catches=catches), last)


def among(kind: Raised | None, types: Callable[[], Any] | None) -> bool:
    """Whether clauses for ``types`` (None: all there are) may catch ``kind`` (None: some class)."""
    if types is None:
        return True
    try:
        found = [each for clause in types() for each in _each(clause)]
    except Exception as error:  # Python would raise it, too
        if is_interrupt(error):
            raise
        return True
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in found):
        return True  # as it would here
    if kind is None or issubclass(kind, _GROUPS):
        return bool(found)
    return any(each in kind.__mro__ for each in found)


def _each(types: Any) -> tuple[Any, ...]:
    return types if isinstance(types, tuple) else (types,)


def is_refusal(error: BaseException | None) -> bool:
    """Whether ``error`` ends the capture, so that no handler of the author's may catch it."""
    # A RecursionError, too: a capture calls more deeply than the author's code.
    return tracing() and (isinstance(error, (EndOfPath, RecursionError)) or ends_capture(error))


def catching(types: Any = BaseException) -> Any:
    """The classes that a clause for ``types`` catches: none if the capture is being refused."""
    error = sys.exc_info()[1]
    if tracing() and isinstance(error, RecursionError):
        raise too_deep("try") from None
    if is_refusal(error):
        return ()
    if of_open_sizes(error) and isinstance(error, types):
        raise refused_to_handlers(error) from None
    return types


def of_open_sizes(error: BaseException | None) -> bool:
    """Whether ``error`` speaks of open sizes, for which a run would have to say numbers."""
    if not isinstance(error, HybridError) or not tracing():
        return False
    opens = getattr(current(), "opens", None)
    return opens is not None and not {s.name for s in opens.symbols}.isdisjoint(
        _WORD.findall(str(error))
    )


def refused_to_handlers(error: BaseException) -> CaptureError:
    """What takes the place of an error ``of_open_sizes`` that a handler would take.

    Then the call is captured for its own sizes, if no axis has been declared to vary.
    """
    return CaptureError(
        f"a {type(error).__name__} that sizes of open axes lead to is caught",
        at=place_of(error).location,
        why=f"It says: {str(error).splitlines()[0]}. A graph for many sizes has no such path.",
        fix="compare the sizes before the computation, or capture for each size (dynamic=False)",
    )


def too_deep(kind: str, at: Location | None = None) -> CaptureError:
    """What takes the place of a RecursionError, which eager code might not raise."""
    return EagerOnlyError(
        f"what happens in this {kind} calls too deeply to be captured",
        at=at or author_location(),
        why="A capture takes some calls of Python for each of the author's.",
    )


def refusal() -> BaseException | None:
    """The exception being handled, if it ends the capture; else None."""
    error = sys.exc_info()[1]
    return error if is_refusal(error) else None


def refuse_again() -> None:
    """Raise the exception being handled again, if it ends the capture."""
    error = refusal()
    if error is not None:
        raise error
