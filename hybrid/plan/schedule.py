"""Scheduling: independent steps are grouped to run in parallel.

Before::                                  After::

    a = map x                                 parallel
    b = sum y                                     a = map x; c = map a
    c = map a                                     b = sum y
    d = matmul c, b                           d = matmul c, b

A parallel step has members, none of which waits for another one.  A member is one step, cut into
chunks as it would be by itself, or several that follow each other, on one thread.  So updates of
many parameters are one region with one wake-up, towers run beside each other, and so do the small
products of a step.  What a step computes is the same, whoever runs it.

Between steps whose order shows (control flow, calls into Python, what may refuse its operands: the
first mistake in the order of the program is the one that is raised) the rest may change places.
Small steps that nothing waits for, updates above all, go last and meet there.  Runs of steps that
may be members fall apart at those that every other one waits for, or that wait for every other one;
what is left are parts that do not depend on each other: towers, branches, chains.  Where all is
connected, windows of a few steps are tried, and those that win most are taken.

A group is taken when two threads gain ``WORTH`` by it.  Threads that had nothing to do for long
sleep, and come late: they are awake in loops, and in plans most of whose time goes to steps that
use them anyway.  A group is not taken when the memory that is alive at once might grow noticeably,
by more than ``GROWTH_BYTES`` and ``GROWTH_SHARE`` of what there was.
Nor is an update, whose result would have been written over its parameter, put beside another reader
of that parameter: they follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybrid.core.dataclass import dataclass, field
from hybrid.core.size_functions import value_here
from hybrid.ir import View
from hybrid.plan.costs import is_cut, step_seconds, wakes_threads
from hybrid.plan.steps import Buffer, Control, Lowered, Step, overwrites, touched, walk

WAKE = 2e-6  # seconds until another thread that spins computes, and until all are done
SLEEP = 2e-5  # until one that sleeps does
WORTH = 4e-6  # that two threads must gain, and a share of the time of all members
WORTH_SHARE = 0.15
WINDOW = 12  # steps of a connected run that are looked at together
MOST_MEMBERS = 512
GROWTH_BYTES = 256 << 10  # of the memory that is alive at once: what caches hold
GROWTH_SHARE = 0.05
EVERYTHING = 1 << 62


def schedule(lowered: Lowered) -> None:
    """Group the steps of all blocks of ``lowered`` where that wins."""
    if sum(1 for _ in walk(lowered.steps)) < 2:
        return
    room = max(GROWTH_BYTES, int(GROWTH_SHARE * _alive(lowered.steps)))
    late = 0.0 if _keeps_awake(lowered.steps) else SLEEP
    lowered.steps = _grouped(lowered.steps, room, late)


def _keeps_awake(steps: Sequence[Step]) -> bool:
    """Whether most of the time goes to steps that use all threads by themselves."""
    shared = whole = 0.0
    for step in steps:
        if step.computes:
            took = step_seconds(step)
            whole += took
            shared += took if wakes_threads(step, took) or is_cut(step, took) else 0.0
    return shared > whole / 2


def _grouped(steps: list[Step], room: int, late: float) -> list[Step]:
    found: list[Step] = []
    segment: list[Step] = []
    for step in steps:
        inside = late if step.control is None or step.control.kind == "cond" else 0.0
        for i, block in enumerate(step.blocks):
            step.blocks[i] = _grouped(block, room, inside)
        if step.control is None and not step.may_fail:
            segment.append(step)
            continue
        found += _Segment(segment, room, late).scheduled()
        found.append(step)
        segment = []
    return found + _Segment(segment, room, late).scheduled()


@dataclass(slots=True, eq=False)
class _Item:
    """A step and what is known of it; sets of steps are the bits of ints, by their first order."""

    at: int
    step: Step
    seconds: float
    joins: bool  # whether it may be in a group
    cut: bool  # whether it is cut up by itself: then it is a member alone
    before: int = 0  # those that it waits for, directly
    all_before: int = 0
    after: int = 0


@dataclass(slots=True)
class _Group:
    members: list[list[_Item]]
    gain: float


class _Segment:
    """Steps between two whose order shows."""

    def __init__(self, steps: Sequence[Step], room: int, late: float) -> None:
        """Groups may need ``room`` bytes more; others come ``late`` seconds later than ``WAKE``."""
        self.steps, self.room = list(steps), room
        self.least = WAKE + late / 2 + WORTH  # that must be saved: who waits computes meanwhile
        self.items: list[_Item] = []

    def scheduled(self) -> list[Step]:
        """The steps, those that win by it in groups."""
        if len(self.steps) < 2:
            return self.steps
        seconds = list(map(step_seconds, self.steps))
        if sum(seconds) / 2 <= self.least:  # were all independent
            return self.steps
        for at, (step, took) in enumerate(zip(self.steps, seconds, strict=True)):
            joins = not wakes_threads(step, took)
            self.items.append(
                _Item(at=at, step=step, seconds=took, joins=joins, cut=joins and is_cut(step, took))
            )
        self._connect()
        found: list[Step] = []
        run: list[_Item] = []
        early, late = self._late_last()
        for item in early:
            if item.joins:
                run.append(item)
                continue
            found += self._emit(run)
            found.append(item.step)
            run = []
        found += self._emit(run) + self._emit(late)
        return found if len(found) < len(self.steps) else self.steps

    def _connect(self) -> None:
        accesses = _Accesses()
        for item in self.items:
            for at in accesses.add(item.at, item.step):
                item.before |= 1 << at
        for item in self.items:
            for reader, writer in accesses.kept_in_place(item.at, item.step):
                self.items[writer].before |= 1 << reader
        for item in self.items:
            item.all_before = item.before
            for other in _bits(item.before):
                item.all_before |= self.items[other].all_before
                self.items[other].after |= 1 << item.at

    def _late_last(self) -> tuple[list[_Item], list[_Item]]:
        """The steps without those that nothing else waits for, or one of them; and these."""
        late = 0
        for item in reversed(self.items):
            if item.joins and not item.after & ~late and not item.after & (item.after - 1):
                late |= 1 << item.at  # what several wait for would tie them together
        waiting = self._waiting(late)
        while sum(waiting.values()) > self.room:
            largest = self.items[max(waiting, key=lambda at: waiting[at])]
            late &= ~(largest.all_before | 1 << largest.at)
            waiting = self._waiting(late)
        early = [item for item in self.items if not late >> item.at & 1]
        return early, [self.items[at] for at in _bits(late)]

    def _waiting(self, late: int) -> dict[int, int]:
        """The bytes of scratch that the others leave for each of those of ``late``."""
        made = {
            view.buffer
            for item in self.items
            if not late >> item.at & 1
            for view in item.step.outputs
            if view.buffer.kind == "arena"
        }
        return {at: sum(map(_nbytes, _scratch(self.items[at].step) & made)) for at in _bits(late)}

    # Groups -------------------------------------------------------------------------------------

    def _emit(self, run: list[_Item]) -> list[Step]:
        """``run``, which may all be in groups, with those that win."""
        if len(run) < 2 or sum(item.seconds for item in run) / 2 <= self.least:
            return [item.step for item in run]
        parts = _components(run)
        first: list[Step] = []  # what leads to steps that are cut: those are members alone
        for i, part in enumerate(parts):
            if len(part) > 1 and part[-1].cut and not any(item.cut for item in part[:-1]):
                first += [item.step for item in part[:-1]]
                parts[i] = part[-1:]
        whole = [part for part in parts if len(part) == 1 or not any(i.cut for i in part)]
        group = self._group(whole)
        if group is None:
            return self._emit_connected(run)
        others = [part for part in parts if part not in whole]
        last = [step for part in others for step in self._emit_connected(part)]
        return [*first, _parallel(group), *last]

    def _emit_connected(self, run: list[_Item]) -> list[Step]:
        """``run``, none of whose parts runs beside the others."""
        inside = sum(1 << item.at for item in run)
        after = {item.at: 0 for item in run}
        for item in run:
            for at in _bits(item.all_before & inside):
                after[at] |= 1 << item.at
        found: list[Step] = []
        between: list[_Item] = []
        passes = [
            (item.all_before & inside | after[item.at] | 1 << item.at) == inside for item in run
        ]
        if not any(passes):
            return self._emit_windows(run)
        for item, alone in zip(run, passes, strict=True):
            if alone:
                found += self._emit(between)
                found.append(item.step)
                between = []
            else:
                between.append(item)
        return found + self._emit(between)

    def _emit_windows(self, run: list[_Item]) -> list[Step]:
        """The best way to cut ``run`` into single steps and groups of a few that follow."""
        best: list[tuple[float, int, _Group | None]] = [(0.0, 0, None)]  # gained up to each place
        groups: dict[int, list[tuple[int, _Group]]] = {}
        for start in range(len(run)):
            parts: list[tuple[int, list[_Item]]] = []
            total = 0.0
            for end in range(start, min(start + WINDOW, len(run))):
                item = run[end]
                joined = [part for part in parts if part[0] & item.before]
                parts = [part for part in parts if not part[0] & item.before]
                bits, members = 1 << item.at, [item]
                for other, items in reversed(joined):
                    bits, members = bits | other, items + members
                parts.append((bits, sorted(members, key=lambda i: i.at) if joined else members))
                total += item.seconds
                if len(parts) > 1 and total / 2 > self.least - WAKE:
                    group = self._group([items for _, items in parts])
                    if group is not None:
                        groups.setdefault(end + 1, []).append((start, group))
        for end in range(1, len(run) + 1):
            choice: tuple[float, int, _Group | None] = (best[end - 1][0], end - 1, None)
            for start, group in groups.get(end, ()):
                gained = best[start][0] + group.gain
                if gained > choice[0]:
                    choice = (gained, start, group)
            best.append(choice)
        found: list[Step] = []
        end = len(run)
        while end > 0:
            _, start, group = best[end]
            found.append(run[start].step if group is None else _parallel(group))
            end = start
        return found[::-1]

    def _group(self, parts: list[list[_Item]]) -> _Group | None:
        """A group of ``parts``, if it wins, and needs little more memory."""
        bad = any(len(part) > 1 and any(item.cut for item in part) for part in parts)
        if bad or not 1 < len(parts) <= MOST_MEMBERS:
            return None
        members = [(sum(i.seconds for i in part), part[0].cut) for part in parts]
        gain = _gain(members, sum(map(_serial, parts)), self.least)
        if gain <= 0 or self._growth(parts) > self.room:
            return None
        if any(len(part) > 1 for part in parts):  # what takes longest begins first
            order = sorted(range(len(parts)), key=lambda at: -members[at][0])
            parts = [parts[at] for at in order]
        return _Group(parts, gain)

    def _growth(self, parts: list[list[_Item]]) -> int:
        """At most so many bytes more are alive at once if ``parts`` run side by side."""
        inside = sum(1 << item.at for part in parts for item in part)
        users: dict[Buffer, set[int]] = {}
        last: dict[Buffer, _Item] = {}
        for number, part in enumerate(parts):
            for item in part:
                for buffer in _scratch(item.step):
                    users.setdefault(buffer, set()).add(number)
                    last[buffer] = item
        own = []
        for part in parts:
            alive = most = 0
            seen: set[Buffer] = set()
            for item in part:
                mine = [buffer for buffer in _scratch(item.step) if len(users[buffer]) == 1]
                alive += sum(_nbytes(buffer) for buffer in mine if buffer not in seen)
                seen.update(mine)
                most = max(most, alive)
                alive -= sum(_nbytes(buffer) for buffer in mine if last[buffer] is item)
            own.append(most)
        shared = [b for b in users if len(users[b]) > 1 and not last[b].after & ~inside]
        return sum(own) - max(own) + sum(map(_nbytes, shared))


def _nbytes(buffer: Buffer) -> int:
    return value_here(buffer.nbytes)


def _scratch(step: Step) -> set[Buffer]:
    return {view.buffer for view in step.operands if view.buffer.kind == "arena"}


def _parallel(group: _Group) -> Step:
    blocks = [[item.step for item in part] for part in group.members]
    return Step(kernel=None, inputs=[], outputs=[], control=Control(kind="parallel", blocks=blocks))


def _serial(items: Sequence[_Item]) -> float:
    """Seconds of two threads if each step has both of them, one after the other."""
    return sum([i.seconds / 2 + WAKE if i.cut else i.seconds for i in items])


def _gain(members: Sequence[tuple[float, bool]], serial: float, least: float) -> float:
    """Seconds that two threads gain over ``serial``, less what they must.

    ``members`` are (seconds, whether it is cut).
    """
    total = sum([seconds for seconds, _ in members])
    alone = [seconds for seconds, cut in members if not cut]
    gain = serial - max(total / 2, max(alone, default=0.0))
    return gain - max(least, least - WORTH + WORTH_SHARE * sum(alone))


def _components(run: Sequence[_Item]) -> list[list[_Item]]:
    """The parts of ``run`` that do not depend on each other, each in order."""
    parts: list[tuple[int, list[_Item]]] = []
    for item in run:
        joined = [part for part in parts if part[0] & item.before]
        if len(joined) == 1:
            [part] = joined
            parts[parts.index(part)] = (part[0] | 1 << item.at, [*part[1], item])
            continue
        parts = [part for part in parts if part not in joined]
        bits, members = 1 << item.at, [item]
        for other, items in joined:
            bits, members = bits | other, items + members
        parts.append((bits, members))
    return [sorted(items, key=lambda item: item.at) for _, items in parts]


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


# Who waits for whom ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Access:
    at: int
    low: int  # bytes of the buffer
    high: int


@dataclass(slots=True)
class _Accesses:
    """Who has read and written which bytes so far."""

    writes: dict[Buffer, list[_Access]] = field(default_factory=dict)
    reads: dict[Buffer, list[_Access]] = field(default_factory=dict)

    def add(self, at: int, step: Step) -> set[int]:
        """Those before it that step ``at``, with its blocks, must wait for."""
        found: set[int] = set()
        mine: list[tuple[Buffer, _Access, bool]] = []
        for inner in walk([step]):
            mine += [(b, access, False) for b, access in _reached(at, inner.inputs)]
            mine += [(b, access, False) for b, access in _reached(at, inner.extra)]
            mine += [(b, access, False) for b, access in _reached(at, inner.after)]
            mine += [(b, access, True) for b, access in _reached(at, inner.outputs)]
        for buffer, access, written in mine:
            others = self.writes.get(buffer, [])
            if written:
                others = others + self.reads.get(buffer, [])
            found.update([o.at for o in others if o.low < access.high and access.low < o.high])
        for buffer, access, written in mine:
            kept = self.writes if written else self.reads
            kept.setdefault(buffer, []).append(access)
        return found - {at}

    def kept_in_place(self, at: int, step: Step) -> Iterator[tuple[int, int]]:
        """(reader, ``at``) for each input that a result of the step may be written over."""
        taken: set[Buffer] = set()
        for view in step.outputs:
            if view.buffer.kind != "output":
                continue
            for given in (*step.inputs, *step.extra):
                host = given.buffer.root
                if host.kind != "input" or host in taken or not overwrites(step, view, host):
                    continue
                readers = {access.at for access in self.reads[host]}
                if max(readers) == at:  # else it may be another operand
                    taken.add(host)
                    yield from ((reader, at) for reader in readers - {at})
                    break


def depends_on(steps: Sequence[Step], *, in_place: bool = False) -> list[set[int]]:
    """For each step the earlier ones that it depends on, by the buffers that they touch.

    With ``in_place`` what may be written over an input also waits for the others that read that.
    """
    accesses = _Accesses()
    found = [accesses.add(at, step) for at, step in enumerate(steps)]
    if in_place:
        for at, step in enumerate(steps):
            found[at].update([reader for reader, _ in accesses.kept_in_place(at, step)])
    return found


def _reached(at: int, views: Sequence[View]) -> Iterator[tuple[Buffer, _Access]]:
    for view in views:
        root = view.buffer.root
        if root.kind == "made":
            continue
        if root.kind in ("row", "carried"):  # wherever it may be
            yield from ((buffer, _Access(at, 0, EVERYTHING)) for buffer in touched(root))
            continue
        size = view.dtype.itemsize
        ends = [(n - 1) * s * size for n, s in zip(view.shape, view.strides, strict=True)]
        start = view.offset * size
        low = start + sum(end for end in ends if end < 0)
        high = start + sum(end for end in ends if end > 0) + size
        yield root, _Access(at, low, high if view.size else low)


def _alive(steps: Sequence[Step]) -> int:
    """About the most bytes of scratch that are alive at once."""
    last: dict[Buffer, int] = {}
    for at, step in enumerate(steps):
        for inner in walk([step]):
            for view in inner.operands:
                if view.buffer.kind == "arena":
                    last[view.buffer] = at
    dying: dict[int, int] = {}
    for buffer, at in last.items():
        dying[at] = dying.get(at, 0) + _nbytes(buffer)
    alive = most = 0
    seen: set[Buffer] = set()
    for at, step in enumerate(steps):
        for inner in walk([step]):
            for view in inner.operands:
                if view.buffer.kind == "arena" and view.buffer not in seen:
                    seen.add(view.buffer)
                    alive += _nbytes(view.buffer)
        most = max(most, alive)
        alive -= dying.get(at, 0)
    return most
