"""Steps that move bytes between processes: in C where it knows the channel, else by Python.

C begins a transfer and asks MPI whether it is over.  Only when that takes long is Python called: it
knows of ranks that have failed, and of the time that a transfer may take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.size_functions import value_here
from hybrid.memory import native
from hybrid.memory.channels import CollectiveCall, Doing, may_overlap, number_of, reach
from hybrid.plan.steps import HostCall

MOST_BYTES = 2**31 - 1  # that C moves at once: MPI counts with ints


@dataclass(frozen=True, slots=True)
class Transfer:
    """A method of a channel, called by a step of a plan; ``call`` is what the author has asked."""

    kind: str
    comm: str
    ranks: int
    root: int
    call: CollectiveCall
    place: int = -1  # among the transfers under way, where it is waited for later
    takes_bits = True

    def __call__(self, *arrays: Any) -> Any:
        channel = reach(self.comm, self.ranks)
        with np.errstate(all="ignore"), Doing(self.call):
            if self.kind == "broadcast":
                return channel.broadcast(arrays[0], self.root)
            return getattr(channel, self.kind)(*arrays)

    def wait_on(self) -> None:
        """Called by C when it has waited for long."""
        with Doing(self.call) as call:
            reach(self.comm, self.ranks).wait_on(call)

    def channel_number(self, step: HostCall) -> int:
        """By which C knows the channel; -1 where it is for Python to move the bytes."""
        return number_of(self.comm, self.ranks) if self.fits_c(step) else -1

    def fits_c(self, step: HostCall) -> bool:
        """Whether C can move as many bytes in such a way."""
        nbytes = [value_here(type.nbytes) for type in (*step.inputs, *step.outputs)]
        return self.kind in native.TRANSFERS and max(nbytes, default=0) <= MOST_BYTES

    def may_be_under_way(self, step: HostCall) -> bool:
        """Whether something may be done between its begin and its end."""
        return self.fits_c(step) and may_overlap(self.comm, self.ranks)

    @property
    def __name__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Wait:
    """The end of a transfer that C has begun; its step has the operands of the first.

    Where a channel only counts, all was done when it began.
    """

    transfer: Transfer
    root = 0
    kind = "wait"

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("C waits for what C has begun")

    @property
    def place(self) -> int:
        return self.transfer.place

    def channel_number(self, _step: HostCall) -> int:
        """By which C knows the channel."""
        return number_of(self.transfer.comm, self.transfer.ranks)

    @property
    def __name__(self) -> str:
        return f"wait for {self.transfer.kind}"


def waiting(transfer: Transfer, run: Callable[[Any], None]) -> Callable[[Any], None]:
    """``run``, of operand addresses; without any C asks whether to wait on."""

    def either(data: Any) -> None:
        if data == native.NULL:
            transfer.wait_on()
        else:
            run(data)

    return either
