"""What a plan communicates, as the ranks compare it before its first run.

Ranks whose plans have other collectives, or the same in another order, would wait for each other
for ever.  So a plan that communicates begins with a step that tells its channel what is to come:
op, types and attributes of each collective, and the branches and loops that it is in.  Letters
from one rank to another are not among it, for the two ranks have one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.types import TensorType
from hybrid.errors import Location
from hybrid.ir import Op
from hybrid.memory.channels import CollectiveCall, reach
from hybrid.plan.steps import HostCall, Step

LETTERS = frozenset({"send", "recv"})


@dataclass(frozen=True, slots=True)
class Agreement:
    """A call that compares the collectives of a plan which go through one channel."""

    comm: str
    ranks: int
    entries: tuple[CollectiveCall, ...]
    eager: bool  # whether it is the plan of an op call

    def __call__(self) -> tuple[()]:
        reach(self.comm, self.ranks).agree(self.entries, eager=self.eager)
        return ()

    def bound(self, type_of: Callable[[TensorType], TensorType]) -> Agreement:
        """The same for a graph whose open types are what ``type_of`` says."""
        return replace(self, entries=tuple([at_sizes(entry, type_of) for entry in self.entries]))

    @property
    def __name__(self) -> str:
        return "agree"


def entry_of(
    op: Op, types: Sequence[TensorType], attributes: dict[str, Any], location: Location | None
) -> CollectiveCall:
    """What the ranks compare of one op."""
    shown = [f"{k}={v}" for k, v in sorted(attributes.items()) if k not in ("comm", "ranks")]
    return CollectiveCall(
        name=op.name, types=tuple(types), attributes=" ".join(shown), location=location
    )


def at_sizes(entry: CollectiveCall, type_of: Callable[[TensorType], TensorType]) -> CollectiveCall:
    """The same where open types are what ``type_of`` says."""
    return replace(entry, types=tuple(map(type_of, entry.types)))


def agreements(steps: Sequence[Step], *, eager: bool) -> list[Step]:
    """The steps that compare what ``steps`` communicate, one for each channel."""
    found: dict[tuple[str, int], list[CollectiveCall]] = {}
    for inside, step in _communicating(steps, ""):
        call = step.call.function
        entries = found.setdefault((call.attributes["comm"], call.attributes["ranks"]), [])
        if call.op.name not in LETTERS:
            entries.append(replace(call.entry, inside=inside))
    return [
        Step(
            kernel=None,
            inputs=[],
            outputs=[],
            call=HostCall(Agreement(comm, ranks, tuple(entries), eager), (), ()),
        )
        for (comm, ranks), entries in found.items()
        if entries
    ]


def _communicating(steps: Sequence[Step], inside: str) -> Iterator[tuple[str, Step]]:
    for step in steps:
        op = None if step.call is None else getattr(step.call.function, "op", None)
        if op is not None and op.communicates:
            yield inside, step
        for at, block in enumerate(step.blocks):
            yield from _communicating(block, f"{inside}{_around(step, at)}: ")


def _around(step: Step, block: int) -> str:
    """How ranks that run ``step`` have to agree: a loop goes round as often on all of them."""
    kind = step.control.kind  # type: ignore[union-attr]
    if kind != "for":
        return "loop" if kind == "while" else f"branch {block + 1}"
    count = step.inputs[0].buffer.data
    return (
        f"loop of {int.from_bytes(count, 'little')}" if type(count) is bytes and count else "loop"
    )
