"""Runs a case: the first calls, the check, then the interleaved measurement."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hybrid.bench.measure import SAMPLE_SECONDS, SampleTiming, measure, run_for
from hybrid.bench.registry import Case, Target, Workload
from hybrid.memory import native

REPEAT = 25  # rounds of a case, fewer where they take more than
CASE_SECONDS = 1.0


@dataclass(frozen=True)
class WayLine:
    """One way of running one case."""

    way: str
    timing: SampleTiming
    first_call: float  # seconds; for a hybridized function this includes capture and planning
    speedup: float  # the first way's time over this one's
    gflops: float | None
    budget: float | None = None  # seconds that it may take
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Result:
    """One case of a workload: its lines and the facts that its check brought to light."""

    workload: str
    case: str
    threads: int
    lines: tuple[WayLine, ...]
    facts: dict[str, str]

    def line(self, way: str) -> WayLine:
        """That of ``way``, or the first if that is not named."""
        return next(line for line in self.lines if way in ("", line.way))


@contextmanager
def threads_set_to(count: int | None) -> Iterator[int]:
    """Run with ``count`` threads (None: as set), then as before."""
    before = native.num_threads()
    if count is not None:
        native.set_num_threads(count)
    try:
        yield native.num_threads()
    finally:
        native.set_num_threads(before)


@contextmanager
def ledgers_kept(kept: bool) -> Iterator[None]:
    """Hybridized functions keep ledgers as they are set to, or none: calls run as plans then."""
    before = os.environ.get("HYBRID_LEDGER")
    if not kept:
        os.environ["HYBRID_LEDGER"] = "0"
    try:
        yield
    finally:
        if before is not None:
            os.environ["HYBRID_LEDGER"] = before
        elif not kept:
            del os.environ["HYBRID_LEDGER"]


def run_case(
    workload: Workload,
    case: Case,
    repeat: int | None,
    *,
    seconds: float = SAMPLE_SECONDS,
    advance: Callable[[], None] = lambda: None,
) -> Result:
    """Measure ``case``; BenchError when its check finds something wrong.

    ``advance`` is called once per round of measurement: of ``repeat``, or where that is None of
    ``REPEAT``, fewer where they would take much more than ``CASE_SECONDS``.
    """
    rounds, most = (REPEAT, CASE_SECONDS) if repeat is None else (repeat, math.inf)
    with threads_set_to(case.threads) as threads:
        first = {name: run_for(way, 1, case.clock) for name, way in case.ways.items()}
        facts = dict(case.check())
        timings = measure(
            case.ways, rounds, seconds=seconds, most_seconds=most, clock=case.clock, advance=advance
        )
    base = next(iter(timings.values())).median
    lines = tuple(
        WayLine(
            way=name,
            timing=timing.of_one(case.parts),
            first_call=first[name],
            speedup=base / timing.median,
            gflops=None if case.flops is None else case.flops / timing.median / 1e9,
            budget=case.budgets.get(name),
            targets=case.targets.get(name, ()),
        )
        for name, timing in timings.items()
    )
    return Result(workload.name, case.label, threads, lines, facts)
