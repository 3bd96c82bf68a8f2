"""The key under which a call finds its plan: argument structure, tensor types, Python values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.core.tree import holds_itself
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir.interpreter import current
from hybrid.trace.places.code_owner import definition

_BY_VALUE = (bool, int, str, bytes, type(None), type(...))


def lifted(leaves: list[Any]) -> list[Any]:
    """Return ``leaves`` with NumPy arrays converted to Tensors."""
    interpreter = current()
    return [interpreter.lift(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]


def endless_argument(
    name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> CaptureError:
    """Return the error for arguments of ``function`` whose containers have no end."""
    given = dict(enumerate(args)) | dict(kwargs)
    held = [which for which, value in given.items() if holds_itself(value)]
    what = f"argument {held[0]!r}" if held else "an argument"
    return CaptureError(
        f"{what} of {name} {'holds itself' if held else 'is nested too deeply'}",
        at=definition(function),
        why="The lists and dicts among the arguments are told apart by all that they hold.",
        fix="keep it in an attribute, a global or a variable of an enclosing function, or pass "
        "the parts that are needed",
    )


def key_of(leaf: Any) -> Hashable:
    """Return the part of ``leaf`` that a capture depends on, as a hashable key."""
    if isinstance(leaf, Tensor):
        return (leaf.type, leaf.record is not None)
    kind = type(leaf)
    if kind is float:
        return (float, leaf.hex())
    if kind in _BY_VALUE:
        return (kind, leaf)
    if isinstance(leaf, np.generic):
        return (kind, leaf.tobytes())
    if kind is slice or kind is range:
        return (kind, key_of(leaf.start), key_of(leaf.stop), key_of(leaf.step))
    if kind is complex:
        return (kind, leaf.real.hex(), leaf.imag.hex())
    return (kind, id(leaf))


def aliases(leaves: Sequence[Any]) -> tuple[int, ...] | None:
    """Return for each leaf the first position of the same tensor; None if all are different."""
    tensors = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]
    if len(set(tensors)) == len(tensors):
        return None
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(leaf), i) for i, leaf in enumerate(leaves))


def describe_leaf(leaf: Any) -> str:
    """Return ``leaf`` as the text that ``plans`` prints."""
    if isinstance(leaf, Tensor):
        return str(leaf.type)
    by_value = (*_BY_VALUE, float, complex, slice, range)
    return repr(leaf) if isinstance(leaf, by_value) else type(leaf).__name__


def is_number(leaf: Any) -> bool:
    """Return whether ``leaf`` is a Python number that can be an input of a plan."""
    return type(leaf) is float or (type(leaf) is int and -(2**63) <= leaf < 2**63)


def key_of_kind(leaf: Any) -> Hashable:
    """Return ``key_of(leaf)``, but for numbers their type alone."""
    return (type(leaf), "any") if is_number(leaf) else key_of(leaf)


def plain(args: Sequence[Any]) -> bool:
    """Return whether ``args`` are different tensors without a gradient history."""
    for t in args:
        if t.__class__ is not Tensor or t.record is not None:
            return False
    n = len(args)
    return n < 2 or (args[0] is not args[1] if n == 2 else len(set(map(id, args))) == n)
