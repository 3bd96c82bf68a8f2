"""Contents: what lists, dicts, sets and deques held before a capture, and what it has left in them.

A capture leaves them as they were.  What it has changed is repeated at every run: item by item
where items were set or added at the end, else as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.trace.places.holes import uncounted_in
from hybrid.trace.places.key import CONTENT, Key
from hybrid.trace.places.rewind import refill

Content = Any  # a list or a dict of what a container holds


@dataclass(frozen=True, slots=True)
class Change:
    """A container whose content is another than before."""

    container: Any
    before: Content
    after: Content

    @property
    def key(self) -> Key:
        """Of the place that this is."""
        return id(self.container), CONTENT

    def added(self) -> list[Any]:
        """What the container holds that it did not hold before."""
        kept = set(map(id, _items(self.before)))
        return [item for item in _items(self.after) if id(item) not in kept]

    def taken(self) -> Change:
        """What ``undo``, which is done here, has undone: it may be more by now."""
        change = Change(self.container, self.before, content(self.container))
        change.undo()
        return change

    def undo(self) -> None:
        refill(self.container, self.before)

    def redo(self) -> None:
        """Let the container hold again what ``undo`` has taken, besides what it has got since."""
        now = content(self.container)
        before, after = self.before, self.after
        if _is_still(now, before, type(self.container)):
            refill(self.container, after)
        elif isinstance(self.container, dict):
            gained = {k: v for k, v in after.items() if before.get(k, before) is not v}
            refill(self.container, {**now, **{k: v for k, v in gained.items() if k not in now}})
        elif isinstance(self.container, set):
            self.container.update(set(after) - set(before))
        else:
            n = len(before)
            refill(self.container, [*now[:n], *after[n:], *now[n:]])


class Contents:
    """What ``containers`` held when this was made."""

    def __init__(self, containers: Iterable[Any]) -> None:
        self._before = [(container, content(container)) for container in containers]

    def changes(self) -> list[Change]:
        """What is no longer so."""
        found = []
        for container, before in self._before:
            now = content(container)
            if not _is_still(now, before, type(container)):
                found.append(Change(container, before, now))
        return found


def content(container: Any) -> Content:
    """What ``container`` holds, apart from it: copied at once, as other threads may change it."""
    return dict(container) if isinstance(container, dict) else list(container)


def _items(content: Content) -> Iterable[Any]:
    return content.values() if isinstance(content, dict) else content


def _is_still(now: Content, before: Content, kind: type) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(now, dict):
        return list(now) == list(before) and all(now[key] is value for key, value in before.items())
    if issubclass(kind, (set, frozenset)):
        return set(now) == set(before)
    return all(a is b for a, b in zip(now, before, strict=True))


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
        if fits and uncounted_in(after[: len(before)]) is None:
            found: list[tuple[tuple[Any, ...], Any, bool]] = [
                ((i,), after[i], True) for i, item in enumerate(before) if after[i] is not item
            ]
            if tail:
                found.append(((slice(len(before), None),), after[len(before) :], False))
            return found
    return [((), after, True)]
