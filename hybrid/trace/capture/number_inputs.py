"""Replace Python numbers outside the arguments by traced numbers while a function is captured."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.eager.execution import as_tensor
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.number import Number
from hybrid.number.staging import DTYPES
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.guard import label_of
from hybrid.trace.places.address import Address
from hybrid.trace.places.differences import ContainerDifference, PlaceDifference
from hybrid.trace.places.place import CONTENT, key_of
from hybrid.trace.regions.tracer import Tracer


@dataclass(slots=True)
class InputStandIns:
    """The original values of some places, and the traced numbers, or tensors, there meanwhile.

    Tuples, which are made anew with another number, are places as a whole.
    """

    places: dict[Hashable, Address] = field(default_factory=dict)
    original: dict[Hashable, Any] = field(default_factory=dict)
    stand_ins: dict[Hashable, Any] = field(default_factory=dict)

    def put(self, stored: Address, value: Any) -> None:
        """Put what stands for an input at an address as ``Address.stored`` returns it."""
        first = stored.keys[:1] if stored.name == CONTENT else ()
        place = Address(stored.owner, stored.name, first)
        self.places.setdefault(place.key, place)
        self.original.setdefault(place.key, place.read())
        stored.put(value)
        self.stand_ins[place.key] = place.read()

    def seen_through(self, change: ContainerDifference) -> ContainerDifference:
        """Return ``change`` with the original values in place of what stands for them."""
        plain = {id(stand_in): self.original[key] for key, stand_in in self.stand_ins.items()}

        def content(found: Any) -> Any:
            if isinstance(found, dict):
                return {key: plain.get(id(item), item) for key, item in found.items()}
            return [plain.get(id(item), item) for item in found]

        return ContainerDifference(change.container, content(change.before), content(change.after))

    def take_back(self) -> None:
        """Put the original values back, except at places that were assigned something else."""
        for key, place in self.places.items():
            if place.now() is self.stand_ins.get(key):
                place.put(self.original[key])

    def differences(self, followed: Collection[int]) -> list[PlaceDifference]:
        """Return the places that were assigned another value during the capture.

        The original values are back elsewhere.  Containers whose ids are ``followed`` are left
        out: they are compared as a whole.
        """
        found = []
        for key, place in self.places.items():
            before, after = self.original[key], place.now()
            if after is not before and id(place.owner) not in followed:
                name = place.name if place.name != CONTENT else place.keys[0]
                where, label = key_of(place.owner, name), f"{label_of(place.owner)}.{name}"
                found.append(
                    PlaceDifference(
                        key=where,
                        label=label,
                        read=place.now,
                        put=place.put,
                        before=before,
                        after=after,
                    )
                )
        return found


def number_cell(value: float) -> Tensor:
    """Return a scalar tensor that stands for the Python number ``value`` as an input."""
    made = as_tensor(value, DTYPES[type(value).__name__])
    return make_tensor(made.type, made.content)


def as_input(tracer: Tracer, leaf: Any, cell: Tensor | None) -> Any:
    """Return ``leaf``, or the traced number that stands for it if it has a ``cell``."""
    return leaf if cell is None else Number(type(leaf).__name__, tracer.traced(cell))


def put_numbers(tracer: Tracer, guards: Guards, stand_ins: InputStandIns) -> dict[int, Address]:
    """Put traced numbers at all places of input numbers; return their addresses by cell ids."""
    found = {}
    for key, stored in guards.written.numbers.items():
        address = guards.inputs.get(key)
        if address is not None or id(stored.owner) in guards.written.containers:
            value = stored.read()
            cell = number_cell(value)
            stand_ins.put(stored, as_input(tracer, value, cell))
            found[id(cell)] = address or stored
    return found
