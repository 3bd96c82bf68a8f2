"""What a variable holds when only some of the paths that lead here have bound it.

``UNBOUND`` stands for no value at all.  ``Maybe`` stands for a value on the paths where ``flag``
holds, and for ``other`` (UNBOUND, or a constant such as None) on the rest.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from hybrid.errors import CaptureError
from hybrid.trace.checks import check


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

    def __repr__(self) -> str:
        return f"<{self.value!r} or {self.other!r}>"


def unbound_error(name: str) -> UnboundLocalError:
    """What Python raises when the local variable ``name`` is read before it is bound."""
    if sys.version_info >= (3, 11):
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        return UnboundLocalError(text)
    return UnboundLocalError(f"local variable '{name}' referenced before assignment")


def read(value: Any, error: Exception) -> Any:
    """``value``; of a Maybe its value, once the plan has made sure that it is bound."""
    if value is UNBOUND:
        raise error
    if not isinstance(value, Maybe):
        return value
    check(value.flag, error)
    return value.value


def resolved(tree: Any) -> Any:
    """A result without Maybes: what may be unbound is checked when the plan runs."""
    if isinstance(tree, Maybe):
        return read(tree, _unresolved(tree))
    if isinstance(tree, (tuple, list)) and any(map(_has_maybe, tree)):
        items = [resolved(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict) and any(map(_has_maybe, tree.values())):
        return {key: resolved(item) for key, item in tree.items()}
    return tree


def _has_maybe(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_maybe, value))
    if isinstance(value, dict):
        return any(map(_has_maybe, value.values()))
    return isinstance(value, Maybe)


def _unresolved(value: Maybe) -> Exception:
    return CaptureError(
        f"the result is {value.other!r} on the path that this call takes, and a tensor on another",
        why="The structure of a result cannot depend on the value of a tensor.",
        fix="return the same structure on every path",
    )
