"""Medians with their spread, from samples taken in interleaved rounds.

Every round takes one sample of each way, in alternating order, so that what slows the machine down
for a while slows all ways alike and ratios stay true.  A sample is as many runs as last
``SAMPLE_SECONDS``, found by doubling; its time is that of one run.
"""

import gc
import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hybrid.bench.compare.serve import CLOCKS
from hybrid.bench.registry import Way

SAMPLE_SECONDS = 0.005
ENOUGH_ROUNDS = 7  # where time is short


@dataclass(frozen=True)
class SampleTiming:
    """Seconds of one run, or of an equal part of it: the median, and the range of 80 %."""

    median: float
    p10: float
    p90: float
    samples: int
    runs: int  # in each sample

    def of_one(self, parts: int) -> "SampleTiming":
        """The timing of one of the ``parts`` of a run."""
        return replace(self, median=self.median / parts, p10=self.p10 / parts, p90=self.p90 / parts)


def run_for(way: Way, count: int, clock: str = "wall") -> float:
    """Run ``way`` ``count`` times; the seconds it took by the ``clock`` of ``CLOCKS``."""
    if not callable(way):
        return way.sample(count)
    now = CLOCKS[clock]
    start = now()
    for _ in itertools.repeat(None, count):
        way()
    return now() - start


def calibrate(way: Way, seconds: float, clock: str = "wall") -> int:
    """How many runs last at least ``seconds``; this also warms up."""
    count = 1
    while (took := run_for(way, count, clock)) < seconds:
        count = max(2 * count, int(count * min(10.0, seconds / max(took, 1e-9))))
    return count


def measure(
    ways: Mapping[str, Way],
    repeat: int,
    *,
    seconds: float = SAMPLE_SECONDS,
    most_seconds: float = math.inf,
    clock: str = "wall",
    advance: Callable[[], None] = lambda: None,
) -> dict[str, SampleTiming]:
    """The timing of each way from ``repeat`` rounds; ``advance`` is called after every round.

    ``ENOUGH_ROUNDS`` do once they have taken ``most_seconds``.
    """
    counts = {name: calibrate(way, seconds, clock) for name, way in ways.items()}
    samples: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    gc.collect()
    start = time.perf_counter()
    for done in range(repeat):
        if done >= ENOUGH_ROUNDS and time.perf_counter() - start > most_seconds:
            break
        for name in order:
            samples[name].append(run_for(ways[name], counts[name], clock) / counts[name])
        order.reverse()
        advance()
    return {name: summary(values, counts[name]) for name, values in samples.items()}


def summary(values: list[float], runs: int) -> SampleTiming:
    """The timing that ``values``, seconds of one run each, amount to."""
    p10, median, p90 = np.percentile(values, [10, 50, 90]).tolist()
    return SampleTiming(median, p10, p90, len(values), runs)
