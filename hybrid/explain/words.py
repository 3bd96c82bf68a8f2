"""How explanations write values, places, and what guards say of them."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.tree import stored_items, stored_pairs
from hybrid.eager.tensor import Tensor
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.guard import Guard
from hybrid.trace.guards.matching import AnyNumber
from hybrid.trace.places.code_owner import ATOMS, CONTAINERS, MISSING

_WIDTH = 40


def shown(value: Any) -> str:
    """``value`` in a few characters."""
    if value is MISSING:
        return "not there"
    if isinstance(value, Tensor):
        return str(value.type)
    if isinstance(value, AnyNumber):
        return f"any {value.kind.__name__}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, Callable) and hasattr(value, "__name__"):  # type: ignore[arg-type]
        return f"function {value.__name__}"
    if is_plain(value):
        with contextlib.suppress(Exception):  # what a container of the author's says by its methods
            text = repr(value)
            return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def is_plain(value: Any) -> bool:
    """Whether ``value`` is a number, a text or the like, or holds nothing but such."""
    seen: set[int] = set()
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, CONTAINERS):
            if id(value) not in seen:  # it may hold itself
                seen.add(id(value))
                rest += stored_items(value)
                rest += [key for key, _ in stored_pairs(value)] if isinstance(value, dict) else ()
        elif not isinstance(value, ATOMS):
            return False
    return True


def is_own(guard: Guard) -> bool:
    """Whether ``guard`` is on what this package keeps for itself, as the registries of modules."""
    return guard.name.endswith(".*") or "._" in guard.name


def is_telling(guard: Guard) -> bool:
    """Whether ``guard`` is on a plain value of the author's."""
    return guard.expected is not Guards and is_plain(guard.expected) and not is_own(guard)


def listed(texts: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    texts = list(dict.fromkeys(texts))
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"
