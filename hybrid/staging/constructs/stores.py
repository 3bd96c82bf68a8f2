"""Stores and loads of places: each announces itself to the capture before Python runs it."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

from hybrid.convert.runtime import hyb__
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.constructs.loads import _indexed
from hybrid.staging.effects.changes import will_delete, will_set
from hybrid.staging.sessions.views import (
    CONTAINERS,
    HOLDERS,
    held,
    is_partial,
    look,
    refuse_partial,
    tracing,
)
from hybrid.staging.values import dicts
from hybrid.staging.values.lists import View
from hybrid.trace.values.optional import is_optional

# What ``+=`` does not change unseen.
UNCHANGED = (Tensor, Number, int, float, str, tuple, type(None))


def attribute(owner: Any, name: str) -> Any:
    """``owner``, whose attribute ``name`` is about to be set."""
    if tracing():
        will_set(owner, name)
    return owner


def lost(owner: Any, name: str) -> Any:
    """``owner``, whose attribute ``name`` is about to be deleted."""
    if tracing():
        will_delete(owner, name)
    return owner


def joined_in_place(value: Any, other: Any) -> Any:
    """What ``value`` becomes when ``other`` is joined to it by ``|=``."""
    content(value)
    if isinstance(value, dict) and (is_partial(value) or is_partial(other)):
        return dicts.join_in_place(value, other)
    return operator.ior(value, look(other))


def item(container: Any) -> Any:
    """``container``, an item of which is about to be set or deleted."""
    if isinstance(container, (*CONTAINERS, *HOLDERS)) and tracing():
        seen = look(container)
        current().will_write_container(held(container))
        return seen
    if not isinstance(container, Tensor) and tracing():
        hyb__.stored_in(container)
    return container


def indexed_item(container: Any) -> Any:
    """``container``, an item of which is about to be set, where only the run may know which."""
    seen = item(container)
    return _indexed(container, seen) if tracing() else seen


def items(container: Any) -> Any:
    """``container``, an item of which is about to be changed in place."""
    if tracing():
        inner = container.items if isinstance(container, View) else container
        if isinstance(inner, CONTAINERS):
            for value in inner.values() if isinstance(inner, dict) else inner:
                _content_of_one(value.value if is_optional(value) else value)
    return container


def content(value: Any) -> Any:
    """``value``, which is about to be changed in place."""
    if isinstance(value, CONTAINERS) and tracing():
        current().will_write_container(value)
    elif not isinstance(value, UNCHANGED) and tracing():
        hyb__.stored_in(value)
    return value


def _content_of_one(value: Any) -> None:
    """The same for an attribute or item."""
    refuse_partial(value, "changed as a whole")
    content(value)


def cell(variable: Callable[[], Any]) -> None:
    """The variable that ``variable`` gives, one of an enclosing function, is about to be set."""
    if tracing():
        assert isinstance(variable, types.FunctionType) and variable.__closure__ is not None
        current().will_write_cell(variable.__closure__[0])


def global_(namespace: dict[str, Any], name: str) -> None:
    """The global ``name`` is about to be set."""
    if tracing():
        current().will_write_global(namespace, name)
