"""Commands that measure do so in no time."""

import functools

import pytest

from hybrid.bench import limits

USED = ("L1", "L2", "L3", "memory")


@pytest.fixture
def quick_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are measured in no time, and not well; ``bench/test_limits.py`` is about them."""
    monkeypatch.setattr(limits, "levels", lambda _: dict.fromkeys(USED, 64 << 10))
    quick = functools.partial(limits.measure, seconds=0.001)
    monkeypatch.setattr("hybrid.cli.bench_compare.measure", quick)
    monkeypatch.setattr("hybrid.cli.commands.bench.measure_limits", quick)
