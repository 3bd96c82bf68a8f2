"""Announcement of writes: what methods and functions of Python change, told to the capture."""

from __future__ import annotations

import bisect
import heapq
import operator
import random
import sys
import types
from collections.abc import Callable
from typing import Any

from hybrid.convert.conversion import is_converted
from hybrid.convert.runtime import hyb__
from hybrid.core.dataclass import replace
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.staging.effects import run_time_names
from hybrid.staging.effects.cached_properties import Cached
from hybrid.staging.sessions.variables import read
from hybrid.staging.sessions.views import (
    CONTAINERS,
    HOLDERS,
    held,
    library_argument,
    look,
    refuse_partial,
)
from hybrid.trace.places.code_owner import is_library_class, of_package
from hybrid.trace.places.held_state import state_of
from hybrid.trace.places.place import read_place
from hybrid.trace.values.optional import is_optional
from hybrid.trace.values.varlist import VarList, require_known_length

# Methods that change their object without a look at what it holds.
ADDING = frozenset({"append", "extend", "appendleft", "extendleft", "add", "update", "__iadd__"})
COMPARING = frozenset({"index", "count", "remove"})
GOING_OVER = ADDING - {"append", "appendleft", "add"}
CHANGING = frozenset(
    {
        "insert", "pop", "remove", "clear", "sort", "reverse", "popleft", "rotate", "popitem",
        "setdefault", "discard", "difference_update", "intersection_update",
        "symmetric_difference_update", "move_to_end", "__setitem__", "__delitem__", "__imul__",
        "__ior__", "__iand__", "__isub__", "__ixor__", "__init__",
    }
)  # fmt: skip
REORDERING = frozenset({"insert", "pop", "remove", "reverse", "sort"})  # of lists
WHOLE = frozenset({"copy", "clear", "__class__"})  # methods that need not know the length of a list
# Functions that change their first argument.
FIRST = (
        operator.setitem, operator.delitem, heapq.heappush, heapq.heappop, heapq.heapify,
        heapq.heapreplace, heapq.heappushpop, bisect.insort, bisect.insort_left,
        bisect.insort_right, random.shuffle,
)  # fmt: skip
_DESCRIPTORS = {"__setattr__": ("fset", "__set__"), "__delattr__": ("fdel", "__delete__")}
_HOOKS = frozenset(_DESCRIPTORS)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)

Announce = Callable[..., Any]


def announcer(function: Any) -> Announce | None:
    """The function that announces, given the same arguments, what ``function`` will change."""
    looks = run_time_names.announcer(function)
    if looks is not None:
        return looks
    if isinstance(function, _BOUND):
        owner = function.__self__
        if isinstance(owner, CONTAINERS):
            return lambda *args, **kwargs: _method(function.__name__, owner, *args)
        if function.__name__ in _HOOKS:
            return lambda name=None, *_: will_store(owner, name, function.__name__)
    if isinstance(function, _UNBOUND) and function.__name__ in _HOOKS:
        return lambda owner=None, name=None, *_: will_store(owner, name, function.__name__)
    if isinstance(function, _UNBOUND) and issubclass(function.__objclass__, CONTAINERS):
        return lambda *args, **kwargs: _method(function.__name__, *args)
    if isinstance(function, types.MethodType) and function.__name__ in _HOOKS:
        owner = function.__self__  # the hook of a class of a library, on which the author's builds
        return lambda name=None, *_: will_store(owner, name, function.__name__)
    if function is setattr:
        return will_set
    if function is delattr:
        return will_delete
    return _first if function in FIRST else _of_library(function)


def _of_library(function: Any) -> Announce | None:
    """The same of a method, written in Python, of a container of a library (``Counter.update``)."""
    owner = getattr(function, "__self__", None)
    if not (isinstance(function, types.MethodType) and isinstance(owner, (*CONTAINERS, *HOLDERS))):
        return None

    def announce(*args: Any, **kwargs: Any) -> None:
        for value in (owner, *args, *kwargs.values()):
            library_argument(value, f"{type(owner).__name__}.{function.__name__}")
        current().will_write_container(held(owner))

    return announce


