"""Guards: whether what a capture read from outside its arguments is still as it was.

Values are compared by identity first, by value second; containers item by item.  Guards on modules
and optimizers are looked at only when the configuration epoch has moved.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid.config import EPOCH
from hybrid.tensor import Tensor
from hybrid.trace.reads import ATOMS, CONTAINERS, Reads, attribute_names, stored, watched

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
        return not isinstance(self.expected, (list, dict, set, np.ndarray, tuple))

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
    if isinstance(expected, np.ndarray):
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
        copy = frozenset(expected)
        return lambda found: isinstance(found, (set, frozenset)) and found == copy
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
        self.epoch = EPOCH[0]
        for namespace, name in reads.globals.values():
            self._global(namespace, name)
        for cell in reads.cells.values():
            self._cell(cell)
        for function in reads.functions.values():
            self._defaults(function)
        for owner, name in watched(reads):
            self._attribute(owner, name, configured(owner))
        for owner in reads.objects.values():
            self._no_hiding(owner, reads.attributes, configured(owner))

    def _global(self, namespace: dict, name: str) -> None:
        value = namespace[name]
        read = functools.partial(namespace.get, name)
        self.always.append(Guard(f"global {name}", read, exactly(value), value))

    def _cell(self, cell: types.CellType) -> None:
        def read() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return Guards

        value = read()
        self.always.append(Guard("closure variable", read, exactly(value), value))

    def _defaults(self, function: types.FunctionType) -> None:
        if function.__defaults__ or function.__kwdefaults__:

            def read() -> Any:
                return function.__defaults__, function.__kwdefaults__

            value = read()
            name = f"defaults of {function.__name__}"
            self.always.append(Guard(name, read, exactly(value), value))

    def _attribute(self, owner: Any, name: str, configured: bool) -> None:
        value = stored(owner, name)
        slot = type(value) is Tensor
        if slot:
            self.slot_sources[id(value)] = (owner, name)
        own = getattr(owner, "__dict__", {})
        read = functools.partial(own.get if name in own else functools.partial(stored, owner), name)
        guard = Guard(
            f"{type(owner).__name__}.{name}", read, exactly(value, slot), Guards if slot else value
        )
        mutable = isinstance(value, (list, dict, set, np.ndarray))
        by_epoch = configured and not mutable and not slot
        by_epoch = by_epoch and (name in own or not _set_by_users(type(owner), name))
        (self.by_epoch if by_epoch else self.always).append(guard)

    def _no_hiding(self, owner: Any, read: set[str], configured: bool) -> None:
        """No attribute set on the object itself hides a method that was read."""
        own = getattr(owner, "__dict__", None)
        if own is None or isinstance(owner, types.ModuleType):
            return
        methods = frozenset(n for base in type(owner).__mro__ for n in vars(base)) & read - own.keys()
        methods -= attribute_names(owner)
        if methods:
            name = f"the methods of {type(owner).__name__}"
            guard = Guard(name, functools.partial(own.keys().isdisjoint, methods), exactly(True), True)
            (self.by_epoch if configured else self.always).append(guard)

    def compiled(self, capture: Any) -> Callable[[], bool]:
        """``holds()``: whether everything is as it was, written out as one expression.

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
            terms.append(
                f"(read{i}() is was{i} or {by_value})" if guard.by_identity else by_value
            )
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
        return eval("lambda: " + " and ".join(terms), names)

    def broken(self) -> str | None:
        """The name of the first guard that does not hold."""
        for guard in [*self.always, *self.by_epoch]:
            if not guard.holds():
                return guard.name
        return None
