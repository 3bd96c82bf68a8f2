"""Values whose identity code has asked for: by ``is`` between two of them, or by ``id``.

A plan knows most values from outside by what they hold.  Where code asks which of two equal ones a
place holds, the answer is a guard of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, field
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, author_location
from hybrid.ir import Value

CONTAINERS = (list, tuple, dict, set, frozenset, deque, bytearray, np.ndarray, np.generic)
_ATOMS = (int, float, complex, str, bytes)
_CACHED = range(-5, 257)  # ints of which there is one each


@dataclass(frozen=True, slots=True, eq=False)
class IdentityQuery:
    """Two values of one type that were compared by ``is`` at a line; None asks for ``id``."""

    left: Any
    right: Any
    at: Location | None

    @property
    def is_same(self) -> bool:
        """Whether both are one object."""
        return self.left is self.right


@dataclass(eq=False, slots=True)
class Identities:
    """All that a capture was asked of identities."""

    queries: dict[tuple[int, int], IdentityQuery] = field(default_factory=dict)
    # Objects in whose place each call puts others, by their ids: where calls find those.
    replaced: Mapping[int, Any] = field(default_factory=dict)

    @property
    def found(self) -> Iterable[IdentityQuery]:
        """The queries, in their order."""
        return self.queries.values()

    def compare(self, left: Any, right: Any) -> None:
        """Note that code asks whether two values are one object."""
        if type(left) is not type(right) or (id(left), id(right)) in self.queries:
            return
        replaced = id(left) in self.replaced or id(right) in self.replaced
        if replaced or (_is_known_by_value(left) and _is_known_by_value(right)):
            self.queries[id(left), id(right)] = IdentityQuery(left, right, author_location())

    def ask(self, value: Any) -> None:
        """Note that code asks for the ``id`` of ``value``."""
        if (id(value), 0) not in self.queries and self._is_known_by_value(value):
            self.queries[id(value), 0] = IdentityQuery(value, None, author_location())

    def ask_replaced(self, values: Iterable[Any]) -> None:
        """Note that code may ask which of ``values`` are objects that calls replace."""
        for value in values:
            if id(value) in self.replaced:
                self.ask(value)

    def asked(self) -> dict[int, Any]:
        """Return the values of which code asked which they are, by their ids."""
        return {id(v): v for c in self.found for v in (c.left, c.right) if v is not None}

    def _is_known_by_value(self, value: Any) -> bool:
        return id(value) in self.replaced or _is_known_by_value(value)


def is_atom(value: Any) -> bool:
    """Return whether ``value`` is a number or text."""
    return isinstance(value, _ATOMS)


def _is_known_by_value(value: Any) -> bool:
    """Return whether guards take another value for the same one."""
    if isinstance(value, Tensor):
        return type(value.content) is not Value
    if isinstance(value, Enum):  # there is one of each value
        return False
    if type(value) is bool or (type(value) is int and value in _CACHED):
        return False
    return isinstance(value, (*CONTAINERS, *_ATOMS))
