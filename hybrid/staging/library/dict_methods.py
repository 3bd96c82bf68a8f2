"""Overrides of methods of dicts whose keys only a run knows."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.sessions.views import is_partial, refuse_partial
from hybrid.staging.values import dicts, subscripts

# Methods of dicts that may do without all keys.
METHODS: dict[str, Callable[..., Any]] = {
    "__bool__": dicts.truth_of,
    "__class__": type,
    "__contains__": dicts.present,
    "__delitem__": dicts.delete_announced,
    "__eq__": dicts.is_equal,
    "__getitem__": dicts.found,
    "__ior__": dicts.join_in_place,
    "__len__": dicts.length_of,
    "__or__": dicts.joined,
    "__setitem__": dicts.store_announced,
    "clear": dicts.clear,
    "copy": lambda items: items.copy(),
    "get": dicts.get,
    "pop": dicts.pop,
    "popitem": dicts.popitem,
    "setdefault": dicts.setdefault,
    "update": dicts.update,
}
_KINDS = (
    types.BuiltinMethodType, types.MethodWrapperType, types.MethodDescriptorType,
    types.WrapperDescriptorType,
)  # fmt: skip


def method_of(function: Any) -> Callable[..., Any] | None:
    """The override of a method of a dict that is, or may be given, a partial one."""
    if not (
        isinstance(function, _KINDS) and (current().indefinite_values or function.__name__ == "get")
    ):
        return None
    owner = getattr(function, "__self__", None)
    if isinstance(owner, dict):
        bound: tuple[Any, ...] = (owner,)
    elif owner is None and issubclass(function.__objclass__, dict):
        bound = ()
    else:
        return None
    name = function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*bound, *args)
        if name == "get" and any(type(each) is Number for each in given[1:2]):
            current().will_read_container(given[0])
            return subscripts.get(*given)
        if not any(map(is_partial, given)):
            return NotImplemented
        for each in given:
            if isinstance(each, dict):
                current().will_read_container(each)
        if name not in METHODS:
            for each in given:
                refuse_partial(each, f"asked for {name}()")
        return METHODS[name](*given, **kwargs)

    return call
