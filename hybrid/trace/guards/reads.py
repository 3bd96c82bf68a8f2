"""Collect what a function may read from outside its arguments, by walking its code and objects.

One walk, before the function runs, gives an ordered list of ``Read``.  Guards are made of it, and
so are the digest that finds a plan in a file, and the guards of a plan that was found.

Starting at the function, every global name, closure cell and default that its code (or the code of
a user's function, method or module it leads to) loads is followed.  Objects met on the way, classes
and modules included, are watched: those of their attributes whose names occur in that code, or are
spelled out there for ``getattr``, count as read; so do methods.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import os
import sys
import types
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.package import is_of_hybrid
from hybrid.core.tree import stored_items
from hybrid.eager.progress import ProgressBar
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.trace.guards.matching import Written
from hybrid.trace.places.accesses import Accesses
from hybrid.trace.places.attributes import attribute_names, cached_names, class_names, stored
from hybrid.trace.places.code_owner import (
    ATOMS,
    CONTAINERS,
    MISSING,
    content_of,
    has_attributes,
    is_library,
    is_library_class,
    is_library_module,
    of_package,
    place_of,
    user_object,
)
from hybrid.trace.places.held_state import is_mutable
from hybrid.trace.places.memos import CACHE
from hybrid.trace.places.names import Names, Place, names_in, place_in, places_in
from hybrid.trace.places.place import CONTENT, Key, key_of

_ENDS = (*ATOMS, Tensor, Op, np.ndarray, np.generic)  # nothing is reached through these
_PLAIN = frozenset({bool, int, float, str, type(None)})  # the kinds of most values
# What globals and variables seldom become others of.
_SELDOM_SET = (types.FunctionType, types.ModuleType, types.BuiltinFunctionType, type, Op)
# What keeps its items in a container, by the name of that.
_HOLDERS = {
    UserDict: "data", UserList: "data", ChainMap: "maps", weakref.WeakKeyDictionary: "data",
    weakref.WeakValueDictionary: "data", weakref.WeakSet: "data",
}  # fmt: skip
_HELD = tuple(_HOLDERS)
# What code reads of the process around it, by the names of what it reads that from.
_PROCESS: dict[str, Callable[[], Any]] = {
    "argv": lambda: sys.argv,
    "environ": lambda: os.environ._data,  # type: ignore[attr-defined]
    "getenv": lambda: os.environ._data,  # type: ignore[attr-defined]
}
# Functions that may find an attribute by a name that is spelled out nowhere.
_COMPUTING = frozenset(
    {"getattr", "vars", "dir", "eval", "exec", "methodcaller", "attrgetter", "__dict__"}
)


class Read(NamedTuple):
    """What a function may read from one owner: a kind, the owner, and names.

    Kinds: ``global`` (of the namespace ``owner``), ``variable`` (of an enclosing function: what is
    in the cell ``owner``), ``defaults`` (of a function), ``argument`` (the content of a container
    that is no tree), ``attributes``, ``absent``: attributes that it looks for, and that are not
    there, and ``listed``: which attributes there are.
    """

    kind: str
    owner: Any
    names: Collection[str] = ()  # of the global, variable or attributes
    assigned: bool = False  # whether the function sets it

    def values(self) -> list[Any]:
        """Return the current values, without running properties."""
        owner = self.owner
        if self.kind == "global":
            return [owner.get(name, MISSING) for name in self.names]
        if self.kind == "variable":
            return [content_of(owner, MISSING)]
        if self.kind == "defaults":
            return [owner.__defaults__, owner.__kwdefaults__]
        if self.kind == "attributes":
            return [stored(owner, name) for name in self.names]
        return [owner] if self.kind == "argument" else []

    def keys(self) -> Iterator[Key]:
        """Yield the keys of the places that are likely to change."""
        if self.kind in ("global", "variable"):
            name = "cell_contents" if self.kind == "variable" else next(iter(self.names))
            if not isinstance(self.values()[0], _SELDOM_SET):
                yield id(self.owner), name
        elif self.kind == "defaults":
            yield id(self.owner), "__defaults__"
        elif self.kind == "attributes":
            yield from (key_of(self.owner, name) for name in self.names)


class Reads:
    """All that a capture of ``function`` may depend on, as an iterable of ``Read``.

    Iterating gives each ``Read``, in an order that is the same in every process.
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
        self.read: set[str] = set(self.attributes)  # of these, those that are not only set
        self.accesses = Accesses() if written is None else written.accesses
        self._reached = {n for _, names in self.accesses.attributes.values() for n in names}
        self.codes: dict[types.CodeType, None] = {}  # those walked
        self.tensors: set[int] = set()  # ids of those met, not counting arguments
        self.arguments = [a for a in arguments if is_mutable(a)]
        self.seen: set[int] = set()  # ids of all that was met
        self.containers: dict[int, Any] = {}  # those met whose content can change
        if written is not None:  # such as functions with attributes to come
            self.objects.update(written.owners)
        self._bases: set[type] = set()  # those whose functions have been followed, or wait
        self._waiting: dict[str, list[types.FunctionType]] = {}  # for their names to turn up
        self.computes = False  # names of attributes
        self._held: dict[int, set[str]] = {}  # names of what holders keep their items in, by ids
        self.caches: list[Any] = []  # functions that functools.cache has wrapped
        self._names: dict[int, set[str]] = {}  # of the attributes of objects, by their ids
        self._of_classes: dict[type, set[str]] = {}  # those that all their objects have
        # Of them those that count as read, once all is found: one list for all of a kind.
        self._watched: dict[int, list[str]] = {}
        self._sorted: dict[frozenset[str], list[str]] = {}
        self._absent: dict[int, frozenset[str]] = {}  # by the ids of those lists
        self._never_cached: dict[tuple[type, frozenset[str]], frozenset[str]] = {}
        self._places: frozenset[Place] | None = None  # of all code in ``codes``
        self._keep: list[Any] = []  # ids stay unique while their objects live
        self.visit(function)
        for argument in arguments:
            if not isinstance(argument, Tensor):
                self.visit(argument)
        if self.accesses:
            self._reach()
        self._close()

    def _reach(self) -> None:
        """Visit what no code leads to, and what was reached by names made at run time."""
        accesses = self.accesses
        for function in accesses.functions.values():
            self.visit(function)
        for (key, name), (namespace, assigned) in accesses.globals.items():
            self.globals[key, name] = (namespace, name)
            if assigned:
                self.assigned.add((key, name))
            self.visit(namespace.get(name))
        for value in accesses.values.values():
            self._content(value)
        for owner in (*[o for o, _ in accesses.attributes.values()], *accesses.whole.values()):
            self.visit(owner)
            self.objects.setdefault(id(owner), owner)

    def _close(self) -> None:
        """Visit the values of watched attributes until no new object is found."""
        left: dict[int, set[str]] = {}  # names that have not been followed, by the ids of owners
        while True:
            fresh = []
            for key, owner in list(self.objects.items()):
                names = left.get(key)
                if names is None:
                    names = left[key] = set(self.names_of(owner))
                found = names & self.looked_for(owner)
                if found:
                    names -= found
                    fresh.append((owner, found))
            if not fresh:
                return
            for owner, found in fresh:
                own = getattr(owner, "__dict__", {})
                for name in sorted(found):
                    value = own[name] if name in own else stored(owner, name)
                    if type(value) not in _PLAIN:
                        self.visit(value)

    def is_only_set(self, name: str) -> bool:
        """Return whether the code sets attributes of this name, and never looks at one."""
        only = name in self.attributes and name not in self.read
        return only and not (self.computes or name in self._reached or self.accesses.whole)

    def looked_for(self, owner: Any) -> set[str]:
        """Return the names of attributes of ``owner`` that the code may look for."""
        accesses = self.accesses
        if id(owner) in accesses.whole:
            return self.attributes | accesses.names_of(owner) | self.names_of(owner)
        own = accesses.names_of(owner) if accesses.attributes else None
        held = self._held.get(id(owner)) if self._held else None
        return self.attributes.union(own or (), held or ()) if own or held else self.attributes

    def covers(self, owner: Any, name: str) -> bool:
        """Return whether guards know of the attribute of ``owner``, there or not."""
        return id(owner) in self.objects and name in self.looked_for(owner)

    def covers_all(self, owner: Any) -> bool:
        """Return whether guards know which attributes ``owner`` has."""
        return id(owner) in self.accesses.whole

    def covers_global(self, namespace: dict, name: str, assigned: bool) -> bool:
        """Return whether guards know of the global, and that it is ``assigned``."""
        key = id(namespace), name
        return key in self.globals and (not assigned or key in self.assigned)

    def has_met(self, value: Any) -> bool:
        """Return whether guards know of what ``value`` holds."""
        return id(value) in self.seen

    def leads_to(self, code: types.CodeType) -> bool:
        """Return whether the walk has come by ``code``, converted or not."""
        if self._places is None:
            self._places = frozenset().union(*map(places_in, self.codes))
        return place_in(code) in self._places

    def names_of(self, owner: Any) -> set[str]:
        """Return the names of all attributes of ``owner``."""
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
        """Return the sorted names of the attributes of ``owner`` that the code may read."""
        names = self._watched.get(id(owner))
        if names is None:
            found = frozenset(self.names_of(owner) & self.looked_for(owner))
            names = self._sorted.get(found)
            if names is None:
                names = self._sorted[found] = sorted(found)
            self._watched[id(owner)] = names
        return names

    def absent(self, owner: Any) -> frozenset[str]:
        """Return the names of attributes that the code looks for and ``owner`` does not have."""
        if isinstance(owner, type):
            return frozenset(self.looked_for(owner) - vars(owner).keys() - self.names_of(owner))
        names = self.watched(owner)  # most objects of a class have the same list
        if id(owner) in self.accesses.attributes or id(owner) in self._held:
            return frozenset(self.looked_for(owner).difference(names))
        found = self._absent.get(id(names))
        if found is None:
            found = self._absent[id(names)] = frozenset(self.attributes.difference(names))
        return found

    def never_cached(self, owner: Any) -> frozenset[str]:
        """Return the absent names of ``owner`` that are no cached properties."""
        absent, kind = self.absent(owner), type(owner)
        found = self._never_cached.get((kind, absent))
        if found is None:
            found = self._never_cached[kind, absent] = absent - cached_names(owner)
        return found

    def namespaces(self) -> dict[int, Any]:
        """Return the objects found, by the ids of their ``__dict__``."""
        return {
            id(vars(owner)): owner
            for owner in self.objects.values()
            if type(getattr(owner, "__dict__", None)) is dict
            and not isinstance(owner, types.ModuleType)
        }

    def visit(self, value: Any) -> None:
        """Add ``value``, and all that it leads to, to the reads."""
        if id(value) in self.seen:
            return
        if type(value) is not types.FunctionType and isinstance(value, _ENDS):
            if isinstance(value, Tensor):
                self.tensors.add(id(value))
            if not has_attributes(value):
                return
        if self.hosted and self._is_hosted(value):
            return
        self.seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
            self._content(value.__self__)
        elif isinstance(value, functools.partial):
            self.visit(value.func)
            for item in (*value.args, value.keywords):
                self._content(item)
        elif isinstance(value, ProgressBar):
            self.objects[id(value)] = value
            self.attributes.add("iterable")  # loops over it read that
            self.read.add("iterable")
        elif isinstance(value, CONTAINERS):
            if isinstance(value, (list, dict, set, deque)):
                self.containers[id(value)] = value
            for item in stored_items(value):
                self.visit(item)
            if type(value) not in CONTAINERS:  # a class of the user's
                self._class(type(value))
                if hasattr(value, "__dict__"):
                    self.objects[id(value)] = value
        elif isinstance(value, types.BuiltinFunctionType):
            self._content(value.__self__)  # whose method it may be
        elif isinstance(value, types.ModuleType):
            if not is_library_module(value):
                self.objects[id(value)] = value
        elif isinstance(value, type):
            if not (is_library_class(value) or is_of_hybrid(value)):
                self.objects[id(value)] = value
            self._class(value)
        else:
            self._instance(value)

    def _is_hosted(self, value: Any) -> bool:
        kinds = (types.FunctionType, types.MethodType, functools.partial)
        return isinstance(value, kinds) and place_of(value) in self.hosted

    def without(self, hosted: frozenset[Place]) -> Reads | None:
        """Return the Reads without functions at ``hosted``; None if they have the same keys."""
        left = Reads(self.function, self.given, self.hosted | hosted, self.written)
        return None if left.keys() == self.keys() else left

    def __iter__(self) -> Iterator[Read]:
        for key, (namespace, name) in self.globals.items():
            yield Read("global", namespace, (name,), key in self.assigned)
        for key, cell in self.cells.items():
            yield Read("variable", cell, (self.variables[key],), key in self.assigned)
        for function in self.functions.values():
            if function.__defaults__ or function.__kwdefaults__:
                yield Read("defaults", function)
        for argument in self.arguments:
            yield Read("argument", argument)
        for owner in self.objects.values():
            names = self.watched(owner)
            if names:
                yield Read("attributes", owner, names)
        for owner in self.objects.values():
            names = self.absent(owner) if hasattr(owner, "__dict__") else ()
            if names:
                yield Read("absent", owner, names)
        for owner in self.accesses.whole.values():
            if hasattr(owner, "__dict__"):  # else those of its class
                yield Read("listed", owner)

    def keys(self) -> set[Key]:
        """Return the keys of the places that are likely to change."""
        found = {(key, CONTENT) for key in self.containers}
        for read in self:
            found.update(read.keys())
        return found

    def _function(self, function: types.FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.visit(wrapped)
        if is_library(function.__code__):
            for cell in function.__closure__ or ():  # a decorator of the library's round user code
                content = content_of(cell)
                if isinstance(content, (types.FunctionType, types.MethodType)):
                    self.visit(content)
                elif isinstance(content, contextlib._GeneratorContextManager):
                    self.visit(content.func)
                    for argument in (*content.args, *content.kwds.values()):
                        self.visit(argument)
                elif isinstance(content, contextlib.ContextDecorator):
                    self.visit(content)
            dispatched = vars(function).get("registry")  # of functools.singledispatch
            if isinstance(dispatched, types.MappingProxyType):
                for implementation in dispatched.values():
                    self.visit(implementation)
            return
        self.codes[function.__code__] = None
        # Layers and optimizers of this package keep no settings in globals and defaults: no guards.
        guarded = not of_package(function.__code__)
        if guarded:
            self.functions[id(function)] = function
            if function.__dict__:
                self.objects[id(function)] = function
        names = names_in(function.__code__, self.hosted)
        self._name(names, guarded)
        for name in sorted(names.modules):
            self.visit(sys.modules.get(name))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(default)
        namespace = function.__globals__
        for name in sorted(names.loaded | names.assigned):
            if guarded and (name in namespace or not hasattr(builtins, name)):
                self.globals[id(namespace), name] = (namespace, name)
                if name in names.assigned:
                    self.assigned.add((id(namespace), name))
            value = namespace.get(name)
            ours = not guarded and isinstance(value, _HELD)  # a table of this package's
            if id(value) not in self.seen and not ours:
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

    @property
    def member_names(self) -> set[str]:
        """The names of attributes that may be methods in use."""
        return self.attributes | self._reached

    @property
    def known_classes(self) -> set[int]:
        """The ids of the classes that were met, those of objects included."""
        return set(map(id, self._bases))

    def _class(self, kind: type) -> None:
        if kind in self._bases:  # and so are its bases
            return
        if type(kind) is not type and not is_library_class(type(kind)):
            self._class(type(kind))
        strange = [base for base in kind.__mro__[:-1] if is_library_class(base)]
        for base in kind.__mro__:
            if base in self._bases:
                continue
            self._bases.add(base)
            if not is_library_class(base) and not is_of_hybrid(base):
                self.classes[base] = None
            for name, member in vars(base).items():
                inner = member if type(member) is types.FunctionType else _plain_function(member)
                if inner is None or is_library(inner.__code__):
                    continue
                # Python itself, and code that is not followed, call these by their own names.
                called = name.startswith("__") or any(hasattr(other, name) for other in strange)
                if called or self.computes or name in self.attributes or name in self._reached:
                    self.visit(inner)
                else:
                    self._waiting.setdefault(name, []).append(inner)

    def _name(self, names: Names, of_author: bool) -> None:
        """Add names that code refers to, and visit the methods that waited for them."""
        fresh = names.attributes - self.attributes
        self.attributes |= fresh
        self.read |= names.read
        if of_author and not _COMPUTING.isdisjoint(names.loaded | names.attributes):
            self.computes = True
            fresh = frozenset(self._waiting)
        for name in _PROCESS.keys() & (names.loaded | names.attributes) if of_author else ():
            self._content(_PROCESS[name]())
        self._follow_methods(fresh)

    def _follow_methods(self, names: Collection[str]) -> None:
        """Visit the methods that waited for one of ``names``."""
        for name in sorted(self._waiting.keys() & names):
            for method in self._waiting.pop(name, ()):
                self.visit(method)

    def _content(self, value: Any) -> None:
        """Visit a container that stands at no place of which guards know."""
        self.visit(value)
        if isinstance(value, CONTAINERS) or is_mutable(value):
            self.arguments.append(value)

    def _instance(self, value: Any) -> None:
        self.visit(getattr(value, "__dict__", {}).get("__wrapped__"))  # a Hybridized, a cache
        if type(value) is CACHE:
            self.caches.append(value)
        elif isinstance(value, weakref.ref):
            self.visit(value())
        elif type(value) is types.MappingProxyType:
            self._content(gc.get_referents(value)[0])
            return
        for kind, name in _HOLDERS.items():
            if isinstance(value, kind):
                self._held[id(value)] = {name}
        if user_object(value):
            self.objects[id(value)] = value
            self._class(type(value))


def _plain_function(member: Any) -> types.FunctionType | None:
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, functools.cached_property):
        member = member.func
    if isinstance(member, functools.singledispatchmethod):
        member = member.dispatcher
    return member if isinstance(member, types.FunctionType) else None
