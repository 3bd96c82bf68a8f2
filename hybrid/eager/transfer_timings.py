"""The communication in a profile: rows for collectives and messages, beside what is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hybrid.core.dataclass import dataclass, replace
from hybrid.eager.profile_tables import (
    ProfileTable,
    byte_count,
    cut,
    duration,
    line_of,
)
from hybrid.errors import Location
from hybrid.plan.traffic import COMPARING, Traffic


@dataclass(frozen=True, slots=True)
class TransferTiming:
    """One row of communication: the transfers that a collective of the program made.

    ``name`` is the op that was asked for, ``kind`` how its bytes were moved (sums are made of
    all_gather and all_to_all), over the ``ranks`` of ``channel``.  ``nbytes`` came to this rank
    from others (or left it, where it sent or spread them) in all ``calls``, which took ``seconds``.
    In ``waiting`` of these another rank had not come yet, and ``last`` is the one that most often
    came last; to know that takes the profiles of all ranks, and in that of one both are None.
    ``beside`` are seconds, not among these, in which it was under way and something was computed.
    """

    name: str
    kind: str
    detail: str
    channel: str
    ranks: int
    calls: int
    nbytes: int
    seconds: float
    waiting: float | None = None
    last: int | None = None
    at: Location | None = None
    beside: float = 0.0

    @property
    def rate(self) -> float:
        """Bytes per second while it was under way, but for waiting; 0 without any."""
        busy = self.seconds + self.beside - (self.waiting or 0.0)
        return self.nbytes / busy if busy > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TransferEvent:
    """One transfer: what it was of, and its ns of the monotonic clock of its process.

    ``beside`` of the time from ``begin`` to ``end`` something else was done; it was waited for
    since ``waited_since``.
    """

    traffic: Traffic
    begin: int
    end: int
    thread: int
    at: Location | None = None
    waiting: int | None = None  # ns, where that is known
    last: int | None = None  # the rank that the others waited for
    beside: int = 0
    waited_since: int = 0

    @property
    def seconds(self) -> float:
        """Of this transfer and nothing else."""
        return (self.end - self.begin - self.beside) * 1e-9


def transfer_timings(events: Iterable[TransferEvent]) -> tuple[TransferTiming, ...]:
    """A row for each collective of the program and way of moving, the one of most time first."""
    rows: dict[tuple[object, ...], TransferTiming] = {}
    came_last: dict[tuple[object, ...], Counter[int]] = {}
    for event in events:
        call, traffic = event.traffic.call, event.traffic
        detail = " ".join(map(str, call.types))
        key = (call.name, traffic.kind, detail, traffic.comm, event.at)
        found = rows.get(key) or TransferTiming(
            name=call.name,
            kind=traffic.kind,
            detail=detail,
            channel=traffic.comm,
            ranks=traffic.ranks,
            calls=0,
            nbytes=0,
            seconds=0.0,
            waiting=None if event.waiting is None else 0.0,
            at=event.at,
        )
        if event.last is not None:
            came_last.setdefault(key, Counter())[event.last] += 1
        known = found.waiting is not None and event.waiting is not None
        rows[key] = replace(
            found,
            calls=found.calls + 1,
            nbytes=found.nbytes + traffic.nbytes,
            seconds=found.seconds + event.seconds,
            beside=found.beside + event.beside * 1e-9,
            waiting=(found.waiting or 0.0) + (event.waiting or 0) * 1e-9 if known else None,
        )
    for key, count in came_last.items():
        rows[key] = replace(rows[key], last=min(count, key=lambda rank: (-count[rank], rank)))
    return tuple(sorted(rows.values(), key=lambda row: -row.seconds))


_HEADINGS = (
    "what",
    "by",
    "calls",
    "bytes",
    "time",
    "beside",
    "waiting",
    "last",
    "GB/s",
    "of",
    "among",
    "at",
)


def transfer_table(title: str, rows: Sequence[TransferTiming]) -> ProfileTable:
    """The rows as a table."""
    return ProfileTable(title, _HEADINGS, [_cells(row) for row in rows], _HEADINGS[2:9])


def _cells(row: TransferTiming) -> tuple[str, ...]:
    return (
        cut(row.name),
        "" if row.kind in (row.name, *COMPARING) else row.kind,
        f"{row.calls:,}",
        byte_count(row.nbytes),
        duration(row.seconds),
        duration(row.beside) if row.beside else "",
        "" if row.waiting is None else duration(row.waiting),
        "" if row.last is None else f"rank {row.last}",
        f"{row.rate / 1e9:.2f}" if row.nbytes else "",
        cut(row.detail),
        f"{row.channel} ({row.ranks})",
        line_of(row.at),
    )
