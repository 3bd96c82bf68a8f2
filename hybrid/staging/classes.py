"""Members of the author's classes (operators, properties) replaced by conversions in a capture.

What Python itself calls (``__add__``, ``__iter__``, a property) no call in converted code goes
through.  So for the time of a capture these members are their conversions, which on plain values
are the members themselves.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hybrid.convert.conversion import convert
from hybrid.eager.thread_state import ending
from hybrid.staging.callee import is_users
from hybrid.staging.effects.cached_properties import cached
from hybrid.staging.effects.result_caches import memoized

R = TypeVar("R")

# They make or describe objects and classes: calls of them are converted where they are written.
_LEFT_ALONE = frozenset(
    {
        "__init__", "__new__", "__del__", "__repr__", "__str__", "__format__", "__hash__",
        "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__",
        "__deepcopy__", "__sizeof__", "__dir__", "__init_subclass__", "__subclasshook__",
        "__class_getitem__", "__set_name__", "__getattribute__",
    }
)  # fmt: skip


def with_converted_members(classes: Iterable[type], call: Callable[[], R]) -> R:
    """The result of ``call()`` while members of ``classes`` are conversions."""
    changed: list[tuple[type, str, Any]] = []

    def converted() -> R:
        for kind in classes:
            for name, member in list(vars(kind).items()):
                made = _converted(name, member)
                if made is not member:
                    changed.append((kind, name, member))
                    type.__setattr__(kind, name, made)
        return call()

    def put_back() -> None:
        for kind, name, member in changed:
            type.__setattr__(kind, name, member)

    return ending(converted, put_back)


def _converted(name: str, member: Any) -> Any:
    if isinstance(member, types.FunctionType):
        operator = name.startswith("__") and name.endswith("__") and name not in _LEFT_ALONE
        return _function(member) if operator else member
    if type(member) is functools.cached_property:
        return cached(member)
    if type(member) is property:
        parts = [_function(part) for part in (member.fget, member.fset, member.fdel)]
        if all(new is old for new, old in zip(parts, _parts(member), strict=True)):
            return member
        return property(*parts, doc=member.__doc__)
    return member


def _parts(member: property) -> list[Any]:
    return [member.fget, member.fset, member.fdel]


def _function(function: Any) -> Any:
    if isinstance(function, types.FunctionType) and is_users(function):
        return convert(function)
    return memoized(function) or function
