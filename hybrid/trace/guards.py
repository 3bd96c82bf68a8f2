"""Guards: whether what a capture read from outside its arguments is still as it was.

Values are compared by identity first, by value second; containers item by item.  Guards on modules
and optimizers are looked at only when the configuration epoch has moved.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.config import EPOCH
from hybrid.tensor import Tensor
from hybrid.trace.aliasing import alias_terms
from hybrid.trace.reads import (
    ATOMS,
    CONTAINERS,
    MISSING,
    MUTABLE,
    Reads,
    attribute_names,
    cached_names,
    plainly_read,
    stored,
    watched,
)
from hybrid.trace.rewind import Undo, put_attribute, rewinder
from hybrid.tree import flatten

if TYPE_CHECKING:
    from hybrid.trace.capture import Capture

Matcher = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing read: a printable name, how to read it again, and what it must match."""

    name: str
    read: Callable[..., Any]
    matches: Matcher
    expected: Any

    @property
    def by_identity(self) -> bool:
        """Whether the very same object needs no further look: it cannot have changed inside."""
        return not isinstance(self.expected, (*MUTABLE, tuple))

    def holds(self) -> bool:
        return self.matches(self.read())


def exactly(expected: Any, slot: bool = False) -> Matcher:
    """A test for being ``expected``, or as good as it.

    With ``slot`` a tensor stands for any tensor of its type: the place is what is read.
    """
    if isinstance(expected, Tensor):
        if slot:
            kind, needs = expected.type, expected.record is not None
            return lambda found: (
                isinstance(found, Tensor)
                and found.type is kind
                and (found.record is not None) == needs
            )
        return lambda found: found is expected
    if isinstance(expected, float):
        text = expected.hex()
        return lambda found: found is expected or (type(found) is float and found.hex() == text)
    if isinstance(expected, ATOMS):
        kind = type(expected)
        return lambda found: found is expected or (type(found) is kind and found == expected)
    if isinstance(expected, bytearray):
        content = bytes(expected)
        return lambda found: isinstance(found, bytearray) and found == content
    if type(expected) in (np.ndarray, np.memmap):  # masked arrays and the like: by identity
        data, dtype, shape = expected.tobytes(), expected.dtype, expected.shape
        return lambda found: (
            isinstance(found, np.ndarray)
            and found.dtype == dtype
            and found.shape == shape
            and found.tobytes() == data
        )
    if isinstance(expected, np.generic):
        kind, data = type(expected), expected.tobytes()
        return lambda found: type(found) is kind and found.tobytes() == data
    if isinstance(expected, dict):
        keys = list(expected)
        items = [exactly(v, slot) for v in expected.values()]
        return lambda found: (
            isinstance(found, dict)
            and list(found) == keys
            and all(m(v) for m, v in zip(items, found.values(), strict=True))
        )
    if isinstance(expected, (set, frozenset)):
        kind, content = type(expected), frozenset((type(v), v) for v in expected)
        return lambda found: (
            type(found) is kind and frozenset((type(v), v) for v in found) == content
        )
    if isinstance(expected, CONTAINERS):
        kind = type(expected)
        items = [exactly(v, slot) for v in expected]
        return lambda found: (
            type(found) is kind
            and len(found) == len(items)
            and all(m(v) for m, v in zip(items, found, strict=True))
        )
    return lambda found: found is expected


def _set_by_users(kind: type, name: str) -> bool:
    """Whether a class outside this package holds ``name``: writes to classes move no epoch."""
    return any(
        name in vars(base) and not base.__module__.startswith("hybrid.") for base in kind.__mro__
    )


