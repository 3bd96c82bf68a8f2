"""Axes that are declared to vary: the table that ``hybridize(fn, dynamic=...)`` is given.

::

    {"x": {0: Dim("batch", 1, 512)}, 1: {1: True}}  # axis 0 of x, axis 1 of the second argument
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.sizes import HIGHEST
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError

Axis = tuple[int, int]  # of a leaf of the arguments


@dataclass(frozen=True, slots=True)
class Dim:
    """The size of an axis: wherever the name stands, there are as many elements.

    It lies between ``low`` and ``high``, both included; a call with another size raises ShapeError.
    """

    name: str
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ArgumentError(
                f"Dim got the name {self.name!r}", fix='give a name such as "batch"'
            )
        ints = all(type(end) is int for end in (self.low, self.high))
        if not ints or not 0 <= self.low <= self.high <= HIGHEST:
            raise ArgumentError(
                f"{self.name} is declared from {self.low!r} to {self.high!r}",
                fix=f"give two ints, the smaller one first, from 0 to {HIGHEST}",
            )


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared axis of an argument: what it is called, and its Dim, if it has one."""

    label: str  # axis 0 of x
    dim: Dim | None


Table = Mapping[Any, Mapping[int, Any]]


def require_table(function: Callable[..., Any], dynamic: Any) -> None:
    """Raise unless ``dynamic`` is None, False, or a table for arguments of ``function``."""
    if dynamic is None or dynamic is False:
        return
    if not isinstance(dynamic, Mapping):
        raise ArgumentError(
            f"dynamic is {dynamic!r}",
            why="Axes whose sizes change are opened by themselves.",
            fix="leave dynamic out, give False for a capture for each size, or a table of "
            'arguments and axes such as {"x": {0: hybrid.Dim("batch", 1, 512)}}',
        )
    named = _parameters(function)
    for argument, axes in dynamic.items():
        if not isinstance(argument, (str, int)) or isinstance(argument, bool):
            raise ArgumentTypeError(
                f"dynamic names the argument {argument!r}", fix="give its name or its position"
            )
        known = _knows(named, argument)
        if known:
            raise ArgumentError(
                f"dynamic names the argument {argument!r}, which there is not",
                fix=f"use one of: {known}",
            )
        if not isinstance(axes, Mapping) or not axes:
            raise ArgumentTypeError(
                f"dynamic has {axes!r} for the argument {argument!r}",
                fix='give a dict of axes, such as {0: hybrid.Dim("batch", 1, 512), 1: True}',
            )
        for axis, dim in axes.items():
            if type(axis) is not int or not (dim is True or isinstance(dim, Dim)):
                raise ArgumentTypeError(
                    f"dynamic has {{{axis!r}: {dim!r}}} for the argument {argument!r}",
                    fix="give an int for the axis, and a hybrid.Dim or True",
                )
    dims: dict[str, Dim] = {}
    for dim in [dim for axes in dynamic.values() for dim in axes.values() if dim is not True]:
        if dims.setdefault(dim.name, dim) != dim:
            raise ArgumentError(
                f"{dim.name} is declared as {dims[dim.name]} and as {dim}",
                fix="give one name one range",
            )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    from hybrid.explain.argument_names import authors_function

    try:
        return list(inspect.signature(authors_function(function)).parameters.values())
    except (TypeError, ValueError):  # of C
        return None


def _knows(named: list[inspect.Parameter] | None, argument: str | int) -> str:
    """The arguments that there are, if ``argument`` is none of them."""
    if named is None:
        return ""
    kinds = [p.kind for p in named]
    rest = inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds
    positional = [p.name for p in named if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if isinstance(argument, int):
        fits = rest[0] or 0 <= argument < len(positional)
        return "" if fits else ", ".join(f"{i} ({name})" for i, name in enumerate(positional))
    names = [p.name for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return "" if rest[1] or argument in names else ", ".join(names) or "none"


def argument_name(function: Callable[..., Any], argument: str | int) -> str:
    """The name of an argument that a table gives by its name or position."""
    from hybrid.explain.argument_names import positional_name

    return argument if isinstance(argument, str) else positional_name(function, argument)


def leaves_of(function: Callable[..., Any], argument: str | int, names: Sequence[str]) -> list[int]:
    """Which of the leaves, called ``names``, are in such an argument."""
    name = argument_name(function, argument)
    inner = f"{name}[", f"{name}."
    return [i for i, own in enumerate(names) if own == name or own.startswith(inner)]


def declared_axes(
    function: Callable[..., Any], dynamic: Any, leaves: Sequence[Any], names: Sequence[str]
) -> dict[Axis, Declared]:
    """The declared axes of a call, whose sizes are as they are declared."""
    if not isinstance(dynamic, Mapping):
        return {}
    found: dict[Axis, Declared] = {}
    for argument, axes in dynamic.items():
        for i in leaves_of(function, argument, names):
            leaf = leaves[i]
            if not isinstance(leaf, Tensor):
                raise ArgumentTypeError(
                    f"dynamic declares axes of {names[i]}, which is a {type(leaf).__name__}",
                    fix="name arguments that are tensors",
                )
            for axis, dim in axes.items():
                if not -leaf.ndim <= axis < leaf.ndim:
                    raise AxisError(
                        f"dynamic declares axis {axis} of {names[i]}, which is {leaf.type}",
                        fix="name an axis that it has",
                    )
                label = f"axis {axis} of {names[i]}"
                found[i, axis % leaf.ndim] = Declared(label, None if dim is True else dim)
    _require_sizes(found, leaves)
    return found


def _require_sizes(declared: Mapping[Axis, Declared], leaves: Sequence[Any]) -> None:
    seen: dict[Dim, tuple[int, str]] = {}
    for (i, axis), entry in declared.items():
        dim, size = entry.dim, leaves[i].type.shape[axis]
        if dim is None:
            continue
        if not dim.low <= size <= dim.high:
            raise ShapeError(
                f"{dim.name} is {size} ({entry.label})",
                why=f"It is declared from {dim.low} to {dim.high}.",
                fix="call it with a size in that range, or declare another one",
            )
        other, label = seen.setdefault(dim, (size, entry.label))
        if other != size:
            raise ShapeError(
                f"{dim.name} is {other} ({label}) and {size} ({entry.label})",
                why="Axes of one name have one size.",
                fix="give these axes two names, or tensors that fit",
            )
