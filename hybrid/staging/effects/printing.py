"""Printing and warnings during a capture: ordered calls into Python at every run of the plan.

Each override gets the arguments of the call.  It works out what the call was about to write, as
texts that mention traced values, and stages the writing.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from hybrid.errors import author_frame
from hybrid.staging.sessions.overrides import Override, overrides
from hybrid.staging.sessions.views import tracing
from hybrid.trace.values.deferred import call_deferred
from hybrid.trace.values.templates import NoTemplateError


@overrides(print)
def print_(*values: Any, **options: Any) -> Any:
    """The override of ``print``."""
    if not tracing():
        return NotImplemented
    texts = [str(value) for value in values]
    file = options.pop("file", None)
    says = _name_of(file), functools.partial(_printed, texts, **options)
    return call_deferred(functools.partial(_print, _stream(file)), options, *texts, says=says)


def _print(stream: Callable[[], Any], options: dict[str, Any], *texts: str) -> None:
    print(*texts, file=stream(), **options)


def _printed(texts: Sequence[str], sep: Any = None, end: Any = None, flush: Any = False) -> str:
    """What ``print`` writes of these texts, with their marks."""
    between, last = " " if sep is None else sep, "\n" if end is None else end
    if not (isinstance(between, str) and isinstance(last, str)):
        raise NoTemplateError("what stands between its texts")
    return str.join(str.__str__(between), texts) + str.__str__(last)


def _name_of(file: Any) -> str:
    """Which of the standard streams ``file`` is; "file": none of them."""
    if file is None or file is sys.stdout:
        return "stdout"
    return "stderr" if file is sys.stderr else "file"


def _stream(file: Any) -> Callable[[], Any]:
    """Where to find ``file`` when the plan runs: the standard streams are those of that moment."""
    for name in ("stdout", "stderr"):
        if file is getattr(sys, name):
            return functools.partial(getattr, sys, name)
    return lambda: file


def write_method(method: Any) -> Override | None:
    """The override of ``sys.stdout.write`` and its like; None for other methods."""
    file = getattr(method, "__self__", None)
    if file is None or getattr(method, "__name__", "") != "write":
        return None
    if file is not sys.stdout and file is not sys.stderr:
        return None
    stream = _stream(file)

    def write(text: str) -> int:
        if not isinstance(text, str):
            return method(text)  # which raises
        says = _name_of(file), lambda: str.__str__(text)
        call_deferred(functools.partial(_write, stream), text, says=says)
        return len(text)

    return write


def _write(stream: Callable[[], Any], text: str) -> None:
    stream().write(text)


# Logging -----------------------------------------------------------------------------------------


def caller(stacklevel: int) -> FrameType | None:
    """The frame of the author's code that calls, or one further out."""
    frame = author_frame(sys._getframe(1))
    while stacklevel > 1 and frame is not None and frame.f_back is not None:
        outer = author_frame(frame.f_back)
        if outer is None:
            break
        frame, stacklevel = outer, stacklevel - 1
    return frame


# Warnings ----------------------------------------------------------------------------------------


@overrides(warnings.warn)
def warn(
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    **options: Any,
) -> Any:
    """The override of ``warnings.warn``."""
    if not tracing() or options or not isinstance(message, (str, Warning)):
        return NotImplemented
    if isinstance(message, Warning):
        category = type(message)
    category = UserWarning if category is None else category
    if not (isinstance(category, type) and issubclass(category, Warning)):
        return NotImplemented  # raises what it raises
    frame = caller(stacklevel)
    path, line, namespace = "sys", 1, sys.__dict__
    if frame is not None:
        path, line, namespace = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    registry = namespace.setdefault("__warningregistry__", {})
    module = namespace.get("__name__") or "<string>"
    write = functools.partial(
        _warn, category, path, line, module=module, registry=registry, source=source
    )
    return call_deferred(write, message)


def _warn(category: type[Warning], path: str, line: int, message: Any, **options: Any) -> None:
    warnings.warn_explicit(message, category, path, line, **options)
