"""profile: where the time of captures and runs goes, phase by phase and step by step."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.output_file import write_text
from hybrid.core.timing import Span, noting
from hybrid.eager.profile_tables import ProfileTable, cut, duration, line_of
from hybrid.eager.transfer_timings import (
    TransferEvent,
    TransferTiming,
    transfer_table,
    transfer_timings,
)
from hybrid.errors import ArgumentError, HybridError, Location
from hybrid.memory import native
from hybrid.memory.work_queue import drain_all
from hybrid.plan import Plan, all_plans
from hybrid.plan.costs import step_bytes, step_flops
from hybrid.plan.describe import step_name, step_types
from hybrid.plan.traffic import WAIT, traffic_of

_EVENT = struct.Struct("=qqqiiii")  # hyb_event: plan, begin, end, step, thread, part, parts
_WHOLE, _BATCH = -1, -2  # in place of a step: the run; a batch that a queue made ahead of time
MOST = 40  # rows of a table; what is left goes into one more


@dataclass(frozen=True)
class Timing:
    """One row: what ran, on what, how often, and its time in seconds.

    ``seconds`` is all of it, ``own`` that without the rows it is made of.  ``share`` is that of
    ``own`` in the whole of its table.
    """

    name: str
    detail: str
    calls: int
    seconds: float
    own: float
    share: float
    at: Location | None = None


class Profile:
    """What ``profile`` gives: print it, read its rows, or ``save`` it for Perfetto or Chrome.

    ``phases`` has the parts of captures (reading what they depend on, converting, tracing, each
    pass, planning), ``steps`` the steps of all plans, those of eager calls included, the slowest
    first, with the batches that queues made ahead of time.  Both are there when the block ends.
    ``communication`` has those steps that are collectives and messages, with their bytes;
    ``computing`` and ``communicating`` are the seconds that threads spent in other steps, and in
    those.  ``hybrid.distributed.merged_profile`` puts the profiles of all ranks together, and knows
    how much of it was waiting.  ``dropped`` counts steps that came too late: no more than ``limit``
    are kept.
    """

    def __init__(self, limit: int = 1_000_000) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ArgumentError(f"limit is {limit!r}", fix="give an int >= 1")
        self.limit, self.dropped = limit, 0
        self.seconds = 0.0  # from beginning to end of the block
        self.phases: tuple[Timing, ...] = ()
        self.steps: tuple[Timing, ...] = ()
        self.communication: tuple[TransferTiming, ...] = ()
        self.computing = self.communicating = 0.0  # seconds
        self._spans: list[Span] = []
        self._events: list[tuple[int, ...]] = []
        self._plans: dict[int, Plan] = {}
        self._noting: Any = None
        self._begin = 0
        self.ended = False

    def __enter__(self) -> Profile:
        if self._begin:
            raise HybridError("a profile has been taken", fix="make a new one: hybrid.profile()")
        drain_all()  # of what is queued, that from here on alone
        native.start_profile(self.limit)
        self._noting = noting(self._spans)
        self._noting.__enter__()
        self._plans = all_plans()  # those that go before the end are told of, too
        self._begin = time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        drain_all()
        self.seconds = (time.monotonic_ns() - self._begin) * 1e-9
        data, count = native.stop_profile(self.limit)
        self._noting.__exit__(None, None, None)
        self._plans |= all_plans()
        self._events = list(_EVENT.iter_unpack(data))
        self.dropped = count - len(self._events)
        self.ended = True
        self.phases = _timings(
            (Interval(span.thread, span.begin, span.end, (span.name, "", None)))
            for span in self._spans
        )
        self.steps = _timings(
            Interval(thread, begin, end, self._about(plan, step), part == 0 or step == _BATCH)
            for plan, begin, end, step, thread, part, _ in self._events
        )
        transfers = self.transfers()
        self.communication = transfer_timings(transfers)
        self.communicating = sum([event.seconds for event in transfers])
        self.computing = sum([row.own for row in self.steps]) - self.communicating

    def transfers(self) -> list[TransferEvent]:
        """The collectives and messages that were made, in the order in which they began."""
        found: dict[tuple[int, int], Any] = {}
        under_way: dict[tuple[int, int, int], int] = {}
        events: list[TransferEvent] = []
        for number, begin, end, step, thread, _, _ in self._events:
            if step < 0 or number not in self._plans:
                continue
            if (number, step) not in found:
                of = self._plans[number].steps[step]
                found[number, step] = traffic_of(of), of.location
            traffic, at = found[number, step]
            if traffic is None:
                continue
            place = thread, number, traffic.place
            if traffic.kind == WAIT:
                if place in under_way:
                    at_event = under_way.pop(place)
                    events[at_event] = _waited_for(events[at_event], begin, end)
            else:
                if traffic.place >= 0:
                    under_way[place] = len(events)
                events.append(
                    TransferEvent(
                        traffic=traffic,
                        begin=begin,
                        end=end,
                        thread=thread,
                        at=traffic.call.location or at,
                        waited_since=begin,
                    )
                )
        return sorted(events, key=lambda event: event.begin)

    def _about(self, number: int, step: int) -> tuple[str, str, Location | None]:
        if step == _BATCH:
            return "batch made ahead", f"queue {number}", None
        plan = self._plans.get(number)
        if step == _WHOLE:
            return f"run of {plan.graph.name if plan else 'a plan'}", "", None
        if plan is None:  # made and gone meanwhile
            return "a step of a plan that is gone", "", None
        found = plan.steps[step]
        return step_name(found), step_types(found), found.location

    # Looking at it --------------------------------------------------------------------------------

    def table(self) -> str:
        """Both tables, as text."""
        parts = [table.text() for table in self._tables() if table.rows]
        if self.dropped:
            parts.append(f"{self.dropped:,} more steps ran than the limit of {self.limit:,}\n")
        return "\n".join(parts) or "nothing was captured, and no plan ran\n"

    __str__ = table

    def _tables(self) -> Iterator[ProfileTable]:
        yield _table("phases of captures", self.phases)
        yield _table("steps of plans", self.steps)
        both = self.communicating + self.computing or 1.0
        title = (
            f"communication: {duration(self.communicating)} beside {duration(self.computing)} of "
            f"computation, {self.communicating / both:.1%}"
        )
        yield transfer_table(title, self.communication)

    def __rich__(self) -> Any:
        """The tables for rich, which typesets them when it prints a profile."""
        from rich.console import Group

        return Group(*[table.rich() for table in self._tables() if table.rows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that chrome://tracing and ui.perfetto.dev show, as JSON."""
        write_trace(path, self.trace_events())

    to_chrome_trace = save

    @property
    def begin(self) -> int:
        """When the block began, in ns of the monotonic clock: time 0 of the trace."""
        return self._begin

    def trace_events(self) -> list[dict[str, Any]]:
        """The events of the trace, in Chrome's format; times are in microseconds."""
        return [*self._phase_events(), *self._step_events()]

    def _phase_events(self) -> Iterator[dict[str, Any]]:
        for span in self._spans:
            yield self._event(span.name, "capture", span.begin, span.end, span.thread)

    def _step_events(self) -> Iterator[dict[str, Any]]:
        for number, begin, end, step, thread, part, parts in self._events:
            name, types, at = self._about(number, step)
            made = self._event(name, "run", begin, end, thread)
            made["args"] = {"types": types, "thread": thread, "at": "" if at is None else str(at)}
            if step == _BATCH:
                made["args"]["batch"] = part
            if parts > 1:
                made["args"]["part"] = f"{part + 1} of {parts}"
            plan = self._plans.get(number)
            if plan is not None and step >= 0 and plan.steps[step].computes:
                found = plan.steps[step]
                made["args"] |= {"bytes": step_bytes(found), "FLOPs": step_flops(found)}
            elif plan is not None and step >= 0 and (traffic := traffic_of(plan.steps[step])):
                made |= {"name": traffic.what, "cat": "communication"}
                made["args"] |= {"bytes": traffic.nbytes, "channel": traffic.comm}
                made["args"]["GB/s"] = traffic.nbytes / max(end - begin, 1)
            yield made

    def _event(self, name: str, kind: str, begin: int, end: int, thread: int) -> dict[str, Any]:
        return {
            "name": name, "cat": kind, "ph": "X", "pid": kind, "tid": thread,
            "ts": (begin - self._begin) / 1000, "dur": (end - begin) / 1000,
        }  # fmt: skip


