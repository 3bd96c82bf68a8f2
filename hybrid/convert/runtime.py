"""``hyb__``: the run-time halves of all constructs, under the names that templates call them by."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from hybrid.convert.order import ORDER


class Runtime:
    """A constant of converted code, so compared and hashed by identity."""

    locals = staticmethod(builtins.locals)
    globals = staticmethod(builtins.globals)

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self.__dict__.update(functions)

    def __repr__(self) -> str:
        return "<hyb__>"


hyb__ = Runtime({function.__name__: function for kind in ORDER for function in kind.runtime})
