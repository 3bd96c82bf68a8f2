"""What a function may read from outside its arguments: found by walking its code, before it runs.

Starting at the function, every global name, closure cell and default that its code (or the code of
a user's function, method or module it leads to) loads is followed.  Objects met on the way, classes
and modules included, are watched: those of their attributes whose names occur in that code, or are
spelled out there for ``getattr``, count as read; so do methods.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hybrid.core.package import FOLDER
from hybrid.core.types import DType, TensorType
from hybrid.eager.progress import ProgressBar
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.trace.places.attributes import MISSING as MISSING
from hybrid.trace.places.attributes import attribute_names, cached_names, class_names, stored
from hybrid.trace.places.key import CONTENT, Key, key_of
from hybrid.trace.places.names import Names, Place, names_in, place_in

if TYPE_CHECKING:
    from hybrid.trace.guards.matching import Written

_PACKAGE = FOLDER + os.sep
_PARTS = ("nn", "optim", "train", "models")  # this package's classes that users configure
_USER_PARTS = tuple(_PACKAGE + part + os.sep for part in _PARTS)
# Programs that come with the package and are written as users write theirs.
_PROGRAMS = (
    *(_PACKAGE + part + os.sep for part in ("bench", "models", "train")),
    os.path.join(_PACKAGE, "optim", "lbfgs.py"),
)
_STANDARD = (os.path.join(os.path.dirname(os.__file__), ""),)
_LIBRARIES = (os.path.dirname(np.__file__) + os.sep,)
ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    DType,
    TensorType,
    type(...),
    range,
    slice,
)
_ENDS = (*ATOMS, Tensor, Op, np.ndarray, np.generic)  # nothing is reached through these
_PLAIN = frozenset({bool, int, float, str, type(None)})  # the kinds of most values
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
# Functions that may find an attribute by a name that is spelled out nowhere.
_COMPUTING = frozenset(
    {"getattr", "vars", "dir", "eval", "exec", "methodcaller", "attrgetter", "__dict__"}
)
MUTABLE = (list, dict, set, deque, bytearray, np.ndarray)  # what is compared item by item


def is_library(code: types.CodeType) -> bool:
    """Whether ``code`` is the standard library's, NumPy's or this package's own machinery."""
    return _is_library_path(code.co_filename) or code.co_names == ("_tuple_new",)  # a named tuple's


