"""Marks that authors put on their functions."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

from hybrid.errors import ArgumentTypeError

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__hyb_no_convert__"


def no_convert(function: F) -> F:
    """Mark ``function``: it is called as it is, and traced like library code."""
    if not isinstance(function, types.FunctionType):
        raise ArgumentTypeError(
            f"a {type(function).__name__} cannot be marked with no_convert",
            fix="decorate a function or a method with it",
        )
    function.__dict__[MARK] = function.__code__
    return function
