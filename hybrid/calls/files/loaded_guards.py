"""Guards of captures that were loaded from a file: most are made only when the epoch has moved.

What modules and optimizers hold is looked at when the configuration epoch has moved, which in most
programs it never does.  Until then it is enough to know what they held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.guard import Guard, label_of, set_by_users
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.attributes import plainly_read, stored
from hybrid.trace.places.held_state import is_mutable


class LoadedGuards(Guards):
    """Guards of a loaded capture, made from the current state of the program."""

    def __init__(self, reads: Reads, configured: Callable[[Any], bool]) -> None:
        self._later: list[tuple[Any, str, str, Any]] = []  # owner, name, label, value
        self._ours: dict[tuple[type, str], bool] = {}  # whether a class holds a name, and plainly
        self._by_epoch: list[Guard] = []
        self._numbers: list[Any] = []
        self._made = False
        super().__init__(reads, configured, made=True)
        self._made = True

    def _attributes(self, owner: Any, names: Collection[str], configured: bool) -> None:
        if self._made or not configured:
            super()._attributes(owner, names, configured)
            return
        label, own, left = label_of(owner), getattr(owner, "__dict__", {}), []
        for name in names:
            value = own.get(name, own)
            kind = type(value)
            if kind in _FIXED or (value is not own and kind is not Tensor and _is_fixed(value)):
                self._later.append((owner, name, label, value))
            else:
                left.append(name)
        super()._attributes(owner, left, configured)

    def _attribute(
        self, owner: Any, name: str, configured: bool, label: str, value: Any = ...
    ) -> None:
        if configured and not self._made and name not in getattr(owner, "__dict__", ()):
            found = stored(owner, name)
            if type(found) is not Tensor and _is_fixed(found) and self._is_ours(owner, name):
                self._later.append((owner, name, label, found))
                return
        super()._attribute(owner, name, configured, label, value)

    def _is_ours(self, owner: Any, name: str) -> bool:
        """Return whether this package's class stores ``name``, and getattr() returns it."""
        if isinstance(owner, type):
            return False
        kind = type(owner)
        known = self._ours.get((kind, name))
        if known is None:
            known = self._ours[kind, name] = plainly_read(owner, name) and not set_by_users(
                kind, name
            )
        return known

    def _complete(self) -> None:
        """Make the guards that were deferred, for the values of that time."""
        later, self._later = self._later, []
        for owner, name, label, value in later:
            super()._attribute(owner, name, True, label, value)

    @property
    def by_epoch(self) -> list[Guard]:
        """The guards that are tested when the epoch has moved; deferred ones are made now."""
        if self._made:
            self._complete()
        return self._by_epoch

    @by_epoch.setter
    def by_epoch(self, guards: list[Guard]) -> None:
        self._by_epoch = guards

    @property
    def numbers(self) -> list[Any]:
        """The numbers met, with their addresses; deferred guards are made now."""
        if self._made:
            self._complete()
        return self._numbers

    @numbers.setter
    def numbers(self, numbers: list[Any]) -> None:
        self._numbers = numbers


_FIXED = frozenset({bool, int, float, str, type(None)})


def _is_fixed(value: Any) -> bool:
    """Return whether ``value`` is immutable at every depth of its tuples."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    return not is_mutable(value)
