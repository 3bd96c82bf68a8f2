"""Matchers: tests that what is read later is as good as the value that a capture has read.

A capture that writes to a container, or to a place that holds one, depends on the types of the
tensors in it, not on which they are: those are inputs, fetched from there at each call.  So are
Python numbers that have not always been the same.  An object in whose place each call puts another
one is known by its class and by what its attributes hold, too.
"""

from __future__ import annotations

import builtins
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from types import NoneType
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, field
from hybrid.core.tree import stored_pairs
from hybrid.eager.tensor import Tensor
from hybrid.trace.places.accesses import Accesses
from hybrid.trace.places.address import Address, Attribute, HeldObject
from hybrid.trace.places.code_owner import ATOMS, CONTAINERS, has_attributes
from hybrid.trace.places.differences import content, items_of, leaves_in
from hybrid.trace.places.held_state import state_of
from hybrid.trace.places.objects import attributes
from hybrid.trace.places.place import CONTENT, Key
from hybrid.trace.places.signature import is_number

Matcher = Callable[[Any], bool]
_DEEPEST = 40  # containers in containers that have matchers of their own
_PLAIN_CONTAINERS = (list, dict, deque, defaultdict, OrderedDict)  # with items of their own


@dataclass(slots=True)
class Written:
    """What is known before a capture of its writes: containers, places, numbers and owners."""

    containers: dict[int, Any] = field(default_factory=dict)  # by their ids
    places: set[tuple[int, str]] = field(default_factory=set)  # (id of the owner, attribute)
    replaced: dict[int, Any] = field(default_factory=dict)  # objects in whose place others come
    # Places of numbers that only a run knows, by the keys of their stored addresses.
    numbers: dict[Hashable, Address] = field(default_factory=dict)
    known: bool = False  # whether numbers that the capture writes are guarded, and no inputs
    opened: set[Hashable] = field(default_factory=set)  # keys of addresses of open tensors
    # Places, likewise, that nobody announces to write, and that each capture finds changed.
    claimed: set[Key] = field(default_factory=set)
    constants: set[Key] = field(default_factory=set)  # places that each run sets to the same
    owners: dict[int, Any] = field(default_factory=dict)  # of attributes, that no code has led to
    names: set[str] = field(default_factory=set)  # of attributes, that no code spells out
    accesses: Accesses = field(default_factory=Accesses)  # by names made at run time

    def free(self, address: Address) -> None:
        """Make the number at ``address`` an input."""
        stored = address.stored()
        self.numbers[stored.key] = stored


@dataclass(frozen=True, slots=True)
class AnyNumber:
    """Matcher of every number of a ``kind``; at a second place, of the number at the first one."""

    kind: type
    elsewhere: Address | None = None

    def __call__(self, found: Any) -> bool:
        return (
            type(found) is self.kind
            and (self.kind is bool or is_number(found))
            and (self.elsewhere is None or found is self.elsewhere.now())
        )


@dataclass(frozen=True, slots=True)
class AnyObject:
    """What is expected where calls replace an object: any of the ``kind`` that holds the same."""

    kind: type


