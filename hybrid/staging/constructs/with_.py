"""Run-time half of ``with``: context managers, and the exceptions that each may suppress."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from hybrid.convert.conversion import is_converted_code, written
from hybrid.convert.runtime import Site, hyb__
from hybrid.convert.scope import walk_scope
from hybrid.convert.source import NoSource
from hybrid.ir.interpreter import current
from hybrid.staging.constructs.try_ import Last, Marked, is_iterated, is_refusal, too_deep
from hybrid.staging.sessions.views import tracing
from hybrid.trace.places.code_owner import is_library, of_package
from hybrid.trace.places.names import by_code
from hybrid.trace.regions.handlers import Handler, Raised


class Managed:
    """A context manager in place of ``manager`` that cannot suppress refusals of the capture."""

    def __init__(self, manager: Any, handler: Handler, last: Last) -> None:
        self.manager, self.mark, self.last = manager, Marked(handler), last
        self.enter, self.leave = type(manager).__enter__, type(manager).__exit__

    def __enter__(self) -> Any:
        value = self.enter(self.manager)
        self.mark.__enter__()
        return value

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self.mark.__exit__()
        with self.last:
            suppressed = self.leave(self.manager, kind, error, trace)
        if isinstance(error, RecursionError) and tracing():
            raise too_deep("with", self.mark.handler.at) from None
        return suppressed and not is_refusal(error)


def with_(site: Site, manager: Any) -> Any:
    """The session of a ``with`` over ``manager``, which enters its ``manager``."""
    if not tracing():
        return _Plain(manager)
    frame = sys._getframe(1)
    takes = takes_errors(manager) and not (site.yields and is_iterated(frame))
    return (
        hyb__.StagedWith(site, frame, manager) if takes else _Plain(guarded(site, manager, frame))
    )


class _Plain:
    """The session of a ``with`` that takes no errors which are pending."""

    __slots__ = ("manager",)
    loads, values = False, ()

    def __init__(self, manager: Any) -> None:
        self.manager = manager


def takes_errors(manager: Any) -> bool:
    """Whether the end of ``manager`` can be run once for each way out of its block."""
    if isinstance(manager, contextlib.ExitStack):
        return all(  # a generator can go on but once
            inner is None or (takes_errors(inner) and not isinstance(inner, GENERATOR))
            for inner, _ in _endings(manager)
        )
    if isinstance(manager, GENERATOR):
        return is_converted_code(manager.gen.gi_code)
    return may_suppress(manager) or is_authors(manager)


def _endings(stack: contextlib.ExitStack) -> Iterator[tuple[Any, Any]]:
    """What the end of ``stack`` calls: (manager or None, its end or a callback)."""
    for _, leave in stack._exit_callbacks:
        inner = getattr(leave, "__self__", None)
        ends = leave.__func__ if isinstance(leave, types.MethodType) else None
        yield (inner if ends is getattr(type(inner), "__exit__", stack) else None), leave


def guarded(site: Site, manager: Any, frame: types.FrameType) -> Any:
    """The context manager that ``frame`` enters for ``manager``: itself if its end is harmless."""
    may = may_suppress(manager)
    if not may and not is_authors(manager):
        return manager
    last = Last(site.location, f"the end of a with ({type(manager).__name__})", "with")
    catches = catches_of(manager, last)
    resumes = functools.partial(resumed, manager)
    handler = Handler(
        at=site.location, frame=id(frame), catches=catches, resumes=resumes, kind="with"
    )
    return Managed(manager, handler, last)


def catches_of(manager: Any, last: Last) -> Callable[[Raised | None], bool]:
    """What ``manager`` catches; ``last`` is its end."""
    if not may_suppress(manager):
        return last.noting(_nothing)
    catches = functools.partial(suppresses, manager)
    if isinstance(manager, contextlib.ExitStack):  # what it ends with is entered later
        noting = last.noting(catches)
        return lambda kind: (noting if is_authors(manager) else catches)(kind)
    return catches


def _nothing(_: Any) -> bool:
    return False


def is_authors(manager: Any) -> bool:
    """Whether code of the author's runs at the end of the block."""
    if isinstance(manager, contextlib.ExitStack):
        return any(inner is None or is_authors(inner) for inner, _ in _endings(manager))
    if isinstance(manager, contextlib.closing):
        return _of_author(getattr(manager.thing, "close", None))
    kind = type(manager)
    leave = getattr(kind, "__exit__", None)
    return hasattr(kind, "__enter__") and _of_author(leave)