def _method(name: str, owner: Any = None, *args: Any) -> None:
    for argument in args:
        (look if name in ADDING else library_argument)(argument)
        if name in GOING_OVER:
            refuse_partial(argument, f"given to {type(owner).__name__}.{name}()")
    if not isinstance(owner, CONTAINERS):
        return
    if name not in ADDING:
        current().will_read_container(owner)
        if not (
            name in WHOLE
            or (name == "pop" and not args and owner and not _ends_with_varlist(owner))
        ):
            if type(owner) is list and name in REORDERING and current().indefinite_values:
                require_known_length(owner, f"given to list.{name}()")
            library_argument(owner, f"{type(owner).__name__}.{name}")
        if name in COMPARING and current().indefinite_values:
            for item in owner:
                refuse_partial(item, "compared")
    if name in ADDING or name in CHANGING:
        current().will_write_container(owner)


def _ends_with_varlist(owner: Any) -> bool:
    return type(owner) is list and type(owner[-1]) is VarList


def will_set(owner: Any = None, name: Any = None, *_: Any) -> None:
    """Announce the write of ``owner.name``."""
    _will_write(owner, name, "__setattr__")


def will_delete(owner: Any = None, name: Any = None, *_: Any) -> None:
    """Announce the deletion of ``owner.name``."""
    _will_write(owner, name, "__delattr__")


def _will_write(owner: Any, name: Any, hook: str) -> None:
    if state_of(owner) is not None and is_library_class(type(owner)):
        hyb__.stored_in(owner)
    function = getattr(type(owner), hook)
    if not isinstance(function, types.FunctionType) or of_package(function.__code__):
        will_store(owner, name, hook)
    elif not _announces(function):
        current().will_write_attributes(owner)


def will_store(owner: Any, name: Any, hook: str) -> None:
    """Announce what ``hook`` of ``object`` does to an attribute: store, or ask a descriptor."""
    if not isinstance(name, str):
        return
    if isinstance(owner, tuple) and id(owner) in current().journal.given_tuples:
        kind = type(owner).__name__
        raise CaptureError(
            f"an attribute ({name}) is set on an argument, a {kind}",
            at=author_location(),
            why="Named tuples among the arguments are made anew for each call: what is set on "
            "them would be lost.",
            fix="return the value, or pass an object of a class that is no tuple",
        )
    if name == "__dict__" and current().is_known(owner):
        raise CaptureError(
            f"the __dict__ of a {type(owner).__name__} object was replaced inside a hybridized "
            "function",
            at=author_location(),
            why="A plan reads and sets attributes in the dict that it knows.",
            fix="set the attributes, setattr(obj, name, value) or vars(obj).update(...)",
        )
    part, method = _DESCRIPTORS[hook]
    member = next((vars(b)[name] for b in type(owner).__mro__ if name in vars(b)), None)
    if isinstance(member, property):
        function = getattr(member, part)
        stored = False
    else:
        function = getattr(type(member), method, None)
        kept = isinstance(member, types.GetSetDescriptorType) and name != "__dict__"
        stored = kept or isinstance(member, (types.MemberDescriptorType, Cached))
    if stored or (function is None and not isinstance(member, property)):
        if hook == "__delattr__" and is_optional(before := read_place(owner, name)):
            if sys.version_info < (3, 11):  # Python says no more there
                before = replace(before, error=AttributeError(name))
            read(before, f"the attribute {name}")
        current().will_write_attribute(owner, name)
    elif function is not None and not _announces(function):
        current().will_write_attributes(owner)


def _announces(function: Any) -> bool:
    """Whether what ``function`` stores is announced by its own code."""
    return isinstance(function, types.FunctionType) and (
        is_converted(function) or of_package(function.__code__)
    )


def _first(container: Any = None, *_: Any, **__: Any) -> None:
    if isinstance(container, CONTAINERS):
        library_argument(container)
        current().will_write_container(container)
