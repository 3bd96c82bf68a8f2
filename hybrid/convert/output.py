"""print, logging and warnings while a function is captured: ordered calls, made at every run.

Each override gets the arguments of the call.  It works out what the call was about to write, as
texts that mention traced values, and stages the writing.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from hybrid.convert.traced import tracing
from hybrid.errors import author_frame
from hybrid.trace.late import call_late

Override = Callable[..., Any]


def print_(*values: Any, **options: Any) -> Any:
    """``print``."""
    if not tracing():
        return NotImplemented
    texts = [str(value) for value in values]
    stream = _stream(options.pop("file", None))
    return call_late(functools.partial(_print, stream), options, *texts)


def _print(stream: Callable[[], Any], options: dict[str, Any], *texts: str) -> None:
    print(*texts, file=stream(), **options)


def _stream(file: Any) -> Callable[[], Any]:
    """Where to find ``file`` when the plan runs: the standard streams are those of that moment."""
    for name in ("stdout", "stderr"):
        if file is getattr(sys, name):
            return functools.partial(getattr, sys, name)
    return lambda: file


def write_method(method: Any) -> Override | None:
    """What stages ``sys.stdout.write`` and its like; None for other methods."""
    file = getattr(method, "__self__", None)
    if file is None or getattr(method, "__name__", "") != "write":
        return None
    if file is not sys.stdout and file is not sys.stderr:
        return None
    stream = _stream(file)

    def write(text: str) -> int:
        if not isinstance(text, str):
            return method(text)  # which raises
        call_late(functools.partial(_write, stream), text)
        return len(text)

    return write


def _write(stream: Callable[[], Any], text: str) -> None:
    stream().write(text)


# Logging -----------------------------------------------------------------------------------------


def _caller(stacklevel: int) -> FrameType | None:
    """The author's frame that calls, or one so many calls further out."""
    frame = author_frame(sys._getframe(1))
    while stacklevel > 1 and frame is not None and frame.f_back is not None:
        outer = author_frame(frame.f_back)
        if outer is None:
            break
        frame, stacklevel = outer, stacklevel - 1
    return frame


