"""The speed of collectives along an axis of a mesh: measured once, and told for other sizes.

The time of a collective is that of Thakur, Rabenseifner and Gropp (2005), with a latency alpha and
a bandwidth beta::

    t = alpha log2(N) + volume / beta        volume: the bytes that a rank sends

where a rank sends 2 (N - 1) / N of its operand in an ``all_reduce``, (N - 1) / N of it in a
``reduce_scatter`` or ``all_to_all``, N - 1 times its part in an ``all_gather``, and all of it in a
``broadcast``.  As memory is slower than caches, beta is none number but a curve: between the
measured sizes the time is interpolated, beyond the largest it goes on at the last slope, or at half
of what a byte of the largest took, where noise has hidden the slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.types import float32, float64, tensor_type
from hybrid.distributed.strategies.plan_times import runner, seconds_of
from hybrid.errors import ArgumentError
from hybrid.ir import Builder, get_op
from hybrid.memory.channels import Channel, CollectiveCall, Doing, reach

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SIZES = (64, 4096, 32768, 131072, 1 << 20, 4 << 20)  # bytes that a rank sends, about
ROUNDS, RUNS = 3, 7  # the least of some medians: others may take the time of one
MESSAGE = "message"  # a send and a recv: each rank sends to the next one
KINDS = (*COLLECTIVES, MESSAGE)


def volume(collective: str, nbytes: float, ranks: int) -> float:
    """The bytes that a rank sends in ``collective`` with an operand of ``nbytes``."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks * nbytes
    if collective in ("reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks * nbytes
    return (ranks - 1) * nbytes if collective == "all_gather" else nbytes


@dataclass(frozen=True, slots=True)
class LinkSpeeds:
    """What collectives of ``ranks`` ranks were measured to take: (volume, seconds) of each."""

    ranks: int
    points: Mapping[str, tuple[tuple[float, float], ...]]

    @property
    def alpha(self) -> float:
        """The latency in seconds: of the smallest collective, for each doubling of the ranks."""
        known = [rows for name, rows in self.points.items() if name != MESSAGE]
        least = min([rows[0][1] for rows in known], default=0.0)
        return least / math.log2(self.ranks) if self.ranks > 1 else 0.0

    @property
    def beta(self) -> float:
        """The bytes that a rank sends in a second at the largest size; 0.0 for one rank."""
        rows = [rows[-1] for rows in self.points.values()]
        return max([moved / seconds for moved, seconds in rows], default=0.0)

    def seconds(self, collective: str, nbytes: float, ranks: int | None = None) -> float:
        """The time of ``collective`` whose operand on each of ``ranks`` ranks has ``nbytes``.

        ``ranks`` are those that were measured unless others are given.  A "send" and a "recv" are
        half of a message each.
        """
        ranks = self.ranks if ranks is None else ranks
        if ranks == 1:
            return 0.0
        if collective == "barrier":
            return self.alpha * math.log2(ranks)
        half = collective in ("send", "recv")
        name = MESSAGE if half else collective
        rows = self.points.get("all_reduce" if name == "reduce_to" else name)
        if rows is None:
            raise ArgumentError(
                f"no time is known of {collective!r} between ranks",
                why=f"Measured with {self.ranks} ranks were {', '.join(self.points) or 'none'}.",
                fix="ask for one of those",
            )
        moved = volume(name, nbytes, ranks)
        if half:
            return _on(rows, moved) / 2
        further = math.log2(ranks) - math.log2(self.ranks)
        return max(_on(rows, moved) + self.alpha * further, 0.0)


def _on(rows: Sequence[tuple[float, float]], moved: float) -> float:
    """The time of ``moved`` bytes on the curve through ``rows``."""
    known, times = zip(*rows, strict=True)
    if moved <= known[-1] or len(rows) == 1:
        return float(np.interp(moved, known, times))
    slope = (times[-1] - times[-2]) / (known[-1] - known[-2])
    return times[-1] + max(slope, times[-1] / known[-1] / 2) * (moved - known[-1])


_measured: dict[str, LinkSpeeds] = {}


def link_speeds(channel: Channel, everyone: Channel) -> LinkSpeeds:
    """The speeds of the ranks of ``channel``, which all ranks call; measured once in a job.

    Each of them runs the same plans, and takes over what the first of ``everyone`` has found: other
    ranks have a channel of this name of their own, whose speeds are a little different.
    """
    found = _measured.get(channel.name)
    if found is None or found.ranks != channel.ranks:
        found = _measured[channel.name] = _measure(channel, everyone)
    return found


def _measure(channel: Channel, everyone: Channel) -> LinkSpeeds:
    ranks = channel.ranks
    if ranks == 1:
        return LinkSpeeds(1, {})
    rows: list[tuple[str, float]] = []
    runs: list[Callable[[], None]] = []
    for name in KINDS:
        for size in SIZES:
            count = max(int(size / volume(name, 4, ranks)) // ranks, 1) * ranks
            rows.append((name, volume(name, 4 * count, ranks)))
            runs.append(_runner_of(channel, name, count))
    rounds = [[seconds_of(run, RUNS) for run in runs] for _ in range(ROUNDS)]
    times = list(map(min, *rounds))
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    least: dict[str, float] = {}
    # More bytes do not take less time: what other processes have taken the time for is left out.
    for (name, moved), seconds in zip(rows[::-1], agreed(everyone, times)[::-1], strict=True):
        least[name] = min(seconds, least.get(name, seconds))
        points[name].insert(0, (moved, least[name]))
    return LinkSpeeds(ranks, {name: tuple(own) for name, own in points.items()})


def _runner_of(channel: Channel, name: str, count: int) -> Callable[[], None]:
    builder = Builder(name)
    given = {"comm": channel.name, "ranks": channel.ranks}
    if name == "broadcast":
        given["root"] = 0
    x = builder.param(tensor_type(float32, (count,)))
    if name == MESSAGE:
        rank, ranks = channel.rank, channel.ranks
        to = {**given, "to": (rank + 1) % ranks}
        source = {**given, "source": (rank - 1) % ranks}
        send, recv = get_op("send"), get_op("recv")
        builder.apply(send, [x], send.attributes(to))
        return runner(builder.finish(builder.apply(recv, [x], recv.attributes(source))))
    op = get_op(name)
    return runner(builder.finish(builder.apply(op, [x], op.attributes(given))))


def agreed(channel: Channel, numbers: Sequence[float]) -> list[float]:
    """``numbers`` of the first rank, on all: so they all come to one decision."""
    if channel.ranks == 1 or not numbers:
        return [float(n) for n in numbers]
    given = np.asarray(numbers, float64.numpy)
    call = CollectiveCall("agreeing about times", (tensor_type(float64, given.shape),))
    with Doing(call) as entry:
        here = reach(channel.name, channel.ranks)
        here.agree([entry], eager=True)
        return [float(n) for n in here.broadcast(given, 0)]
