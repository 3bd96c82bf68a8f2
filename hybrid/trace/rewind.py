"""Rewind: what puts Python state back when a capture that has changed it is given up."""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.trace.reads import MISSING, MUTABLE, of_package

Undo = Callable[[], Any]


def rewinder(value: Any, put: Callable[[Any], Any] | None) -> Undo:
    """What restores the content of ``value``, then puts ``value`` back in its place."""
    undos = [*_contents(value, set())]
    if put is not None:
        undos.append(functools.partial(put, value))

    def undo() -> None:
        for step in undos:
            step()

    return undo


def _contents(value: Any, seen: set[int]) -> list[Undo]:
    """What restores ``value`` and the containers in it, innermost first."""
    if id(value) in seen or not isinstance(value, (*MUTABLE, tuple)):
        return []
    seen.add(id(value))
    undos = []
    if not isinstance(value, (set, bytearray, np.ndarray)):
        for item in value.values() if isinstance(value, dict) else value:
            undos += _contents(item, seen)
    if isinstance(value, dict):
        undos.append(functools.partial(refill, value, dict(value)))
    elif isinstance(value, bytearray):
        undos.append(functools.partial(refill, value, bytes(value)))
    elif isinstance(value, (list, set, deque)):
        undos.append(functools.partial(refill, value, tuple(value)))
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        undos.append(functools.partial(np.copyto, value, value.copy()))
    return undos


def refill(container: Any, content: Any) -> None:
    """Let ``container`` hold what ``content`` does."""
    if isinstance(container, (list, bytearray)):
        container[:] = content
    else:
        container.clear()
        (container.extend if isinstance(container, deque) else container.update)(content)


def put_attribute(owner: Any, name: str, value: Any) -> None:
    """Store ``value`` on ``owner`` itself as it was (MISSING: take it away), past any hooks."""
    if is_described(type(owner), name):
        own = vars(owner)
        own[name] = value
        if value is MISSING:
            del own[name]
        return
    if isinstance(owner, type):
        store, remove = type.__setattr__, type.__delattr__
    elif isinstance(owner, types.ModuleType):
        store, remove = types.ModuleType.__setattr__, types.ModuleType.__delattr__
    else:
        store, remove = object.__setattr__, object.__delattr__
    if value is MISSING:
        with contextlib.suppress(AttributeError):  # it may have gone by itself
            remove(owner, name)
    else:
        store(owner, name, value)


def is_hooked(owner: Any, name: str) -> bool:
    """Whether an assignment to the attribute would run the author's code once more."""
    setter = type(owner).__setattr__
    hooked = isinstance(setter, types.FunctionType) and not of_package(setter.__code__)
    return hooked or is_described(type(owner), name)


def is_described(kind: type, name: str) -> bool:
    """Whether a descriptor would be asked to set an attribute, past which it is in __dict__."""
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    kept = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return hasattr(type(member), "__set__") and not isinstance(member, kept)
