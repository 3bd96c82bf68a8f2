"""PyTorch's words for arguments that the array functions have in others: ``dim``, ``inplace``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentTypeError

_AXIS = {"dim": "axis", "keepdim": "keepdims", "start_dim": "start_axis", "end_dim": "end_axis"}
_WORDS = {own: word for word, own in _AXIS.items()}
_HOME = "hybrid.nn.functional"  # where all of them are found, by pickle too


def with_dim(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` that takes ``dim`` for ``axis``, and ``keepdim`` for ``keepdims``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for word in _AXIS.keys() & kwargs.keys():
            own = _AXIS[word]
            if own in kwargs:
                raise ArgumentTypeError(
                    f"{function.__name__} got {word} and {own}", fix=f"give {word} alone"
                )
            kwargs[own] = kwargs.pop(word)
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    spelled = [p.replace(name=_WORDS.get(p.name, p.name)) for p in signature.parameters.values()]
    return _at_home(call, function.__name__, signature.replace(parameters=spelled))


def with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of ``x`` that takes a ``dtype``, which ``x`` is converted to first."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return function(x if dtype is None else ops.astype(x, dtype), *args, **kwargs)

    return _at_home(call, function.__name__, _and(function, "dtype", None))


def with_inplace(function: Callable[..., Any], others: int = 0) -> Callable[..., Any]:
    """``function`` of ``x`` and ``others`` more arguments that takes ``inplace`` behind them."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > others:
            *args, inplace = args
        y = function(x, *args, **kwargs)
        return x.assign(y) if inplace else y

    return _at_home(call, function.__name__, _and(function, "inplace", False))


def _and(function: Callable[..., Any], name: str, default: Any) -> inspect.Signature:
    """The signature of ``function`` with one more parameter."""
    signature = inspect.signature(function)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    more = inspect.Parameter(name, kind, default=default, annotation=Any)
    return signature.replace(parameters=[*signature.parameters.values(), more])


def _at_home(call: Any, name: str, signature: inspect.Signature) -> Callable[..., Any]:
    """``call`` as it is seen from outside."""
    call.__module__, call.__qualname__, call.__signature__ = _HOME, name, signature
    return call


def chosen_dim(name: str, dim: Any, axis: Any, default: int) -> Any:
    """The one of ``dim`` and ``axis`` that was given, or the default."""
    if dim is not None and axis is not None:
        raise ArgumentTypeError(f"{name} got dim and axis", fix="give dim alone")
    if axis is not None:
        return axis
    return default if dim is None else dim
