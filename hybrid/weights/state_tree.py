"""Nested states as the flat tensors of a file and one text, and back.

::

    {"model": {"w": tensor}, "groups": [{"lr": 0.1}]}
        ==>  the tensor "model.w", and the text {"dict": [["model", {"dict": [["w", {"tensor":
             "model.w"}]]}], ["groups", [{"dict": [["lr", 0.1]]}]]]}

None, bools, ints, texts, finite floats and lists are themselves in the text; all else is an object
of one key, which says what it is.
"""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.weights.header import METADATA

TREE = "hybrid.tree"  # the name of the text
_PLAIN = (type(None), bool, int, str)
_FIX = (
    "keep tensors, arrays, numbers, texts and None in dicts, lists and tuples, or what has a "
    "state_dict()"
)


def is_flat(state: Mapping[Any, Any]) -> bool:
    """Whether ``state`` is tensors and arrays by name alone."""
    kinds = (Tensor, np.ndarray, np.generic)
    return all(isinstance(k, str) and isinstance(v, kinds) for k, v in state.items())


def taken_apart(state: Mapping[Any, Any]) -> tuple[dict[str, Any], str]:
    """The tensors and arrays of ``state`` by names made of their paths, and the text."""
    tensors: dict[str, Any] = {}
    try:
        tree = _described(state, "", tensors)
        return tensors, json.dumps(tree, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise ArgumentError(
            "the state is nested too deeply to be saved", why="Does it hold itself?"
        ) from None


def _described(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        name = path
        while name in tensors or name == METADATA:  # {"a.b": x, "a": {"b": y}}, {1: x, "1": y}
            name += "'"
        tensors[name] = value
        return {"tensor": name}
    if hasattr(value, "state_dict"):
        return _described(value.state_dict(), path, tensors)
    if kind in (list, tuple):
        items = [_described(item, _joined(path, at), tensors) for at, item in enumerate(value)]
        return items if kind is list else {"tuple": items}
    if isinstance(value, dict):
        pairs = []
        for key, item in value.items():
            if type(key) not in (str, int):
                raise ArgumentTypeError(
                    f"the key {key!r} of {path or 'the state'} is neither a text nor an int",
                    why="Keys of a saved state are.",
                )
            pairs.append([key, _described(item, _joined(path, key), tensors)])
        return {"OrderedDict" if kind is OrderedDict else "dict": pairs}
    raise ArgumentTypeError(
        f"{path!r} is a {kind.__name__}, which cannot be saved",
        why="A file is no pickle.",
        fix=_FIX,
    )


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def put_together(text: str, tensors: Mapping[str, Tensor]) -> dict[Any, Any]:
    """The state of which ``text`` tells; ValueError where it does not fit ``tensors``."""
    unused = dict(tensors)
    try:
        state = _made(json.loads(text, parse_constant=_no_constant), unused)
    except (KeyError, TypeError, RecursionError):
        raise ValueError from None
    if unused or not isinstance(state, dict):
        raise ValueError
    return state


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _made(tree: Any, unused: dict[str, Tensor]) -> Any:
    if type(tree) is list:
        return [_made(item, unused) for item in tree]
    if type(tree) is not dict:
        return tree
    ((kind, value),) = tree.items()
    return _MAKERS[kind](value, unused)


def _dict_of(pairs: Any, unused: dict[str, Tensor]) -> dict[Any, Any]:
    made = {key: _made(value, unused) for key, value in pairs}
    if len(made) < len(pairs) or not all(type(key) in (str, int) for key in made):
        raise ValueError
    return made


def _float_of(bits: str) -> float:
    """An infinity or a nan."""
    try:
        return struct.unpack(">d", bytes.fromhex(bits))[0]
    except struct.error:
        raise ValueError from None


_MAKERS: dict[str, Callable[[Any, dict[str, Tensor]], Any]] = {
    "OrderedDict": lambda pairs, unused: OrderedDict(_dict_of(pairs, unused)),
    "dict": _dict_of,
    "float": lambda bits, _: _float_of(bits),
    "tensor": lambda name, unused: unused.pop(name),
    "tuple": lambda items, unused: tuple([_made(item, unused) for item in items]),
}
