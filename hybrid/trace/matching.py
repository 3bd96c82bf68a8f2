"""Matching: what a guard finds in place of a value, compared with that value.

A capture that writes to a container, or to a place that holds one, depends on the types of the
tensors in it, not on which they are: those are inputs, fetched from there at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybrid.tensor import Tensor
from hybrid.trace.address import Address
from hybrid.trace.key import CONTENT, Key
from hybrid.trace.reads import ATOMS, CONTAINERS

Matcher = Callable[[Any], bool]


@dataclass(slots=True)
class Written:
    """What a capture is known to write: the contents of containers, places that hold containers."""

    containers: dict[int, Any] = field(default_factory=dict)  # by their ids
    places: set[tuple[int, str]] = field(default_factory=set)  # (id of the owner, attribute)
    # Items that are given a number that only a run knows: (id of the container, key).
    numbers: dict[tuple[int, Any], Address] = field(default_factory=dict)
    # Places, likewise, that nobody announces to write, and that each capture finds changed.
    claimed: set[Key] = field(default_factory=set)
    constants: set[Key] = field(default_factory=set)  # places that each run sets to the same
    owners: dict[int, Any] = field(default_factory=dict)  # of attributes, that no code has led to


@dataclass(slots=True)
class Matching:
    """Makes the matchers of one capture, and finds the addresses of its tensors."""

    written: Written = field(default_factory=Written)
    sources: dict[int, Address] = field(default_factory=dict)  # by the ids of tensors
    fixed: set[int] = field(default_factory=set)  # ids of tensors that are always the same

    def fix(self, value: Any) -> None:
        """The tensors in ``value`` stand where nothing is written."""
        if isinstance(value, Tensor):
            self.fixed.add(id(value))
        elif isinstance(value, CONTAINERS) and id(value) not in self.written.containers:
            for item in value.values() if isinstance(value, dict) else value:
                self.fix(item)

    def slot(self, value: Tensor, address: Address) -> Matcher:
        """A test for a tensor that can stand at ``address`` as well as ``value``."""
        first = self.sources.setdefault(id(value), address)
        if not first.is_same(address):  # one tensor, two places: one input
            return lambda found: found is first.read()
        kind, needs = value.type, value.record is not None
        return lambda found: (
            isinstance(found, Tensor) and found.type is kind and (found.record is not None) == needs
        )

    def exactly(self, expected: Any, address: Address | None = None) -> Matcher:
        """A test for being ``expected``, or as good as it; tensors are slots at an ``address``."""
        if isinstance(expected, Tensor):
            if address is None or id(expected) in self.fixed:
                return lambda found: found is expected
            return self.slot(expected, address)
        if isinstance(expected, CONTAINERS) and id(expected) in self.written.containers:
            inside = self.container(expected, Address(expected, CONTENT))
            return lambda found: found is expected and inside(found)
        if isinstance(expected, CONTAINERS):
            return self.container(expected, address)
        return plainly(expected)

    def container(self, expected: Any, address: Address | None) -> Matcher:
        """A test for holding what ``expected`` does."""
        if isinstance(expected, dict):
            keys = list(expected)
            items = self.items(expected.items(), address)
            return lambda found: (
                isinstance(found, dict)
                and list(found) == keys
                and all(m(v) for m, v in zip(items, found.values(), strict=True))
            )
        kind = type(expected)
        if isinstance(expected, (set, frozenset)):
            content = frozenset((type(v), v) for v in expected)
            return lambda found: (
                type(found) is kind and frozenset((type(v), v) for v in found) == content
            )
        items = self.items(enumerate(expected), address)
        return lambda found: (
            type(found) is kind
            and len(found) == len(items)
            and all(m(v) for m, v in zip(items, found, strict=True))
        )

    def items(self, items: Iterable[tuple[Any, Any]], address: Address | None) -> list[Matcher]:
        found = []
        for key, value in items:
            if address is not None and (id(address.owner), key) in self.written.numbers:
                found.append(_of_type(type(value)))
            else:
                found.append(self.exactly(value, None if address is None else address.item(key)))
        return found


def _of_type(kind: type) -> Matcher:
    return lambda found: type(found) is kind


def plainly(expected: Any) -> Matcher:
    """A test for a value that holds no others."""
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
    return lambda found: found is expected
