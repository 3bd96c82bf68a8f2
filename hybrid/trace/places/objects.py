"""Create objects of the author's classes from their attributes, without calling ``__init__``.

Where two paths that have bound different objects meet, and at the head of a loop that binds a new
one, such an object of the same class takes their place.
"""

from __future__ import annotations

import enum
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from hybrid.core.package import is_of_hybrid
from hybrid.eager.tensor import Tensor
from hybrid.trace.places.code_owner import is_library_class, user_object
from hybrid.trace.places.place import put_attribute, read_place

CONTAINERS = (list, dict, OrderedDict)  # of trees, but for those that nobody can change
_names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
_NEVER = (
    type, types.ModuleType, types.FunctionType, types.MethodType, BaseException, enum.Enum,
    Iterator, tuple, Tensor,
)  # fmt: skip


def is_plain(value: Any) -> bool:
    """Return whether ``value`` is an object of the author's that its attributes describe fully."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, _NEVER) or not user_object(value):
        return False
    if hasattr(kind, "__del__"):
        return False
    if any(is_of_hybrid(base) for base in kind.__mro__):
        return False
    try:
        blank(kind)
    except TypeError:  # its class has a state of another kind
        return False
    return True


def is_object(value: Any) -> bool:
    """Return whether ``value`` is a plain object of one of the author's own classes."""
    return is_authors(type(value)) and is_plain(value)


def an_attribute(value: Any) -> str:
    """Return the name of some attribute of ``value``, for advice in messages."""
    return next(iter(attributes(value)), "name")


def is_authors(kind: type) -> bool:
    """Return whether ``kind`` is a class of the author's, or SimpleNamespace."""
    return kind is types.SimpleNamespace or not is_library_class(kind)


def blank(kind: type) -> Any:
    """Return a new object of class ``kind`` without attributes."""
    if issubclass(kind, types.SimpleNamespace):
        return kind.__new__(kind)
    return object.__new__(kind)


def empty(kind: type) -> Any:
    """Return a new list or dict, or a new object of class ``kind`` without attributes."""
    return kind() if kind in CONTAINERS else blank(kind)


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of ``value`` itself, in order; MISSING where it was never set."""
    own = getattr(value, "__dict__", {})
    described = _described_names(type(value))
    if not described:
        return dict(own)
    return {**own, **{name: read_place(value, name) for name in described if name not in own}}


def _described_names(kind: type) -> tuple[str, ...]:
    """Return the sorted names in the ``__slots__`` of ``kind`` and its bases."""
    found = _names.get(kind)
    if found is None:
        names = {
            name
            for base in kind.__mro__
            for name, member in vars(base).items()
            if isinstance(member, types.MemberDescriptorType)
        }
        found = _names[kind] = tuple(sorted(names - {"__dict__"}))
    return found


def filled(value: Any, found: Any) -> Any:
    """Add the items or attributes ``found`` to ``value``, and return it."""
    if isinstance(value, list):
        value += found
        return value
    if isinstance(value, dict):
        value.update(found)
        return value
    if hasattr(value, "__dict__") and not _described_names(type(value)):
        vars(value).update(found)
        return value
    for name, part in found.items():
        put_attribute(value, name, part)
    return value
