"""Fault injection: an exception at any line of the package that a call runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import hybrid

PACKAGE = os.path.dirname(hybrid.__file__) + os.sep
# What Python calls by itself when an object goes: whatever is raised there goes nowhere.
_UNHEARD = ("__del__", "<lambda>")


class Stop(BaseException):
    """What the handler of a signal raises to end a program."""


class Limit(Exception):
    """What the handler of a signal raises to end a call."""


KINDS = (KeyboardInterrupt, MemoryError, Stop, Limit)


Line = tuple[CodeType, int]


class Injection:
    """Raises ``error`` before a line runs for the n-th time; without one it counts all lines."""

    def __init__(
        self, line: Line | None = None, time: int = 1, error: BaseException | None = None
    ) -> None:
        self.line, self.left, self.error = line, time, error
        self.times: dict[Line, int] = {}  # how often each line ran
        self.place = ""  # where it was raised
        self.runs = False  # whether a plan was there already, which ran

    def run(self, call: Callable[[], Any]) -> Any:
        """``call()``; what it raises comes through."""
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if self.line is not None:
            return self._raise if code is self.line[0] else None
        own = code.co_filename.startswith(PACKAGE) and code.co_name not in _UNHEARD
        return self._count if own else None

    def _count(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            line = frame.f_code, frame.f_lineno
            self.times[line] = self.times.get(line, 0) + 1
        return self._count

    def _raise(self, frame: FrameType, event: str, _argument: Any) -> Any:
        assert self.line is not None and self.error is not None
        if event == "line" and frame.f_lineno == self.line[1]:
            self.left -= 1
            if not self.left:
                path = frame.f_code.co_filename[len(PACKAGE) :]
                self.place = f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
                self.runs = _runs(frame)
                sys.settrace(None)
                raise self.error
        return self._raise


def _runs(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<binding>":
        frame = frame.f_back
    return frame is not None
