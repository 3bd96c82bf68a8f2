"""PyTorch's words for arguments that the array functions have in others: ``dim``, ``inplace``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentTypeError

_AXIS = {"dim": "axis", "keepdim": "keepdims", "start_dim": "start_axis", "end_dim": "end_axis"}
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

    call.__module__, call.__qualname__ = _HOME, function.__name__
    return call


def with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of ``x`` that takes a ``dtype``, which ``x`` is converted to first."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return function(x if dtype is None else ops.astype(x, dtype), *args, **kwargs)

    return call


def with_inplace(function: Callable[..., Any], others: int = 0) -> Callable[..., Any]:
    """``function`` of ``x`` and ``others`` more arguments that takes ``inplace`` behind them."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > others:
            *args, inplace = args
        y = function(x, *args, **kwargs)
        return x.assign(y) if inplace else y

    call.__module__, call.__qualname__ = _HOME, function.__name__
    return call


def chosen_dim(name: str, dim: Any, axis: Any, default: int) -> Any:
    """The one of ``dim`` and ``axis`` that was given, or the default."""
    if dim is not None and axis is not None:
        raise ArgumentTypeError(f"{name} got dim and axis", fix="give dim alone")
    if axis is not None:
        return axis
    return default if dim is None else dim
