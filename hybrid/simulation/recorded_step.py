"""The step that a rank repeats, found in the record of all that it did.

A step is what comes again and again: plans that run, with their transfers, in one order.  Of each
transfer it is known what moves; of what lies between two of them, how long it took.  Of the
repetitions the lower quartile counts: other programs, and captures, make steps longer alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.errors import HybridError
from hybrid.plan.traffic import WAIT

LONGEST = 20_000  # events of a step
LATEST = 200_000  # events of a record that are looked at
FEWEST = 3  # repetitions
QUARTILE = 0.25


@dataclass(frozen=True, slots=True)
class RecordedTransfer:
    """One transfer of a step; ``members`` are the ranks of the job among which it is.

    One with a ``place`` goes on beside what is computed, until one of the kind "wait" has it.
    """

    name: str
    kind: str
    comm: str
    members: tuple[int, ...]
    given: int
    nbytes: int
    peer: int
    place: int
    types: str
    at: str


@dataclass(frozen=True, slots=True)
class RankStep:
    """What a rank does in each step.

    ``gaps[i]`` are the seconds before transfer i, the last of them those behind all.  ``seconds``
    is what a whole step took where it was recorded, ``peak_bytes`` the most memory that tensors
    and plans had in the whole process.
    """

    rank: int
    size: int
    transfers: tuple[RecordedTransfer, ...]
    gaps: tuple[float, ...]
    seconds: float
    steps: int
    peak_bytes: int

    @property
    def computing(self) -> float:
        """Seconds that are no transfer."""
        return sum(self.gaps)


def read_step(path: Path) -> RankStep:
    """The step in the record of a rank."""
    record = json.loads(path.read_text("utf-8"))
    if record["lost"]:
        raise HybridError(
            f"rank {record['rank']} did {record['lost']:,} more steps of plans than are recorded",
            fix="let the script do fewer steps of training: a few are enough",
        )
    events = np.array(record["events"], np.int64).reshape(-1, 3)[-LATEST:]
    found = repeated(events)
    if found is None:
        raise HybridError(
            f"rank {record['rank']} does nothing that it repeats {FEWEST} times or more",
            why="A step is what comes again and again: plans that run, with what they communicate.",
            fix="let the script do five steps of training or more, of one kind",
        )
    start, period, times = found
    symbols = [_transfer(symbol, record["members"]) for symbol in record["symbols"]]
    rows, gaps, others = [], [], []
    for at in range(start, start + period * (times - 1), period):
        part, end = events[at : at + period], int(events[at + period, 1])
        moves = part[[symbols[number] is not None for number in part[:, 0]]]
        edges = np.concatenate([[[int(part[0, 1])] * 2], moves[:, 1:], [[end, end]]])
        gaps.append(np.maximum(edges[1:, 0] - edges[:-1, 1], 0))
        rows.append(end - int(part[0, 1]))
        others.append(gaps[-1].sum())
    first = 1 if len(rows) > FEWEST else 0
    usual = np.median(np.array(gaps[first:]), axis=0)
    scale = float(np.quantile(others[first:], QUARTILE)) / max(float(usual.sum()), 1.0)
    return RankStep(
        rank=record["rank"],
        size=record["size"],
        transfers=tuple(
            [
                found_one
                for number in events[start : start + period, 0]
                if (found_one := symbols[number]) is not None
            ]
        ),
        gaps=tuple([float(ns) * scale * 1e-9 for ns in usual]),
        seconds=float(np.quantile(rows[first:], QUARTILE)) * 1e-9,
        steps=len(rows),
        peak_bytes=record["peak_bytes"],
    )


def _transfer(symbol: dict[str, Any], members: dict[str, list[int]]) -> RecordedTransfer | None:
    if "plan" in symbol:
        return None
    return RecordedTransfer(**symbol, members=tuple(members[symbol["comm"]]))


def repeated(events: np.ndarray) -> tuple[int, int, int] | None:
    """Where what repeats begins, its number of events, and how often it comes.

    ``events`` has a symbol, begin and end in each row.  It is what takes most of the time: of
    periods that take about as much, a step and two steps in one, it is the shortest.
    """
    symbols = events[:, 0]
    n = len(symbols)
    best: tuple[float, int, int, int] | None = None
    for period in range(1, min(n // FEWEST, LONGEST) + 1):
        same = np.concatenate([[False], symbols[period:] == symbols[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, ends = edges[::2], edges[1::2]
        enough = (ends - starts) // period + 1 >= FEWEST
        for start, end in zip(starts[enough], ends[enough], strict=True):
            times = (end - start) // period + 1
            last = start + times * period - 1
            time = float(events[last, 2] - events[start, 1])
            if best is None or time > 1.1 * best[0]:
                best = (time, int(start), period, int(times))
    return None if best is None else best[1:]


def counts(step: RankStep) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Calls and bytes of a step, by collective, way of moving and channel."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for transfer in step.transfers:
        if transfer.kind == WAIT:
            continue
        key = transfer.name, transfer.kind, transfer.comm
        calls, nbytes = found.get(key, (0, 0))
        found[key] = calls + 1, nbytes + transfer.nbytes
    return found


def same_transfers(steps: Sequence[RankStep]) -> bool:
    """Whether all of them move the same, in one order, whenever they were written."""
    return len({step.transfers for step in steps}) == 1