class Guards:
    """All guards of one capture."""

    def __init__(self, reads: Reads, configured: Callable[[Any], bool]) -> None:
        """``configured`` says of which objects every write advances the epoch."""
        self.always: list[Guard] = []
        self.by_epoch: list[Guard] = []
        self.slot_sources: dict[int, tuple[Any, str]] = {}
        self.outside = frozenset(reads.tensors)
        self.known = reads.seen
        self.epoch = EPOCH[0]
        # What only the capture itself needs:
        self._places: list[tuple[Any, str, Callable[[], Any], Any]] = []  # owner, name, read, value
        self._absent: list[tuple[Any, frozenset[str], bool]] = []  # (owner, names, configured)
        self._undo: list[tuple[Guard, Undo]] = []
        for key, (namespace, name) in reads.globals.items():
            self._global(namespace, name, key in reads.assigned)
        for key, cell in reads.cells.items():
            self._cell(cell, f"closure variable {reads.variables[key]}", key in reads.assigned)
        for function in reads.functions.values():
            self._defaults(function)
        for argument in reads.arguments:
            self._argument(argument)
        for owner, name in watched(reads):
            self._attribute(owner, name, configured(owner))
        for owner in reads.objects.values():
            self._nothing_new(owner, reads.attributes, configured(owner))

    def _add(
        self,
        name: str,
        read: Callable[..., Any],
        value: Any,
        put: Callable[[Any], Any] | None = None,
    ) -> None:
        guard = Guard(name, read, exactly(value), value)
        self.always.append(guard)
        self._undo.append((guard, rewinder(value, put)))

    def _global(self, namespace: dict, name: str, assigned: bool) -> None:
        read = functools.partial(namespace.get, name, MISSING)
        module = sys.modules.get(namespace.get("__name__", ""))
        if assigned and module is not None and vars(module) is namespace:
            self._place(module, name, read, f"global {name}")
            return

        def put(value: Any) -> None:
            if value is MISSING:
                del namespace[name]
            else:
                namespace[name] = value

        self._add(f"global {name}", read, read(), put)

    def _cell(self, cell: types.CellType, label: str, assigned: bool) -> None:
        def read() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING

        if assigned:
            self._place(cell, "cell_contents", read, label)
        else:
            self._add(label, read, read())

    def _defaults(self, function: types.FunctionType) -> None:
        if function.__defaults__ or function.__kwdefaults__:

            def read() -> Any:
                return function.__defaults__, function.__kwdefaults__

            self._add(f"defaults of {function.__name__}", read, read())

    def _argument(self, argument: Any) -> None:
        """A container that is no tree: the key tells which it is, not what it holds."""
        self._add(f"{type(argument).__name__} argument", lambda: argument, argument)

    def _attribute(self, owner: Any, name: str, configured: bool) -> None:
        own = getattr(owner, "__dict__", {})
        if name in own:
            read = functools.partial(own.get, name, MISSING)
        elif plainly_read(owner, name):
            read = functools.partial(getattr, owner, name, MISSING)
        else:
            read = functools.partial(stored, owner, name)
        label = _label(owner)
        by_epoch = configured and (name in own or not _set_by_users(type(owner), name))
        self._place(owner, name, read, f"{label}.{name}", by_epoch)

    def _place(
        self, owner: Any, name: str, read: Callable[[], Any], label: str, by_epoch: bool = False
    ) -> None:
        """An attribute, or a variable that the function sets: a tensor there may be any other."""
        value = read()
        slot = type(value) is Tensor
        matches = exactly(value, slot)
        if slot:
            first = self.slot_sources.setdefault(id(value), (owner, name))
            if first[0] is not owner or first[1] != name:  # one tensor, two places: one input

                def matches(found: Any) -> bool:
                    return found is getattr(*first)

        guard = Guard(label, read, matches, Guards if slot else value)
        by_epoch = by_epoch and not isinstance(value, MUTABLE) and not slot
        (self.by_epoch if by_epoch else self.always).append(guard)
        self._places.append((owner, name, read, value))
        self._undo.append((guard, rewinder(value, functools.partial(put_attribute, owner, name))))

    def _nothing_new(self, owner: Any, read: set[str], configured: bool) -> None:
        """No attribute set on the object itself, hiding a method or not, that was looked for."""
        own = getattr(owner, "__dict__", None)
        if own is None:
            return
        absent = frozenset(read - own.keys() - attribute_names(owner))
        if absent:
            self._absent.append((owner, absent, configured))
        if absent and not isinstance(owner, (types.ModuleType, type)):  # theirs are many
            self._still_absent(owner, absent - cached_names(owner), configured)

    def _still_absent(self, owner: Any, names: frozenset[str], configured: bool) -> None:
        label = _label(owner)
        read = functools.partial(vars(owner).keys().isdisjoint, names)
        guard = Guard(f"{label}.*", read, exactly(True), True)
        (self.by_epoch if configured else self.always).append(guard)

    # Around the capture -----------------------------------------------------------------------

    def written_slots(self) -> Iterator[tuple[Any, str, Any]]:
        """(owner, name, original) of the places that were given or lost a tensor."""
        for owner, name, read, value in self._places:
            now = read()
            if now is not value and (_holds_tensor(now) or _holds_tensor(value)):
                yield owner, name, value
        for owner, names, configured in self._absent:
            made = [n for n in names & vars(owner).keys() if _holds_tensor(vars(owner)[n])]
            for name in made:
                yield owner, name, MISSING
            if made and isinstance(owner, (types.ModuleType, type)):
                self._still_absent(owner, frozenset(made), configured)

    def rewind(self) -> None:
        """Put back what a capture that is given up has changed."""
        for guard, undo in self._undo:
            if not guard.holds():
                undo()
        for owner, names, _ in self._absent:
            for name in names & vars(owner).keys():
                put_attribute(owner, name, MISSING)

    def settle(self) -> None:
        """The capture is good: guard cached properties that it has computed, forget what was."""
        for owner, names, configured in self._absent:
            for name in names & vars(owner).keys():
                self._attribute(owner, name, configured)
        self._places, self._absent, self._undo = [], [], []

    def compiled(self, capture: Capture) -> Callable[[Sequence[Any]], bool]:
        """``holds(leaves)``: whether everything is as it was, written out as one expression.

        Guards by epoch, and whether gradients flow to the cells of ``capture``, are looked at only
        when the epoch has moved.
        """
        names: dict[str, Any] = {"EPOCH": EPOCH, "self": self}
        terms = []
        for i, guard in enumerate(self.always):
            names[f"read{i}"], names[f"same{i}"], names[f"was{i}"] = (
                guard.read,
                guard.matches,
                guard.expected,
            )
            by_value = f"same{i}(read{i}())"
            terms.append(f"(read{i}() is was{i} or {by_value})" if guard.by_identity else by_value)
        for i, (owner, name, original) in enumerate(capture.slot_reads):
            names[f"owner{i}"] = owner
            now = f"owner{i}.{name}"
            if original is None:
                terms.append(f"{now} is None")
            else:
                names[f"slot_type{i}"] = original.type
                terms.append(f"({now} is not None and {now}.type is slot_type{i})")

        def epoch_holds(moved: int) -> bool:
            for guard in self.by_epoch:
                if not guard.holds():
                    return False
            for source, needs in zip(capture.sources, capture.requires, strict=True):
                if source.kind == "cell" and (source.tensor.record is not None) != needs:
                    return False
            self.epoch = moved
            return True

        names["epoch_holds"] = epoch_holds
        terms.append("(EPOCH[0] == self.epoch or epoch_holds(EPOCH[0]))")
        terms += alias_terms(capture, names)
        return eval("lambda leaves: " + " and ".join(terms), names)

    def broken(self) -> str | None:
        """The name of the first guard that does not hold."""
        for guard in [*self.always, *self.by_epoch]:
            if not guard.holds():
                return guard.name
        return None


def _label(owner: Any) -> str:
    named = isinstance(owner, (type, types.ModuleType, types.FunctionType))
    return owner.__name__ if named else type(owner).__name__


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in flatten(value)[0])