@dataclass(slots=True)
class Matching:
    """Makes the matchers of one capture, and collects the addresses of its input tensors."""

    written: Written = field(default_factory=Written)
    sources: dict[int, Address] = field(default_factory=dict)  # by the ids of tensors
    repeated: list[tuple[int, Address]] = field(default_factory=list)  # further places of theirs
    fixed: set[int] = field(default_factory=set)  # ids of tensors that are always the same
    numbers: list[tuple[Address, Any]] = field(default_factory=list)  # all that were met
    inputs: dict[Hashable, Address] = field(default_factory=dict)  # by the keys of what is stored
    found: int = 0  # how often a place of those was met
    objects: dict[int, HeldObject] = field(default_factory=dict)  # by ids of replaced objects
    around: list[int] = field(default_factory=list)  # ids of the containers of what is matched now

    def fix(self, value: Any) -> None:
        """Mark the tensors in ``value`` as fixed: nothing is written where they stand."""
        seen: set[int] = set()
        rest = [value]
        while rest:
            value = rest.pop()
            if isinstance(value, Tensor):
                self.fixed.add(id(value))
            elif isinstance(value, CONTAINERS) and id(value) not in seen:
                seen.add(id(value))
                if id(value) not in self.written.containers:
                    rest += items_of(value)

    def tensor(self, value: Tensor, address: Address) -> Matcher:
        """Return the matcher of a tensor input at ``address``: of any of the type of ``value``."""
        first = self.sources.setdefault(id(value), address)
        if not first.is_same(address):  # one tensor, two places: one input
            self.repeated.append((id(value), address))
            return lambda found: found is first.read()
        kind, needs = value.type, value.record is not None
        if address.key in self.written.opened:  # the sizes are looked at with the others
            return lambda found: (
                isinstance(found, Tensor)
                and found.type.dtype is kind.dtype
                and found.type.rank == kind.rank
                and (found.record is not None) == needs
            )
        return lambda found: (
            isinstance(found, Tensor) and found.type is kind and (found.record is not None) == needs
        )

    def number(self, value: Any, address: Address) -> Matcher:
        """Return the matcher of a number at ``address``: of any number, if it is an input."""
        if is_number(value):
            self.numbers.append((address, value))
        key = address.stored().key if self.written.numbers else None
        if key not in self.written.numbers:
            return plain_matcher(value)
        first = self.inputs.setdefault(key, address)
        self.found += 1
        if not first.is_same(address):  # one place, reached in two ways: one input
            return lambda found: found is first.read()
        return AnyNumber(type(value))

    def exactly(
        self, expected: Any, address: Address | None = None, replaceable: bool = False
    ) -> Matcher:
        """Return the matcher of the value ``expected`` at ``address``, or of an equal one.

        If ``replaceable``, another tensor of the same type may stand there: it is an input.
        """
        if isinstance(expected, Tensor):
            if address is None or not replaceable or id(expected) in self.fixed:
                return lambda found: found is expected
            return self.tensor(expected, address)
        if isinstance(expected, CONTAINERS):
            # One that holds itself; the names of Python, of which captures put some away.
            if id(expected) in self.around or expected is vars(builtins):
                return lambda found: found is expected
            if len(self.around) == _DEEPEST:
                return _unchanged(expected)
            self.around.append(id(expected))
            try:
                if id(expected) in self.written.containers:
                    address, replaceable = Address(expected, CONTENT), True
                elif not has_attributes(expected):  # which are those of this object
                    return self.container(expected, address, replaceable)
                inside = self.container(expected, address, replaceable)
                return lambda found: found is expected and inside(found)
            finally:
                self.around.pop()
        if has_attributes(expected):
            return lambda found: found is expected
        if id(expected) in self.written.replaced:
            return self.replaced(expected, address)
        if address is not None and type(expected) in (bool, int, float):
            return self.number(expected, address)
        state = state_of(expected)
        if state is not None:
            unchanged = self.exactly(state(expected))
            return lambda found: found is expected and unchanged(state(found))
        return plain_matcher(expected)

    def replaced(self, expected: Any, address: Address | None) -> Matcher:
        """Return the matcher of objects of the class of ``expected`` whose attributes match.

        At a second place it is that of the object at the first one.
        """
        if address is None or len(self.around) == _DEEPEST:
            return lambda found: found is expected
        first = self.objects.setdefault(id(expected), HeldObject(address)).address
        if not first.is_same(address):
            return lambda found: found is first.now()
        kind, held = type(expected), attributes(expected)
        names = list(held)
        self.around.append(id(expected))
        try:
            parts = [
                self.exactly(value, address.item(Attribute.of(expected, name)), replaceable=True)
                for name, value in held.items()
            ]
        finally:
            self.around.pop()
        return lambda found: (
            type(found) is kind
            and list(inside := attributes(found)) == names
            and all(m(v) for m, v in zip(parts, inside.values(), strict=False))
        )

    def container(self, expected: Any, address: Address | None, replaceable: bool) -> Matcher:
        """Return the matcher of containers whose items match those of ``expected``.

        Other threads may change what is found meanwhile, which is no error then.
        """
        if not replaceable and not _has_replaceable_items(expected):
            address = None
        kind = type(expected)
        if isinstance(expected, dict):
            keys = list(content(expected))
            items = self.items(stored_pairs(expected), address, replaceable)
            makes = getattr(expected, "default_factory", None)
            return lambda found: (
                type(found) is kind
                and (makes is None or found.default_factory is makes)
                and list(inside := content(found)) == keys
                and all(m(v) for m, v in zip(items, inside.values(), strict=False))
            )
        if isinstance(expected, (set, frozenset)):
            members = frozenset((type(v), v) for v in items_of(expected))
            return lambda found: (
                type(found) is kind and frozenset((type(v), v) for v in content(found)) == members
            )
        items = self.items(enumerate(items_of(expected)), address, replaceable)

        def holds(found: Any) -> bool:
            return (
                type(found) is kind
                and len(inside := content(found)) == len(items)
                and all(m(v) for m, v in zip(items, inside, strict=False))
            )

        if _is_constant(expected):
            return lambda found: found is expected or holds(found)
        return holds

    def items(
        self, items: Iterable[tuple[Any, Any]], address: Address | None, replaceable: bool
    ) -> list[Matcher]:
        """Return the matchers of ``items``, (key, value), in the container at ``address``."""
        places = [(v, None if address is None else address.item(key)) for key, v in items]
        return [self.exactly(value, place, replaceable) for value, place in places]


