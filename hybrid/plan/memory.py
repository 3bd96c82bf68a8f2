"""Memory planning: the place of every scratch buffer in the arena, and of batches in queues.

A buffer needs a place from its first step to its last; what a loop uses and does not make itself
lives until the loop is over.  A map may write a result over an operand that dies there: they share
a place.  The largest places are laid out first, each at the lowest offset at which nothing lies
meanwhile (Y. Pisarchyk, J. Lee, "Efficient memory management for deep neural net inference", 2020);
where there are very many, all of them in one walk over time.

What runs side by side is alive together: a buffer that a member of a parallel step shares with
others lives as long as the whole step, and the members' own buffers never share a place.  Those of
one member do, and a result may be written over an operand that nobody else in the step reads.

A batch of a queue that only the iteration it belongs to reads need not be copied out of the queue:
its buffer becomes a row of itself, always the same one, which the step that asks the queue points
to the batch.  No result is written over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, field
from hybrid.core.size_functions import value_here
from hybrid.ir import View
from hybrid.memory import native
from hybrid.plan.lower import is_whole, without
from hybrid.plan.steps import Buffer, Lowered, Step, overwrites, step_touches, walk

ALIGNMENT = 64
COMPARED = 2048  # places; beyond that comparing each with each takes too long


@dataclass(slots=True)
class Placement:
    """The result of memory planning: sizes, lifetimes, and outputs that overwrite inputs."""

    arena_nbytes: int
    last_step: dict[Buffer, Step | None]  # the step after which a buffer is dead
    donations: dict[int, int] = field(default_factory=dict)  # output index -> input index
    # Outputs that are written before a step that may fail: it would leave what they replace spoilt.
    exposed: frozenset[int] = frozenset()
    scratch_nbytes: int = 0  # the sum of all scratch buffers, for comparison
    # Buffers of batches that are read where their queue has made them, and the loops that do.
    batches: dict[Buffer, Step] = field(default_factory=dict)
    layout: Layout | None = None


@dataclass(slots=True, eq=False)
class _Place:
    """Bytes of the arena for buffers that follow each other; times are those of ``_Times``."""

    size: int
    first: int
    last: int
    buffers: list[Buffer]
    # In that parallel step only this member uses it, within these times.
    member: int = -1
    inside: tuple[int, int] = (0, 0)


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


@dataclass(slots=True)
class _Life:
    """When a buffer is in use.

    It counts in steps of the innermost block that knows it: what is used inside a step that owns
    blocks is used as long as that step runs.
    """

    path: tuple[int, ...]  # the blocks around all uses, from the outermost in
    uses: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # when, and its path
    first: int = -1  # times
    last: int = -1
    # The same where one member of a parallel step alone begins with it, or ends: its own times.
    born: int = -1
    dies: int = -1
    member: int = -1  # that one


@dataclass(slots=True)
class _Times:
    """Every step has a time, one that owns blocks a second one, when they are over."""

    ends: dict[Step, int] = field(default_factory=dict)
    span: dict[int, tuple[int, int]] = field(default_factory=dict)  # of the owner of each block
    step_at: list[Step] = field(default_factory=list)
    lives: dict[Buffer, _Life] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)  # blocks that run side by side

    def block(self, steps: list[Step], path: tuple[int, ...]) -> None:
        for step in steps:
            start = len(self.step_at)
            self.step_at.append(step)
            for buffer in step_touches(step):
                self._use(buffer, start, path)
            if step.control is None:
                continue
            inside = []
            for block in step.blocks:
                inside.append(len(self.span))
                self.span[inside[-1]] = (start, start)
                if step.is_group:
                    self.members.add(inside[-1])
                self.block(block, (*path, inside[-1]))
            end = len(self.step_at)
            self.step_at.append(step)
            self.ends[step] = end
            for number in inside:
                self.span[number] = (start, end)

    def _use(self, buffer: Buffer, time: int, path: tuple[int, ...]) -> None:
        life = self.lives.setdefault(buffer, _Life(path=path))
        while life.path != path[: len(life.path)]:
            life.path = life.path[:-1]
        life.uses.append((time, path))

    def settle(self) -> None:
        """From uses to first and last times."""
        for life in self.lives.values():
            depth = len(life.path)
            spans = [self._span(time, path, depth) for time, path in life.uses]
            life.first, life.last = min(s for s, _ in spans), max(e for _, e in spans)
            begun = [u for u, (s, _) in zip(life.uses, spans, strict=True) if s == life.first]
            ended = [u for u, (_, e) in zip(life.uses, spans, strict=True) if e == life.last]
            life.born, life.dies = life.first, life.last
            if life.path and life.path[-1] in self.members:
                life.member = life.path[-1]
                continue
            leaving, entering = self._alone(ended, depth), self._alone(begun, depth)
            if leaving >= 0:
                life.dies = max(time for time, _ in ended)
            if entering >= 0:
                life.born = min(time for time, _ in begun)
            life.member = entering if entering >= 0 else leaving

    def _alone(self, uses: list[tuple[int, tuple[int, ...]]], depth: int) -> int:
        """The member that has all of ``uses``; -1: there is none."""
        blocks = {path[depth] if len(path) > depth else -1 for _, path in uses}
        return blocks.pop() if len(blocks) == 1 and blocks <= self.members else -1

    def place(self, buffer: Buffer) -> _Place:
        """One for ``buffer``."""
        life, size = self.lives[buffer], _rounded(buffer.nbytes)
        first, last = life.first, life.last
        if life.member < 0:
            return _Place(size=size, first=first, last=last, buffers=[buffer])
        if life.path and life.path[-1] == life.member:  # nobody else knows it
            first, last = self.span[life.member]
        entering = life.born >= self.span[life.member][0]
        inside = (life.born, life.last) if entering else (life.first, life.dies)
        return _Place(
            size=size, first=first, last=last, buffers=[buffer], member=life.member, inside=inside
        )

    def join(self, place: _Place, buffer: Buffer) -> None:
        """``buffer`` follows in ``place``."""
        other = self.place(buffer)
        place.buffers.append(buffer)
        place.last = other.last
        place.member = place.member if place.member == other.member else -1
        place.inside = (place.inside[0], other.inside[1])

    def last_failure(self, steps: list[Step]) -> int:
        """When a step may fail for the last time; -1: never."""
        ends = {step: time for time, step in enumerate(self.step_at)}
        failing = [step for step in steps if any(inner.may_fail for inner in walk([step]))]
        return max([ends[step] for step in failing], default=-1)

    def _span(self, time: int, path: tuple[int, ...], depth: int) -> tuple[int, int]:
        if len(path) > depth:
            return self.span[path[depth]]
        return time, self.ends.get(self.step_at[time], time)


def place(lowered: Lowered) -> Placement:
    """Set ``offset`` of every arena buffer, and leave out copies from a place to itself."""
    times = _Times()
    times.block(lowered.steps, ())
    times.settle()
    lives = times.lives
    starting: dict[int, list[Buffer]] = {}
    for buffer, life in lives.items():
        if buffer.kind == "arena":
            starting.setdefault(life.born, []).append(buffer)
    last = {buffer: times.step_at[life.last] for buffer, life in lives.items()}
    placed, idle = (
        Placement(arena_nbytes=0, last_step=dict(last), batches=queue_batches(lowered)),
        set(),
    )
    failure = times.last_failure(lowered.steps)
    placed.exposed = frozenset(
        b.index for b in lowered.outputs if b in lives and lives[b].first <= failure
    )
    home: dict[Buffer, _Place] = {}
    for now, step in enumerate(times.step_at):
        taken = set(placed.batches)  # operands whose place no result of this step may take over
        for view in step.outputs if step.control is None else ():
            buffer = view.buffer
            if buffer.kind not in ("arena", "output") or lives[buffer].born != now:
                continue
            kind = "arena" if buffer.kind == "arena" else "input"
            if kind == "input" and buffer.index in placed.exposed:
                continue
            host = _dying_operand(step, view, now, lives, taken, kind)
            if host is None:
                continue
            taken.add(host)
            if kind == "input":
                placed.donations[buffer.index] = host.index
                continue
            home[buffer] = home[host]
            times.join(home[host], buffer)
            placed.last_step[host] = None  # its bytes live on in the result
            if step.moves:
                idle.add(step)
        for buffer in starting.get(now, ()):
            placed.scratch_nbytes += _rounded(buffer.nbytes)
            if buffer not in home:
                home[buffer] = times.place(buffer)
    lowered.steps = without(lowered.steps, idle)
    layout = placed.layout = Layout(list(dict.fromkeys(home.values())))
    offsets, placed.arena_nbytes = layout.lay_out([value_here(size) for size in layout.sizes])
    for buffer, at in layout.number.items():
        buffer.offset = int(offsets[at])
    return placed


class Layout:
    """The places of an arena with their times: where they lie follows from their sizes."""

    def __init__(self, places: list[_Place]) -> None:
        self.sizes: list[Any] = [place.size for place in places]
        self.number: dict[Buffer, int] = {
            buffer: at for at, place in enumerate(places) for buffer in place.buffers
        }
        self._places = places
        self._rows = b"".join(
            [native.PLACE.pack(0, p.first, p.last, p.member, *p.inside, 0) for p in places]
        )

    @property
    def times(self) -> list[tuple[int, ...]]:
        """When each place is in use: first, last, member, and the times inside that."""
        return [row[1:6] for row in native.PLACE.iter_unpack(self._rows)]

    def rows_at(self, sizes: Sequence[int]) -> bytes:
        """The places of these ``sizes`` as C takes them."""
        pairs = zip(sizes, self.times, strict=True)
        return b"".join([native.PLACE.pack(size, *times, 0) for size, times in pairs])

    def lay_out(self, sizes: Sequence[int]) -> tuple[np.ndarray, int]:
        """The offsets of places of these ``sizes``, and the bytes that they span."""
        if len(sizes) > COMPARED:
            return _in_turn(self._places, sizes)
        rows = np.frombuffer(bytearray(self._rows), np.int64).reshape(-1, native.PLACE.size // 8)
        rows[:, 0] = sizes
        offsets = np.empty(len(sizes), np.int64)
        return offsets, native.lay_out(rows, len(sizes), offsets)


def room_for(spans: Sequence[tuple[int, int, int]]) -> int:
    """The bytes of an arena for values of these sizes, and the times of their first and last use.

    A result that is written over an operand is not another value.
    """
    places = [
        _Place(size=_rounded(size), first=first, last=last, buffers=[])
        for size, first, last in spans
    ]
    return Layout(places).lay_out([place.size for place in places])[1]


def _in_turn(places: Sequence[_Place], sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """In one walk over time, each in the smallest gap that fits."""
    arena = _Arena()
    offsets = np.empty(len(places), np.int64)
    events = [(place.first, 0, i) for i, place in enumerate(places)]
    events += [(place.last, 1, i) for i, place in enumerate(places)]
    for _, leaves, i in sorted(events):
        if leaves:
            arena.give(int(offsets[i]), sizes[i])
        else:
            offsets[i] = arena.take(sizes[i])
    return offsets, arena.end


def _dying_operand(
    step: Step, output: View, now: int, lives: dict[Buffer, _Life], taken: set[Buffer], kind: str
) -> Buffer | None:
    """An operand of ``step`` that ``output`` may be written over, because it is dead after it."""
    for view in (*step.inputs, *step.extra):
        host = view.buffer
        if (
            host.kind == kind
            and host not in taken
            and lives[host].dies == now
            and (kind == "input" or lives[host].born < now)  # no step makes what is empty
            and overwrites(step, output, host)
        ):
            return host
    return None


def _rounded(nbytes: int) -> int:
    return (max(nbytes, 1) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def queue_batches(lowered: Lowered) -> dict[Buffer, Step]:
    """The buffers of batches that are not copied out of their queue, each with its loop."""
    found: dict[Buffer, Step] = {}
    for loop in lowered.walk():
        if loop.control is None or loop.control.kind not in ("for", "while"):
            continue
        [body] = loop.blocks
        asking = [step for step in walk(body) if _extra_outputs(step) is not None]
        if len(asking) == 1 and asking[0] in body:
            buffers = _batch_buffers(lowered, body, asking[0])
            found.update(dict.fromkeys(buffers, loop))
    return found


def _extra_outputs(step: Step) -> int | None:
    """Of a step that asks a queue, how many outputs are not of the batch."""
    return None if step.call is None else getattr(step.call.function, "asks_queue", None)


def _batch_buffers(lowered: Lowered, body: list[Step], asking: Step) -> list[Buffer]:
    views = asking.outputs[: len(asking.outputs) - (_extra_outputs(asking) or 0)]
    buffers = [view.buffer for view in views]
    inside = set(walk(body))
    spoilt: set[Buffer] = set()  # written by others, moved by loops, or known outside
    for step in lowered.walk():
        if step not in inside:
            spoilt.update(step_touches(step))
        elif step is not asking:
            spoilt.update(view.buffer.root for view in step.outputs)
        if step.control is not None:
            spoilt.update(b.base for b in step.control.carried if b.base is not None)
            spoilt.update(step.control.homes)
            spoilt.update(source.root for _, source in step.control.moves)
    fit = [
        view.buffer.kind == "arena"
        and view.buffer.root is view.buffer
        and is_whole(view)
        and view.buffer not in spoilt
        for view in views
    ]
    return buffers if all(fit) and len(set(buffers)) == len(buffers) else []
