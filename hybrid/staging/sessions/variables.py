"""Loads of variables that may be unbound or optional: the plan checks that they are bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from hybrid.errors import CaptureError, NeedsValue
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.regions.continuation import require
from hybrid.trace.values.optional import (
    UNBOUND,
    OptionalValue,
    Unbound,
    is_optional,
    refuse_missing,
    unbound_error,
)


def read(value: Any, name: str, free: bool = False) -> Any:
    """The value of the variable ``name``, which holds UNBOUND or an OptionalValue.

    It is one of an enclosing function if it is ``free``.
    """
    if value is UNBOUND:
        raise unbound_error(name, free)
    error = value.error
    if error is None:
        error = unbound_error(name, free) if value.other is UNBOUND else _absent(value, name)
    require(Number("bool", value.flag), error)
    return value.value


def resolved(tree: Any, name: str = "the result", *, optional: bool) -> Any:
    """A result all of whose parts are bound: the plan checks those that may be absent.

    What is None on some paths is refused there unless it is ``optional``.
    """
    if isinstance(tree, OptionalValue):
        if tree.other is UNBOUND:
            return resolved(read(tree, name), name, optional=optional)
        if optional and tree.other is None:
            return tree.of(resolved(tree.value, name, optional=True), tree.flag)
        if current().general:  # a number may decide, which then must be no input
            raise NeedsValue("whether the result is there", "bool", tree.flag, at=tree.at)
        require(Number("bool", tree.flag), _absent(tree, name), tree.at)
        return tree.value
    if isinstance(tree, (tuple, list)) and any(map(_has_optional, tree)):
        items = [resolved(item, f"{name}[{i}]", optional=optional) for i, item in enumerate(tree)]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict) and any(map(_has_optional, dict.values(tree))):
        kind = OrderedDict if type(tree) is OrderedDict else dict
        items = [(k, _item(item, f"{name}[{k!r}]", optional)) for k, item in tree.items()]
        return kind(items)
    return tree


def _item(item: Any, name: str, optional: bool) -> Any:
    """What a dict that is returned holds: the plan leaves out what is missing."""
    if not is_optional(item):
        return resolved(item, name, optional=optional)
    if not item.placed:
        refuse_missing("returned", item, item.at)
    return item.of(resolved(item.value, name, optional=optional), item.flag)


def _has_optional(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_optional, value))
    if isinstance(value, dict):
        return any(map(_has_optional, value.values()))
    return isinstance(value, OptionalValue)


def _absent(value: OptionalValue, name: str) -> Exception:
    other = "absent" if value.other is MISSING else repr(value.other)
    return CaptureError(
        f"{name} is {other} on the path that this call takes, and a tensor on another",
        why="The structure of what a plan computes cannot depend on the value of a tensor.",
        fix=f"let {name} be a tensor on every path, or test it with `is None` before it is used",
    )


def load(name: str, value: Any, free: bool = False) -> Any:
    """The value of the variable ``name``, one of an enclosing function if it is ``free``."""
    if type(value) in (Unbound, OptionalValue):
        return read(value, name, free)
    return value


def peek(name: str, value: Any, free: bool = False) -> Any:
    """The value of a variable for a look at its identity alone, which may be absent."""
    known = type(value) is OptionalValue and value.other is not UNBOUND
    return value if known else load(name, value, free)
