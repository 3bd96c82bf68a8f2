"""Compare what places held before some code ran with what they hold now, and restore either.

A difference can be put back (undo) and put again (redo).  A plan repeats those of containers at
every run: item by item where items were set or added at the end, else as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, field
from hybrid.core.tree import stored_items, stored_pairs
from hybrid.trace.places.code_owner import CONTAINERS
from hybrid.trace.places.objects import attributes, is_object
from hybrid.trace.places.place import CONTENT, Key, refill, unknown_length_in

Array = Any  # a NumPy array or a bytearray
HOLDING_ARRAYS = (bytearray, np.ndarray, *CONTAINERS)  # what such may be in
Content = Any  # a list or a dict of what a container holds


@dataclass(frozen=True, slots=True)
class ContainerDifference:
    """A container whose content has changed, with the content before and after."""

    container: Any
    before: Content
    after: Content

    @property
    def key(self) -> Key:
        """The key of the container's content."""
        return id(self.container), CONTENT

    def added(self) -> list[Any]:
        """Return the items of the container that it did not hold before."""
        kept = set(map(id, items_of(self.before)))
        return [item for item in items_of(self.after) if id(item) not in kept]

    def taken(self) -> ContainerDifference:
        """Restore the content of before, and return the difference that this has undone."""
        change = ContainerDifference(self.container, self.before, content(self.container))
        change.undo()
        return change

    def undo(self) -> None:
        """Restore the content of before."""
        after, now = self.after, content(self.container)
        if self._is_appended and _is_still(now[: len(after)], after, list):
            list.__delitem__(self.container, slice(len(self.before), len(after)))
        else:
            refill(self.container, self.before)

    @property
    def _is_appended(self) -> bool:
        """Whether a list has but gained items at its end: other threads may append meanwhile."""
        n = len(self.before)
        return isinstance(self.container, list) and _is_still(self.after[:n], self.before, list)

    def redo(self) -> None:
        """Add what ``undo`` has removed to what the container holds by now."""
        now = content(self.container)
        before, after = self.before, self.after
        if self._is_appended and _is_still(now[: len(before)], before, list):
            n = len(before)
            list.__setitem__(self.container, slice(n, n), after[n:])
        elif _is_still(now, before, type(self.container)):
            refill(self.container, after)
        elif isinstance(self.container, dict):
            gained = {k: v for k, v in after.items() if before.get(k, before) is not v}
            refill(self.container, {**now, **{k: v for k, v in gained.items() if k not in now}})
        elif isinstance(self.container, set):
            set.update(self.container, set(after) - set(before))
        else:
            n = len(before)
            refill(self.container, [*now[:n], *after[n:], *now[n:]])


@dataclass(slots=True)
class PlaceDifference:
    """A place whose value has changed, with the value before and after.

    Lists, dicts and their like are restored on their own: see ``ContainerDifference``.
    """

    key: Key
    label: str  # what messages call it
    read: Callable[[], Any]
    put: Callable[[Any], Any] | None
    before: Any
    after: Any
    arrays: Sequence[tuple[Array, Array]] = ()  # those in it, each with what it held
    _taken: list[tuple[Array, Array, Array]] = field(default_factory=list)

    def added(self) -> list[Any]:
        """Return the new value, as a list of one item."""
        return [self.after]

    def taken(self) -> PlaceDifference:
        """Restore the value of before, and return the difference that this has undone."""
        self.after = self.read()
        self.undo()
        return self

    def undo(self) -> None:
        """Restore the value of before, and the content of the arrays in it."""
        for array, before in self.arrays:
            self._taken.append((array, before, array.copy()))
            _fill(array, before)
        if self.put is not None and self.after is not self.before:
            self.put(self.before)

    def redo(self) -> None:
        """Write the value that ``undo`` has removed, unless there is a newer one."""
        for array, before, after in self._taken:
            if bytes(array) == bytes(before):
                _fill(array, after)
        if self.put is not None and self.after is not self.before and self.read() is self.before:
            self.put(self.after)


Difference = ContainerDifference | PlaceDifference


class ContainerSnapshot:
    """The content of some containers at one point of time."""

    def __init__(self, containers: Iterable[Any]) -> None:
        self._before = [(container, content(container)) for container in containers]

    def differences(self) -> list[ContainerDifference]:
        """Return a difference for each container whose content has changed since."""
        found = []
        for container, before in self._before:
            now = content(container)
            if not _is_still(now, before, type(container)):
                found.append(ContainerDifference(container, before, now))
        return found


