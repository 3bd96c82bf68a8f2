"""Objects that a loop makes anew in each iteration: what may be rebuilt, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from hybrid.errors import CaptureError, Location, PathObjectError
from hybrid.staging.loops.carry import Carry, parts_of
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.objects import is_plain
from hybrid.trace.regions.merge import describe, is_number, kind_of
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer


def may_rebuild(value: Any, tracer: Tracer, around: tuple[int, ...] = ()) -> bool:
    """Whether each iteration may rebuild ``value`` from its parts."""
    if id(value) in around:
        return False  # it holds itself
    around = (*around, id(value))
    if is_plain(value) and not tracer.is_known(value):
        return all(
            may_rebuild(part, tracer, around) or not _holds(part, value)
            for part in parts_of(value).values()
        )
    parts = parts_of(value).values() if isinstance(value, (list, tuple, dict)) else ()
    return any(may_rebuild(part, tracer, around) for part in parts)


def _holds(value: Any, owner: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether ``owner`` can be got to from ``value``."""
    if value is owner or id(value) in seen:
        return value is owner
    seen |= {id(value)}
    return any(_holds(part, owner, seen) for part in parts_of(value).values())


def refuse_rebound(carry: Carry, final: Any, tracer: Tracer, at: Location) -> None:
    """Raise CaptureError if an iteration leaves another object of the same class."""
    initial = carry.initial
    if type(initial) is not type(final) or not is_plain(final):
        return
    kind = type(final).__name__
    label, before, after = _difference(carry.label, initial, final)
    known = tracer.is_known(initial) or tracer.is_known(final)
    if known:
        why = f"One of them was there before the call. Which {kind} it is depends on the value"
        why += " of a tensor, and a plan keeps no objects of which a run decides which they are."
        told = ""
        fix = f"begin with a copy of the {kind} (copy.copy), or set its attributes in place"
    else:
        why = "The loop depends on the value of a tensor, so all its iterations are one piece of"
        why += " graph, with one type and structure for each attribute."
        fix = f"set the attributes of one {kind} in place, or give them their final kind before it"
        told = (
            f": {label} is {describe(before)} before an iteration, and {describe(after)} after it"
        )
    raise (PathObjectError if known else CaptureError)(
        f"{carry.label} is bound to another {kind} in each iteration of this loop{told}",
        at=at,
        why=why,
        fix=fix,
    )


def _difference(label: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """The first attribute in which two objects differ in kind."""
    there = parts_of(after)
    for name, part in parts_of(before).items():
        other = there.get(name, MISSING)
        if is_plain(part) and type(part) is type(other):
            return _difference(f"{label}.{name}", part, other)
        if is_number(part) and is_number(other) and kind_of(part) == kind_of(other):
            continue
        if describe(part).partition(" (")[0] != describe(other).partition(" (")[0]:
            return f"{label}.{name}", part, other
    return label, before, after


def refuse_shared(carries: Sequence[Carry], region: Region, at: Location) -> None:
    """Raise CaptureError for writes that others would see in the next iteration."""
    next_of: dict[int, Any] = {}
    stand_ins = region.stand_ins
    for carry in carries:
        for final, inside in carry.successors():
            here = stand_ins.places(inside)
            for key, place in {id(final): final, **stand_ins.places(final)}.items():
                if key in here and place is not final:
                    continue
                other = next_of.setdefault(key, inside)
                shared = other is not inside or (place is not inside and region.is_outside(place))
                if shared and stand_ins.written & {id(other), id(inside)}:
                    _refuse_shared(carry.label, final, at)


def _refuse_shared(label: str, value: Any, at: Location) -> NoReturn:
    """Refuse to write what the next iteration would find in several places."""
    kind = type(value).__name__
    raise PathObjectError(
        f"{label} is changed in a loop, and is a {kind} that others hold in the next iteration",
        at=at,
        why="All iterations are one piece of graph, in which a variable that is bound anew is an "
        f"object of its own: who sees the change of a {kind} would be lost.",
        fix=f"let only one name hold the {kind}, or bind the name to a copy in each iteration",
    )
