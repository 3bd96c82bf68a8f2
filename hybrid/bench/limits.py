"""What this machine does at most: operations in registers, and bytes from each level of memory.

The figures are the best of several short runs, on one thread and on several at once; a share of a
limit is what a computation takes beside the least that its operations and its bytes can take (the
roofline of S. Williams, A. Waterman, D. Patterson, 2009).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.memory import native

SECONDS = 0.03  # of one run
RUNS = 5
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL = {"L1": 32 << 10, "L2": 1 << 20, "L3": 16 << 20}  # where the system does not tell
MEMORY = 256 << 20  # bytes: more than caches hold
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}
ARITHMETIC = {
    "f32": "multiply-adds of float32",
    "f64": "multiply-adds of float64",
    "bf16": "dot products of bfloat16",
    "i8": "dot products of int8",
}

CODES = {
    "f32": native.lib.HYB_LIMIT_F32,
    "f64": native.lib.HYB_LIMIT_F64,
    "bf16": native.lib.HYB_LIMIT_BF16,
    "i8": native.lib.HYB_LIMIT_I8,
    "triad": native.lib.HYB_LIMIT_TRIAD,
}  # what the machine can be asked to do: arithmetic, and moves of memory


def instructions(name: str) -> str:
    """Those of one of ``CODES``; empty when this machine has none."""
    return native.ffi.string(native.lib.hyb_limit_instructions(CODES[name])).decode()


def do_rounds(name: str, rounds: int, data: Any = None, nbytes: int = 0) -> float:
    """Run ``rounds`` rounds on this thread: the operations, or the bytes moved, that they are.

    ``data`` is a buffer of ``nbytes`` that a triad goes over, once in each round.
    """
    floats = native.ffi.NULL if data is None else native.ffi.cast("float *", data)
    return native.lib.hyb_limit_run(CODES[name], rounds, floats, nbytes // 12)


@dataclass(frozen=True)
class Limit:
    """One figure: operations or bytes in a second."""

    name: str
    what: str
    threads: int
    rate: float
    unit: str


@dataclass(frozen=True)
class Limits:
    """The limits of one number of threads."""

    threads: int
    rows: tuple[Limit, ...]
    sizes: tuple[tuple[str, int], ...]  # bytes that each level holds, the smallest first

    def rate(self, name: str) -> float:
        return next(row.rate for row in self.rows if row.name == name)

    def share(self, flops: float, nbytes: float, seconds: float) -> float:
        """The least time that so much float32 work can take, as a share of ``seconds``."""
        level = next((name for name, size in self.sizes if nbytes <= size), "memory")
        return max(flops / self.rate("f32"), nbytes / self.rate(level)) / seconds

    def document(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]


def cache_sizes(folder: Path = CACHES) -> dict[str, int]:
    """Bytes of the caches for data, by level."""
    found = dict(USUAL)
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                found[f"L{int(level)}"] = int(size.rstrip("KM")) << (20 if size[-1] == "M" else 10)
        except (OSError, ValueError):  # not told
            continue
    return found


def levels(threads: int) -> dict[str, int]:
    """Bytes that a triad goes over on each of ``threads``, so that it stays in a level."""
    sizes = cache_sizes()
    found = {"L1": sizes["L1"] // 2, "L2": sizes["L2"] // 2}
    # The last level is shared; a half of it is more than the private ones together on most.
    found["L3"] = max(sizes["L3"] // 2 // threads, 2 * sizes["L2"])
    return found | {"memory": max(MEMORY, 4 * sizes["L3"]) // threads}


def measure(
    threads: int,
    *,
    seconds: float = SECONDS,
    clock: str = "wall",
    advance: Callable[[str], None] = lambda _: None,
) -> Limits:
    """All limits on ``threads`` threads; ``advance`` is told of each before.

    With the ``clock`` "cpu" seconds are those of the processor.
    """
    rows = []
    for name, what in ARITHMETIC.items():
        if used := instructions(name):
            advance(name)
            rate = best(name, threads, 0, seconds, clock)
            unit = "op/s" if name == "i8" else "FLOP/s"
            rows.append(Limit(name, f"{what} ({used})", threads, rate, unit))
    for level, nbytes in levels(threads).items():
        advance(level)
        rate = best("triad", threads, nbytes, seconds, clock)
        size = f"{nbytes >> 10} KiB" if nbytes < 1 << 20 else f"{nbytes >> 20} MiB"
        rows.append(Limit(level, f"triad over {size} a thread", threads, rate, "B/s"))
    sizes = cache_sizes()
    return Limits(threads, tuple(rows), tuple(sorted(sizes.items(), key=lambda item: item[1])))


def best(name: str, threads: int, nbytes: int, seconds: float, clock: str = "wall") -> float:
    """The most work in a second that ``threads`` threads have done together in one of the runs."""
    workers = [Worker(name, nbytes, CLOCKS[clock]) for _ in range(threads)]
    rounds = workers[0].calibrate(seconds)
    barrier = threading.Barrier(threads)

    def work(worker: Worker) -> None:
        for _ in range(RUNS):
            barrier.wait()
            worker.run(rounds)

    others = [threading.Thread(target=work, args=(worker,)) for worker in workers[1:]]
    for other in others:
        other.start()
    work(workers[0])
    for other in others:
        other.join()
    rate = together if clock == "wall" else apart
    return max(rate(runs) for runs in zip(*(worker.done for worker in workers), strict=True))


def together(runs: Sequence[tuple[float, float, float]]) -> float:
    """The rate of runs at once, each (start, end, work)."""
    starts, ends, works = zip(*runs, strict=True)
    return sum(works) / (max(ends) - min(starts))


def apart(runs: Sequence[tuple[float, float, float]]) -> float:
    """The rate of runs by clocks of their own."""
    return sum(work / (end - start) for start, end, work in runs)


class Worker:
    """One thread's memory and what it has done: (start, end, work) of each run."""

    def __init__(self, name: str, nbytes: int, now: Callable[[], float]) -> None:
        self.name, self.nbytes, self.now = name, nbytes, now
        self.done: list[tuple[float, float, float]] = []
        # Of zeros, each page written: a page that is only read may be shared.
        self.data = native.borrow(np.full(nbytes // 4, 0.0, np.float32)) if nbytes else None

    def run(self, rounds: int) -> float:
        """Seconds of so many rounds."""
        start = self.now()
        work = do_rounds(self.name, rounds, self.data, self.nbytes)
        end = self.now()
        self.done.append((start, end, work))
        return end - start

    def calibrate(self, seconds: float) -> int:
        """How many rounds last about so long."""
        rounds = 1
        while (took := self.run(rounds)) < seconds / 4:
            rounds *= 4
        self.done.clear()
        return max(int(rounds * seconds / took), 1)
