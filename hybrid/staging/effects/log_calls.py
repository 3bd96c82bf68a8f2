"""Logging during a capture: ordered calls into Python, made at every run of the plan.

A file of its own, for it is imported with the first call of a function of ``logging``: most
captures make none, and ``logging`` is slow to import.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any

from hybrid.staging.effects.printing import caller, warn
from hybrid.staging.sessions.overrides import OVERRIDES, Override, overrides
from hybrid.staging.sessions.views import tracing
from hybrid.trace.values.deferred import call_deferred


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
    frame = caller(stacklevel)
    place = ("(unknown file)", 0, "(unknown function)")
    if frame is not None:
        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    if exc_info and not isinstance(exc_info, (BaseException, tuple)):
        exc_info = sys.exc_info()
    if isinstance(exc_info, BaseException):
        exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
    stack = _stack(frame) if stack_info else None
    write = functools.partial(_write_record, logger, rooted, level, place, exc_info or None, stack)
    call_deferred(write, message, arguments, None if extra is None else dict(extra))


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


def _deprecated(word: str, override: Override) -> Override:
    """``logging.warn`` and ``Logger.warn``, which warn of themselves."""

    def warning(*arguments: Any, **options: Any) -> Any:
        text = f"The 'warn' {word} is deprecated, use 'warning' instead"
        if warn(text, DeprecationWarning) is NotImplemented:
            return NotImplemented
        return override(*arguments, **options)

    return warning


def log_override(function: Any) -> Override | None:
    """The override of a function of ``logging``; None for others."""
    return OVERRIDES.get(function)


overrides(logging.log)(_module_log)
overrides(logging.Logger.log)(_method_log)
overrides(logging.LoggerAdapter.log)(_adapter_log)
for _name, _level in _LEVELS.items():
    _defaults = {"exc_info": True} if _name == "exception" else {}
    overrides(getattr(logging, _name))(_module_function(_level, **_defaults))
    overrides(getattr(logging.Logger, _name))(_method(_level, **_defaults))
    if _name != "fatal":
        overrides(getattr(logging.LoggerAdapter, _name))(_adapter_method(_level, **_defaults))
if hasattr(logging, "warn"):  # not since Python 3.13
    overrides(logging.warn)(_deprecated("function", _module_function(logging.WARNING)))
    overrides(logging.Logger.warn)(_deprecated("method", _method(logging.WARNING)))
