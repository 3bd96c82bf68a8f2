"""What a variable holds when only some of the paths that lead here have bound it.

``UNBOUND`` stands for no value at all.  ``Maybe`` stands for a value on the paths where ``flag``
holds, and for ``other`` (UNBOUND, or a constant such as None) on the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hybrid import ops
from hybrid.errors import Location


class Unbound:
    """The type of UNBOUND."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = Unbound()


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """``value`` where ``flag`` (a traced bool tensor of rank 0) holds, else ``other``."""

    value: Any
    flag: Any
    other: Any
    error: Exception | None = None  # what reading it raises where it is not there
    refuse: Callable[[], Any] | None = None  # says of two branches that they bind unlike values
    at: Location | None = None  # the condition

    def or_nothing(self) -> Any:
        """The value, or on the other paths what changes nothing when it is added to: -0.0."""
        return ops.where(self.flag, self.value, -0.0)

    def __repr__(self) -> str:
        return f"<{self.value!r} or {self.other!r}>"


def unbound_error(name: str) -> UnboundLocalError:
    """What Python raises when the local variable ``name`` is read before it is bound."""
    if sys.version_info >= (3, 11):
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        return UnboundLocalError(text)
    return UnboundLocalError(f"local variable '{name}' referenced before assignment")
