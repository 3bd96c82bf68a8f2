"""What a step of a plan does with other processes: which collective it is of, and what it moves."""

from __future__ import annotations

from hybrid.core.dataclass import dataclass
from hybrid.core.size_functions import value_here
from hybrid.memory.channels import CollectiveCall, transfer_nbytes
from hybrid.plan.agreement import Agreement
from hybrid.plan.lower import HostedOp
from hybrid.plan.steps import Step
from hybrid.plan.transfers import Transfer, Wait

COMPARING = ("agree", "compare")  # of a plan, before its first run; of an eager call, each time

WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Traffic:
    """One communicating step: ``kind`` is the method of the channel ``comm`` that moves bytes.

    This rank gives it an operand of ``given`` bytes; ``nbytes`` come to it from others in one call,
    or leave it where it sends or spreads them.  ``peer`` is the rank at the other end of a message,
    the root of a broadcast, and -1 where all ranks do the same.
    A transfer that is waited for later has a ``place``, and a step of the kind "wait" there.
    """

    call: CollectiveCall  # what the author has asked for
    kind: str
    comm: str
    ranks: int
    given: int
    nbytes: int
    peer: int = -1
    place: int = -1

    @property
    def what(self) -> str:
        """What was asked for, and how it is done."""
        if self.kind == WAIT:
            return f"wait for {self.call.name}"
        by = "" if self.kind in (self.call.name, *COMPARING) else f" by {self.kind}"
        return self.call.name + by


def traffic_of(step: Step) -> Traffic | None:
    """What ``step`` does with other processes; None where it is none that communicates."""
    if step.call is None:
        return None
    function = step.call.function
    if isinstance(function, Agreement):
        return Traffic(
            call=CollectiveCall("compare"),
            kind="compare" if function.root else "agree",
            comm=function.comm,
            ranks=function.ranks,
            given=0,
            nbytes=0,
        )
    if isinstance(function, Wait):
        begun = function.transfer
        return Traffic(
            call=begun.call,
            kind=WAIT,
            comm=begun.comm,
            ranks=begun.ranks,
            given=0,
            nbytes=0,
            place=begun.place,
        )
    given = sum([value_here(type.nbytes) for type in step.call.inputs])
    if isinstance(function, Transfer):
        moved = transfer_nbytes(function.kind, given, function.ranks)
        return Traffic(
            call=function.call,
            kind=function.kind,
            comm=function.comm,
            ranks=function.ranks,
            given=given,
            nbytes=moved,
            peer=function.root if function.kind == "broadcast" else -1,
            place=function.place,
        )
    if isinstance(function, HostedOp) and function.entry is not None:
        name, attributes = function.op.name, function.attributes
        ranks = attributes["ranks"]
        return Traffic(
            call=function.entry,
            kind=name,
            comm=attributes["comm"],
            ranks=ranks,
            given=given,
            nbytes=transfer_nbytes(name, given, ranks),
            peer=attributes.get("to", attributes.get("source", attributes.get("root", -1))),
        )
    return None
