"""Words of others for keyword arguments: PyTorch's, ``dim`` and ``keepdim``, and NumPy's.

NumPy's functions call the method of the same name: ``np.sum(x)`` is ``x.sum(axis=None, out=None)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
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
# What NumPy's functions hand on to methods, and the values that ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "out": (None,),
    "dtype": (None,),
    "where": (True,),
    "initial": (),
    "mean": (),
    "kind": (None, "quicksort", "mergesort", "heapsort", "stable"),
    "order": (None, "C"),
    "mode": ("raise",),
}
_IN_PLACE_OF = {
    "out": "write y = hybrid.{name}(x), and y.numpy() for an array",
    "dtype": "convert the tensor first: hybrid.{name}(x.astype(...))",
    "where": "write hybrid.{name}(hybrid.where(condition, x, y)) with a y that changes nothing",
    "initial": "combine hybrid.{name}(x) with that value",
    "order": "permute the axes first: hybrid.{name}(hybrid.permute_dims(x, ...))",
}
_REDUCED = ("out", "where", "initial")
FROM_NUMPY = {
    "sum": _REDUCED,
    "prod": _REDUCED,
    "max": _REDUCED,
    "min": _REDUCED,
    "all": _REDUCED,
    "any": _REDUCED,
    "mean": ("out", "dtype", "where"),
    "std": ("out", "dtype", "where", "mean", "ddof"),
    "var": ("out", "dtype", "where", "mean", "ddof"),
    "argmax": ("out",),
    "argmin": ("out",),
    "cumsum": ("out",),
    "cumprod": ("out",),
    "clip": ("out",),
    "round": ("out",),
    "take": ("out", "mode"),
    "argsort": ("kind", "order"),
    "reshape": ("order",),
}


def in_own_words(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """``kwargs`` of the function ``name``, with ``axis`` for ``dim`` and so on."""
    found = _without_numpys(name, kwargs)
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


def _without_numpys(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """``kwargs`` without those that only NumPy's function has and that ask for nothing."""
    found = dict(kwargs)
    for word in FROM_NUMPY.get(name, ()):
        if word not in found:
            continue
        value = found.pop(word)
        if word == "ddof":
            if "correction" in found:
                raise ArgumentTypeError(f"{name} got correction and ddof", fix="give one of them")
            found["correction"] = value
        elif type(value) not in (NoneType, bool, str) or value not in _NEUTRAL[word]:
            raise ArgumentTypeError(
                f"{name} got {word}",
                why=f"That is an argument of NumPy's {name}; hybrid.{name} has none of this name.",
                fix=_IN_PLACE_OF.get(word, "call hybrid.{name} without it").format(name=name),
            )
    return found


def with_others_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` that takes ``dim`` for ``axis``, and what NumPy's function of its name hands on.

    One that has no such arguments is given back as it is.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    from_torch = [word for word, own in OWN.items() if own in names and word not in names]
    words = frozenset([*from_torch, *FROM_NUMPY.get(function.__name__, ())])
    if not words:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not words.isdisjoint(kwargs):
            _refuse_another_meaning(function.__name__, kwargs)
            kwargs = in_own_words(function.__name__, kwargs)
        return function(*args, **kwargs)

    return call
