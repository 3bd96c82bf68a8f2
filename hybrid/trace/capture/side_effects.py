"""Tell the Python side effects of a capture from those of others, and refuse what no plan repeats.

A plan repeats what a capture has written as tensors, numbers of a run or the same plain values each
time.  What it could not repeat is refused, with what to write instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten_once, unflatten
from hybrid.eager.execution import from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import ending
from hybrid.errors import CaptureError, Location
from hybrid.ir import Value
from hybrid.ir.record import Leaf
from hybrid.memory.bfloat16 import memory_dtype
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.trace.guards.guard import holds_run_value, holds_tensor, is_plain
from hybrid.trace.guards.matching import Written
from hybrid.trace.places.address import Address
from hybrid.trace.places.code_owner import ATOMS, CONTAINERS, MISSING
from hybrid.trace.places.differences import (
    ContainerDifference,
    Content,
    PlaceDifference,
    containers_in,
    leaves_in,
)
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.objects import an_attribute, attributes, blank, filled
from hybrid.trace.places.objects import is_plain as made_of_attributes
from hybrid.trace.places.place import CONTENT, Key, key_of, refill
from hybrid.trace.places.signature import is_number
from hybrid.trace.values.optional import OptionalValue, is_optional
from hybrid.trace.values.varlist import VarList

if TYPE_CHECKING:
    from hybrid.trace.regions.tracer import Tracer


def remedy(moved: PlaceDifference) -> tuple[str, str]:
    """Return (why, fix) for a refused change of an attribute or variable; empty by default."""
    after = moved.after
    if is_optional(after):
        return (
            "Whether it is there afterwards would depend on the value of a tensor.",
            _given_before(moved.label, after),
        )
    if made_of_attributes(after) and after is not moved.before:
        return (
            f"Each call would make another {type(after).__name__}, and a plan knows the objects of "
            "libraries that it reads by which they are.",
            _object_before(moved.label, after),
        )
    return "", ""


def remedy_of_items(label: str | None, change: ContainerDifference | None) -> tuple[str, str]:
    """Return (why, fix) for a refused change of a container; empty by default."""
    if change is not None and isinstance(change.after, dict):
        for key, value in change.after.items():
            if isinstance(value, OptionalValue) and isinstance(_innermost(value), Tensor):
                return (
                    f"Whether it has a tensor at {key!r} afterwards would depend on the value of "
                    "a tensor.",
                    f"let there be a tensor before the call ({label}[{key!r}])",
                )
    return "", ""


def _innermost(value: Any) -> Any:
    while isinstance(value, OptionalValue):
        value = value.value
    return value


def _given_before(label: str, value: Any) -> str:
    """Return the advice for an attribute that some paths alone set to ``value``."""
    value = _innermost(value)
    name = label.rpartition(".")[2]
    given = f"give it the attribute {name} before the call"
    if made_of_attributes(value):
        return _object_before(label, value)
    if isinstance(value, Number):
        return f"{given}, a tensor, and write to that ({label}.assign(...))"
    if isinstance(value, (list, tuple)):
        return f"{given}, a {type(value).__name__} of as many items"
    if isinstance(value, dict):
        return f"{given}, a dict of the same keys"
    return f"{given}, None say"


def _object_before(label: str, value: Any) -> str:
    """Return the advice for an attribute that is set to a new object."""
    return (
        f"let there be a {type(value).__name__} before the call, and set its attributes "
        f"({label}.{an_attribute(value)} = ...)"
    )


class OwnWrites:
    """Predicate: whether a capture itself has changed the place of a key, given its new values.

    What its own code writes is announced, and what stands for the values of a run can only come
    from it.  Where nothing is converted nothing is announced: then it is what has to do with
    tensors.
    """

    def __init__(self, tracer: Tracer, written: Written, given: Iterable[tuple[Any, Any]]) -> None:
        self.journal = tracer.journal
        self.keys = {
            *written.claimed,
            *written.places,
            *[(key, CONTENT) for key in written.containers],
            *[(id(container), CONTENT) for container, _ in given],
        }
        kinds = (Number, VarList, OptionalValue)
        self.kinds: tuple[type, ...] = kinds if tracer.convert else (*kinds, Tensor)

    def __call__(self, key: Key, now: Sequence[Any]) -> bool:
        if key in self.keys or self.journal.covers(key):
            return True
        return any(map(self._is_made, leaves_in(list(now))))

    def _is_made(self, leaf: Any) -> bool:
        traced = isinstance(leaf, Tensor) and type(leaf.content) is Value
        return traced or isinstance(leaf, self.kinds)


@dataclass(frozen=True, slots=True)
class ConstantWrite:
    """An attribute or variable that a capture sets to a plain value, or one that ``was_there``."""

    place: LoggedPlace
    value: Any
    was_there: bool = False

    @property
    def key(self) -> Key:
        """The key of the place."""
        return key_of(self.place.owner, self.place.name)

    @property
    def may_count(self) -> bool:
        """Whether each call may set another value; of what is there already there are few."""
        return not self.was_there


def constants_in(
    places: Mapping[Key, LoggedPlace], final: Mapping[Key, Any], was_there: Callable[[Any], bool]
) -> list[ConstantWrite]:
    """Return a ConstantWrite for each logged place whose final value is another plain one."""
    return [
        ConstantWrite(place, final[key], place.name == "__class__" or was_there(final[key]))
        for key, place in places.items()
        if place.written
        and not isinstance(place.owner, Leaf)
        and final[key] is not place.original
        and (
            place.name == "__class__" or (is_plain(final[key]) and not holds_run_value(final[key]))
        )
        and not holds_tensor(place.original)
    ]


def covers(
    written: Written,
    changes: Sequence[ContainerDifference],
    places: Iterable[LoggedPlace],
    constants: Iterable[ConstantWrite] = (),
    numbers: Iterable[Address] = (),
    replaced: Collection[int] = (),
) -> bool:
    """Return whether ``written`` names all that a capture writes.

    That are changes of containers, places, constants, ``numbers`` in attributes and variables, and
    ``replaced`` objects (their ids).
    """
    if not written.replaced.keys() >= set(replaced):
        return False
    if any(constant.key not in written.constants for constant in constants):
        return False
    if not written.known:
        numbers = [*numbers, *[place for change in changes for place in numbers_in(change)]]
        if any(place.key not in written.numbers for place in numbers):
            return False
    return all(id(change.container) in written.containers for change in changes) and all(
        (id(place.owner), place.name) in written.places for place in places if held_tensors(place)
    )


def numbers_in(change: ContainerDifference) -> Iterator[Address]:
    """Yield the addresses of container items that became traced numbers of the same kind.

    So do numbers that a run moves to another position, as where the oldest of a deque leaves it.
    """
    before, after = change.before, change.after
    if isinstance(after, list) and any(isinstance(item, Number) for item in after):
        stay = [id(item) for item in after]
        for i, item in enumerate(before):
            if is_number(item) and id(item) in stay and stay[i : i + 1] != [id(item)]:
                yield Address(change.container, CONTENT, (i,))
    if isinstance(change.container, (list, dict, deque)):
        for key in before if isinstance(before, dict) else range(min(len(before), len(after))):
            now = after.get(key) if isinstance(after, dict) else after[key]
            if isinstance(now, Number) and type(before[key]).__name__ == now.kind:
                yield Address(change.container, CONTENT, (key,))


def written_numbers(
    places: Mapping[Key, LoggedPlace], final: Mapping[Key, Any]
) -> Iterator[Address]:
    """Yield the addresses of attributes and variables whose number a run writes anew.

    A number of another type was written there by another plan, which a guard tells from this one.
    """
    for key, place in places.items():
        if place.written and not isinstance(place.owner, Leaf) and place.name != CONTENT:
            yield from _new_numbers(Address(place.owner, place.name), place.original, final[key])


def _new_numbers(address: Address, before: Any, now: Any) -> Iterator[Address]:
    """Yield the addresses of numbers of a run in ``now`` that were numbers of their kind before.

    Those in tuples count: a tuple is written as a whole.
    """
    if isinstance(now, Number) and type(now) is not Mixed:
        if (before.kind if isinstance(before, Number) else type(before).__name__) == now.kind:
            yield address
    elif isinstance(now, tuple) and type(now) is type(before) and len(now) == len(before):
        for i, (was, item) in enumerate(zip(before, now, strict=True)):
            yield from _new_numbers(address.item(i), was, item)


def held_tensors(place: LoggedPlace) -> bool:
    """Return whether a written place held a container with tensors before."""
    return place.written and isinstance(place.original, CONTAINERS) and holds_tensor(place.original)


@dataclass(frozen=True, slots=True)
class PlainWrites:
    """The containers and constants that a capture has written without guards that know of them.

    ``changes`` are those of containers, ``constants`` attributes and variables set to plain values.
    ``objects`` are the ids of objects of which one was put in the place of another: they do not
    count, for plans know them by what they hold.
    """

    changes: Sequence[ContainerDifference]
    constants: Sequence[ConstantWrite]
    objects: Collection[int] = ()

    @property
    def may_count(self) -> bool:
        """Whether plain values became other ones, as a counter does in each call."""
        return any(c.may_count for c in self.constants) or any(
            _counts(change, self.objects) for change in self.changes
        )

    def in_force(self, call: Callable[[], Any]) -> None:
        """Call ``call`` while all places hold what a call of the function would leave."""
        places = [constant.place for constant in self.constants]
        before = [place.content() if place.own else MISSING for place in places]

        def calling() -> None:
            for change in self.changes:
                refill(change.container, _settled(change.after, self.objects))
            for constant in self.constants:
                constant.place.put(constant.value)
            call()

        def put_back() -> None:
            for constant, content in zip(self.constants, before, strict=True):
                constant.place.put(content)
            for change in self.changes:
                refill(change.container, change.before)

        ending(calling, put_back)


def _counts(change: ContainerDifference, objects: Collection[int]) -> bool:
    """Return whether a plain item of a container became another plain item.

    Numbers that a run moves are no plain items; neither are ``objects``, given by their ids.
    """

    def described(value: Any) -> Any:
        leaves, structure = flatten_once(value)
        return structure, [
            type(leaf)
            if _is_run_time(leaf) or id(leaf) in objects
            else (type(leaf), repr(leaf) if isinstance(leaf, ATOMS) else id(leaf))
            for leaf in leaves
        ]

    def plain_items(content: dict[Any, Any], late: Collection[Any]) -> list[Any]:
        return [
            (key, described(value))
            for key, value in content.items()
            if key not in late and not _is_run_time(value)
        ]

    before, after = change.before, change.after
    moved = [id(before[place.keys[0]]) for place in numbers_in(change) if isinstance(before, list)]
    if isinstance(after, dict):
        late = {key for key, value in after.items() if _is_run_time(value)}
        return plain_items(before, late) != plain_items(after, late)
    if len(before) == len(after):
        pairs = [
            pair
            for pair in zip(before, after, strict=True)
            if not (_is_run_time(pair[1]) or id(pair[1]) in moved)
        ]
        before, after = ([pair[side] for pair in pairs] for side in (0, 1))
    plain = ([described(v) for v in content if not _is_run_time(v)] for content in (before, after))
    return next(plain) != next(plain)


def _is_run_time(value: Any) -> bool:
    return isinstance(value, (Tensor, Number, VarList))


def _settled(content: Content, objects: Collection[int], within: tuple[int, ...] = ()) -> Content:
    """Return ``content`` with zeros in place of traced values, those in ``objects`` included."""
    if isinstance(content, list):
        content = [item for item in content if type(item) is not VarList]
    leaves, structure = flatten_once(content)

    def settled(leaf: Any) -> Any:
        if id(leaf) not in objects or id(leaf) in within:
            return _zero(leaf)
        return filled(blank(type(leaf)), _settled(attributes(leaf), objects, (*within, id(leaf))))

    return unflatten(structure, [settled(leaf) for leaf in leaves])


def _zero(leaf: Any) -> Any:
    if isinstance(leaf, Number):
        return {"bool": False, "int": 0, "float": 0.0}[leaf.kind]
    if isinstance(leaf, Tensor) and type(leaf.content) is Value:
        return from_numpy(np.zeros(leaf.type.shape, memory_dtype(leaf.type.dtype)))
    return leaf


def refuse_cached(name: str, computed: str | None, at: Location | None) -> None:
    """Raise if a cached property was computed while numbers were inputs."""
    if computed is not None:
        raise CaptureError(
            f"{name} computed {computed}, which keeps its value",
            at=at,
            why="It may depend on Python numbers that are read at every call.",
            fix="read the cached property once before the call",
        )


def side_effect(
    name: str, label: str | None, at: Location | None, remedy: tuple[str, str] = ("", "")
) -> CaptureError:
    """Return the error for a change of ``label`` that a plan could not repeat."""
    why, fix = remedy
    return CaptureError(
        f"{name} changed {label} while it was captured",
        at=at,
        why=why
        or "A side effect on a Python value happens once, at capture, and could not be repeated "
        "by the plan.",
        fix=fix or "keep the value in a tensor (x.assign, +=), return it, or change it outside",
    )


def refuse_shared(name: str, given: Any, outside: Sequence[Any]) -> None:
    """Raise if a list or dict among the arguments is also reached in another way."""
    seen = {id(container) for container in outside}
    for container, keys in containers_in(given):
        if len(keys) > 1 and id(container) in seen:
            raise CaptureError(
                f"{name} got one {type(container).__name__} in two ways, and changes what its "
                "lists and dicts hold",
                why="A plan takes each list and dict among the arguments for one of its own.",
                fix="pass it once, or pass a copy",
            )
        seen.add(id(container))


def refuse_lost(
    name: str,
    given: Sequence[Any],
    written: Mapping[int, Location | None],
    names: Callable[[], Sequence[str]],
) -> None:
    """Raise if a NumPy array among the argument leaves ``given`` is written to."""
    for index, location in written.items():
        if isinstance(given[index], np.ndarray):
            argument = names()[index]
            raise CaptureError(
                f"{name} writes to its argument {argument}, a NumPy array",
                at=location,
                why="NumPy arrays among the arguments are tensors inside, made for the call: what "
                "is written to them would be lost.",
                fix=f"pass hybrid.asarray({argument}), which is a tensor that can be written to, "
                "or return the new values",
            )
