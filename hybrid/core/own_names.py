"""What is known of conversion without it: its names, its mark, and the tuples in code that it made.

No author could write its names; the mark, which keeps it away from a function, ``no_convert`` puts.
"""

import types
from collections.abc import Callable, Iterator
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


_tuples: dict[int, tuple[Any, ...]] = {}  # constants of converted code, by their ids


def is_constant_tuple(value: Any) -> bool:
    """Whether ``value`` is a constant of converted code: each call has that very one."""
    return _tuples.get(id(value)) is value


def note_tuples(code: types.CodeType) -> Callable[[], None]:
    """Note the constant tuples of ``code``, which is converted; returns what forgets them."""
    found = {id(constant): constant for constant in _tuples_in(code.co_consts)}
    _tuples.update(found)

    def forget() -> None:
        for key in found:
            _tuples.pop(key, None)

    return forget


def _tuples_in(constants: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for constant in constants:
        if type(constant) is tuple:
            yield constant
            yield from _tuples_in(constant)
