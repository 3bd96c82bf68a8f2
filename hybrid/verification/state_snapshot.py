"""StateSnapshot: what objects held at one time, to put it back."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hybrid.config import advance_epoch
from hybrid.core.package import module_of
from hybrid.eager.tensor import Tensor
from hybrid.verification.reached_state import CONTAINERS, attributes, holds_state, is_authors

_SLOTS = ("type", "content", "record", "leaf", "frozen_leaf")
Undo = Callable[[], None]


def _of_tensor(tensor: Tensor) -> Undo:
    held = {name: getattr(tensor, name) for name in _SLOTS if hasattr(tensor, name)}
    leaves = [held[name] for name in ("leaf", "frozen_leaf") if name in held]
    grads = [(leaf, leaf.grad, leaf.frozen) for leaf in leaves]

    def undo() -> None:
        for name in _SLOTS:
            if name in held:
                setattr(tensor, name, held[name])
            elif hasattr(tensor, name):
                delattr(tensor, name)
        for leaf, grad, frozen in grads:
            leaf.grad, leaf.frozen = grad, frozen

    return undo


def _of_container(value: Any) -> Undo:
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    held = list(base.items(value)) if base is dict else list(base.__iter__(value))

    def undo() -> None:
        now = list(base.items(value)) if base is dict else list(base.__iter__(value))
        same = len(now) == len(held) and all(
            [a is b if base is not dict else a[0] is b[0] and a[1] is b[1]
             for a, b in zip(now, held, strict=True)]
        )  # fmt: skip
        if not same:
            base.clear(value)
            (base.extend if base not in (dict, set) else base.update)(value, held)

    return undo


def _of_array(array: np.ndarray) -> Undo:
    held = array.copy()

    def undo() -> None:
        array[...] = held

    return undo


def _of_object(value: Any) -> Undo:
    held = attributes(value)

    def undo() -> None:
        for name in attributes(value).keys() - held.keys():
            object.__delattr__(value, name)
        for name, old in held.items():
            object.__setattr__(value, name, old)

    return undo


def _of_class(kind: type) -> Undo:
    held = {name: v for name, v in vars(kind).items() if not name.startswith("__")}

    def undo() -> None:
        for name in [n for n in vars(kind) if not n.startswith("__") and n not in held]:
            type.__delattr__(kind, name)
        for name, old in held.items():
            if vars(kind).get(name) is not old:
                type.__setattr__(kind, name, old)

    return undo


def _of_cell(cell: types.CellType) -> Undo:
    try:
        held = cell.cell_contents
    except ValueError:
        return lambda: None

    def undo() -> None:
        cell.cell_contents = held

    return undo


def _of_names(names: dict[str, Any]) -> Undo:
    held = dict(names)

    def undo() -> None:
        for name in names.keys() - held.keys():
            del names[name]
        names.update(held)

    return undo


class StateSnapshot:
    """What the objects of ``found`` (see ``reached``) hold now."""

    def __init__(self, found: Mapping[int, tuple[str, Any]]) -> None:
        self.found = dict(found)
        self._undo: list[Undo] = []
        spaces: dict[int, dict[str, Any]] = {}  # of modules, by id
        for _, value in found.values():
            if isinstance(value, types.FunctionType) and is_authors(module_of(value)):
                spaces.setdefault(id(value.__globals__), value.__globals__)
            elif isinstance(value, types.ModuleType) and is_authors(value.__name__):
                spaces.setdefault(id(vars(value)), vars(value))
            else:
                self._undo += self._of(value)
        self._undo += [_of_names(names) for names in spaces.values()]

    @staticmethod
    def _of(value: Any) -> list[Undo]:
        if isinstance(value, Tensor):
            return [_of_tensor(value)]
        if isinstance(value, types.CellType):
            return [_of_cell(value)]
        if isinstance(value, type):
            return [_of_class(value)] if is_authors(module_of(value)) else []
        made: list[Undo] = []
        if isinstance(value, CONTAINERS):
            made.append(_of_container(value))
        elif isinstance(value, np.ndarray) and value.flags.writeable:
            made.append(_of_array(value))
        if holds_state(type(value)) and not isinstance(value, Tensor):
            made.append(_of_object(value))
        return made

    def restore(self) -> None:
        """Let all objects hold what they held."""
        for undo in self._undo:
            undo()
        advance_epoch()
