"""Guard: a function that reads one thing again, and the test that its value has to pass."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.open_numbers import is_open
from hybrid.core.package import is_of_hybrid
from hybrid.eager.tensor import Tensor
from hybrid.number import Number
from hybrid.trace.guards.matching import AnyNumber, Matcher
from hybrid.trace.places.code_owner import ATOMS
from hybrid.trace.places.differences import leaves_in
from hybrid.trace.places.held_state import is_mutable
from hybrid.trace.values.traced_text import marks


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that was read: its name for messages, how to read it again, and its test."""

    name: str
    read: Callable[..., Any]
    matches: Matcher
    expected: Any
    lends: bool = False  # whether numbers in a tuple may be inputs

    @property
    def by_identity(self) -> bool:
        """Whether the same object always passes: its content cannot have changed."""
        if isinstance(self.expected, tuple):
            return is_plain(self.expected) and not self.lends
        return not (isinstance(self.expected, AnyNumber) or is_mutable(self.expected))

    def holds(self) -> bool:
        """Read the value again, and return whether it passes the test."""
        return self.matches(self.read())


def set_by_users(kind: type, name: str) -> bool:
    """Return whether a class outside this package stores ``name``: such writes move no epoch."""
    return any(name in vars(base) and not is_of_hybrid(base) for base in kind.__mro__)


def label_of(owner: Any) -> str:
    """Return the name of an attribute owner for messages: its own, or that of its class."""
    named = isinstance(owner, (type, types.ModuleType, types.FunctionType))
    return owner.__name__ if named else type(owner).__name__


def is_plain(value: Any) -> bool:
    """Return whether ``value`` is a constant, or a tuple of constants."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return isinstance(value, ATOMS) and not isinstance(value, Number)


def holds_tensor(value: Any) -> bool:
    """Return whether the tree ``value`` contains a tensor."""
    return any(isinstance(leaf, Tensor) for leaf in leaves_in(value))


def holds_run_value(value: Any) -> bool:
    """Return whether the tree ``value`` contains a tensor, number or text of a run."""
    return any(
        isinstance(leaf, (Tensor, Number))
        or is_open(leaf)
        or (isinstance(leaf, str) and bool(marks(leaf)))
        for leaf in leaves_in(value)
    )
