"""What a call can read and change: all that leads on from its function, arguments and results.

Objects of the author's classes, modules, optimizers, containers, closures and the globals that code
names are looked through; what other libraries keep in their own types is not.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from hybrid.calls.hybridized import Hybridized
from hybrid.core.package import FOLDER, module_of
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import gradient_leaf

MOST = 100_000  # objects that are looked at

_OTHERS = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
# Parts of this package whose objects hold what a program computes with.
_STATE = ("distributed", "nn", "optim", "random", "train", "models", "compress", "data")
# Modules of Python whose objects belong to the process, not to what a program computes.
_MACHINERY = frozenset({
    "abc", "asyncio", "concurrent", "contextlib", "ctypes", "functools", "importlib", "io",
    "logging", "multiprocessing", "queue", "re", "selectors", "signal", "socket", "subprocess",
    "tempfile", "threading", "typing", "warnings", "weakref",
})  # fmt: skip
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, np.generic)
_KINDS = frozenset(_PLAIN)  # most of what there is: nothing is in it
CONTAINERS = (list, dict, set, deque)


class TooMuchError(Exception):
    """A call can reach more than is looked at."""


@functools.lru_cache(4096)
def is_authors(module: str) -> bool:
    """Whether a module is neither of this package nor of Python's or an installed library's."""
    found = sys.modules.get(module)
    if found is None:
        return bool(module)
    path = getattr(found, "__file__", None)
    if path is None:  # those that are built in have a spec
        return module == "__main__" or found.__spec__ is None
    path = os.path.abspath(path)
    return not path.startswith((FOLDER + os.sep, *[other + os.sep for other in _OTHERS]))


@functools.lru_cache(4096)
def holds_state(kind: type) -> bool:
    """Whether objects of a class are looked into."""
    parts = module_of(kind).split(".")
    if parts[0] == "hybrid":
        return len(parts) > 1 and parts[1] in _STATE
    opaque = (type, types.ModuleType, types.FunctionType, types.MethodType, BaseException)
    if parts[0] in _MACHINERY or issubclass(kind, opaque):
        return False
    return is_authors(module_of(kind)) or kind.__dictoffset__ != 0


def attributes(value: Any) -> dict[str, Any]:
    """The attributes that an object has itself, in ``__dict__`` and in slots."""
    found = dict(getattr(value, "__dict__", None) or {})
    for name in _slots(type(value)):
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found


@functools.lru_cache(4096)
def _slots(kind: type) -> tuple[str, ...]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += (slots,) if isinstance(slots, str) else slots
    return tuple([name for name in found if name not in ("__dict__", "__weakref__")])


@functools.lru_cache(4096)
def _named(code: types.CodeType) -> tuple[str, ...]:
    """The names that code and the functions in it ask for outside, each once."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _named(constant)
    return tuple(dict.fromkeys(found))


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if not is_authors(module_of(function)):
        return
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        yield f"{function.__name__}.{name}", cell
    for name in _named(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    yield f"{function.__name__}.__defaults__", function.__defaults__
    yield f"{function.__name__}.__kwdefaults__", function.__kwdefaults__


Parts = Iterable[tuple[str, Any]]


def _of_tensor(path: str, value: Any) -> Parts:
    leaf = gradient_leaf(value)
    return () if leaf is None or leaf.grad is None else ((f"{path}.grad", leaf.grad),)


def _of_cell(path: str, value: Any) -> Parts:
    return ((path, value.cell_contents),) if _is_filled(value) else ()


def _of_names(path: str, value: Any) -> Parts:
    own = is_authors(value.__name__ if isinstance(value, types.ModuleType) else module_of(value))
    return [(f"{path}.{name}", v) for name, v in vars(value).items()] if own else ()


def _of_items(path: str, value: Any) -> Parts:
    if isinstance(value, dict):
        return [(f"{path}[{k!r}]", v) for k, v in dict.items(value) if type(v) not in _KINDS]
    return [(f"{path}[{i}]", v) for i, v in enumerate(value) if type(v) not in _KINDS]


def _of_object(path: str, value: Any) -> Parts:
    kind = type(value)
    found = [(f"{path}.{n}", v) for n, v in attributes(value).items() if type(v) not in _KINDS]
    found.append((kind.__name__, kind))
    return found


# By classes: what is directly in an object that has a name, with names.
_INSIDE: dict[type | tuple[type, ...], Callable[[str, Any], Parts]] = {
    Tensor: _of_tensor,
    types.FunctionType: lambda path, value: _of_function(value),
    types.MethodType: lambda path, value: (("self", value.__self__), (path, value.__func__)),
    types.CellType: _of_cell,
    Hybridized: lambda path, value: ((path, value.function),),
    functools.partial: lambda path, value: (
        (path, value.func), (path, value.args), (path, value.keywords)
    ),
    (types.ModuleType, type): _of_names,
}  # fmt: skip


@functools.lru_cache(4096)
def _inside(kind: type) -> tuple[Callable[[str, Any], Parts], ...]:
    """What tells the parts of the objects of a class."""
    for known, parts in _INSIDE.items():
        if issubclass(kind, known):
            return (parts,)
    items = issubclass(kind, (dict, list, tuple, deque, set, frozenset))
    return (*[_of_items] * items, *[_of_object] * holds_state(kind))


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def reached(roots: Iterable[tuple[str, Any]]) -> dict[int, tuple[str, Any]]:
    """All objects that ``roots`` lead to, by id, each with the first name that leads to it.

    Raises TooMuchError where these are more than ``MOST``.
    """
    found: dict[int, tuple[str, Any]] = {}
    waiting = deque(roots)
    while waiting:
        path, value = waiting.popleft()
        if type(value) in _KINDS or id(value) in found or isinstance(value, _PLAIN):
            continue
        if len(found) >= MOST:
            raise TooMuchError
        found[id(value)] = path, value
        for parts in _inside(type(value)):
            waiting.extend(parts(path, value))
    return found
