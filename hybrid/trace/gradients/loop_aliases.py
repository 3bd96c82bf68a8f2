"""Reverse mode through loops with carried values that are aliases only where a run says so.

::

    for x in xs:
        z = z + hy.sin(y * x) * w  # as long as y is w, its uses are uses of w: they take turns
        y = y if hy.sum(x) > 0 else hy.sin(y)

Such a loop is run again for its residuals, with flags among what it carries that tell which values
are one (see alias/loops.py); the body that goes back reads them like other residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hybrid.autodiff.tape import Pull
from hybrid.core.dataclass import dataclass, replace
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph
from hybrid.ir.record import recording
from hybrid.trace.alias.relation import carried_of
from hybrid.trace.gradients.loop_request import Tie
from hybrid.trace.gradients.region_vjp import places_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FlaggedLoop:
    """A loop that carries flags of its aliases behind its own values."""

    body: Graph
    operands: tuple[Tensor, ...]  # but for the count
    own: int  # how many values of its own it carries
    flags: int
    pull: Pull
    ties: tuple[Tie, ...]

    def results(self, entries: Sequence[T | None]) -> tuple[T | None, ...]:
        """The entries for the results of the loop, of ``entries`` for those of this one."""
        return (*entries[: self.own], *[None] * self.flags, *entries[self.own :])

    def totals(self, found: Sequence[T | None]) -> list[T | None]:
        """The entries for the count and operands of the loop, of those ``found`` for this one."""
        return [*found[: 1 + self.own], *found[1 + self.own + self.flags :]]


def flagged_loop(
    pull: Pull, operands: Sequence[Tensor], body: Graph, carried: int, sliced: int
) -> FlaggedLoop | None:
    """The loop of ``body`` with alias flags; None where it needs none."""
    found = carried_of(body, carried, sliced)
    places = places_of(operands, pull.flow[1:])
    aliased = {source - 1 for _, source, _ in pull.edges} | {
        alias - 1 for alias, _, _ in pull.edges
    }
    arrived = {at for at, ct in enumerate(pull.arrived[1:]) if ct is not None}
    ties = found.ties(places, arrived | aliased)
    if not ties:
        return None
    keys = found.needed(ties)
    with recording(False):
        start = found.start(keys)
    at, count = 1 + carried, len(keys)

    def place(i: int) -> int:
        return i if i < at else i + count

    def among(entries: Sequence[T], none: T) -> tuple[T, ...]:
        return (*entries[:at], *[none] * count, *entries[at:])

    return FlaggedLoop(
        body=found.flagged_body(keys),
        operands=(*operands[:carried], *start, *operands[carried:]),
        own=carried,
        flags=count,
        pull=replace(
            pull,
            flow=among(pull.flow, False),
            arrived=among(pull.arrived, None),
            edges=tuple([(place(alias), place(source), t) for alias, source, t in pull.edges]),
        ),
        ties=tuple(
            [(a, o if o < 0 else place(1 + o) - 1, carried + keys.index((a, o))) for a, o in ties]
        ),
    )
