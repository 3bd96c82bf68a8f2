"""Objects of the author's classes that a plan can make: they are what their attributes are.

Where paths meet that have bound different ones, and at the head of a loop that binds a new one, an
object of the same class takes their place, made without a call of ``__init__``.
"""

from __future__ import annotations

import enum
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.trace.places.code_owner import is_library_class, user_object
from hybrid.trace.places.place import attributes_of, put_attribute, read_place

CONTAINERS = (list, dict, OrderedDict)  # of trees, but for those that nobody can change
_NEVER = (
    type, types.ModuleType, types.FunctionType, types.MethodType, BaseException, enum.Enum,
    Iterator, tuple, Tensor,
)  # fmt: skip


def is_plain(value: Any) -> bool:
    """Whether ``value`` is an object of a class of the author's with nothing but attributes."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, _NEVER) or not user_object(value):
        return False
    if hasattr(kind, "__del__"):
        return False
    if any(base.__module__.partition(".")[0] == "hybrid" for base in kind.__mro__):
        return False
    try:
        blank(kind)
    except TypeError:  # its class has a state of another kind
        return False
    return True


def an_attribute(value: Any) -> str:
    """The name of one that an object of the author's has, for advice."""
    return next(iter(attributes(value)), "name")


def is_authors(kind: type) -> bool:
    """Whether ``kind`` is a class of the author's, or one that only holds attributes."""
    return kind is types.SimpleNamespace or not is_library_class(kind)


def blank(kind: type) -> Any:
    """A new object of the class ``kind``, without attributes."""
    if issubclass(kind, types.SimpleNamespace):
        return kind.__new__(kind)
    return object.__new__(kind)


def empty(kind: type) -> Any:
    """A new list or dict, or a new object of another class without attributes."""
    return kind() if kind in CONTAINERS else blank(kind)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of ``value`` itself, in order."""
    own = [*getattr(value, "__dict__", ())]
    names = [*own, *sorted(attributes_of(value) - set(own))]
    return {name: read_place(value, name) for name in names}


def filled(value: Any, found: Any) -> Any:
    """``value``, which has got ``found`` for its attributes, or for what it holds."""
    if isinstance(value, list):
        value += found
        return value
    if isinstance(value, dict):
        value.update(found)
        return value
    for name, part in found.items():
        put_attribute(value, name, part)
    return value
