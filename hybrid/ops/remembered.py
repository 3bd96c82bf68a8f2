"""remembered: array functions whose eager calls are looked up by what they are given.

Such a function makes plain its arguments (an axis, a shape) and calls ops with it.  All that does
not depend on the elements of the tensors, so the next call with the same types and arguments needs
only the launch that the first has come to.  It must not read elements, nor call random ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hybrid.ir.interpreter import ACTIVE
from hybrid.types import DType

MAX_REMEMBERED = 1024  # calls of one function
CALLS_BEFORE_PLANNING = 3  # general ones, where the ops are several: a plan takes longer than those

Function = Callable[..., Any]
_watch: list[Function] = []


def set_watcher(watch: Function) -> None:
    """Install what finds launches out.

    ``watch(function, tensors, args, kwargs, plan)`` gives the function's result and its launch on
    tensors like these: None if there is none, False if it takes a plan and ``plan`` is False.
    """
    _watch[:] = [watch]


def remembered(function: Function) -> Function:
    """``function`` of a tensor first and of hashable arguments that are no tensors."""
    known = _Known(function)
    launches = known.launches

    @functools.wraps(function)
    def call(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE:
            return function(x, *args, **kwargs)
        key = None
        try:
            if x.record is None:
                key = _key((x.type,), args, kwargs)
                return launches[key].run((x,))[0]
        except (AttributeError, KeyError, TypeError):
            pass  # no tensor, an early call, arguments that have no hash: the general way
        return function(x, *args, **kwargs) if key is None else known.call(key, (x,), args, kwargs)

    return call


def remembered_of_two(function: Function) -> Function:
    """``function`` of two tensors first and of hashable arguments that are no tensors."""
    known = _Known(function)
    launches = known.launches

    @functools.wraps(function)
    def call(a: Any, b: Any, /, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE:
            return function(a, b, *args, **kwargs)
        key = None
        try:
            if a.record is None and b.record is None and a is not b:
                key = _key((a.type, b.type), args, kwargs)
                return launches[key].run((a, b))[0]
        except (AttributeError, KeyError, TypeError):
            pass
        if key is None:
            return function(a, b, *args, **kwargs)
        return known.call(key, (a, b), args, kwargs)

    return call


def remembered_of_none(function: Function) -> Function:
    """``function`` of hashable arguments that are no tensors."""
    known = _Known(function)
    launches = known.launches

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if ACTIVE:
            return function(*args, **kwargs)
        try:
            key = _key((), args, kwargs)
            return launches[key].run(())[0]
        except (AttributeError, KeyError):
            return known.call(key, (), args, kwargs)
        except TypeError:  # arguments that have no hash
            return function(*args, **kwargs)

    return call


def _key(types: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells calls apart; 1 and True are equal, so that classes are part of it."""
    key = (types, args, *map(type, args))
    return (*key, *kwargs.items(), *map(type, kwargs.values())) if kwargs else key


class _Known:
    """The launches of one function by what it is given; before there is one, how often it was."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.launches: dict[Any, Any] = {}

    def call(
        self, key: Any, tensors: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a call that no launch is known for."""
        function, launches = self.function, self.launches
        if not all(map(_is_plain, (*args, *kwargs.values()))):
            return function(*tensors, *args, **kwargs)
        seen = launches.get(key, 0)
        if type(seen) is not int:
            return function(*tensors, *args, **kwargs)
        if len(launches) >= MAX_REMEMBERED:
            launches.clear()
        plan = seen >= CALLS_BEFORE_PLANNING
        result, launch = _watch[0](function, tensors, args, kwargs, plan)
        launches[key] = seen + 1 if launch is False else launch
        return result


def _is_plain(argument: Any) -> bool:
    """Whether the argument can be part of a key: -0.0 would be found as 0.0."""
    if type(argument) is tuple:
        return all(type(item) is int for item in argument)
    if type(argument) is float:
        return argument != 0
    return argument is None or type(argument) in (bool, int, str, DType)