def replaced_in(
    before: Any, after: Any, is_known: Callable[[Any], bool]
) -> Iterator[tuple[Any, Any]]:
    """Yield (object of the author's in ``before``, another in its place in ``after`` that is new).

    What is in the other object, or in another list, tuple or dict, may have been replaced as well.
    """
    seen: set[int] = set()
    rest = [(before, after)]
    while rest:
        before, after = rest.pop()
        if before is after or id(before) in seen:
            continue
        seen.add(id(before))
        if is_object(before):
            if is_object(after) and not is_known(after):
                yield before, after
                if type(before) is type(after):
                    held = attributes(before)
                    rest += [(held[n], v) for n, v in attributes(after).items() if n in held]
        elif isinstance(before, dict) and isinstance(after, dict):
            held = content(before)
            rest += [(held[key], v) for key, v in stored_pairs(after) if key in held]
        elif isinstance(before, (list, tuple, deque)) and isinstance(after, (list, tuple, deque)):
            rest += zip(stored_items(before), stored_items(after), strict=False)


def content(container: Any) -> Content:
    """Return a copy of what ``container`` holds; it is atomic with regard to other threads."""
    kind = type(container)
    if kind is dict or kind is list:
        return container.copy()
    if isinstance(container, dict):
        return dict(stored_pairs(container))
    return list(stored_items(container))


def items_of(content: Content) -> Iterable[Any]:
    """Return the items of a container or content, of a dict its values."""
    return stored_items(content)


def leaves_in(tree: Any) -> Iterator[Any]:
    """Yield what the containers in ``tree`` hold that is no container, at any depth.

    A container is looked into once, though it may hold itself.
    """
    seen: set[int] = set()
    rest = [tree]
    while rest:
        value = rest.pop()
        if not isinstance(value, CONTAINERS):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            rest += items_of(value)


def _is_still(now: Content, before: Content, kind: type) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(now, dict):
        return list(now) == list(before) and all(now[key] is value for key, value in before.items())
    if issubclass(kind, (set, frozenset)):
        return set(now) == set(before)
    return all(a is b for a, b in zip(now, before, strict=True))


def containers_in(tree: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the lists and dicts in a tree of arguments, each with the keys that lead to it."""
    if type(tree) is dict or (isinstance(tree, dict) and type(tree).__name__ == "OrderedDict"):
        items: Iterable[tuple[Any, Any]] = stored_pairs(tree)
    elif type(tree) is list or isinstance(tree, tuple):
        items = enumerate(stored_items(tree))
    else:
        return
    if not isinstance(tree, tuple):
        yield tree, keys
    for key, item in items:
        yield from containers_in(item, (*keys, key))


def tuples_in(tree: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the tuples in a tree of arguments."""
    stack = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, tuple):
            yield value
        if isinstance(value, (list, tuple, dict)):
            stack += stored_items(value)


def item_writes(change: ContainerDifference) -> list[tuple[tuple[Any, ...], Any, bool]]:
    """Return (key, value, existed) for each item to write; an empty key means the whole content."""
    before, after = change.before, change.after
    if isinstance(after, dict):
        if list(after)[: len(before)] == list(before):
            return [
                ((key,), value, key in before)
                for key, value in after.items()
                if key not in before or before[key] is not value
            ]
    elif isinstance(change.container, (list, deque)):
        tail = len(after) > len(before)
        fits = len(after) == len(before) or (tail and isinstance(change.container, list))
        if fits and unknown_length_in(after[: len(before)]) is None:
            found: list[tuple[tuple[Any, ...], Any, bool]] = [
                ((i,), after[i], True) for i, item in enumerate(before) if after[i] is not item
            ]
            if tail:
                found.append(((slice(len(before), None),), after[len(before) :], False))
            return found
    return [((), after, True)]


def arrays_in(value: Any) -> list[tuple[Array, Array]]:
    """Return the writable arrays in ``value``, each with a copy."""
    found: list[tuple[Array, Array]] = []
    for leaf in leaves_in(value):
        if isinstance(leaf, bytearray):
            found.append((leaf, leaf[:]))
        elif isinstance(leaf, np.ndarray) and leaf.flags.writeable:
            found.append((leaf, leaf.copy()))
    return found


def _fill(array: Array, content: Array) -> None:
    if isinstance(array, bytearray):
        array[:] = content
    else:
        np.copyto(array, content)
