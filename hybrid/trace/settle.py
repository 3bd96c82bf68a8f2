"""Settle: capture a function again until its guards suit the containers that it writes.

What a capture writes is known only afterwards.  Tensors in those containers are then inputs, not
constants, so that a state that is written at each call does not make each call a new plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.eager import from_numpy
from hybrid.errors import CaptureError, Location
from hybrid.ir import Value
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.address import Address
from hybrid.trace.contents import Change, Content, containers_in
from hybrid.trace.grown import Grown
from hybrid.trace.guards import Guards
from hybrid.trace.matching import Written
from hybrid.trace.places import CONTENT, Slot
from hybrid.trace.reads import ATOMS, CONTAINERS, Reads
from hybrid.trace.rewind import refill
from hybrid.tree import flatten, unflatten

if TYPE_CHECKING:
    from hybrid.trace.captured import Capture


def settled(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    configured: Callable[[Any], bool],
    once: Callable[[Reads, Guards], Capture],
    free: Iterable[Address] = (),
) -> Capture:
    """The capture that ``once`` makes of ``function`` for arguments of ``leaves``.

    The numbers at ``free`` are inputs.
    """

    def again(written: Written | None) -> Capture:
        reads = Reads(function, list(leaves))
        return once(reads, Guards(reads, configured, written))

    written = Written()
    for address in free:
        written.free(address)
    while True:
        try:
            return again(written)
        except Rewritten as found:
            refuse_counting(found, lambda: again(None))
            found.note(written)


def refuse_shared(name: str, given: Any, outside: Sequence[Any]) -> None:
    """Refuse a list or dict that a function which writes some gets in two ways."""
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
    """Refuse to write to NumPy arrays: ``given`` are the leaves of the arguments."""
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


class Rewritten(Exception):
    """A capture writes containers that its guards do not know of: it has to be made again."""

    def __init__(self, changes: list[Change], slots: Iterable[Slot], refusal: CaptureError) -> None:
        super().__init__()
        self.changes, self.refusal = changes, refusal
        self.places = [slot for slot in slots if holds_slots(slot)]

    def note(self, written: Written) -> None:
        """Let the guards of the next capture know."""
        written.containers.update((id(c.container), c.container) for c in self.changes)
        written.places.update((id(slot.owner), slot.name) for slot in self.places)
        for change in self.changes:
            for place in numbers_in(change):
                written.free(place)


def covers(written: Written, changes: Iterable[Change], slots: Iterable[Slot]) -> bool:
    """Whether guards made for ``written`` are right for a capture."""
    return all(
        id(c.container) in written.containers
        and all(place.key in written.numbers for place in numbers_in(c))
        for c in changes
    ) and all((id(slot.owner), slot.name) in written.places for slot in slots if holds_slots(slot))


def numbers_in(change: Change) -> Iterator[Address]:
    """The places of numbers that became others of their kind, which only a run knows."""
    before, after = change.before, change.after
    if isinstance(change.container, (list, dict, deque)):
        for key in before if isinstance(before, dict) else range(min(len(before), len(after))):
            now = after.get(key) if isinstance(after, dict) else after[key]
            if isinstance(now, Number) and type(before[key]).__name__ == now.kind:
                yield Address(change.container, CONTENT, (key,))


def holds_slots(slot: Slot) -> bool:
    """Whether a place that was written held tensors in a tuple, a list or a dict."""
    return (
        slot.written
        and isinstance(slot.original, CONTAINERS)
        and any(isinstance(leaf, Tensor) for leaf in flatten(slot.original)[0])
    )


def refuse_counting(found: Rewritten, capture_again: Callable[[], Any]) -> None:
    """Refuse plain values that each call would change once more: no plan could repeat that.

    Those that a call sets to what it has set them to before are fine.  Which of the two it is shows
    when the function is captured once more from where the first call has left it.
    """
    moved = [c for c in found.changes if _counts(c)]
    if not moved:
        return
    for change in found.changes:
        refill(change.container, _settled(change.after))
    try:
        capture_again()
    except Rewritten as second:
        if any(_counts(c) for c in second.changes):
            raise found.refusal from None
    except CaptureError:
        raise found.refusal from None
    finally:
        for change in found.changes:
            refill(change.container, change.before)


def _counts(change: Change) -> bool:
    """Whether what is plain has become another: not where there is now what only a run knows."""
    before, after = change.before, change.after
    if isinstance(after, dict):
        late = {key for key, value in after.items() if _is_run_time(value)}
        return _plain_items(before, late) != _plain_items(after, late)
    if len(before) == len(after):
        pairs = [pair for pair in zip(before, after, strict=True) if not _is_run_time(pair[1])]
        before, after = ([pair[side] for pair in pairs] for side in (0, 1))
    plain = ([_described(v) for v in content if not _is_run_time(v)] for content in (before, after))
    return next(plain) != next(plain)


def _plain_items(content: dict[Any, Any], late: Collection[Any]) -> list[Any]:
    return [
        (key, _described(value))
        for key, value in content.items()
        if key not in late and not _is_run_time(value)
    ]


def _is_run_time(value: Any) -> bool:
    return isinstance(value, (Tensor, Number, Grown))


def _described(value: Any) -> Any:
    leaves, structure = flatten(value)
    return structure, [
        type(leaf)
        if _is_run_time(leaf)
        else (type(leaf), repr(leaf) if isinstance(leaf, ATOMS) else id(leaf))
        for leaf in leaves
    ]


def _settled(content: Content) -> Content:
    """``content`` with zeros for what only a run will know."""
    if isinstance(content, list):
        content = [item for item in content if type(item) is not Grown]
    leaves, structure = flatten(content)
    return unflatten(structure, [_zero(leaf) for leaf in leaves])


def _zero(leaf: Any) -> Any:
    if isinstance(leaf, Number):
        return {"bool": False, "int": 0, "float": 0.0}[leaf.kind]
    if isinstance(leaf, Tensor) and type(leaf.data) is Value:
        return from_numpy(np.zeros(leaf.type.shape, leaf.type.dtype.numpy), leaf.type.dtype)
    return leaf
