"""Guard the methods, properties and code of the author's classes and functions.

Members seldom change, so testing them has to cost next to nothing: each is
one attribute of a class, which Python finds in a cache of its own, compared by identity.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from hybrid.core.package import is_of_hybrid
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.attributes import attribute_names
from hybrid.trace.places.memos import CACHE

# What a class hands out as it is: a method of a class or an object is made anew each time.
_ITSELF = (
    types.FunctionType, types.BuiltinFunctionType, type, property, functools.cached_property,
    functools.partial, CACHE,
)  # fmt: skip
# What Python calls by itself only when a class is made, or an object goes.
_UNREAD = frozenset(
    {
        "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__slots__",
        "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__",
        "__del__", "__init_subclass__", "__set_name__", "__class_getitem__", "__subclasshook__",
        "__repr__", "__reduce__", "__reduce_ex__", "__sizeof__", "__dir__",
    }
)  # fmt: skip


class Members:
    """The class members and code objects that a capture relies on, from its ``reads``."""

    def __init__(self, reads: Reads) -> None:
        self.found = list(_found(reads))
        self.codes = [(f, f.__code__) for f in reads.functions.values()]

    def terms(self, names: dict[str, Any]) -> Iterator[str]:
        """Yield expressions that test all members and code; ``names`` gets what they refer to.

        A member that is gone makes them raise AttributeError.
        """
        for i, (kind, name, text, value) in enumerate(self.found):
            names[f"kind{i}"], names[f"member{i}"] = kind, value
            yield f"kind{i}.{name}{text} is member{i}"
        for i, (function, code) in enumerate(self.codes):
            names[f"function{i}"], names[f"code{i}"] = function, code
            yield f"function{i}.__code__ is code{i}"


def _found(reads: Reads) -> Iterator[tuple[Any, str, str, Any]]:
    """Yield (class, name, suffix of the expression, its value) for the members that may be used.

    In place of a class there may be what it holds.
    """
    for kind in reads.classes:
        names = reads.member_names - attribute_names(kind)
        known: set[str] = set()
        for base in kind.__mro__:
            for name, member in vars(base).items() if base in reads.classes else ():
                special = name.startswith("__") and name.endswith("__")
                if name in known or not (name not in _UNREAD if special else name in names):
                    continue
                known.add(name)
                if name.isidentifier() and (callable(member) or _binds(member)):
                    yield from _read(kind, base, name, member)


def _read(kind: type, base: type, name: str, member: Any) -> Iterator[tuple[Any, str, str, Any]]:
    if isinstance(member, classmethod):
        if isinstance(member.__func__, types.FunctionType):
            yield kind, name, ".__func__", member.__func__
    elif isinstance(member, staticmethod):
        yield kind, name, "", member.__func__
    elif isinstance(member, _ITSELF) or not _binds(member):
        yield kind, name, "", member
    else:  # the class would hand out another object each time
        yield vars(base), "get", f"({name!r})", member


def _binds(member: Any) -> bool:
    """Return whether access through the class may give another object than ``member`` itself."""
    kind = type(member)
    own = isinstance(member, types.MemberDescriptorType) or is_of_hybrid(kind)
    return hasattr(kind, "__get__") and not own
