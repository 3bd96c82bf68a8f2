"""Run as each rank of a job: how long transfers take, by their size.

Each transfer is one step of a plan, so its time is that of MPI with what a step adds to it.  Of
each, the rank that came last counts, for it did not wait; of many, the lower quartile, as of steps.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hybrid as hy
import hybrid.distributed as dist
from hybrid.core.output_file import write_text

SIZES = (1 << 6, 1 << 12, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23)  # bytes that move
ROUNDS = 31
MOST = 1 << 26  # bytes of all rounds of one size: large ones are made less often


def calls(ranks: int) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """What is measured: the kind of transfer, the bytes that move, and how it is made."""
    for nbytes in SIZES:
        block = hy.ones(max(nbytes // (ranks - 1) // 4, 1))
        whole = hy.ones(max(nbytes // (ranks - 1) // 4, 1) * ranks)
        yield "all_gather", nbytes, hy.hybridize(lambda x=block: dist.all_gather(x))
        yield "all_to_all", nbytes, hy.hybridize(lambda x=whole: dist.all_to_all(x))


def measured(ranks: int) -> Iterator[tuple[str, int, float]]:
    """Kind, bytes, and seconds of one transfer."""
    for kind, nbytes, call in calls(ranks):
        call()
        rounds = max(min(ROUNDS, MOST // nbytes), 5)
        dist.barrier()
        with hy.profile() as p:
            for _ in range(rounds):
                call()
        yield kind, nbytes, usual(p, kind, rounds)
    small = hy.ones(16)
    dist.barrier()
    with hy.profile() as p:
        for _ in range(ROUNDS):
            if dist.rank() == 0:
                dist.recv(dist.send(small, to=1), source=1)
            elif dist.rank() == 1:
                dist.send(dist.recv(small, source=0), to=0)
            dist.barrier()
    # There and back: rank 0 waits for an answer as soon as it has sent.
    yield "message", small.nbytes, usual(p, "recv", ROUNDS, counts=dist.rank() == 0) / 2
    yield "compare", 0, usual(p, "compare", ROUNDS) / (ranks - 1)


def usual(profile: Any, kind: str, rounds: int, *, counts: bool = True) -> float:
    """The lower quartile of the seconds of a transfer, for the rank that came last to it.

    Ranks for which it ``counts`` not have other times than those that are asked for.
    """
    own = [(e.end - e.begin) * 1e-9 for e in profile.transfers() if e.traffic.kind == kind]
    seconds = own[:rounds] if counts else [float("inf")] * rounds
    shortest = dist.all_reduce(hy.asarray(seconds, dtype=hy.float64), "min")
    return statistics.quantiles(shortest.tolist(), method="inclusive")[0]


def main(path: str) -> None:
    """Write what was measured, as JSON."""
    dist.init(timeout=120)
    found = list(measured(dist.size()))
    if dist.rank() == 0:
        write_text(path, json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
