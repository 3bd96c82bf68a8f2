"""Remains: what a call had written when it raised, on its way to whoever puts it in force.

A plan computes what it writes and hands it over when it is done.  Where Python code that it calls
may raise, that code also gets the values that are written so far, and leaves them with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Put = Callable[..., None]  # what puts it in force, given what the call has been given

_KEY = "_hybrid_remains"


def leave(error: BaseException, put: Put) -> None:
    """Let ``error`` carry what was written; what it carries already was closer to the place."""
    vars(error).setdefault(_KEY, put)


def taken(error: BaseException) -> Put | None:
    """What ``error`` carries, and does no longer."""
    return vars(error).pop(_KEY, None)


class Leaving:
    """``function`` as a plan calls it; the arrays after its ``own`` are what is written so far."""

    def __init__(
        self, function: Callable[..., Any], own: int, left: Callable[[Leaving, Sequence[Any]], Put]
    ) -> None:
        self.function, self.own, self.left = function, own, left
        self.__qualname__ = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, *arrays: Any) -> Any:
        try:
            return self.function(*arrays[: self.own])
        except BaseException as error:
            leave(error, self.left(self, arrays[self.own :]))
            raise

    def __repr__(self) -> str:
        return repr(self.function)
