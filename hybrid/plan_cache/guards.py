"""Guards of loaded captures: most are made only when something may have changed.

What modules and optimizers hold is looked at when the configuration epoch has moved, which in most
programs it never does.  Until then it is enough to know what they held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.tensor import Tensor
from hybrid.trace.guards import Guard, Guards, set_by_users
from hybrid.trace.reads import MUTABLE, Reads, plainly_read, stored


class LoadedGuards(Guards):
    """Guards of the program as it is, for a capture that was made before."""

    def __init__(self, reads: Reads, configured: Callable[[Any], bool]) -> None:
        self._later: list[tuple[Any, str, str, Any]] = []  # owner, name, label, value
        self._of_users: dict[tuple[type, str], bool] = {}  # whether their classes hold a name
        self._by_epoch: list[Guard] = []
        self._numbers: list[Any] = []
        self._made = False
        super().__init__(reads, configured, made=True)
        self._made = True

    def _attribute(
        self, owner: Any, name: str, configured: bool, label: str, value: Any = ...
    ) -> None:
        if configured and not self._made:
            found = stored(owner, name)
            late = type(found) is not Tensor and _is_fixed(found)
            if late and name not in getattr(owner, "__dict__", ()):
                late = plainly_read(owner, name) and not self._set_by_users(type(owner), name)
            if late:
                self._later.append((owner, name, label, found))
                return
        super()._attribute(owner, name, configured, label, value)

    def _set_by_users(self, kind: type, name: str) -> bool:
        known = self._of_users.get((kind, name))
        if known is None:
            known = self._of_users[kind, name] = set_by_users(kind, name)
        return known

    def _complete(self) -> None:
        """Make those that were put off, of what was there then."""
        later, self._later = self._later, []
        for owner, name, label, value in later:
            super()._attribute(owner, name, True, label, value)

    @property
    def by_epoch(self) -> list[Guard]:
        if self._made:
            self._complete()
        return self._by_epoch

    @by_epoch.setter
    def by_epoch(self, guards: list[Guard]) -> None:
        self._by_epoch = guards

    @property
    def numbers(self) -> list[Any]:
        if self._made:
            self._complete()
        return self._numbers

    @numbers.setter
    def numbers(self, numbers: list[Any]) -> None:
        self._numbers = numbers


def _is_fixed(value: Any) -> bool:
    """Whether nothing in ``value`` can become another without its being another."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    return not isinstance(value, MUTABLE)
