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
from collections.abc import Iterable, Iterator
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


def inside(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    """What is directly in ``value``, which has the name ``path``, with names."""
    if isinstance(value, Tensor):
        leaf = gradient_leaf(value)
        return () if leaf is None or leaf.grad is None else ((f"{path}.grad", leaf.grad),)
    if isinstance(value, types.FunctionType):
        return _of_function(value)
    if isinstance(value, types.MethodType):
        return (("self", value.__self__), (path, value.__func__))
    if isinstance(value, types.CellType):
        return ((path, value.cell_contents),) if _is_filled(value) else ()
    if isinstance(value, Hybridized):
        return ((path, value.function),)
    if isinstance(value, functools.partial):
        return ((path, value.func), (path, value.args), (path, value.keywords))
    if isinstance(value, types.ModuleType):
        own = is_authors(value.__name__)
        return [(f"{path}.{name}", v) for name, v in vars(value).items()] if own else ()
    if isinstance(value, type):
        own = is_authors(module_of(value))
        return [(f"{path}.{name}", v) for name, v in vars(value).items()] if own else ()
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        found += [(f"{path}[{key!r}]", item) for key, item in dict.items(value)]
    elif isinstance(value, (list, tuple, deque)):
        found += [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    elif isinstance(value, (set, frozenset)):
        found += [(f"{path}{{}}", item) for item in value]
    if holds_state(type(value)):
        found += [(f"{path}.{name}", v) for name, v in attributes(value).items()]
        found.append((type(value).__name__, type(value)))
    return found


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, np.generic)


def reached(roots: Iterable[tuple[str, Any]]) -> dict[int, tuple[str, Any]]:
    """All objects that ``roots`` lead to, by id, each with the first name that leads to it.

    Raises TooMuchError where these are more than ``MOST``.
    """
    found: dict[int, tuple[str, Any]] = {}
    waiting = deque(roots)
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in found:
            continue
        if len(found) >= MOST:
            raise TooMuchError
        found[id(value)] = path, value
        waiting.extend(inside(path, value))
    return found
