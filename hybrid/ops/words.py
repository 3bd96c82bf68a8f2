"""PyTorch's words for keyword arguments, ``dim`` and ``keepdim``, in place of the standard's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hybrid.errors import ArgumentTypeError

OWN = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "start_dim": "start_axis",
    "end_dim": "end_axis",
}
# Functions that PyTorch gives another meaning when it is asked along a dimension.
_OTHERWISE = {
    "max": "PyTorch's gives the indices as well.",
    "min": "PyTorch's gives the indices as well.",
    "sort": "PyTorch's gives the indices as well.",
}
_CORRECTED = ("std", "var")


def in_own_words(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """``kwargs`` of the function ``name``, with ``axis`` for ``dim`` and so on."""
    found = dict(kwargs)
    for word in OWN.keys() & kwargs.keys():
        own = OWN[word]
        if own in kwargs:
            raise ArgumentTypeError(f"{name} got {word} and {own}", fix=f"give {word} alone")
        found[own] = found.pop(word)
    return found


def _refuse_another_meaning(name: str, kwargs: dict[str, Any]) -> None:
    if name in _OTHERWISE and "dim" in kwargs:
        by = "argsort" if name == "sort" else f"arg{name}"
        raise ArgumentTypeError(
            f"{name} got dim",
            why=f"{_OTHERWISE[name]} This one gives the values alone.",
            fix=f"give axis for the values; {by} gives the indices",
        )
    if name in _CORRECTED and "dim" in kwargs and "correction" not in kwargs:
        raise ArgumentTypeError(
            f"{name} got dim without correction",
            why="PyTorch's divides by n - 1 if not told otherwise, the array standard's by n.",
            fix="give correction=1, or 0",
        )


def with_torch_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` that takes ``dim`` for ``axis`` and ``keepdim`` for ``keepdims``.

    One that has no such arguments is given back as it is.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    words = frozenset([word for word, own in OWN.items() if own in names and word not in names])
    if not words:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not words.isdisjoint(kwargs):
            _refuse_another_meaning(function.__name__, kwargs)
            kwargs = in_own_words(function.__name__, kwargs)
        return function(*args, **kwargs)

    return call
