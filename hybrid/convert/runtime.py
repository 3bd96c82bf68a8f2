"""The table ``hyb__``: the staging functions that converted code calls, by name."""

from __future__ import annotations

import builtins
from typing import Any

from hybrid.core.late_names import LateNames


class Runtime(LateNames):
    """The type of ``hyb__``: a constant of converted code, compared by identity.

    ``staging`` provides the functions: what they do is no business of conversion.
    """

    locals = staticmethod(builtins.locals)
    globals = staticmethod(builtins.globals)

    def __repr__(self) -> str:
        return "<hyb__>"


hyb__: Any = Runtime()