def _log(
    logger: logging.Logger,
    rooted: bool,
    level: int,
    message: Any,
    arguments: tuple[Any, ...],
    exc_info: Any = None,
    stack_info: bool = False,
    stacklevel: int = 1,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Stage the record that ``logger`` would make here."""
    frame = _caller(stacklevel)
    place = ("(unknown file)", 0, "(unknown function)")
    if frame is not None:
        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    if exc_info and not isinstance(exc_info, (BaseException, tuple)):
        exc_info = sys.exc_info()
    if isinstance(exc_info, BaseException):
        exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
    stack = _stack(frame) if stack_info else None
    write = functools.partial(_write_record, logger, rooted, level, place, exc_info or None, stack)
    call_late(write, message, arguments, None if extra is None else dict(extra))


def _stack(frame: FrameType | None) -> str:
    text = io.StringIO()
    text.write("Stack (most recent call last):\n")
    traceback.print_stack(frame, file=text)
    return text.getvalue().rstrip("\n")


def _write_record(
    logger: logging.Logger,
    rooted: bool,
    level: int,
    place: tuple[str, int, str],
    exc_info: Any,
    stack: str | None,
    message: Any,
    arguments: tuple[Any, ...],
    extra: dict[str, Any] | None,
) -> None:
    if rooted and not logger.handlers:
        logging.basicConfig()
    if logger.isEnabledFor(level):
        path, line, function = place
        record = logger.makeRecord(
            logger.name, level, path, line, message, arguments, exc_info, function, extra, stack
        )
        logger.handle(record)


def _module_function(level: int, **defaults: Any) -> Override:
    """``logging.info`` and its like."""

    def override(message: Any, *arguments: Any, **options: Any) -> Any:
        if not tracing():
            return NotImplemented
        return _log(logging.getLogger(), True, level, message, arguments, **{**defaults, **options})

    return override


def _method(level: int, **defaults: Any) -> Override:
    """``Logger.info`` and its like."""

    def override(logger: logging.Logger, message: Any, *arguments: Any, **options: Any) -> Any:
        if not tracing():
            return NotImplemented
        return _log(logger, False, level, message, arguments, **{**defaults, **options})

    return override


def _module_log(level: int, message: Any, *arguments: Any, **options: Any) -> Any:
    """``logging.log``."""
    if not tracing() or not isinstance(level, int):
        return NotImplemented
    return _log(logging.getLogger(), True, level, message, arguments, **options)


def _method_log(
    logger: logging.Logger, level: int, message: Any, *arguments: Any, **options: Any
) -> Any:
    """``Logger.log``."""
    if not tracing() or not isinstance(level, int):
        return NotImplemented
    return _log(logger, False, level, message, arguments, **options)


def _adapter_log(
    adapter: logging.LoggerAdapter,
    level: int,
    message: Any,
    *arguments: Any,
    **options: Any,
) -> Any:
    """``LoggerAdapter.log``."""
    if not tracing():
        return NotImplemented
    message, options = adapter.process(message, options)
    logger = adapter.logger
    if isinstance(logger, logging.LoggerAdapter):
        return _adapter_log(logger, level, message, *arguments, **options)
    return _log(logger, False, level, message, arguments, **options)


def _adapter_method(level: int, **defaults: Any) -> Override:
    """``LoggerAdapter.info`` and its like."""

    def override(
        adapter: logging.LoggerAdapter, message: Any, *arguments: Any, **options: Any
    ) -> Any:
        return _adapter_log(adapter, level, message, *arguments, **{**defaults, **options})

    return override


_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
    "exception": logging.ERROR,
}


# Warnings ----------------------------------------------------------------------------------------


def warn(
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    **options: Any,
) -> Any:
    """``warnings.warn``."""
    if not tracing() or options or not isinstance(message, (str, Warning)):
        return NotImplemented
    if isinstance(message, Warning):
        category = type(message)
    category = UserWarning if category is None else category
    if not (isinstance(category, type) and issubclass(category, Warning)):
        return NotImplemented  # raises what it raises
    frame = _caller(stacklevel)
    path, line, namespace = "sys", 1, sys.__dict__
    if frame is not None:
        path, line, namespace = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    registry = namespace.setdefault("__warningregistry__", {})
    module = namespace.get("__name__") or "<string>"
    write = functools.partial(
        _warn, category, path, line, module=module, registry=registry, source=source
    )
    return call_late(write, message)


def _warn(category: type[Warning], path: str, line: int, message: Any, **options: Any) -> None:
    warnings.warn_explicit(message, category, path, line, **options)


def _deprecated(word: str, override: Override) -> Override:
    """``logging.warn`` and ``Logger.warn``, which warn of themselves."""

    def warning(*arguments: Any, **options: Any) -> Any:
        text = f"The 'warn' {word} is deprecated, use 'warning' instead"
        if warn(text, DeprecationWarning) is NotImplemented:
            return NotImplemented
        return override(*arguments, **options)

    return warning


OVERRIDES: dict[Any, Override] = {
    print: print_,
    warnings.warn: warn,
    logging.log: _module_log,
    logging.Logger.log: _method_log,
    logging.LoggerAdapter.log: _adapter_log,
}
for _name, _level in _LEVELS.items():
    _defaults = {"exc_info": True} if _name == "exception" else {}
    OVERRIDES[getattr(logging, _name)] = _module_function(_level, **_defaults)
    OVERRIDES[getattr(logging.Logger, _name)] = _method(_level, **_defaults)
    if _name != "fatal":
        OVERRIDES[getattr(logging.LoggerAdapter, _name)] = _adapter_method(_level, **_defaults)
if hasattr(logging, "warn"):  # not since Python 3.13
    OVERRIDES[logging.warn] = _deprecated("function", _module_function(logging.WARNING))
    OVERRIDES[logging.Logger.warn] = _deprecated("method", _method(logging.WARNING))
