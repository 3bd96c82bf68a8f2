"""Times as people read them."""

import pytest

from hybrid.bench.measure import SampleTiming
from hybrid.bench.registry import Target
from hybrid.bench.report import beside_target, duration, figures, spread
from hybrid.bench.runner import Result, WayLine


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1.2345e-6, "1.23 us"),
        (0.99999e-6, "1000 ns"),
        (4.2e-10, "0.42 ns"),
        (0.0, "0.00 ns"),
        (0.0123, "12.3 ms"),
        (75.0, "75.0 s"),
        (1234.5e-6, "1.23 ms"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_duration_in_a_given_unit() -> None:
    assert duration(0.0005, "s") == "0.00 s"
    assert duration(2.0, "ms") == "2000 ms"


@pytest.mark.parametrize(
    ("value", "expected"), [(0.1234, "0.12"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100")]
)
def test_figures(value: float, expected: str) -> None:
    assert figures(value) == expected


def test_spread_keeps_the_unit_of_the_median() -> None:
    line = WayLine("eager", SampleTiming(1.2e-3, 0.9e-3, 1.5e-3, 5, 1), 0.0, 1.0, None)
    assert spread(line) == "0.90 - 1.50"


@pytest.mark.parametrize(
    ("seconds", "target", "expected"),
    [
        (1.2e-6, Target(0.6), "0.60 of eager, target 0.60"),
        (1.3e-6, Target(0.6), "0.65 of eager, target 0.60, over"),
        (2.2e-6, Target(1.0, more=0.3e-6), "200 ns more than eager, target 300 ns"),
        (1.8e-6, Target(1.0, more=0.3e-6), "-200 ns more than eager, target 300 ns"),
        (2.4e-6, Target(1.0, more=0.3e-6), "400 ns more than eager, target 300 ns, over"),
        (2.4e-6, Target(0.9, beside="torch"), "0.80 of torch, target 0.90"),
    ],
)
def test_targets_are_beside_another_way(seconds: float, target: Target, expected: str) -> None:
    lines = tuple(
        WayLine(way, SampleTiming(time, time, time, 5, 1), 0.0, 1.0, None)
        for way, time in (("eager", 2e-6), ("torch", 3e-6), ("hybridized", seconds))
    )
    assert beside_target(Result("sizes", "sums", 1, lines, {}), lines[-1], target) == expected
