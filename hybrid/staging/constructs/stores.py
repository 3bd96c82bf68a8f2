"""Run-time half of stores: each place that is about to change is announced to the capture."""

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
from hybrid.staging.effects.announcement import will_delete, will_set
from hybrid.staging.sessions.namespaces import Namespace, namespace_of
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
from hybrid.staging.values.lists import ListView
from hybrid.trace.values.optional import is_optional

# What ``+=`` does not change unseen.
UNCHANGED = (Tensor, Number, int, float, str, tuple, type(None))


def attribute(owner: Any, name: str) -> Any:
    """``owner``, after the write of its attribute ``name`` has been announced."""
    if tracing():
        will_set(owner, name)
    return owner


def lost(owner: Any, name: str) -> Any:
    """``owner``, after the deletion of its attribute ``name`` has been announced."""
    if tracing():
        will_delete(owner, name)
    return owner


def joined_in_place(value: Any, other: Any) -> Any:
    """The result of ``value |= other``, after the write has been announced."""
    content(value)
    if isinstance(value, dict) and (is_partial(value) or is_partial(other)):
        return dicts.join_in_place(value, other)
    return operator.ior(value, look(other))


def item(container: Any) -> Any:
    """``container`` or a view of it, after the write of an item has been announced."""
    if isinstance(container, (*CONTAINERS, *HOLDERS)) and tracing():
        if type(container) is dict and (space := namespace_of(container)) is not None:
            return space
        seen = look(container)
        current().will_write_container(held(container))
        return seen
    if not isinstance(container, Tensor) and tracing():
        hyb__.stored_in(container)
    return container


def indexed_item(container: Any) -> Any:
    """``container`` or a view of it, after a write at a traced index has been announced."""
    seen = item(container)
    return _indexed(container, seen) if tracing() else seen


def items(container: Any) -> Any:
    """``container``, after a change of one of its items in place has been announced."""
    if tracing():
        inner = container.items if isinstance(container, ListView) else container
        inner = inner.content if isinstance(inner, Namespace) else inner
        if isinstance(inner, CONTAINERS):
            for value in inner.values() if isinstance(inner, dict) else inner:
                _content_of_one(value.value if is_optional(value) else value)
    return container


def content(value: Any) -> Any:
    """``value``, after its change in place has been announced."""
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
    """Announce the binding of a variable of an enclosing function, which ``variable`` gives."""
    if tracing():
        assert isinstance(variable, types.FunctionType) and variable.__closure__ is not None
        current().will_write_cell(variable.__closure__[0])


def global_(namespace: dict[str, Any], name: str) -> None:
    """Announce the binding of the global ``name``."""
    if tracing():
        current().will_write_global(namespace, name)
