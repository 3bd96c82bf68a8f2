"""Reasons for a new plan, in the author's words.

Most programs call a function for the first time only: what explains other calls is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hybrid.calls.executable import Planned
from hybrid.calls.families import NumberInputs
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType
from hybrid.trace.capture.captured_graph import Capture, OpenAxes
from hybrid.trace.places.signature import describe_leaf


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
