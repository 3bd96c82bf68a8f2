"""``hyb__``: the run-time halves of all constructs, under the names that templates call them by."""

from __future__ import annotations

import builtins
from types import SimpleNamespace

from hybrid.convert.order import ORDER


def _collected() -> SimpleNamespace:
    found = {function.__name__: function for kind in ORDER for function in kind.runtime}
    return SimpleNamespace(**found, locals=builtins.locals, globals=builtins.globals)


hyb__ = _collected()
