"""Contents: what lists, dicts, sets and deques held before a capture, and what it has left in them.

A capture leaves them as they were.  What it has changed is repeated at every run: item by item
where items were set or added at the end, else as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hybrid.trace.grown import Grown
from hybrid.trace.rewind import refill

Content = Any  # a list or a dict of what a container holds


@dataclass(frozen=True, slots=True)
class Change:
    """A container whose content is another than before."""

    container: Any
    before: Content
    after: Content


class Contents:
    """What ``containers`` held when this was made."""

    def __init__(self, containers: Iterable[Any]) -> None:
        self._before = [(container, content(container)) for container in containers]

    def changes(self) -> list[Change]:
        """What is no longer so."""
        return [
            Change(container, before, content(container))
            for container, before in self._before
            if not _is_still(container, before)
        ]

    def restore(self) -> None:
        """Put everything back."""
        for change in self.changes():
            refill(change.container, change.before)


def content(container: Any) -> Content:
    """What ``container`` holds, apart from it."""
    return dict(container) if isinstance(container, dict) else list(container)


def _is_still(container: Any, before: Content) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return list(container) == list(before) and all(
            container[key] is value for key, value in before.items()
        )
    if isinstance(container, (set, frozenset)):
        return all(item in container for item in before)
    return all(a is b for a, b in zip(container, before, strict=True))


def containers_in(tree: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The lists and dicts of a tree of arguments, each with the keys that lead to it."""
    if type(tree) is dict or (isinstance(tree, dict) and type(tree).__name__ == "OrderedDict"):
        items: Iterable[tuple[Any, Any]] = tree.items()
    elif type(tree) is list or isinstance(tree, tuple):
        items = enumerate(tree)
    else:
        return
    if not isinstance(tree, tuple):
        yield tree, keys
    for key, item in items:
        yield from containers_in(item, (*keys, key))


def pieces(change: Change) -> list[tuple[tuple[Any, ...], Any, bool]]:
    """((key,), value, whether there was one before) of what has to be set; no key: all of it."""
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
        if fits and not any(type(item) is Grown for item in after[: len(before)]):
            found: list[tuple[tuple[Any, ...], Any, bool]] = [
                ((i,), after[i], True) for i, item in enumerate(before) if after[i] is not item
            ]
            if tail:
                found.append(((slice(len(before), None),), after[len(before) :], False))
            return found
    return [((), after, True)]
