"""Names of conversion: those that it adds to a function, and the mark that keeps it away from one.

No author could write the first; ``no_convert`` puts the second.
"""

import types
from collections.abc import Callable
from typing import Any, TypeVar

from hybrid.errors import ArgumentTypeError

PREFIX = "hyb$"  # of them all
RUNTIME = f"{PREFIX}$"  # the functions of staging, which templates and texts call hyb__
RESULT = f"{PREFIX}result"  # what the function returns
VALUE = f"{PREFIX}value"  # of an expression


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