def _is_constant(value: Any) -> bool:
    """Return whether ``value`` is a tuple, or what one holds, of which nothing can change."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return type(value) in (bool, int, float, complex, str, bytes, NoneType)


def _has_replaceable_items(container: Any) -> bool:
    """Return whether ``container`` can be written item by item.

    Tuples are made anew for that, which one with a tensor cannot: it would be another to guards.
    """
    kind = type(container)
    if not isinstance(container, tuple):
        return kind in _PLAIN_CONTAINERS
    named = hasattr(kind, "_fields") and kind.__base__ is tuple
    tensors = any(isinstance(leaf, Tensor) for leaf in leaves_in(container))
    return (kind is tuple or named) and not tensors


def _unchanged(container: Any) -> Matcher:
    """Return the matcher of ``container`` itself with all that it holds as it is now, at any depth.

    Matchers in matchers would need a call of Python each, of which there are only so many.
    """
    inner = {id(container): container}
    rest = [container]
    while rest:
        for item in items_of(rest.pop()):
            if isinstance(item, CONTAINERS) and id(item) not in inner:
                inner[id(item)] = item
                rest.append(item)
    parts = [
        (each, _keys(each), [_item_matcher(v) for v in items_of(each)]) for each in inner.values()
    ]

    def matches(found: Any) -> bool:
        return found is container and all(
            len(inside := list(items_of(each))) == len(items)
            and _keys(each) == keys
            and all(m(v) for m, v in zip(items, inside, strict=False))
            for each, keys, items in parts
        )

    return matches


def _keys(container: Any) -> list[Any] | None:
    """Return the keys of a dict; None of what is no dict."""
    return list(content(container)) if isinstance(container, dict) else None


def _item_matcher(item: Any) -> Matcher:
    if isinstance(item, (Tensor, *CONTAINERS)):
        return lambda found: found is item
    return plain_matcher(item)


def plain_matcher(expected: Any) -> Matcher:
    """Return the matcher of ``expected``, a value without items."""
    if isinstance(expected, float):
        text = expected.hex()
        return lambda found: found is expected or (type(found) is float and found.hex() == text)
    if isinstance(expected, ATOMS) and not has_attributes(expected):
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
    return lambda found: found is expected
