"""merged_profile: the profiles of all ranks as one, on one clock, with who waited for whom.

Each rank has a clock of its own.  Rank 0 asks each of the others for its time, again and again, and
takes the answer that came back fastest: the time was read somewhere between question and answer,
so the middle of both is wrong by half of that round trip at most (F. Cristian, "Probabilistic clock
synchronization", 1989).  That clocks of different hosts run apart is not made up for: by some
microseconds in each second between profile and exchange.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, replace
from hybrid.distributed.job_files import on_rank_0
from hybrid.distributed.meshes import world_channel
from hybrid.eager.profile import Profile, write_trace
from hybrid.eager.profile_tables import ProfileTable, byte_count, duration
from hybrid.eager.transfer_timings import (
    TransferEvent,
    TransferTiming,
    transfer_table,
    transfer_timings,
)
from hybrid.errors import ArgumentError, ArgumentTypeError, author_location
from hybrid.memory.channels import Channel, CollectiveCall, Doing, reach
from hybrid.plan.traffic import COMPARING

ROUNDS = 24  # questions for the time of each rank
CAME_TOGETHER = ("all_gather", "all_to_all", "all_reduce", "barrier")  # all wait for the last


@dataclass(frozen=True, slots=True)
class RankProfile:
    """What one rank did: seconds, and rows of its communication.

    ``waiting`` is None where it is not known of some transfer.  Its clock was ``clock_ahead``
    seconds ahead of that of rank 0, give or take ``clock_error``.
    """

    rank: int
    host: str
    seconds: float
    computing: float
    communicating: float
    waiting: float | None
    nbytes: int
    clock_ahead: float
    clock_error: float
    communication: tuple[TransferTiming, ...]


@dataclass(frozen=True, slots=True)
class _OwnProfile:
    """What a rank tells the others; times are in ns of its own clock."""

    host: str
    begin: int
    seconds: float
    computing: float
    groups: dict[str, tuple[int, ...]]  # of each channel: its ranks
    transfers: list[TransferEvent]
    events: list[dict[str, Any]]


class MergedProfile:
    """The profiles of all ranks: print it, read ``ranks`` and ``communication``, or ``save`` it.

    ``ranks`` has one entry for each rank, ``communication`` the rows of all of them together, the
    calls and bytes and seconds of all ranks added up.
    """

    def __init__(
        self,
        channel: Channel,
        parts: Sequence[_OwnProfile],
        offsets: Sequence[int],
        errors: Sequence[float],
    ) -> None:
        self._channel, self._parts = channel, parts
        starts = [part.begin - offset for part, offset in zip(parts, offsets, strict=True)]
        self._shifts = [(start - min(starts)) / 1000 for start in starts]
        timed = _with_waiting(parts, offsets)
        self._timed = timed
        self.communication = transfer_timings([event for events in timed for event in events])
        self.ranks = tuple(
            [
                RankProfile(
                    rank=rank,
                    host=part.host,
                    seconds=part.seconds,
                    computing=part.computing,
                    communicating=sum([e.seconds for e in events]),
                    waiting=_waited(events),
                    nbytes=sum([e.traffic.nbytes for e in events]),
                    clock_ahead=offsets[rank] * 1e-9,
                    clock_error=errors[rank],
                    communication=transfer_timings(events),
                )
                for rank, (part, events) in enumerate(zip(parts, timed, strict=True))
            ]
        )

    def _tables(self) -> tuple[ProfileTable, ProfileTable]:
        headings = (
            *("rank", "host", "time", "computing", "communicating", "of it waiting", "bytes"),
            *("GB/s", "clock"),
        )
        rows = [
            (
                str(row.rank),
                row.host,
                duration(row.seconds),
                duration(row.computing),
                duration(row.communicating),
                "" if row.waiting is None else duration(row.waiting),
                byte_count(row.nbytes),
                f"{row.nbytes / busy / 1e9:.2f}" if busy > 0 and row.nbytes else "",
                f"+- {duration(row.clock_error)}",
            )
            for row in self.ranks
            for busy in [row.communicating - (row.waiting or 0.0)]
        ]
        numbers = ("rank", *headings[2:])
        return (
            ProfileTable("ranks", headings, rows, numbers),
            transfer_table("communication, all ranks together", self.communication),
        )

    def table(self) -> str:
        """Both tables, as text."""
        return "\n".join([table.text() for table in self._tables() if table.rows])

    __str__ = table

    def __rich__(self) -> Any:
        """The tables for rich."""
        from rich.console import Group

        return Group(*[table.rich() for table in self._tables() if table.rows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one trace for ui.perfetto.dev and chrome://tracing, with a process for each rank.

        All ranks call it alike; rank 0 writes, and an error of it is raised on every rank.
        """
        on_rank_0(
            self._channel,
            f"write {os.fsdecode(path)}",
            lambda: write_trace(path, self.trace_events()),
        )

    def trace_events(self) -> list[dict[str, Any]]:
        """The events of the trace: in each rank's process the threads of captures and of runs."""
        found: list[dict[str, Any]] = []
        for rank, part in enumerate(self._parts):
            threads: dict[tuple[str, int], int] = {}
            kept = []
            for event in part.events:
                key = (event["pid"], event["tid"])
                thread = threads.setdefault(key, len(threads) + 1)
                kept.append(event | {"pid": rank, "tid": thread, "ts": self._at(rank, event["ts"])})
            found.append(_named("process_name", rank, 0, f"rank {rank} of {part.host}"))
            found.append(
                {"name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank}}
            )
            for (kind, number), thread in threads.items():
                found.append(_named("thread_name", rank, thread, f"{kind} {number}"))
            found += kept
            found += self._waits(rank, threads)
        return found

    def _at(self, rank: int, ts: float) -> float:
        return ts + self._shifts[rank]

    def _waits(self, rank: int, threads: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
        begin = self._parts[rank].begin
        return [
            {
                "name": f"waiting for rank {event.last}", "cat": "waiting", "ph": "X", "pid": rank,
                "tid": threads["run", event.thread],
                "ts": self._at(rank, (event.waited_since - begin) / 1000),
                "dur": event.waiting / 1000,
            }
            for event in self._timed[rank]
            if event.waiting
        ]  # fmt: skip


def _named(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": rank, "tid": thread, "args": {"name": name}}


def merged_profile(profile: Profile) -> MergedProfile:
    """The profiles of all ranks as one, on each rank: who computed, communicated, and waited.

    ::

        with hybrid.profile() as p:
            train_step(x, y)
        merged = hybrid.distributed.merged_profile(p)
        print(merged)
        merged.save("trace.json")  # a process for each rank

    All ranks call it alike, once their blocks have ended, and take their profiles of the same
    steps: the transfers of each channel are matched in their order, and one waits until the last
    rank has begun it.  Where ranks have recorded different numbers of them, how long they waited
    is not known, and ``waiting`` is None.  Each rank gets the profiles of all.
    """
    if not isinstance(profile, Profile):
        raise ArgumentTypeError(
            f"merged_profile of a {type(profile).__name__}", fix="give what hybrid.profile() gave"
        )
    if not profile.ended:
        raise ArgumentError(
            "merged_profile of a profile whose block has not ended",
            fix="call it behind the block of hybrid.profile()",
        )
    channel = world_channel()
    call = CollectiveCall("merged_profile", location=author_location())
    channel.agree([call], eager=True)
    with Doing(call):
        offsets, errors = _clocks(channel)
        parts = [pickle.loads(zlib.decompress(said)) for said in _gathered(channel, profile)]
    return MergedProfile(channel, parts, offsets, errors)


def _gathered(channel: Channel, profile: Profile) -> list[bytes]:
    transfers = profile.transfers()
    groups = {(event.traffic.comm, event.traffic.ranks) for event in transfers}
    mine = _OwnProfile(
        host=socket.gethostname(),
        begin=profile.begin,
        seconds=profile.seconds,
        computing=profile.computing,
        groups={comm: tuple(reach(comm, ranks).members) for comm, ranks in groups},
        transfers=transfers,
        events=profile.trace_events(),
    )
    said = zlib.compress(pickle.dumps(mine), 1)
    lengths = channel.all_gather(np.array([len(said)], np.int64))
    most = int(lengths.max())
    rows = channel.all_gather(np.frombuffer(said.ljust(most, b"\0"), np.uint8).reshape(1, most))
    return [row[:n].tobytes() for row, n in zip(rows, lengths, strict=True)]


def _clocks(channel: Channel) -> tuple[list[int], list[float]]:
    """Of each rank: the ns that its clock is ahead of rank 0's; the seconds that may be wrong."""
    found = np.zeros((1, 2), np.int64)
    question = np.zeros(1, np.int64)
    for other in range(1, channel.ranks):
        if channel.rank == 0:
            trips = []
            for _ in range(ROUNDS):
                asked = time.monotonic_ns()
                channel.send(question, other)
                theirs = int(channel.recv(question, other)[0])
                now = time.monotonic_ns()
                trips.append((now - asked, theirs - (asked + now) // 2))
            trip, ahead = min(trips)
            channel.send(np.array([ahead, trip], np.int64), other)
        elif channel.rank == other:
            for _ in range(ROUNDS):
                channel.recv(question, 0)
                channel.send(np.array([time.monotonic_ns()], np.int64), 0)
            found[0] = channel.recv(found[0], 0)
    rows = channel.all_gather(found).reshape(-1, 2)
    return [int(row[0]) for row in rows], [int(row[1]) / 2e9 for row in rows]


def _waited(events: Sequence[TransferEvent]) -> float | None:
    """Seconds of waiting, if they are known; comparisons are not looked at."""
    waits = [event.waiting for event in events if event.traffic.kind not in COMPARING]
    known = [ns for ns in waits if ns is not None]
    return sum(known) * 1e-9 if len(known) == len(waits) else None


# Who waited for whom ------------------------------------------------------------------------------


def _with_waiting(
    parts: Sequence[_OwnProfile], offsets: Sequence[int]
) -> list[list[TransferEvent]]:
    """The transfers of each rank, with how long each waited."""
    found = [list(part.transfers) for part in parts]
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for rank, part in enumerate(parts):
        for at, event in enumerate(part.transfers):
            traffic, members = event.traffic, part.groups[event.traffic.comm]
            if traffic.kind == "send":
                ends = rank, members[traffic.peer]
            elif traffic.kind == "recv":
                ends = members[traffic.peer], rank
            else:
                ends = ()
            key = (traffic.comm, members, *ends)
            groups.setdefault(key, {}).setdefault(rank, []).append(at)
    for key, by_rank in groups.items():
        together = set(key[2:] or key[1])
        if set(by_rank) == together and len({len(places) for places in by_rank.values()}) == 1:
            for places in zip(*by_rank.values(), strict=True):
                _note(found, dict(zip(by_rank, places, strict=True)), offsets, key[1])
    return found


def _note(
    found: list[list[TransferEvent]],
    places: dict[int, int],
    offsets: Sequence[int],
    members: Sequence[int],
) -> None:
    """Write into ``found`` how long the ranks waited in one transfer, which is at ``places``."""
    begins = {rank: found[rank][at].begin - offsets[rank] for rank, at in places.items()}
    kinds = {found[rank][at].traffic.kind for rank, at in places.items()}
    last = max(begins, key=lambda rank: (begins[rank], -rank))
    for rank, at in places.items():
        event = found[rank][at]
        kind, waits = event.traffic.kind, True
        if kind in ("broadcast", "recv"):
            last = members[event.traffic.peer]
        elif kind == "send":
            last, waits = rank, False
        elif kind not in CAME_TOGETHER or len(kinds) != 1:
            continue
        since = event.waited_since - offsets[rank]
        ready = begins[last] if waits else since
        waited = min(max(ready - since, 0), event.end - event.waited_since)
        found[rank][at] = replace(event, waiting=waited, last=last)
