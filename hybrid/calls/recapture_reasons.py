"""Reasons for a new plan, or for none, in the author's words.

Most programs call a function for the first time only: what explains other calls is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hybrid.calls.executable import Planned
from hybrid.calls.families import Family, NumberInputs
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType
from hybrid.trace.capture.captured_graph import Capture, OpenAxes
from hybrid.trace.places.signature import describe_leaf, key_of

if TYPE_CHECKING:
    from hybrid.explain.key_changes import KeyRecord


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its function and arguments, their leaves, and its key."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    leaves: Sequence[Any] = ()
    key: Any = None

    def names(self) -> tuple[str, ...]:
        """The names that the author has for the leaves."""
        from hybrid.explain.argument_names import leaf_names

        return leaf_names(self.function, self.args, self.kwargs)


def why_new(call: Call, plans: Sequence[Planned], most: int | None) -> str:
    """The reason why none of the ``plans`` serves ``call``.

    At ``most`` so many are kept, if one that did had to go.
    """
    if not plans and most is None:
        return "first call"
    from hybrid.explain.reasons import Request, why_new

    return why_new(Request(call.key, call.leaves, call.names()), plans, most)


def about_numbers(call: Call, inputs: NumberInputs, refusal: str, capture: Capture) -> str:
    """The part of the reason that is about numbers: which are inputs, which cannot be."""
    if not (inputs or refusal):
        return ""
    from hybrid.explain.inputs import place_names
    from hybrid.explain.reasons import numbers_text

    names = call.names()
    named = [names[i] for i in sorted(inputs.numbers)]
    named += place_names(inputs.places, capture, call.function, call.leaves, names)
    return numbers_text(named, refusal)


def described(
    leaves: Sequence[Any], numbers: Collection[int], axes: OpenAxes | None = None
) -> tuple[str, ...]:
    """The text of the arguments that a plan is for; those of ``numbers`` are inputs.

    Arguments with open ``axes`` are those of many sizes.
    """
    types: Mapping[int, TensorType] = {} if axes is None else axes.types
    sizes = {} if axes is None else axes.numbers
    return tuple(
        [
            f"any {type(leaf).__name__}"
            if index in numbers
            else str(types[index])
            if index in types
            else str(sizes[index])
            if index in sizes
            else describe_leaf(leaf)
            for index, leaf in enumerate(leaves)
        ]
    )


# Calls that run eagerly, for captures do not pay --------------------------------------------------


def changed(family: Family) -> dict[str, Any]:
    """What has been read from outside, and is not what the last plan wants, by name."""
    if not family.plans:
        return {}
    guards, found = family.plans[-1].guards, {}
    for guard in guards.each():
        with suppress(AttributeError):  # what was read is gone
            now = guard.read()
            if not guard.matches(now):
                found[guard.name] = now
    return found


def known_by(call: Call, family: Family) -> Hashable:
    """What ``call`` has in common with those that the same plan would serve; keeps nothing."""
    outside = [(name, key_of(value)) for name, value in changed(family).items()]
    return hash((call.key, tuple(outside)))


def record_of(call: Call, family: Family) -> KeyRecord:
    """What is to be told of the key of ``call``, if calls go on to need other plans."""
    from hybrid.explain.key_changes import record_of

    return record_of(call.key, call.leaves, changed(family))


def why_unpaid(
    call: Call, family: Family, plans: Sequence[Planned], records: Sequence[KeyRecord]
) -> str:
    """Why captures do not pay: what changed over plans, records and ``call``, and what helps."""
    from hybrid.explain.key_changes import key_changes, reason_of, records_of

    last = record_of(call, family)
    names = {name for record in (*records, last) for name in record.outside}
    told = [*records_of(plans, names), *records, last]
    changes = key_changes(told, call.function, call.leaves, call.names(), bool(call.kwargs))
    return reason_of(changes, family.refusal(call.key[1], call.leaves))
