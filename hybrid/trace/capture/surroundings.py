"""What a capture changes in the process around it: signal handlers compute eagerly, files are shut.

Code that runs beside a capture on its thread is no part of it, so for its time handlers of signals
are called below whatever traces.  What a file holds, and whether it is there, is known to no guard:
the functions of Python through which all libraries reach files refuse that, whoever calls them.
"""

from __future__ import annotations

import _signal
import builtins
import functools
import io
import linecache
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any, TypeVar

from hybrid.core.exceptions import SIGNALS, is_handler
from hybrid.eager.thread_state import ending
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir.interpreter import ACTIVE, current, set_stack, stack
from hybrid.ir.record import Mode, mode, set_mode
from hybrid.trace.places.code_owner import is_library
from hybrid.trace.places.frames import BOUNDARIES

R = TypeVar("R")
Swap = tuple[Any, str, Any]  # an owner, an attribute, and what it holds otherwise

OUTSIDE = "do it outside the hybridized function, or call it by hybrid.py_call"
_OPENING = (
    (builtins, "open"), (io, "open"), (io, "open_code"),
    *[(os, name) for name in ("open", "read", "pread", "readv", "stat", "lstat", "fstat", "access",
                              "listdir", "scandir", "readlink", "statvfs", "getxattr")],
)  # fmt: skip
# What looks for source texts and code, which are those that run, and debuggers.
_BESIDE = frozenset(
    {
        "linecache", "tokenize", "inspect", "pdb", "bdb", "cmd", "ipdb", "IPython", "pudb",
        "debugpy", "_pydevd_bundle", "pydevd",
    }
)  # fmt: skip


def surrounded(call: Callable[[], R]) -> R:
    """``call()``, a capture, with signal handlers below it and without files."""
    swaps: list[Swap] = []

    def captured() -> R:
        _shut_files(swaps)
        return call()

    def put_back() -> None:
        for owner, name, before in swaps:
            setattr(owner, name, before)

    return above_handlers(lambda: ending(captured, put_back))


# Signals ------------------------------------------------------------------------------------------


def above_handlers(call: Callable[[], R]) -> R:
    """``call()``, which traces, with signal handlers below it: they compute as if it did not."""
    handlers: dict[int, tuple[Any, Any]] = {}

    def called() -> R:
        if threading.current_thread() is threading.main_thread():
            _lower_handlers(handlers)
        return call()

    def put_back() -> None:
        for number, (before, lowered) in handlers.items():
            if signal.getsignal(number) is lowered:  # the author has set no other
                signal.signal(number, before)

    return ending(called, put_back)


class _Lowered:
    """A handler of a signal, below the interpreters and modes that a capture has begun."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler
        self.mode = mode()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        beside(functools.partial(self.handler, number, frame), self.mode)


def beside(call: Callable[[], R], recording: Mode) -> R:
    """``call()`` as if nothing were captured on this thread."""
    with ExitStack() as after:
        after.callback(set_stack, stack())
        after.callback(set_mode, *mode())
        set_stack(())
        set_mode(*recording)
        return call()


def _lower_handlers(handlers: dict[int, tuple[Any, Any]]) -> None:
    for number in SIGNALS:
        handler = _signal.getsignal(number)  # that of signal looks for names of numbers
        plain = handler is signal.default_int_handler or isinstance(handler, _Lowered)
        if callable(handler) and not plain:
            lowered = _Lowered(handler)
            handlers[number] = handler, lowered
            signal.signal(number, lowered)


# Files --------------------------------------------------------------------------------------------


class _Shut:
    """A function of Python's that reaches files, which a capture may not call.

    It equals the function, of which modules look up what it can do.
    """

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        functools.update_wrapper(self, function)
        self.function, self.label = function, label

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE and current().traces and not _is_beside(sys._getframe(1)):
            raise impure(self.label, _authors_line(sys._getframe(1)), OUTSIDE)
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.function

    def __hash__(self) -> int:
        return hash(self.function)


def _authors_line(frame: FrameType | None) -> Location | None:
    """The innermost line from ``frame`` outwards that is no library's."""
    while frame is not None and is_library(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return author_location()
    path, line = frame.f_code.co_filename, frame.f_lineno
    return Location(path, line, linecache.getline(path, line).strip())


def _shut_files(swaps: list[Swap]) -> None:
    for owner, name in _OPENING:
        function = getattr(owner, name, None)
        if function is not None and type(function) is not _Shut:
            label = name if owner in (builtins, io) else f"{owner.__name__}.{name}"
            swaps.append((owner, name, function))
            setattr(owner, name, _Shut(function, label))


def _is_beside(frame: FrameType | None) -> bool:
    """Whether ``frame`` is called by what is no part of the program that is captured.

    That is an import, a debugger, or the function of a tracer or profiler: it alone is given the
    frame that has called it.
    """
    while frame is not None and id(frame.f_code) not in BOUNDARIES:
        module = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if module.partition(".")[0] in _BESIDE:
            return True
        if frame.f_back is not None and is_handler(frame, frame.f_back):
            return True
        frame = frame.f_back
    return False


def impure(name: str, at: Location | None, fix: str) -> CaptureError:
    """The refusal of a call of ``name``, which is not the same at every call."""
    return CaptureError(
        f"{name}() gives or does something of its own at every call",
        at=at,
        why="It would be called once, while the function is captured, and not by the plan.",
        fix=fix,
    )