def _of_author(function: Any) -> bool:
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        return False
    return not (of_package(function.__code__) or is_library(function.__code__))


def may_suppress(manager: Any) -> bool:
    kind = type(manager)
    leave = getattr(kind, "__exit__", None)
    if not hasattr(kind, "__enter__") or not isinstance(leave, types.FunctionType):
        return False  # locks, files: C code that suppresses nothing
    return isinstance(manager, _KNOWN) or _may_be_true(leave.__code__)


def suppresses(manager: Any, kind: Raised | None) -> bool:
    """Whether ``manager`` may suppress an exception of class ``kind``, or any at all."""
    if isinstance(manager, contextlib.suppress):
        found = manager._exceptions
        return bool(found) if kind is None else issubclass(kind, found)
    if isinstance(manager, contextlib.ExitStack):
        return any(
            _answers_true(leave)
            if inner is None
            else (may_suppress(inner) and suppresses(inner, kind))
            for inner, leave in _endings(manager)
        )
    if isinstance(manager, GENERATOR):
        code = manager.gen.gi_code
        return not (is_converted_code(code) or is_library(code) or of_package(code))
    return True


def resumed(manager: Any) -> Iterator[types.FrameType]:
    """The frames of generators that get the exception, and may catch it."""
    if isinstance(manager, contextlib.ExitStack):
        for inner, _ in _endings(manager):
            yield from resumed(inner)
    generator = manager.gen if isinstance(manager, GENERATOR) else None
    while isinstance(generator, types.GeneratorType) and generator.gi_frame is not None:
        yield generator.gi_frame
        generator = generator.gi_yieldfrom


def converted_end(end: Any) -> Callable[..., Any]:
    """Return the end of a manager, or a callback of an ``ExitStack``, with author's code converted.

    The standard library calls what it is given as it stands.
    """
    manager = getattr(end, "__self__", None)
    if isinstance(manager, contextlib.closing):
        close = current().converted(manager.thing.close, True)
        return lambda *_: _nothing(close())
    wrapped = getattr(end, "__wrapped__", None)
    if wrapped is None:
        return current().converted(end, True)
    given = inspect.getclosurevars(end).nonlocals
    callback = current().converted(wrapped, True)

    def call(*_: Any) -> None:
        callback(*given["args"], **given["kwds"])

    return call


def _answers_true(callback: Any) -> bool:
    """Whether a function at the end of a stack may answer that it suppresses the exception."""
    function = getattr(callback, "__func__", callback)
    return not isinstance(function, types.FunctionType) or _may_be_true(function.__code__)


@by_code
def _may_be_true(code: types.CodeType) -> bool:
    """Whether a function returns anything but None and False."""
    if of_package(code):
        return False
    try:
        node = written(code).node
    except NoSource:
        return True
    if isinstance(node, ast.Lambda):
        return True
    returned = [inner.value for inner in walk_scope(node) if isinstance(inner, ast.Return)]
    return any(
        value is not None and not (isinstance(value, ast.Constant) and not value.value)
        for value in returned
    )


GENERATOR = contextlib._GeneratorContextManager
_KNOWN = (contextlib.suppress, contextlib.ExitStack, GENERATOR)


def managed(site: Site, manager: Any) -> Any:
    """The context manager to enter for ``manager``: itself while nothing is captured."""
    if not tracing():
        return manager
    return guarded(site, manager, sys._getframe(1))
