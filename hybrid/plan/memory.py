"""Give every scratch buffer of a lowered graph its place in the arena.

One walk over the steps: a buffer is placed at its first step, in the smallest gap that fits, and
its place is free again after its last.  A map may write a result over an operand that dies there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hybrid.ir import View
from hybrid.plan.lower import Buffer, Lowered, Step

ALIGNMENT = 64


@dataclass(slots=True)
class Placement:
    """What the planner decided: sizes, lifetimes, and which outputs may overwrite which inputs."""

    arena_nbytes: int
    last_step: dict[Buffer, int]
    donations: dict[int, int] = field(default_factory=dict)  # output index -> input index
    scratch_nbytes: int = 0  # the sum of all scratch buffers, for comparison


class _Arena:
    """Free ranges of the arena, kept sorted by offset; grows at the end."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # (offset, size)
        self.end = 0

    def take(self, size: int) -> int:
        best = -1
        for i, (_, room) in enumerate(self.free):
            if room >= size and (best < 0 or room < self.free[best][1]):
                best = i
        if best < 0:
            if self.free and sum(self.free[-1]) == self.end:  # extend the last gap
                offset, _ = self.free.pop()
            else:
                offset = self.end
            self.end = offset + size
            return offset
        offset, room = self.free[best]
        if room == size:
            del self.free[best]
        else:
            self.free[best] = (offset + size, room - size)
        return offset

    def give(self, offset: int, size: int) -> None:
        at = 0
        while at < len(self.free) and self.free[at][0] < offset:
            at += 1
        self.free.insert(at, (offset, size))
        if at + 1 < len(self.free) and offset + size == self.free[at + 1][0]:
            self.free[at] = (offset, size + self.free.pop(at + 1)[1])
        if at and sum(self.free[at - 1]) == self.free[at][0]:
            before, room = self.free[at - 1]
            self.free[at - 1] = (before, room + self.free.pop(at)[1])


def place(lowered: Lowered) -> Placement:
    """Set ``offset`` of every arena buffer."""
    last: dict[Buffer, int] = {}
    first: dict[Buffer, int] = {}
    for at, step in enumerate(lowered.steps):
        for view in step.operands:
            last[view.buffer] = at
            first.setdefault(view.buffer, at)
    dying: dict[int, list[Buffer]] = {}
    for buffer, at in last.items():
        if buffer.kind == "arena":
            dying.setdefault(at, []).append(buffer)
    arena, placed = _Arena(), Placement(0, dict(last))
    for at, step in enumerate(lowered.steps):
        taken: set[Buffer] = set()  # operands whose place a result of this step took over
        for view in step.outputs:
            buffer = view.buffer
            if buffer.kind == "arena" and buffer.offset < 0:
                host = _reusable(step, view, at, last, taken, "arena")
                if host is not None:
                    buffer.offset = host.offset
                    taken.add(host)
                    placed.last_step[host] = -1  # its bytes live on in the result
                else:
                    buffer.offset = arena.take(_rounded(buffer.nbytes))
                placed.scratch_nbytes += _rounded(buffer.nbytes)
            elif buffer.kind == "output" and first[buffer] == at:
                host = _reusable(step, view, at, last, taken, "input")
                if host is not None:
                    placed.donations[buffer.index] = host.index
                    taken.add(host)
        for buffer in dying.get(at, ()):
            if buffer not in taken:
                arena.give(buffer.offset, _rounded(buffer.nbytes))
    for buffer in last:
        if buffer.kind == "arena" and buffer.offset < 0:  # of no elements: no step writes it
            buffer.offset = 0
    placed.arena_nbytes = arena.end
    return placed


def _reusable(
    step: Step, output: View, at: int, last: dict[Buffer, int], taken: set[Buffer], kind: str
) -> Buffer | None:
    """An input of a map that ``output`` may be written over: same bytes, walked alike, dead after
    it.
    """
    if step.kernel is not None:
        return None
    position = len(step.inputs) + _index(step.outputs, output)
    written = min(i for i, op in enumerate(step.ops) if position in op.args[-op.n_out :])
    for operand, view in enumerate(step.inputs):
        host = view.buffer
        if (
            host.kind != kind
            or host in taken
            or last[host] != at
            or host.nbytes != output.buffer.nbytes
            or view.dtype.itemsize != output.dtype.itemsize
            or not view.dense
            or view.size != output.size
        ):
            continue
        others = [i for i, v in enumerate(step.inputs) if v.buffer is host and i != operand]
        if any(not step.inputs[i].dense for i in others):
            continue
        readers = {operand, *others}
        if all(i <= written for i, op in enumerate(step.ops) if readers & set(op.args)):
            return host
    return None


def _index(views: list[View], wanted: View) -> int:
    return next(i for i, view in enumerate(views) if view is wanted)


def _rounded(nbytes: int) -> int:
    return max(ALIGNMENT, (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
