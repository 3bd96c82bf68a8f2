"""Whether a value is only known when the plan runs, and whether one is being made."""

from __future__ import annotations

from collections import deque
from typing import Any

from hybrid.ir.interpreter import ACTIVE, current
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.maybe import Maybe

CONTAINERS = (list, dict, set, deque, bytearray)


def is_traced(value: Any) -> bool:
    """Whether the truth of ``value`` is unknown while a function is captured."""
    if not ACTIVE:
        return False
    return isinstance(value, (Tensor, Number, Maybe)) and current().traces


def tracing() -> bool:
    """Whether a function is being captured on this thread."""
    return bool(ACTIVE) and current().traces


def look(value: Any) -> Any:
    """``value``, which is about to be looked into, should it be a container."""
    if isinstance(value, CONTAINERS) and tracing():
        current().will_read_container(value)
    return value
