"""``hyb__``: the functions that converted code calls, under the names that templates know."""

from __future__ import annotations

import builtins
from typing import Any

from hybrid.core.late_names import LateNames


class Runtime(LateNames):
    """A constant of converted code, so compared and hashed by identity.

    ``staging`` provides the functions: what they do is no business of conversion.
    """

    locals = staticmethod(builtins.locals)
    globals = staticmethod(builtins.globals)

    def __repr__(self) -> str:
        return "<hyb__>"


hyb__: Any = Runtime()
