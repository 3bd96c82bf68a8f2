"""Watch: which lines of the author's run while a function is captured, and in which functions."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from hybrid.convert.conversion import is_converted_code
from hybrid.core.dataclass import dataclass, field
from hybrid.errors import author_frame
from hybrid.trace.places.code_owner import is_library, of_package

Place = tuple[str, int]
_PACKAGE = __name__.partition(".")[0]
_PACKAGES = ("site-packages", "dist-packages")


@dataclass
class Watch:
    """While it is entered, Python tells it of every line that runs on this thread.

    A debugger or a coverage tool that watches too sees nothing of the capture.
    """

    lines: set[Place] = field(default_factory=set)
    # By where a function begins and what it is called, in the order of their first calls.
    functions: dict[tuple[str, int, str], types.CodeType] = field(default_factory=dict)
    calls: dict[Place, dict[Place, str]] = field(default_factory=dict)  # caller -> callees

    def __enter__(self) -> Watch:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if not _is_authors(frame):
            return None
        begin = code.co_filename, code.co_firstlineno
        self.functions.setdefault((*begin, code.co_name), code)
        caller = author_frame(frame.f_back)
        if caller is not None:
            callees = self.calls.setdefault((caller.f_code.co_filename, caller.f_lineno), {})
            callees.setdefault(begin, code.co_name)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _is_authors(frame: FrameType) -> bool:
    code = frame.f_code
    if of_package(code) or is_library(code):
        return False
    if code.co_filename.startswith("<"):  # what a library makes up, such as methods of dataclasses
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module == _PACKAGE or module in sys.stdlib_module_names - {"__main__"}:
            return False
    return is_converted_code(code) or not any(part in code.co_filename for part in _PACKAGES)
