"""Hidden: tensors of a call inside what no plan can build, so that it must not be returned."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Iterator
from typing import Any

from hybrid.ir import Value
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.attributes import attribute_names, stored
from hybrid.trace.grown import Grown
from hybrid.trace.maybe import Maybe
from hybrid.trace.reads import CONTAINERS, content_of, user_object


def hidden(value: Any, seen: set[int], arguments: Collection[int]) -> str | None:
    """The way from ``value`` to a traced tensor, or one of the arguments, that it holds."""
    if isinstance(value, Tensor):
        return "" if type(value.content) is Value or id(value) in arguments else None
    if type(value) in (Number, Maybe, Grown):
        return ""
    if id(value) in seen or isinstance(value, (type, types.ModuleType)):
        return None
    seen.add(id(value))
    for step, part in _parts(value):
        path = hidden(part, seen, arguments)
        if path is not None:
            return step + path
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What ``value`` holds, each with how to get there."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, CONTAINERS):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f"its variable {name}", content_of(cell)) for name, cell in cells)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".args[{i}]", item) for i, item in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", item) for name, item in value.keywords.items())
    names = attribute_names(value) if user_object(value) else ()
    yield from ((f".{name}", stored(value, name)) for name in sorted(names))
