"""Changes: what methods and functions of Python's own change, so that it can be announced."""

from __future__ import annotations

import bisect
import heapq
import random
import types
from collections.abc import Callable
from typing import Any

from hybrid.convert.traced import CONTAINERS, HOLDERS, handed, held, look, refuse_partial
from hybrid.convert.unbound import read
from hybrid.ir.interpreter import current
from hybrid.trace.grown import Grown
from hybrid.trace.maybe import is_optional

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
WHOLE = frozenset({"copy", "clear", "__class__"})  # methods that need not know the length of a list
# Functions that change their first argument.
FIRST = (
        heapq.heappush, heapq.heappop, heapq.heapify, heapq.heapreplace, heapq.heappushpop,
        bisect.insort, bisect.insort_left, bisect.insort_right, random.shuffle,
)  # fmt: skip
ATTRIBUTES = (setattr, delattr, object.__setattr__, object.__delattr__)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)

Announce = Callable[..., Any]


def announcer(function: Any) -> Announce | None:
    """What to call, with the same arguments, before ``function`` changes something."""
    if isinstance(function, _BOUND):
        owner = function.__self__
        if isinstance(owner, CONTAINERS):
            return lambda *args, **kwargs: _method(function.__name__, owner, *args)
        if function.__name__ in ("__setattr__", "__delattr__"):
            return lambda *args: _attribute(owner, *args)
    if isinstance(function, _UNBOUND) and issubclass(function.__objclass__, CONTAINERS):
        return lambda *args, **kwargs: _method(function.__name__, *args)
    if function in ATTRIBUTES:
        return _attribute
    return _first if function in FIRST else _of_library(function)


def _of_library(function: Any) -> Announce | None:
    """The same of a method, written in Python, of a container of a library (``Counter.update``)."""
    owner = getattr(function, "__self__", None)
    if not (isinstance(function, types.MethodType) and isinstance(owner, (*CONTAINERS, *HOLDERS))):
        return None

    def announce(*args: Any, **kwargs: Any) -> None:
        for value in (owner, *args, *kwargs.values()):
            handed(value, f"{type(owner).__name__}.{function.__name__}")
        current().will_write_container(held(owner))

    return announce


def _method(name: str, owner: Any = None, *args: Any) -> None:
    for argument in args:
        (look if name in ADDING else handed)(argument)
        if name in GOING_OVER:
            refuse_partial(argument, f"given to {type(owner).__name__}.{name}()")
    if not isinstance(owner, CONTAINERS):
        return
    if name not in ADDING:
        current().will_read_container(owner)
        if not (name in WHOLE or (name == "pop" and not args and owner and not _ends_grown(owner))):
            handed(owner, f"{type(owner).__name__}.{name}")
        if name in COMPARING and current().grown:
            for item in owner:
                refuse_partial(item, "compared")
    if name in ADDING or name in CHANGING:
        current().will_write_container(owner)


def _ends_grown(owner: Any) -> bool:
    return type(owner) is list and type(owner[-1]) is Grown


def _attribute(owner: Any = None, name: Any = None, *value: Any) -> None:
    if isinstance(name, str):
        before = getattr(owner, name, None)
        if not value and is_optional(before):
            read(before, f"the attribute {name}")
        current().will_write_attribute(owner, name)


def _first(container: Any = None, *_: Any, **__: Any) -> None:
    if isinstance(container, CONTAINERS):
        handed(container)
        current().will_write_container(container)
