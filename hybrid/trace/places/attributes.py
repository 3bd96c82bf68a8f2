"""List and read the stored attributes of an object without running any of its code."""

from __future__ import annotations

import functools
import types
from typing import Any
from weakref import WeakKeyDictionary

from hybrid.core.package import is_of_hybrid

MISSING: Any = object()  # in place of an attribute that is not there
# By classes, which may go like all else.
_data: WeakKeyDictionary[type, tuple[int, frozenset[str]]] = WeakKeyDictionary()
_cached: WeakKeyDictionary[type, tuple[int, frozenset[str]]] = WeakKeyDictionary()


def attribute_names(owner: Any) -> set[str]:
    """Return the names of the attributes stored on ``owner`` itself or on its class."""
    if isinstance(owner, types.ModuleType):
        return set(vars(owner))
    if isinstance(owner, type):
        bases = [base for base in owner.__mro__ if not is_of_hybrid(base)]
        return set().union(*[_data_of(base, len(vars(base))) for base in bases])
    return class_names(type(owner)).union(getattr(owner, "__dict__", ()))


def class_names(kind: type) -> set[str]:
    """Return the names of the attributes that ``kind`` stores for its objects."""
    return set().union(*[_data_of(base, len(vars(base))) for base in kind.__mro__])


def _data_of(kind: type, size: int) -> frozenset[str]:
    """Return the names of the data in ``kind`` itself, cached for a number of entries ``size``."""
    known = _data.get(kind)
    if known is None or known[0] != size:
        names = frozenset(n for n, member in vars(kind).items() if _is_data(n, member))
        known = _data[kind] = (size, names)
    return known[1]


def _is_data(name: str, member: Any) -> bool:
    if name.startswith("__"):
        return False
    if isinstance(member, types.MemberDescriptorType):
        return True
    return not callable(member) and not isinstance(
        member,
        (
            staticmethod,
            classmethod,
            property,
            functools.cached_property,
            types.GetSetDescriptorType,
        ),
    )


def cached_names(owner: Any) -> set[str]:
    """Return the names of the cached properties of ``owner``."""
    names: set[str] = set()
    for base in type(owner).__mro__:
        names |= _cached_of(base, len(vars(base)))
    return names


def _cached_of(kind: type, size: int) -> frozenset[str]:
    """Return the names of the cached properties of ``kind`` itself, cached for ``size`` entries."""
    known = _cached.get(kind)
    if known is None or known[0] != size:
        members = vars(kind).items()
        names = [n for n, member in members if isinstance(member, functools.cached_property)]
        known = _cached[kind] = (size, frozenset(names))
    return known[1]


def stored(owner: Any, name: str) -> Any:
    """Return the stored attribute, or MISSING; no property runs."""
    found = getattr(owner, "__dict__", {}).get(name, owner)
    if found is not owner:
        return found
    of_class = isinstance(owner, type)
    for base in (owner if of_class else type(owner)).__mro__:
        if name in vars(base):
            member = vars(base)[name]
            if isinstance(member, types.MemberDescriptorType) and not of_class:
                return member.__get__(owner) if hasattr(owner, name) else MISSING
            return member
    return MISSING


def plainly_read(owner: Any, name: str) -> bool:
    """Return whether getattr(), which is faster, gives the same as ``stored``."""
    kind = type(owner)
    if isinstance(owner, type) or kind.__getattribute__ is not object.__getattribute__:
        return False
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), MISSING)
    return member is not MISSING and (
        isinstance(member, types.MemberDescriptorType) or not hasattr(type(member), "__get__")
    )


def storage_of(owner: Any, name: str) -> Any:
    """Return ``owner`` or the class that stores ``owner.name``; None if code may decide."""
    if isinstance(owner, type):
        plain = type(owner).__getattribute__ is type.__getattribute__
        plain = plain and not any(name in vars(base) for base in type(owner).__mro__)
        return next((b for b in owner.__mro__ if name in vars(b)), None) if plain else None
    kind = type(owner)
    if not isinstance(kind.__getattribute__, types.WrapperDescriptorType):
        return None
    holder = next((base for base in kind.__mro__ if name in vars(base)), None)
    member = None if holder is None else vars(holder)[name]
    if name in getattr(owner, "__dict__", {}):
        return None if hasattr(type(member), "__set__") else owner
    if isinstance(member, types.MemberDescriptorType):
        return owner
    return None if hasattr(type(member), "__get__") else holder
