"""What to write in place of a call whose arguments a function has not, or has by other names.

Python says that there is no such argument, or too many; people who know the function from another
framework are told the line to write.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from hybrid.core.package import FOLDER

# Words of other frameworks for arguments, and those here that may be meant.
WORDS: dict[str, tuple[str, ...]] = {
    "axes": ("axis", "dims"),
    "axis": ("dim",),
    "beta1": ("betas",),
    "beta2": ("betas",),
    "beta_1": ("betas",),
    "beta_2": ("betas",),
    "bias_attr": ("bias",),
    "channels": ("out_channels", "num_features"),
    "dilation_rate": ("dilation",),
    "dropout_rate": ("p", "dropout"),
    "epsilon": ("eps",),
    "filters": ("out_channels",),
    "has_bias": ("bias",),
    "has_affine": ("affine",),
    "in_units": ("in_features",),
    "keep_dims": ("keepdims",),
    "kernel": ("kernel_size",),
    "learning_rate": ("lr",),
    "nesterov_momentum": ("nesterov",),
    "num_units": ("hidden_size",),
    "pad": ("padding",),
    "pool_size": ("kernel_size",),
    "rate": ("p",),
    "strides": ("stride",),
    "units": ("out_features", "hidden_size"),
    "use_bias": ("bias",),
    "wd": ("weight_decay",),
}
# Functions of a shape, which other frameworks take number by number: arguments before and behind.
SPREAD = {
    "broadcast_to": (1, 0), "empty": (0, 0), "full": (0, 1), "ones": (0, 0), "permute_dims": (1, 0),
    "reshape": (1, 0), "tile": (1, 0), "zeros": (0, 0),
}  # fmt: skip

# Attributes of tensors that are methods in other frameworks: what to write for a call of them.
_ATTRIBUTES = {
    "device": "leave it out: tensors are in the memory of the CPU",
    "dtype": "write x.dtype, or x.astype(dtype) for a tensor of another one",
    "grad": "write x.grad",
    "ndim": "write x.ndim",
    "shape": "write x.shape",
    "size": "write x.shape, x.shape[0] for one axis, x.size for the number of elements",
    "type": "write x.astype(dtype), or x.dtype",
}


def meant(word: str, names: Iterable[str]) -> str:
    """The argument among ``names`` that is meant by ``word``; "" if none is likely."""
    known = list(names)
    for own in WORDS.get(word, ()):
        if own in known:
            return own
    close = import_module("difflib").get_close_matches(word, known, 1, 0.7)  # few runs need it
    return close[0] if close else ""


def advise(error: TypeError, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Add what to write to ``error``, which ``function`` raised of its arguments, if known."""
    text, name = str(error), getattr(function, "__name__", "")
    if not text.startswith(f"{name}() ") or "Fix: " in text:
        return
    line = _line(text, name, function, args)
    if line:
        error.args = (f"{text}\nFix: {line}.",)


def _line(text: str, name: str, function: Callable[..., Any], args: Sequence[Any]) -> str:
    if name in SPREAD and "positional argument" in text and "missing" not in text:
        return _as_a_shape(name, args)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", text)
    if unknown is not None:
        own = meant(unknown[1], _names(function))
        return f"write {own} for {unknown[1]}" if own else ""
    by_place = re.search(r"positional-only .* passed as keyword arguments: '(\w+)'", text)
    return f"give {by_place[1]} by its place, without the name" if by_place is not None else ""


def advise_on_attributes(error: TypeError) -> None:
    """Add what to write to ``error`` if the author's line calls an attribute of a tensor."""
    text, line = str(error), ""
    if not text.endswith("object is not callable"):
        return
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(FOLDER):
            line = linecache.getline(path, trace.tb_lineno)
        trace = trace.tb_next
    called = [name for name in re.findall(r"\.(\w+)\(", line) if name in _ATTRIBUTES]
    if len(set(called)) == 1:
        error.args = (f"{text}\nFix: {_ATTRIBUTES[called[0]]}.",)


def _as_a_shape(name: str, args: Sequence[Any]) -> str:
    before, behind = SPREAD[name]
    end = len(args) - behind
    sizes = args[before:end]
    if len(sizes) < 2 or not all([type(size) is int for size in sizes]):
        return ""
    shown = [f"({', '.join(map(str, sizes))})", *map(repr, args[end:])]
    return f"write hybrid.{name}({', '.join([*'xyz'[:before], *shown])})"


def _names(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


@functools.lru_cache(512)
def _words(kind: type) -> tuple[str, ...] | None:
    """The arguments of a class, by their names; None if it takes any."""
    own: Any = kind.__init__  # type: ignore[misc]
    parameters = inspect.signature(own).parameters.values()
    if hasattr(own, "__wrapped__") or any([p.kind is p.VAR_KEYWORD for p in parameters]):
        return None
    return tuple([p.name for p in parameters if p.kind is not p.VAR_POSITIONAL][1:])


def unknown_word(kind: type, given: Iterable[str]) -> tuple[str, str] | None:
    """The first of the names ``given`` that is no argument of a class, and what to write for it."""
    words = _words(kind)
    if words is None:
        return None
    for word in given:
        if word not in words:
            return word, instead_of(word, words)
    return None


def instead_of(word: str, words: Sequence[str]) -> str:
    """What to write for an argument ``word``, where there are ``words``."""
    own = meant(word, words)
    if own:
        return f"write {own} for {word}"
    return f"give some of {', '.join(words)}" if words else f"leave {word} out"
