"""Overlap: bytes begin to move between processes early, and are waited for late.

Before::                                  After::

    a = matmul x                              a = matmul x
    c = matmul y                              b = all_to_all a, under way
    b = all_to_all a                          c = matmul y
    d = add b                                 wait for b
                                              d = add b

So gradients are on their way while those of other layers are computed.  What communicates, what may
fail and what shows keep their order, which is the same on all ranks; steps that compute come before
them as soon as these need them, or while a transfer is under way, about as long as it takes.
What came before a message from another rank is done before it is waited for, as the schedules of
pipelines have it.
Nothing comes before what may fail that did not, if it writes a result: that could not be written in
place of what it replaces.  Nor does what takes scratch and is needed only after some more
transfers: memory would be full of what is to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.core.dataclass import replace
from hybrid.core.size_functions import SizeValue, value_here
from hybrid.ir import View
from hybrid.memory.channels import CollectiveCall
from hybrid.memory.native import MOST_UNDER_WAY
from hybrid.plan.costs import step_seconds
from hybrid.plan.schedule import depends_on
from hybrid.plan.steps import HostCall, Lowered, Step
from hybrid.plan.transfers import Transfer, Wait

LEAST_BYTES = 1 << 14  # fewer are there before anything else is done
START_SECONDS = 2e-5  # until the other ranks have come, and the first bytes
BYTE_SECONDS = 5e-10


def overlap(lowered: Lowered) -> None:
    """Let the large transfers of all blocks of ``lowered`` be under way beside what computes."""
    if any(_transfer_of(step) is not None for step in lowered.walk()):
        lowered.steps = _overlapped(lowered.steps)


def _transfer_of(step: Step) -> Transfer | None:
    function = None if step.call is None else step.call.function
    return function if isinstance(function, Transfer) else None


def _nbytes(step: Step) -> int:
    """The bytes that a transfer moves; 0: it is waited for at once."""
    transfer = _transfer_of(step)
    if transfer is None or transfer.kind == "barrier" or step.call is None:
        return 0
    nbytes = max(view.type.nbytes for view in step.operands)
    if isinstance(nbytes, SizeValue) or nbytes < LEAST_BYTES:
        return 0
    return nbytes if transfer.may_be_under_way(step.call) else 0


def _overlapped(steps: list[Step]) -> list[Step]:
    for step in steps:
        for i, block in enumerate(step.blocks):
            step.blocks[i] = _overlapped(block)
    if not any(map(_nbytes, steps)) or sum(step.computes for step in steps) < 2:
        return steps
    found: list[Step] = []
    place = 0
    for step in steps:
        if not _nbytes(step):
            found.append(step)
            continue
        begin, wait = _apart(step, place)
        found += [begin, wait]
        place = (place + 1) % MOST_UNDER_WAY
    return _Order(found).ordered()


def _apart(step: Step, place: int) -> tuple[Step, Step]:
    call = step.call
    assert call is not None
    transfer = replace(call.function, place=place)
    begin = replace(step, call=replace(call, function=transfer))
    end = HostCall(Wait(transfer), call.inputs, call.outputs, call.location)
    return begin, replace(step, inputs=list(step.inputs), outputs=list(step.outputs), call=end)


class _Order:
    """The order of the steps of one block, where each wait is the step behind what it waits for."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.before = depends_on(steps, in_place=True)
        self.found: list[int] = []
        self.done: set[int] = set()
        self.waits = {at for at, step in enumerate(steps) if _is_wait(step)}
        self.free = [at for at, step in enumerate(steps) if step.computes and not step.may_fail]
        free = set(self.free)
        self.fixed = [at for at in range(len(steps)) if at not in self.waits and at not in free]
        self.n_fixed = 0  # of these, how many have come
        self.under_way: dict[int, float] = {}  # waits: seconds that what they wait for still takes

    def ordered(self) -> list[Step]:
        begun = 0  # of those that are free
        for at in (*self.fixed, *range(len(self.steps))):
            if _receives(self.steps[at]):
                while begun < len(self.free) and self.free[begun] < at:
                    self._take_needed(self.free[begun])
                    begun += 1
            self._take_needed(at)
        return [self.steps[at] for at in self.found]

    def _take_needed(self, at: int) -> None:
        for other in self._needed(at):
            self._take(other)

    def _needed(self, at: int) -> list[int]:
        """Step ``at`` and all that has to come before it, in order, without what has come."""
        found, stack = set(), [at]
        while stack:
            step = stack.pop()
            if step not in self.done and step not in found:
                found.add(step)
                stack.extend(self.before[step])
        return sorted(found)

    def _take(self, at: int) -> None:
        if at in self.waits:
            self._fill(at)
        elif at + 1 in self.waits and len(self.under_way) == MOST_UNDER_WAY:
            self._put(next(iter(self.under_way)))
        self._put(at)

    def _put(self, at: int) -> None:
        """Let step ``at`` come next, if it has not come."""
        if at in self.done:
            return
        self.found.append(at)
        self.done.add(at)
        step = self.steps[at]
        if step.computes and self.under_way:
            seconds = step_seconds(step)
            for wait in self.under_way:
                self.under_way[wait] -= seconds
        if at in self.waits:
            del self.under_way[at]
        elif at + 1 in self.waits:
            self.under_way[at + 1] = START_SECONDS + BYTE_SECONDS * _nbytes(step)
        while self.n_fixed < len(self.fixed) and self.fixed[self.n_fixed] in self.done:
            self.n_fixed += 1

    def _fill(self, wait: int) -> None:
        """Compute what can be computed while a transfer is under way."""
        more = self.fixed[self.n_fixed :]
        soon = more[MOST_UNDER_WAY] if len(more) > MOST_UNDER_WAY else len(self.steps)
        for at in self.free:
            if self.under_way.get(wait, 0.0) <= 0:
                return
            step = self.steps[at]
            early = bool(more) and at > more[0]  # it would come before what is fixed
            if self.before[at] <= self.done and not (
                (early and _nbytes_in(step.outputs, "output"))
                or (at > soon and _takes_scratch(step))
            ):
                self._put(at)


def _receives(step: Step) -> bool:
    """Whether it waits for what another rank has yet to compute."""
    entry = None if step.call is None else getattr(step.call.function, "entry", None)
    return isinstance(entry, CollectiveCall) and entry.name == "recv"


def _is_wait(step: Step) -> bool:
    return step.call is not None and isinstance(step.call.function, Wait)


def _nbytes_in(views: Sequence[View], kind: str) -> int:
    """The bytes of those that lie in buffers of this kind."""
    return sum([value_here(v.type.nbytes) for v in views if v.buffer.root.kind == kind])


def _takes_scratch(step: Step) -> bool:
    """Whether it needs more bytes than it may free."""
    return _nbytes_in(step.outputs, "arena") > _nbytes_in(step.inputs, "arena")
