"""Families of calls that differ in Python numbers alone, and share a plan with number inputs.

Such numbers are leaves of the arguments, or stand in places outside: attributes, globals, variables
of enclosing functions, defaults, items of lists and dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from hybrid.calls.executable import Planned
from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import is_interrupt
from hybrid.trace.capture.captured_graph import Capture, Item
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.address import Address
from hybrid.trace.places.signature import is_number, key_of, key_of_kind

_MOST = 64  # more numbers than that are data, which belong in a tensor


@dataclass(frozen=True, slots=True)
class NumberInputs:
    """The numbers that are inputs of a plan."""

    numbers: frozenset[int] = frozenset()  # positions of argument leaves
    places: tuple[Address, ...] = ()

    @staticmethod
    def of(items: Sequence[Item]) -> NumberInputs:
        numbers = frozenset([item for item in items if isinstance(item, int)])
        return NumberInputs(numbers, tuple([item for item in items if isinstance(item, Address)]))

    def matches(self, planned: Planned) -> bool:
        """Whether these are the numbers that are inputs of ``planned``."""
        places = {place.key for place in self.places}
        return self.numbers == planned.numbers and places == {p.key for p in planned.places}

    def __bool__(self) -> bool:
        return bool(self.numbers or self.places)


NONE = NumberInputs()
Trace = Callable[[NumberInputs], Capture]


class Family:
    """The plans of all calls that differ in Python numbers alone."""

    def __init__(self) -> None:
        self.plans: list[Planned] = []
        self.specific: dict[Hashable, str] = {}  # numbers that decide what is captured: how

    def differing(self, keys: Sequence[Hashable], leaves: Sequence[Any]) -> list[Item]:
        """The numbers that have not been the same in all plans."""
        found: dict[Hashable, Item] = {}
        for planned in self.plans:
            for i, leaf in enumerate(leaves):
                if is_number(leaf) and (i in planned.numbers or keys[i] != planned.key[1][i]):
                    found[i] = i
            for place in planned.places:
                if is_number(place.now()):
                    found[place.key] = place
            found.update((place.key, place) for place in changed_numbers(planned.guards))
        return list(found.values())

    def candidates(self, keys: Sequence[Hashable], leaves: Sequence[Any]) -> list[Item]:
        """The numbers that differ from plan to plan and may become inputs."""
        found = [i for i in self.differing(keys, leaves) if _key(i) not in self.specific]
        return found if len(found) <= _MOST else []

    def refusal(self, keys: Sequence[Hashable], leaves: Sequence[Any]) -> str:
        """Why one of them may not; empty if all may."""
        found = [self.specific.get(_key(item)) for item in self.differing(keys, leaves)]
        return next((reason for reason in found if reason), "")

    def capture(
        self, keys: Sequence[Hashable], leaves: Sequence[Any], trace: Trace
    ) -> tuple[Capture, NumberInputs]:
        """The capture of a call, and which numbers are its inputs: as many as can be."""
        items = self.candidates(keys, leaves)
        if not items:
            return trace(NONE), NONE
        try:
            return trace(NumberInputs.of(items)), NumberInputs.of(items)
        except Exception as error:
            failure = _refusal(error)
        specific = trace(NONE)  # raises what the call raises whatever its numbers are
        allowed = self._allowed(items, failure, trace)
        if allowed:
            try:
                return trace(NumberInputs.of(allowed)), NumberInputs.of(allowed)
            except Exception as error:  # each of them can be, and not all at once
                self._refuse(allowed, _refusal(error))
        return specific, NONE

    def _allowed(self, items: list[Item], failure: Exception, trace: Trace) -> list[Item]:
        """Those of ``items`` that can be inputs; all at once they failed."""
        if len(items) == 1:
            self._refuse(items, failure)
            return []
        found: list[Item] = []
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            try:
                trace(NumberInputs.of(part))
                found += part
            except Exception as error:
                found += self._allowed(part, _refusal(error), trace)
        return found

    def _refuse(self, items: Sequence[Item], failure: Exception) -> None:
        reason = (str(failure) or type(failure).__name__).splitlines()[0]
        self.specific.update((_key(item), reason) for item in items)


def _refusal(error: Exception) -> Exception:
    """``error``, which says that numbers cannot be inputs; raises it if it says nothing of them."""
    if is_interrupt(error):
        raise error
    return error


def _key(item: Item) -> Hashable:
    return item if isinstance(item, int) else item.key


def changed_numbers(guards: Guards) -> Iterator[Address]:
    """The places outside that held other numbers when ``guards`` were made."""
    for place, was in guards.numbers:
        now = place.now()
        if now is was or type(now) is not type(was) or not is_number(now):
            continue
        if key_of(now) != key_of(was):
            yield place


def covers(planned: Planned, keys: Sequence[Hashable]) -> bool:
    """Whether the numbers of a call are inputs of ``planned``, or those it was made with."""
    was = planned.key[1]
    return all(i in planned.numbers or key == was[i] for i, key in enumerate(keys))


def family_key(key: Any, leaves: Sequence[Any]) -> Hashable:
    """The key of a family: ``key`` without the values of numbers."""
    structure, _, *rest = key
    return (structure, tuple([key_of_kind(leaf) for leaf in leaves]), *rest)
