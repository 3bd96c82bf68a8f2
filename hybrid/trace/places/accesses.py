"""Places that code reaches by names made at run time, noted when converted code reaches them.

The walk over code before a capture (``trace/guards/reads.py``) sees the names that code spells.
What ``getattr(owner, name)``, ``vars(owner)[name]``, ``globals()[name]`` and their like reach, and
functions that are called though no code leads to them, shows only while the function runs: the
capture is made again then, with a walk that begins at these places, too.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hybrid.core.dataclass import dataclass, field
from hybrid.core.package import module_of
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.trace.places.code_owner import (
    ATOMS,
    MISSING,
    is_library,
    is_library_class,
    is_library_module,
    of_package,
    user_object,
)
from hybrid.trace.places.names import Place, place_in
from hybrid.trace.places.place import CONTENT, Key, is_own, read_place, write_place


@dataclass(eq=False, slots=True)
class Accesses:
    """The attributes, globals and functions that code has reached, and that no walk has found."""

    attributes: dict[int, tuple[Any, set[str]]] = field(default_factory=dict)  # by ids of owners
    whole: dict[int, Any] = field(default_factory=dict)  # owners whose attributes were listed
    globals: dict[tuple[int, str], tuple[dict, bool]] = field(default_factory=dict)  # set or not
    functions: dict[Place, types.FunctionType] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)  # that caches keep

    def __bool__(self) -> bool:
        found = self.attributes, self.whole, self.globals, self.functions, self.values
        return any(found)

    def add_attribute(self, owner: Any, name: str) -> None:
        """Note that ``owner.name`` is reached."""
        self.attributes.setdefault(id(owner), (owner, set()))[1].add(name)

    def add_global(self, namespace: dict, name: str, assigned: bool) -> None:
        """Note that a global is reached, and whether it is ``assigned``."""
        key = id(namespace), name
        _, before = self.globals.get(key, (namespace, False))
        self.globals[key] = namespace, before or assigned

    def update(self, other: Accesses) -> None:
        """Add all that ``other`` has noted."""
        for owner, names in other.attributes.values():
            for name in names:
                self.add_attribute(owner, name)
        self.whole.update(other.whole)
        for (_, name), (namespace, assigned) in other.globals.items():
            self.add_global(namespace, name, assigned)
        self.functions.update(other.functions)
        self.values.update(other.values)

    def names_of(self, owner: Any) -> set[str]:
        """Return the names of attributes of ``owner`` that are reached one by one."""
        found = self.attributes.get(id(owner))
        return set() if found is None else found[1]


class KnownPlaces(Protocol):
    """What a walk over code has found (``trace/guards/reads.py:Reads``)."""

    def covers(self, owner: Any, name: str) -> bool:
        """Return whether guards know of an attribute."""

    def covers_all(self, owner: Any) -> bool:
        """Return whether guards know which attributes there are."""

    def covers_global(self, namespace: dict, name: str, assigned: bool) -> bool:
        """Return whether guards know of a global."""

    def leads_to(self, code: types.CodeType) -> bool:
        """Return whether guards know of what some code reads."""

    def has_met(self, value: Any) -> bool:
        """Return whether guards know of what a value holds."""


@dataclass(eq=False, slots=True)
class ReachedPlaces:
    """What the code of one capture reaches beyond ``walk``, and what the places held that it sets.

    ``is_known`` tells what was there before the capture.  Without a walk nothing is noted.
    """

    walk: KnownPlaces | None = None
    is_known: Callable[[Any], bool] = bool
    accesses: Accesses = field(default_factory=Accesses)
    originals: dict[Key, tuple[Any, str, Any]] = field(default_factory=dict)
    # Of owners that were made meanwhile, or that the next walk will find.
    unsure: dict[Key, tuple[Any, str, Any]] = field(default_factory=dict)
    absent: dict[Key, Any] = field(default_factory=dict)  # owners of what was looked for in vain
    namespaces: dict[int, tuple[dict, Any]] = field(default_factory=dict)  # with whose they are

    def attribute(self, owner: Any, name: str, *, written: bool = False) -> None:
        """Note that ``owner.name`` is read, or about to be ``written``."""
        if self.walk is None or self.walk.covers(owner, name):
            return
        watched = self._is_watched(owner)
        if written:
            self._keep(owner, name, self.originals if watched else self.unsure)
        if watched:
            self.accesses.add_attribute(owner, name)

    def missing(self, owner: Any, name: str) -> None:
        """Note that code looks for ``owner.name``, which there is not, on the class neither."""
        if self.walk is not None and self._is_watched(owner):
            self.absent[id(owner), name] = owner

    def container(self, container: Any) -> None:
        """Note that a container is about to be changed, of which no guard may know."""
        if self.walk is not None and not self.is_known(container):
            self._keep(container, CONTENT, self.unsure)

    def variable(self, cell: types.CellType, original: Any) -> None:
        """Note that a variable of an enclosing function is about to be set."""
        if self.walk is not None and not self.is_known(cell):
            self.unsure.setdefault((id(cell), "cell_contents"), (cell, "cell_contents", original))

    def gained(self, owner: Any, before: Mapping[str, Any]) -> None:
        """Note the attributes of ``owner`` that are others than ``before``."""
        if self.walk is None or not self._is_watched(owner):
            return
        for name, value in list(vars(owner).items()):
            original = before.get(name, MISSING)
            if value is not original and not self.walk.covers(owner, name):
                self.originals.setdefault((id(owner), name), (owner, name, original))
                self.accesses.add_attribute(owner, name)

    def all_attributes(self, owner: Any) -> None:
        """Note that the names of all attributes of ``owner`` are looked at."""
        if self.walk is None or self.walk.covers_all(owner) or not self._is_watched(owner):
            return
        self.accesses.whole[id(owner)] = owner

    def global_(self, namespace: dict, name: str, *, written: bool = False) -> None:
        """Note that a global is read, or about to be ``written``."""
        if self.walk is None or self.walk.covers_global(namespace, name, written):
            return
        if name in namespace or name not in vars(builtins):
            if written:
                self._keep(namespace, name, self.originals)
            self.accesses.add_global(namespace, name, written)

    def function(self, function: types.FunctionType) -> None:
        """Note that ``function`` is about to be called."""
        code = function.__code__
        if self.walk is None or is_library(code) or of_package(code):
            return
        if "<locals>" not in function.__qualname__ and not self.walk.leads_to(code):
            self.accesses.functions[place_in(code)] = function

    def code(self, code: types.CodeType) -> None:
        """Note that ``code`` runs, which names attributes."""
        if self.walk is not None and not self.walk.leads_to(code):
            self.accesses.functions[place_in(code)] = types.FunctionType(code, {})

    def value(self, value: Any) -> None:
        """Note that code has got ``value`` from a cache, if others may change what it holds."""
        plain = isinstance(value, (*ATOMS, Tensor, Op, types.FunctionType))
        if self.walk is not None and not plain and not self.walk.has_met(value):
            self.accesses.values[id(value)] = value

    def put_back(self) -> None:
        """Restore the places that were set, past any hooks."""
        kept = [*self.originals.values(), *(self.unsure.values() if self.accesses else ())]
        for owner, name, original in kept:
            write_place(owner, name, original)
        self.originals.clear()
        self.unsure.clear()

    def _keep(self, owner: Any, name: str, kept: dict[Key, tuple[Any, str, Any]]) -> None:
        """Note what a place holds."""
        if (id(owner), name) not in kept and not isinstance(owner, Tensor):
            original = read_place(owner, name) if is_own(owner, name) else MISSING
            kept[id(owner), name] = owner, name, original

    def _is_watched(self, owner: Any) -> bool:
        """Return whether guards may look at attributes of ``owner``, which was there before."""
        if isinstance(owner, (Tensor, Op)):
            return False
        if isinstance(owner, types.ModuleType):
            return not is_library_module(owner)
        if isinstance(owner, type):
            lasting = self.is_known(owner) or is_importable(owner)
            return lasting and not is_library_class(owner)
        return self.is_known(owner) and user_object(owner)


def is_importable(kind: type) -> bool:
    """Return whether a class is found under its name in the module that has defined it."""
    found: Any = sys.modules.get(module_of(kind))
    for part in kind.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is kind
