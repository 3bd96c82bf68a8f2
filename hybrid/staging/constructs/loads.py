"""Loads of attributes and items: what only some paths have set is checked for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hybrid.convert.runtime import hyb__
from hybrid.eager.tensor import Tensor
from hybrid.staging.sessions.variables import read
from hybrid.staging.sessions.views import LOOKED_INTO, look, tracing
from hybrid.staging.values import subscripts
from hybrid.staging.values.dicts import DictView
from hybrid.trace.values.optional import OptionalValue


def taken(value: Any) -> Any:
    """What an attribute or item holds; if only some paths have set it, the plan checks that."""
    return read(value, "what is read here") if isinstance(value, OptionalValue) else value


def offered(value: Any) -> Any:
    """The same of what goes where it need not be there on all paths: None is a value, too."""
    is_none = type(value) is OptionalValue and value.other is None
    return value if is_none else taken(value)


def keyed(container: Any) -> Any:
    """``container``, of which an item is about to be taken."""
    seen = look(container)
    if isinstance(container, defaultdict) and tracing():
        return DictView(container)
    return seen


def indexed(container: Any) -> Any:
    """The same where only the run may know which item it is."""
    seen = keyed(container)
    return _indexed(container, seen) if tracing() else seen


def _indexed(container: Any, seen: Any) -> Any:

    return subscripts.indexed(container, seen)


SPREAD = (Tensor, *LOOKED_INTO)  # what has items that nobody uses up


def spread(value: Any) -> Any:
    """``value``, whose items are about to be taken one by one."""
    if not isinstance(value, SPREAD) and tracing():
        hyb__.gone_over(value, "unpacking")
    return look(value)
