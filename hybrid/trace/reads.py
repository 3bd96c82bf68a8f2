"""What a function may read from outside its arguments: found by walking its code, before it runs.

Starting at the function, every global name, closure cell and default that its code (or the code of a
user's function, method or module it leads to) loads is followed.  Objects met on the way are watched:
those of their attributes whose names occur in that code count as read.
"""

from __future__ import annotations

import functools
import os
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybrid.ir import Op
from hybrid.tensor import Tensor
from hybrid.types import DType, TensorType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_USER_PARTS = tuple(_PACKAGE + part + os.sep for part in ("nn", "optim", "train", "models"))
_STANDARD = tuple(
    {os.path.join(p, "") for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))}
)
_LIBRARIES = (os.path.dirname(np.__file__) + os.sep,)
ATOMS = (bool, int, float, complex, str, bytes, type(None), DType, TensorType, type(...), range, slice)
CONTAINERS = (list, tuple, dict, set, frozenset)


def is_library(code: types.CodeType) -> bool:
    """Whether ``code`` is the standard library's, NumPy's or this package's own machinery."""
    path = code.co_filename
    if path.startswith("<frozen") or code.co_names == ("_tuple_new",):  # that of a named tuple
        return True
    if path.startswith(_PACKAGE):
        return not path.startswith(_USER_PARTS)
    if path.startswith(_LIBRARIES):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """(global names loaded, all other names) of ``code`` and the code nested in it."""
    import dis

    global_names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            global_names.add(instruction.argval)
    others = set(code.co_names) - global_names
    # An attribute may share its name with a global.
    others |= {
        i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner_globals, inner_others = names_in(constant)
            global_names |= inner_globals
            others |= inner_others
    return frozenset(global_names), frozenset(others)


class Reads:
    """The functions, global names, cells and objects that a capture of ``function`` depends on."""

    def __init__(self, function: Callable[..., Any], arguments: list[Any]) -> None:
        self.globals: dict[tuple[int, str], tuple[dict, str]] = {}
        self.cells: dict[int, types.CellType] = {}
        self.functions: dict[int, types.FunctionType] = {}
        self.objects: dict[int, Any] = {}
        self.attributes: set[str] = set()
        self._seen: set[int] = set()
        self._keep: list[Any] = []  # ids stay unique while their objects live
        self.visit(function)
        for argument in arguments:
            self.visit(argument)
        self._close()

    def _close(self) -> None:
        """Follow watched attributes until nothing new turns up."""
        done: set[tuple[int, str]] = set()
        while True:
            fresh = [
                (owner, name)
                for key, owner in list(self.objects.items())
                for name in attribute_names(owner) & self.attributes
                if (key, name) not in done
            ]
            if not fresh:
                return
            for owner, name in fresh:
                done.add((id(owner), name))
                self.visit(stored(owner, name))

    def visit(self, value: Any) -> None:
        """Follow ``value``."""
        if isinstance(value, (*ATOMS, Tensor, Op, np.ndarray, np.generic)) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                self.visit(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.visit(item)
        elif isinstance(value, CONTAINERS):
            for item in value:
                self.visit(item)
        elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
            if isinstance(value, types.ModuleType) and not _is_library_module(value):
                self.objects[id(value)] = value
        elif isinstance(value, type):
            self._class(value)
        else:
            self._instance(value)

    def _function(self, function: types.FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.visit(wrapped)
        if is_library(function.__code__):
            for cell in function.__closure__ or ():  # a decorator of the library's round user code
                if isinstance(_content(cell), (types.FunctionType, types.MethodType)):
                    self.visit(_content(cell))
            return
        # Layers and optimizers of this package keep no settings in globals and defaults: no guards.
        guarded = not function.__code__.co_filename.startswith(_PACKAGE)
        if guarded:
            self.functions[id(function)] = function
        global_names, others = names_in(function.__code__)
        self.attributes |= others
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(default)
        for name in global_names:
            if name in function.__globals__:
                if guarded:
                    self.globals[id(function.__globals__), name] = (function.__globals__, name)
                self.visit(function.__globals__[name])
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":  # what super() reads; it is never written
                self.cells[id(cell)] = cell
                self.visit(_content(cell))

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            for member in vars(base).values():
                inner = _plain_function(member)
                if inner is not None and not is_library(inner.__code__):
                    self.visit(inner)

    def _instance(self, value: Any) -> None:
        self.visit(getattr(value, "__dict__", {}).get("__wrapped__"))  # a Hybridized, a cache
        if not user_class(type(value)):
            return
        self.objects[id(value)] = value
        self.visit(type(value))


def _plain_function(member: Any) -> types.FunctionType | None:
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    return member if isinstance(member, types.FunctionType) else None


@functools.lru_cache(maxsize=1024)
def user_class(kind: type) -> bool:
    """Whether some method of ``kind`` is neither the libraries' nor built in."""
    return any(
        (inner := _plain_function(member)) is not None and not is_library(inner.__code__)
        for base in kind.__mro__
        for member in vars(base).values()
    ) or getattr(kind, "__module__", "") == "__main__"


def _is_library_module(module: types.ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if path is None:
        return True
    return path.startswith((_PACKAGE, *_LIBRARIES)) or (
        path.startswith(_STANDARD) and "site-packages" not in path
    )


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def attribute_names(owner: Any) -> set[str]:
    """Names of the attributes stored on ``owner`` itself or on its class."""
    names = set(getattr(owner, "__dict__", ()))
    if not isinstance(owner, types.ModuleType):
        for base in type(owner).__mro__:
            names.update(n for n, member in vars(base).items() if _is_data(n, member))
    return names


def _is_data(name: str, member: Any) -> bool:
    if name.startswith("__"):
        return False
    if isinstance(member, types.MemberDescriptorType):
        return True
    return not callable(member) and not isinstance(
        member, (staticmethod, classmethod, property, types.GetSetDescriptorType)
    )


def stored(owner: Any, name: str) -> Any:
    """The stored attribute, or None when it is unset; runs no property."""
    found = getattr(owner, "__dict__", {}).get(name, owner)
    if found is not owner:
        return found
    for base in type(owner).__mro__:
        if name in vars(base):
            member = vars(base)[name]
            if isinstance(member, types.MemberDescriptorType):
                return member.__get__(owner) if hasattr(owner, name) else None
            return member
    return None


def watched(reads: Reads) -> Iterator[tuple[Any, str]]:
    """Every (object, attribute) that counts as read."""
    for owner in reads.objects.values():
        for name in sorted(attribute_names(owner) & reads.attributes):
            yield owner, name
