"""Rewind: what puts Python state back when a capture that has changed it is given up."""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, field
from hybrid.errors import CaptureError
from hybrid.trace.places.holes import uncounted_in
from hybrid.trace.places.key import Key
from hybrid.trace.places.reads import CONTAINERS, MISSING, of_package

Array = Any  # a NumPy array or a bytearray


@dataclass(slots=True)
class Moved:
    """A place, the value that it held, and the one that it holds now.

    Lists, dicts and their like are restored on their own: see ``Change``.
    """

    key: Key
    label: str  # what messages call it
    read: Callable[[], Any]
    put: Callable[[Any], Any] | None
    before: Any
    after: Any
    arrays: Sequence[tuple[Array, Array]] = ()  # those in it, each with what it held
    _taken: list[tuple[Array, Array, Array]] = field(default_factory=list)

    def taken(self) -> Moved:
        """What ``undo``, which is done here, has undone: it may be another value by now."""
        self.after = self.read()
        self.undo()
        return self

    def undo(self) -> None:
        for array, before in self.arrays:
            self._taken.append((array, before, array.copy()))
            _fill(array, before)
        if self.put is not None and self.after is not self.before:
            self.put(self.before)

    def redo(self) -> None:
        """Put again what ``undo`` has taken away, unless there is something newer."""
        for array, before, after in self._taken:
            if bytes(array) == bytes(before):
                _fill(array, after)
        if self.put is not None and self.after is not self.before and self.read() is self.before:
            self.put(self.after)


def arrays_in(value: Any, seen: frozenset[int] = frozenset()) -> list[tuple[Array, Array]]:
    """The arrays in ``value`` that can change, each with a copy."""
    if isinstance(value, bytearray):
        return [(value, value[:])]
    if isinstance(value, np.ndarray):
        return [(value, value.copy())] if value.flags.writeable else []
    found: list[tuple[Array, Array]] = []
    if isinstance(value, CONTAINERS) and id(value) not in seen:
        for item in value.values() if isinstance(value, dict) else value:
            found += arrays_in(item, seen | {id(value)})
    return found


def _fill(array: Array, content: Array) -> None:
    if isinstance(array, bytearray):
        array[:] = content
    else:
        np.copyto(array, content)


def refill(container: Any, content: Any) -> None:
    """Let ``container`` hold what ``content`` does."""
    if isinstance(container, (list, bytearray)):
        container[:] = content
    elif isinstance(container, deque) and (uncounted := uncounted_in(content)) is not None:
        raise CaptureError(
            "how many items a deque has depends on the value of a tensor",
            at=uncounted.at,
            why="Only a list can have a length that is known when the plan runs.",
            fix="use a list, or let the deque keep its length (maxlen, or popleft for each append)",
        )
    else:
        container.clear()
        (container.extend if isinstance(container, deque) else container.update)(content)


def put_attributes(owner: Any, content: dict[str, Any]) -> None:
    """Let ``owner`` itself hold ``content``, and nothing else."""
    now = dict(vars(owner))
    for name in now.keys() | content.keys():
        value = content.get(name, MISSING)
        if now.get(name, MISSING) is not value:
            put_attribute(owner, name, value)


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
