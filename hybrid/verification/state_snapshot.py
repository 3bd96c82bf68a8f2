"""StateSnapshot: what objects held at one time, to see what has changed, and to put it back."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hybrid.config import advance_epoch
from hybrid.core.package import module_of
from hybrid.eager.tensor import Tensor
from hybrid.verification.reached_state import attributes, holds_state, is_authors

_ABSENT: Any = object()
_SLOTS = ("type", "content", "record", "leaf", "frozen_leaf")


class HeldPart(NamedTuple):
    """Something that objects hold: how it is read, as values in a row, and put back."""

    read: Callable[[Any], list[Any]]
    write: Callable[[Any, list[Any]], None]
    same: Callable[[list[Any], list[Any]], bool]


def _identical(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all([x is y for x, y in zip(a, b, strict=True)])


def _read_tensor(tensor: Tensor) -> list[Any]:
    held = [getattr(tensor, name, _ABSENT) for name in _SLOTS]
    for leaf in held[3:]:
        held += (None, None) if leaf is _ABSENT else (leaf.grad, leaf.frozen)
    return held


def _write_tensor(tensor: Tensor, held: list[Any]) -> None:
    for name, value in zip(_SLOTS, held, strict=False):
        if value is not _ABSENT:
            setattr(tensor, name, value)
        elif hasattr(tensor, name):
            delattr(tensor, name)
    for leaf, grad, frozen in ((held[3], *held[5:7]), (held[4], *held[7:9])):
        if leaf is not _ABSENT:
            leaf.grad, leaf.frozen = grad, frozen


def _read_dict(value: Any) -> list[Any]:
    return [*dict.keys(value), *dict.values(value)]


def _write_dict(value: Any, held: list[Any]) -> None:
    half = len(held) // 2
    dict.clear(value)
    dict.update(value, zip(held[:half], held[half:], strict=True))


def _write_items(base: Any) -> Callable[[Any, list[Any]], None]:
    def write(value: Any, held: list[Any]) -> None:
        base.clear(value)
        (base.update if base is set else base.extend)(value, held)

    return write


def _write_array(array: np.ndarray, held: list[Any]) -> None:
    array[...] = held[0]


def _same_array(a: list[Any], b: list[Any]) -> bool:
    return a[0].tobytes() == b[0].tobytes()


def _read_cell(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _write_cell(cell: types.CellType, held: list[Any]) -> None:
    if held:
        cell.cell_contents = held[0]
    else:
        del cell.cell_contents


def _read_object(value: Any) -> list[Any]:
    found = attributes(value)
    return [*found, *found.values()]


def _write_names(set_: Any, delete: Any, names: Callable[[Any], Any]) -> Callable[..., None]:
    def write(value: Any, held: list[Any]) -> None:
        half = len(held) // 2
        for name in [n for n in names(value) if n not in held[:half]]:
            delete(value, name)
        for name, old in zip(held[:half], held[half:], strict=True):
            set_(value, name, old)

    return write


def _of_class(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}


_TENSOR = HeldPart(_read_tensor, _write_tensor, _identical)
_CELL = HeldPart(_read_cell, _write_cell, _identical)
_ARRAY = HeldPart(lambda array: [array.copy()], _write_array, _same_array)
_OBJECT = HeldPart(
    _read_object, _write_names(object.__setattr__, object.__delattr__, attributes), _identical
)
_CLASS = HeldPart(
    lambda kind: [*_of_class(kind), *_of_class(kind).values()],
    _write_names(type.__setattr__, type.__delattr__, _of_class),
    _identical,
)
_NAMES = HeldPart(_read_dict, _write_dict, _identical)  # of a module
_CONTAINERS = {
    dict: _NAMES,
    **{base: HeldPart(list, _write_items(base), _identical) for base in (list, set, deque)},
}


@functools.lru_cache(4096)
def _parts(kind: type) -> tuple[HeldPart, ...]:
    """What objects of a class hold that may change."""
    if issubclass(kind, Tensor):
        return (_TENSOR,)
    if issubclass(kind, types.CellType):
        return (_CELL,)
    if issubclass(kind, np.ndarray):
        return (_ARRAY,)
    found = [part for base, part in _CONTAINERS.items() if issubclass(kind, base)]
    return (*found, *[_OBJECT] * holds_state(kind))


class StateSnapshot:
    """What the objects of ``found`` (see ``reached``) hold now."""

    def __init__(self, found: Mapping[int, tuple[str, Any]]) -> None:
        self.found = dict(found)
        self._held: dict[int, list[tuple[Any, HeldPart, list[Any]]]] = {}
        for key, (_, value) in found.items():
            if isinstance(value, types.FunctionType):
                if is_authors(module_of(value)):
                    self._hold(id(value.__globals__), value.__globals__, (_NAMES,))
            elif isinstance(value, types.ModuleType):
                if is_authors(value.__name__):
                    self._hold(id(vars(value)), vars(value), (_NAMES,))
            elif isinstance(value, type):
                if is_authors(module_of(value)):
                    self._hold(key, value, (_CLASS,))
            else:
                self._hold(key, value, _parts(type(value)))

    def _hold(self, key: int, value: Any, parts: tuple[HeldPart, ...]) -> None:
        if parts and key not in self._held:
            self._held[key] = [(value, part, part.read(value)) for part in parts]

    def held(self, key: int) -> list[tuple[Any, list[Any]]]:
        """The object of that id, with what it held, for each of its parts."""
        return [(value, held) for value, _, held in self._held.get(key, ())]

    def changed(self, key: int) -> bool:
        """Whether the object of that id holds something else than it did."""
        return any([not part.same(part.read(v), held) for v, part, held in self._held.get(key, ())])

    def restore(self) -> None:
        """Let all objects hold what they held."""
        moved = False
        for parts in self._held.values():
            for value, part, held in parts:
                if not part.same(part.read(value), held):
                    part.write(value, held)
                    moved = True
        if moved:
            advance_epoch()
