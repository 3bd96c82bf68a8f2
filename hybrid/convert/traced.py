"""Whether a value is only known when the plan runs, and whether one is being made."""

from __future__ import annotations

from collections import deque
from typing import Any

from hybrid.ir.interpreter import ACTIVE, current
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.grown import Grown, holds_grown, refuse_grown
from hybrid.trace.maybe import Maybe

CONTAINERS = (list, dict, set, deque, bytearray)
LOOKED_INTO = (*CONTAINERS, tuple)


def is_traced(value: Any) -> bool:
    """Whether the truth of ``value`` is unknown while a function is captured."""
    if not ACTIVE:
        return False
    if type(value) in (list, tuple):
        return is_grown(value) and all(type(item) is Grown for item in value)
    return isinstance(value, (Tensor, Number, Maybe)) and current().traces


def tracing() -> bool:
    """Whether a function is being captured on this thread."""
    return bool(ACTIVE) and current().traces


def look(value: Any) -> Any:
    """``value``, which is about to be looked into, should it be a container."""
    if isinstance(value, LOOKED_INTO) and tracing():
        if type(value) is not tuple:
            current().will_read_container(value)
        if is_grown(value):
            from hybrid.convert.lists import View

            return View(value)
    return value


def handed(value: Any, name: str = "") -> Any:
    """``value``, which a library function is about to look into, should it be a container."""
    if type(look(value)) is not type(value):
        refuse_grown(value, f"given to {name}()" if name else "looked into")
    return value


def is_grown(value: Any) -> bool:
    """Whether ``value`` is a list whose length only the run knows."""
    return bool(ACTIVE) and current().traces and bool(current().grown) and holds_grown(value)
