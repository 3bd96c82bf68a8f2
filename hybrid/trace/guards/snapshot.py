"""Snapshot of the guarded places before a capture, to find and undo what has changed since.

A capture leaves Python state as it was.  What of it has changed, announced or not, is found by
comparing, and can be put back.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hybrid.core.tree import stored_item, stored_items, stored_pairs
from hybrid.trace.guards.guard import Guard, label_of
from hybrid.trace.places.attributes import MISSING, cached_names, stored
from hybrid.trace.places.differences import HOLDING_ARRAYS, Array, PlaceDifference, arrays_in
from hybrid.trace.places.place import Key, is_own, key_of, put_attribute, write_place


class WatchedPlace:
    """A guarded place with its original value: one of many, so it makes nothing before it is asked.

    ``is_attribute`` says that it is an attribute, or a variable that is set, of ``owner``.
    """

    __slots__ = (
        "arrays", "begun", "guard", "is_attribute", "lasting", "name", "of_class", "owner", "value",
    )  # fmt: skip

    def __init__(
        self, guard: Guard, value: Any, owner: Any, name: str, is_attribute: bool = False
    ) -> None:
        self.guard, self.value = guard, value
        self.owner, self.name, self.is_attribute = owner, name, is_attribute
        # Whether the attribute is that of the class of ``owner``.
        self.of_class = is_attribute and not is_own(owner, name)
        self.lasting = guard.read  # how to read it at other calls
        self.begun: Any = None  # what it held when the capture began: a number of a run, say
        self.arrays: Sequence[tuple[Array, Array]] = ()  # in the value, each with what it held
        if isinstance(value, HOLDING_ARRAYS):
            self.arrays = arrays_in(value)

    @property
    def key(self) -> Key:
        return key_of(self.owner, self.name)

    def now(self) -> Any:
        """Return the current value of the place."""
        return self.guard.read()

    def difference(self) -> PlaceDifference:
        """Return the difference between the original and the current value."""
        read, put = self.guard.read, None
        if self.is_attribute or type(self.owner) is dict:
            put = functools.partial(write_place, self.owner, self.name)
            if self.of_class:  # whose own place is restored by itself
                put = self._put_away
        return PlaceDifference(
            key=self.key,
            label=self.guard.name,
            read=read,
            put=put,
            before=self.value,
            after=read(),
            arrays=self.arrays,
        )

    def _put_away(self, value: Any) -> None:
        """Remove what has come to hide the attribute of the class, or put it again."""
        if value is not self.value:
            write_place(self.owner, self.name, value)
        elif self.is_hidden():
            write_place(self.owner, self.name, MISSING)

    def is_hidden(self) -> bool:
        """Return whether ``owner`` itself has the attribute by now."""
        return is_own(self.owner, self.name)

    def is_elsewhere(self) -> bool:
        """Return whether a write to the place is one to the class of ``owner``."""
        return self.of_class and not self.is_hidden()


class AbsentNames(NamedTuple):
    """The names of attributes that the code looks for and an object did not have."""

    owner: Any
    names: frozenset[str]
    configured: bool  # whether writes to it advance the epoch

    def found(self) -> set[str]:
        """Return the names that the object has by now."""
        return self.names & vars(self.owner).keys()

    def label(self, name: str) -> str:
        """Return the name of the attribute for messages."""
        return f"{label_of(self.owner)}.{name}"

    @property
    def is_shared(self) -> bool:
        """Whether the owner is a module or class, whose attributes others add as well."""
        return isinstance(self.owner, (types.ModuleType, type))


class Snapshot:
    """The guarded places of one capture with their original values, in the order of reading."""

    def __init__(self, objects: Mapping[int, Any], known: set[int]) -> None:
        """Make an empty snapshot; ``objects`` are guarded, ``known`` holds ids of all met."""
        self.objects, self.known = objects, known
        self.places: list[WatchedPlace] = []
        self.absent: list[AbsentNames] = []

    def watch(self, place: WatchedPlace) -> None:
        """Add a place: its value can be put back."""
        self.places.append(place)

    def begin(self) -> None:
        """Note the values of all places at the begin of the capture."""
        for place in self.places:
            place.begun = place.now() if place.is_attribute else None

    # What has changed since -------------------------------------------------------------------

    def changed(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield (owner, name, value) of the attributes and variables that have a new value."""
        for place in self.places:
            if place.is_attribute:
                now = place.now()
                if now is not place.begun and not place.is_elsewhere():
                    yield place.owner, place.name, now
        for absent in self.absent:
            for name in absent.found():
                yield absent.owner, name, vars(absent.owner)[name]

    def differences(self, *, cached: bool) -> list[PlaceDifference]:
        """Return the differences of all places; new cached properties only if ``cached``."""
        found = [place.difference() for place in self.places if not place.guard.holds()]
        for absent in self.absent:
            if absent.is_shared:
                continue  # what is imported appears there
            owner = absent.owner
            for name in absent.found() - (set() if cached else cached_names(owner)):
                put = functools.partial(put_attribute, owner, name)
                read = functools.partial(stored, owner, name)
                key, label = key_of(owner, name), absent.label(name)
                found.append(
                    PlaceDifference(
                        key=key, label=label, read=read, put=put, before=MISSING, after=read()
                    )
                )
        return found

    def unseen(
        self, owners: Mapping[int, tuple[Any, dict[str, Any] | None]]
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Return (owner, attributes before) of known ``owners`` that are not guarded."""
        return [
            (owner, before)
            for key, (owner, before) in owners.items()
            if key in self.known and key not in self.objects and before is not None
        ]

    def computed(self) -> str | None:
        """Return the label of a cached property that was computed since; None if there is none."""
        for absent in self.absent:
            for name in absent.found() & cached_names(absent.owner):
                return absent.label(name)
        return None

    # Names and paths --------------------------------------------------------------------------

    def label(self, key: Key) -> str:
        """Return the name of the place of ``key`` for messages."""
        labels = [place.guard.name for place in self.places if place.key == key]
        labels += [
            absent.label(name)
            for absent in self.absent
            for name in absent.names
            if key_of(absent.owner, name) == key
        ]
        return labels[0]

    def places_of(self, value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the label and a reader of each place that held ``value``, items included."""
        for place in self.places:
            for path in _paths(place.value, value, set()):
                keys = "".join(f"[{key!r}]" for key in path)
                read = place.lasting
                yield (
                    place.guard.name + keys,
                    functools.partial(_item, read, path) if path else read,
                )

    def path_to(self, container: Any) -> tuple[str, Callable[[], Any]] | None:
        """Return the label of the place that held ``container``, and a reader of its id there."""
        for place in self.places:
            path = _path(place.value, container, set()) if place.is_attribute else None
            if path is not None:
                label = f"{label_of(place.owner)}.{place.name}"
                return label, functools.partial(_followed, place.lasting, path)
        return None


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the keys and items of a list, tuple or dict."""
    return stored_pairs(value) if isinstance(value, dict) else enumerate(stored_items(value))


def _path(value: Any, container: Any, seen: set[int]) -> tuple[Any, ...] | None:
    """Return the keys that lead from ``value`` to ``container``; None if it is not in there."""
    if value is container:
        return ()
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return None
    seen.add(id(value))
    for key, item in _entries(value):
        path = _path(item, container, seen)
        if path is not None:
            return (key, *path)
    return None


def _paths(value: Any, wanted: Any, seen: set[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead from ``value`` to each place of ``wanted`` in it."""
    if value is wanted:
        yield ()
        return
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return
    seen.add(id(value))
    for key, item in _entries(value):
        yield from ((key, *path) for path in _paths(item, wanted, seen))


def _item(read: Callable[[], Any], path: tuple[Any, ...]) -> Any:
    """Return the object at the end of ``path``; None if there is none."""
    value = read()
    try:
        for key in path:
            value = stored_item(value, key)
    except (LookupError, StopIteration, TypeError):  # it is not there any more
        return None
    return value


def _followed(read: Callable[[], Any], path: tuple[Any, ...]) -> int:
    """Return the id of the object at the end of ``path``; 0 if there is none."""
    value = read()
    try:
        for key in path:
            value = stored_item(value, key)
    except (LookupError, StopIteration, TypeError):  # it is not there any more
        return 0
    return id(value)
