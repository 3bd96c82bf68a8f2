"""What the author calls the arguments of a call: ``x``, ``batch[0]``, ``options['rate']``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from hybrid.core.tree import LEAF, Structure, flatten
from hybrid.explain.words import is_plain, shown
from hybrid.trace.places.code_owner import of_package


def leaf_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[str, ...]:
    """A name for each leaf of a call of ``function``."""
    names: list[str] = []
    for index, argument in enumerate(args):
        names += _paths(flatten(argument)[1], positional_name(function, index))
    for name, argument in kwargs.items():
        names += _paths(flatten(argument)[1], name)
    return tuple(names)


def positional_name(function: Callable[..., Any], index: int) -> str:
    """The name of the argument at ``index``."""
    positional, rest = _parameters(authors_function(function))
    if index < len(positional):
        return positional[index]
    return f"{rest}[{index - len(positional)}]" if rest else str(index + 1)


def given_name(function: Callable[..., Any], keys: tuple[Any, ...]) -> str:
    """The name of what ``keys`` lead to in (args, kwargs) of a call of ``function``."""
    kind, first, *rest = keys
    positional, others = _parameters(authors_function(function))
    name = str(first)
    if kind == 0:
        name = positional[first] if first < len(positional) else others or str(first + 1)
    return name + "".join(f"[{key!r}]" for key in rest)


def authors_function(function: Any) -> Any:
    """``function``, or the forward() that it calls when it is a module, or a method of one."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None and callable(plain):
        code = getattr(type(plain).__call__, "__code__", None)
    if code is not None and of_package(code):
        return getattr(getattr(function, "__self__", function), "forward", function)
    return function


def keys_of(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    names: Sequence[str],
    numbers: Collection[int],
) -> list[tuple[str, str]]:
    """(name, text) of each Python value that a plan is made for: arguments and defaults."""
    found = [
        (name, f"key: argument {name} is {shown(leaf)}")
        for index, (name, leaf) in enumerate(zip(names, leaves, strict=True))
        if is_plain(leaf) and index not in numbers
    ]
    given = {name.partition("[")[0].partition(".")[0] for name in names}
    try:
        parameters = inspect.signature(authors_function(function)).parameters.values()
    except (TypeError, ValueError):
        return found
    for parameter in parameters:
        default = parameter.default
        if default is not parameter.empty and parameter.name not in given and is_plain(default):
            found.append((parameter.name, f"default: {parameter.name} is {shown(default)}"))
    return found


def _parameters(function: Any) -> tuple[list[str], str]:
    """Names of the positional parameters, and of that which takes the rest of them."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C
        return [], ""
    rest = [p.name for p in found if p.kind is p.VAR_POSITIONAL]
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names, rest[0] if rest else ""


def _paths(structure: Structure, name: str) -> Iterator[str]:
    if structure is None:
        return
    if structure == LEAF:
        yield name
        return
    kind, items = structure
    if issubclass(kind, dict):
        for key, item in items:
            yield from _paths(item, f"{name}[{key!r}]")
    elif hasattr(kind, "_fields"):
        for field, item in zip(kind._fields, items, strict=True):
            yield from _paths(item, f"{name}.{field}")
    else:
        for index, item in enumerate(items):
            yield from _paths(item, f"{name}[{index}]")