def write_trace(path: str | os.PathLike[str], events: Sequence[dict[str, Any]]) -> None:
    """Write ``events`` as JSON that chrome://tracing and ui.perfetto.dev show."""
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
    write_text(path, text)


def profile(limit: int = 1_000_000) -> Profile:
    """Time what happens in a block: captures by phases and passes, plans by steps.

    ::

        with hybrid.profile() as p:
            train_step(x, y)
        print(p)
        p.save("trace.json")

    At most ``limit`` steps are kept (40 bytes each).  One profile at a time; all threads are in it.
    """
    return Profile(limit)


def _waited_for(event: TransferEvent, begin: int, end: int) -> TransferEvent:
    """A transfer that has begun, with the step that waits for it."""
    return replace(event, beside=begin - event.end, waited_since=begin, end=end)


# Rows --------------------------------------------------------------------------------------------

About = tuple[str, str, Location | None]


@dataclass(frozen=True, slots=True)
class Interval:
    """Some time of one thread, and what it was spent on."""

    thread: int
    begin: int
    end: int
    about: About
    first: bool = True  # of the parts of one call, which run side by side


class _IntervalSum:
    """Of the intervals that are about one thing."""

    __slots__ = ("calls", "inside", "total")

    def __init__(self) -> None:
        self.calls = self.total = self.inside = 0