@functools.lru_cache(maxsize=4096)
def _is_library_path(path: str) -> bool:
    if path.startswith("<frozen"):
        return True
    if path.startswith(_PACKAGE):
        return not path.startswith(_USER_PARTS + _PROGRAMS)
    if path.startswith(_LIBRARIES):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def of_package(code: types.CodeType) -> bool:
    """Whether ``code`` is this package's, its layers included."""
    return _is_package_path(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_package_path(path: str) -> bool:
    return path.startswith(_PACKAGE) and not path.startswith(_PROGRAMS)


def program_frame(frame: types.FrameType | None) -> types.FrameType | None:
    """``frame`` or the innermost one around it that runs no code of this package.

    Programs that come with the package are none of it here; they are to ``author_frame``, which
    says where an error is.
    """
    while frame is not None and of_package(frame.f_code):
        frame = frame.f_back
    return frame


def place_of(function: Any) -> Place | None:
    """Where the code that a call of ``function`` runs is written: conversion does not move it."""
    if isinstance(function, functools.partial):
        return place_of(function.func)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        function = getattr(type(function), "__call__", None)  # noqa: B004  what it is matters
    return place_in(function.__code__) if isinstance(function, types.FunctionType) else None


class Reads:
    """The functions, global names, cells and objects that a capture of ``function`` depends on.

    What only the functions at the places ``hosted`` use is not among them: those run with the plan.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        hosted: frozenset[Place] = frozenset(),
        written: Written | None = None,
    ) -> None:
        """``written`` tells of objects and names of attributes that no code leads to."""
        self.function, self.given, self.hosted, self.written = function, arguments, hosted, written
        self.globals: dict[tuple[int, str], tuple[dict, str]] = {}
        self.cells: dict[int, types.CellType] = {}
        self.variables: dict[int, str] = {}  # what the author calls the cells
        self.assigned: set[int | tuple[int, str]] = set()  # keys of the two that the code sets
        self.functions: dict[int, types.FunctionType] = {}
        self.objects: dict[int, Any] = {}
        self.classes: dict[type, None] = {}  # of the author's, in the order of their finding
        self.attributes: set[str] = set() if written is None else set(written.names)
        self.tensors: set[int] = set()  # ids of those met, not counting arguments
        self.arguments = [a for a in arguments if isinstance(a, MUTABLE)]
        self.seen: set[int] = set()  # ids of all that was met
        self.containers: dict[int, Any] = {}  # those met whose content can change
        if written is not None:  # such as functions with attributes to come
            self.objects.update(written.owners)
        self._bases: set[type] = set()  # those whose functions have been followed, or wait
        self._waiting: dict[str, list[types.FunctionType]] = {}  # for their names to turn up
        self.computes = False  # names of attributes
        self._names: dict[int, set[str]] = {}  # of the attributes of objects, by their ids
        self._of_classes: dict[type, set[str]] = {}  # those that all their objects have
        # Of them those that count as read, once all is found: one list for all of a kind.
        self._watched: dict[int, list[str]] = {}
        self._sorted: dict[frozenset[str], list[str]] = {}
        self._absent: dict[int, frozenset[str]] = {}  # by the ids of those lists
        self._never_cached: dict[tuple[type, frozenset[str]], frozenset[str]] = {}
        self._keep: list[Any] = []  # ids stay unique while their objects live
        self.visit(function)
        for argument in arguments:
            if not isinstance(argument, Tensor):
                self.visit(argument)
        self._close()

    def _close(self) -> None:
        """Follow watched attributes until nothing new turns up."""
        left: dict[int, set[str]] = {}  # names that have not been followed, by the ids of owners
        while True:
            fresh = []
            for key, owner in list(self.objects.items()):
                names = left.get(key)
                if names is None:
                    names = left[key] = set(self.names_of(owner))
                found = names & self.attributes
                if found:
                    names -= found
                    fresh.append((owner, found))
            if not fresh:
                return
            for owner, found in fresh:
                own = getattr(owner, "__dict__", {})
                for name in found:
                    value = own[name] if name in own else stored(owner, name)
                    if type(value) not in _PLAIN:
                        self.visit(value)

    def names_of(self, owner: Any) -> set[str]:
        """The names of the attributes of an object met."""
        names = self._names.get(id(owner))
        if names is None:
            kind = type(owner)
            if isinstance(owner, (types.ModuleType, type)):
                names = attribute_names(owner)
            else:
                if kind not in self._of_classes:
                    self._of_classes[kind] = class_names(kind)
                names = self._of_classes[kind].union(getattr(owner, "__dict__", ()))
            self._names[id(owner)] = names
        return names

    def watched(self, owner: Any) -> list[str]:
        """The names of those attributes of an object met that count as read, sorted."""
        names = self._watched.get(id(owner))
        if names is None:
            found = frozenset(self.names_of(owner) & self.attributes)
            names = self._sorted.get(found)
            if names is None:
                names = self._sorted[found] = sorted(found)
            self._watched[id(owner)] = names
        return names

    def absent(self, owner: Any) -> frozenset[str]:
        """Names of attributes that were looked for, and that it does not have."""
        if isinstance(owner, type):
            return frozenset(self.attributes - vars(owner).keys() - self.names_of(owner))
        names = self.watched(owner)  # most objects of a class have the same list
        found = self._absent.get(id(names))
        if found is None:
            found = self._absent[id(names)] = frozenset(self.attributes.difference(names))
        return found

    def never_cached(self, owner: Any) -> frozenset[str]:
        """Those of them that no cached property sets."""
        absent, kind = self.absent(owner), type(owner)
        found = self._never_cached.get((kind, absent))
        if found is None:
            found = self._never_cached[kind, absent] = absent - cached_names(owner)
        return found

    def namespaces(self) -> dict[int, Any]:
        """The objects met, by the ids of the dicts that hold their attributes."""
        return {
            id(vars(owner)): owner
            for owner in self.objects.values()
            if type(getattr(owner, "__dict__", None)) is dict
            and not isinstance(owner, types.ModuleType)
        }

    def visit(self, value: Any) -> None:
        """Follow ``value``."""
        if id(value) in self.seen:
            return
        if type(value) is not types.FunctionType and isinstance(value, _ENDS):
            if isinstance(value, Tensor):
                self.tensors.add(id(value))
            return
        if self.hosted and self._is_hosted(value):
            return
        self.seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                self.visit(item)
        elif isinstance(value, ProgressBar):
            self.objects[id(value)] = value
            self.attributes.add("iterable")  # loops over it read that
        elif isinstance(value, CONTAINERS):
            if isinstance(value, (list, dict, set, deque)):
                self.containers[id(value)] = value
            for item in value.values() if isinstance(value, dict) else value:
                self.visit(item)
            if type(value) not in CONTAINERS:  # a class of the user's
                self._class(type(value))
                if hasattr(value, "__dict__"):
                    self.objects[id(value)] = value
        elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
            if isinstance(value, types.ModuleType) and not _is_library_module(value):
                self.objects[id(value)] = value
        elif isinstance(value, type):
            if not (is_library_class(value) or value.__module__.startswith("hybrid.")):
                self.objects[id(value)] = value
            self._class(value)
        else:
            self._instance(value)

    def _is_hosted(self, value: Any) -> bool:
        kinds = (types.FunctionType, types.MethodType, functools.partial)
        return isinstance(value, kinds) and place_of(value) in self.hosted

    def without(self, hosted: frozenset[Place]) -> Reads | None:
        """What is left without the functions at the places ``hosted``, if that is less."""
        left = Reads(self.function, self.given, self.hosted | hosted, self.written)
        return None if left.keys() == self.keys() else left

    def keys(self) -> set[Key]:
        """Of the places: those that are likely to change."""
        fixed = (types.FunctionType, types.ModuleType, types.BuiltinFunctionType, type, Op)
        found = {
            (key, "cell_contents")
            for key, cell in self.cells.items()
            if not isinstance(content_of(cell), fixed)
        }
        for namespace, name in self.globals.values():
            if not isinstance(namespace.get(name), fixed):
                found.add((id(namespace), name))
        for key, function in self.functions.items():
            if function.__defaults__ or function.__kwdefaults__:
                found.add((key, "__defaults__"))
        found.update(key_of(owner, name) for owner, names in watched(self) for name in names)
        found.update((key, CONTENT) for key in self.containers)
        return found

    def _function(self, function: types.FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.visit(wrapped)
        if is_library(function.__code__):
            for cell in function.__closure__ or ():  # a decorator of the library's round user code
                if isinstance(content_of(cell), (types.FunctionType, types.MethodType)):
                    self.visit(content_of(cell))
            return
        # Layers and optimizers of this package keep no settings in globals and defaults: no guards.
        guarded = not of_package(function.__code__)
        if guarded:
            self.functions[id(function)] = function
            if function.__dict__:
                self.objects[id(function)] = function
        names = names_in(function.__code__, self.hosted)
        self._name(names, guarded)
        for name in names.modules:
            self.visit(sys.modules.get(name))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(default)
        namespace = function.__globals__
        for name in names.loaded | names.assigned:
            if guarded and (name in namespace or not hasattr(builtins, name)):
                self.globals[id(namespace), name] = (namespace, name)
                if name in names.assigned:
                    self.assigned.add((id(namespace), name))
            value = namespace.get(name)
            if id(value) not in self.seen:
                self.visit(value)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if name == "__class__":  # what super() reads; it is never written
                continue
            if not self.hosted or name in names.variables:
                self.cells[id(cell)] = cell
                self.variables.setdefault(id(cell), name)
                if name in names.assigned:
                    self.assigned.add(id(cell))
                self.visit(content_of(cell))

    def _class(self, kind: type) -> None:
        if kind in self._bases:  # and so are its bases
            return
        strange = [base for base in kind.__mro__[:-1] if is_library_class(base)]
        for base in kind.__mro__:
            if base in self._bases:
                continue
            self._bases.add(base)
            if not is_library_class(base) and not base.__module__.startswith("hybrid."):
                self.classes[base] = None
            for name, member in vars(base).items():
                inner = member if type(member) is types.FunctionType else _plain_function(member)
                if inner is None or is_library(inner.__code__):
                    continue
                # Python itself, and code that is not followed, call these by their own names.
                called = name.startswith("__") or any(hasattr(other, name) for other in strange)
                if called or self.computes or name in self.attributes:
                    self.visit(inner)
                else:
                    self._waiting.setdefault(name, []).append(inner)

    def _name(self, names: Names, of_author: bool) -> None:
        """Methods of classes that were met are followed once their names turn up."""
        fresh = names.attributes - self.attributes
        self.attributes |= fresh
        if of_author and not _COMPUTING.isdisjoint(names.loaded | names.attributes):
            self.computes = True
            fresh = frozenset(self._waiting)
        for name in fresh & self._waiting.keys():
            for method in self._waiting.pop(name, ()):
                self.visit(method)

    def _instance(self, value: Any) -> None:
        self.visit(getattr(value, "__dict__", {}).get("__wrapped__"))  # a Hybridized, a cache
        if user_object(value):
            self.objects[id(value)] = value
            self._class(type(value))


def user_object(value: Any) -> bool:
    """Whether ``value`` has attributes that users set: not so the machinery of libraries."""
    kind = type(value)
    machinery = kind.__module__.startswith("hybrid.") or not hasattr(value, "__dict__")
    return not (machinery and is_library_class(kind))


def _plain_function(member: Any) -> types.FunctionType | None:
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, functools.cached_property):
        member = member.func
    return member if isinstance(member, types.FunctionType) else None


def is_library_class(kind: type) -> bool:
    """Whether ``kind`` is a library's or this package's, but for its layers and optimizers."""
    found = _library_classes.get(kind)
    if found is None:
        found = _library_classes[kind] = _of_library(kind)
    return found


# By classes, which may go like all else.
_library_classes: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _of_library(kind: type) -> bool:
    root, _, rest = kind.__module__.partition(".")
    if root == "hybrid" and rest.partition(".")[0] in (*_PARTS, "bench"):  # as users write theirs
        return False
    module = sys.modules.get(kind.__module__)
    return module is not None and _is_library_module(module)


def _is_library_module(module: types.ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__.partition(".")[0] in sys.stdlib_module_names
    return path.startswith((_PACKAGE, *_LIBRARIES)) or (
        path.startswith(_STANDARD) and "site-packages" not in path
    )


def content_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def watched(reads: Reads) -> Iterator[tuple[Any, list[str]]]:
    """Every object with those of its attributes that count as read."""
    for owner in reads.objects.values():
        names = reads.watched(owner)
        if names:
            yield owner, names
