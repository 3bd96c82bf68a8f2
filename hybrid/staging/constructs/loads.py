"""Run-time half of loads of attributes and items: optional values are checked for presence."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hybrid.convert.runtime import hyb__
from hybrid.eager.tensor import Tensor
from hybrid.staging.sessions.namespaces import namespace_of
from hybrid.staging.sessions.variables import read
from hybrid.staging.sessions.views import LOOKED_INTO, look, tracing
from hybrid.staging.values import subscripts
from hybrid.staging.values.dicts import DictView
from hybrid.trace.values.optional import OptionalValue


def taken(value: Any) -> Any:
    """The value of an attribute or item; the plan checks an optional one for presence."""
    return read(value, "what is read here") if isinstance(value, OptionalValue) else value


def offered(value: Any) -> Any:
    """The value of an attribute or item that may be None on some paths; else as ``taken``."""
    is_none = type(value) is OptionalValue and value.other is None
    return value if is_none else taken(value)


def keyed(container: Any) -> Any:
    """The container, or a view of it, from which an item with a constant key is taken."""
    if type(container) is dict and (space := namespace_of(container)) is not None:
        return space
    seen = look(container)
    if isinstance(container, defaultdict) and tracing():
        return DictView(container)
    return seen


def indexed(container: Any) -> Any:
    """The container, or a view of it, from which an item with any index is taken."""
    seen = keyed(container)
    return _indexed(container, seen) if tracing() else seen


def _indexed(container: Any, seen: Any) -> Any:

    return subscripts.indexed(container, seen)


SPREAD = (Tensor, *LOOKED_INTO)  # what has items that nobody uses up


def spread(value: Any) -> Any:
    """The iterable, or a view of it, whose items are taken one by one."""
    if not isinstance(value, SPREAD) and tracing():
        hyb__.gone_over(value, "unpacking")
    return look(value)