def _timings(intervals: Iterable[Interval]) -> tuple[Timing, ...]:
    """A row for each thing, the one of the most time of its own first."""
    sums: dict[About, _IntervalSum] = {}
    around: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: (i.thread, i.begin, -i.end)):
        while around and (around[-1].thread != interval.thread or around[-1].end < interval.end):
            around.pop()
        nanoseconds = interval.end - interval.begin
        found = sums.setdefault(interval.about, _IntervalSum())
        found.calls += interval.first
        if all(other.about != interval.about for other in around):
            found.total += nanoseconds
        found.inside += nanoseconds
        if around:
            sums[around[-1].about].inside -= nanoseconds
        around.append(interval)
    whole = sum(found.inside for found in sums.values()) or 1
    rows = [
        Timing(
            name=name,
            detail=detail,
            calls=s.calls,
            seconds=s.total * 1e-9,
            own=s.inside * 1e-9,
            share=s.inside / whole,
            at=at,
        )
        for (name, detail, at), s in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.own))


_HEADINGS = ("what", "calls", "time", "own", "share", "on", "at")


def _table(title: str, rows: Sequence[Timing]) -> ProfileTable:
    shown = list(rows)
    if len(shown) > MOST + 1:
        rest = shown[MOST:]
        calls, own = sum(row.calls for row in rest), sum(row.own for row in rest)
        share = sum(row.share for row in rest)
        shown[MOST:] = [
            Timing(
                name=f"{len(rest)} more", detail="", calls=calls, seconds=own, own=own, share=share
            )
        ]
    return ProfileTable(title, _HEADINGS, [_cells(row) for row in shown], _HEADINGS[1:5])


def _cells(row: Timing) -> tuple[str, ...]:
    times = duration(row.seconds), duration(row.own)
    share = f"{row.share:.1%}"
    return cut(row.name), f"{row.calls:,}", *times, share, cut(row.detail), line_of(row.at)
