"""Measuring: rounds are interleaved, samples long enough, and the spread is what it says."""

import time
from itertools import count

import pytest

from hybrid.bench.measure import ENOUGH_ROUNDS, calibrate, measure, run_for, summary


class Recorded:
    """A way that takes a made-up time and remembers how often it was asked."""

    def __init__(self, name: str, seconds: float, log: list[tuple[str, int]]) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def sample(self, count: int) -> float:
        self.log.append((self.name, count))
        return self.seconds * count


def test_rounds_alternate() -> None:
    log: list[tuple[str, int]] = []
    ways = {"a": Recorded("a", 1.0, log), "b": Recorded("b", 2.0, log)}
    rounds = []
    measure(ways, 3, seconds=1.0, advance=lambda: rounds.append(len(log)))
    assert [name for name, _ in log] == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert rounds == [4, 6, 8]


def test_rounds_that_take_long_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) * 1.0)
    ways = {"a": Recorded("a", 1.0, [])}
    samples = {
        most: measure(ways, 25, seconds=1.0, most_seconds=most)["a"].samples
        for most in (0.5, 10.5, 1e9)
    }
    assert samples == {0.5: ENOUGH_ROUNDS, 10.5: ENOUGH_ROUNDS + 10, 1e9: 25}
    assert measure(ways, 3, seconds=1.0, most_seconds=0.5)["a"].samples == 3


def test_each_way_gets_its_own_number_of_runs() -> None:
    log: list[tuple[str, int]] = []
    ways = {"fast": Recorded("fast", 0.001, log), "slow": Recorded("slow", 1.0, log)}
    timings = measure(ways, 2, seconds=0.1)
    assert timings["fast"].runs >= 100 and timings["slow"].runs == 1
    assert timings["fast"].median == pytest.approx(0.001)
    assert timings["slow"].samples == 2


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 3e-4, 0.2])
def test_calibrate_reaches_the_sample_time(seconds: float) -> None:
    log: list[tuple[str, int]] = []
    count = calibrate(Recorded("way", seconds, log), 0.1 if seconds else 0.0)
    assert count * seconds >= 0.1 or not seconds
    assert len(log) < 40


def test_a_callable_is_timed_from_outside() -> None:
    assert 0.02 <= run_for(lambda: time.sleep(0.01), 2) < 1.0


def test_a_callable_is_timed_by_the_clock_that_is_named() -> None:
    assert (
        run_for(lambda: time.sleep(0.02), 1, "cpu") < 0.02 <= run_for(lambda: time.sleep(0.02), 1)
    )
    asked: list[str] = []
    ways = {"a": lambda: asked.append("a")}
    timing = measure(ways, 2, seconds=1e-4, clock="cpu")["a"]
    assert timing.median > 0 and len(asked) >= 2 * timing.runs


def test_summary() -> None:
    timing = summary([float(n) for n in range(1, 12)], runs=7)
    assert (timing.median, timing.p10, timing.p90) == (6.0, 2.0, 10.0)
    assert (timing.samples, timing.runs) == (11, 7)
