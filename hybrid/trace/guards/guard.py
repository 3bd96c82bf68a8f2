"""Guard: one thing that a capture has read, how to read it again, and what it must match."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.number import Number
from hybrid.trace.guards.matching import AnyNumber, Matcher
from hybrid.trace.places.code_owner import ATOMS, MUTABLE


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing read: a printable name, how to read it again, and what it must match."""

    name: str
    read: Callable[..., Any]
    matches: Matcher
    expected: Any
    lends: bool = False  # whether numbers in a tuple may be inputs

    @property
    def by_identity(self) -> bool:
        """Whether the very same object needs no further look: it cannot have changed inside."""
        if isinstance(self.expected, tuple):
            return is_plain(self.expected) and not self.lends
        return not isinstance(self.expected, (*MUTABLE, AnyNumber))

    def holds(self) -> bool:
        return self.matches(self.read())


def set_by_users(kind: type, name: str) -> bool:
    """Whether a class outside this package holds ``name``: writes to classes move no epoch."""
    return any(
        name in vars(base) and not base.__module__.startswith("hybrid.") for base in kind.__mro__
    )


def label_of(owner: Any) -> str:
    """What messages call an owner of attributes: its own name, or that of its class."""
    named = isinstance(owner, (type, types.ModuleType, types.FunctionType))
    return owner.__name__ if named else type(owner).__name__


def is_plain(value: Any) -> bool:
    """Whether ``value`` is a constant, or a tuple of them."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return isinstance(value, ATOMS) and not isinstance(value, Number)


def holds_tensor(value: Any) -> bool:
    """Whether there is a tensor in the tree ``value``."""
    return any(isinstance(leaf, Tensor) for leaf in flatten(value)[0])
