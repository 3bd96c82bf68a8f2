"""Commands that load a user's function put its folder on the path; tests do not keep it there."""

import functools
import sys

import pytest

from hybrid.bench import limits

USED = ("L1", "L2", "L3", "memory")


@pytest.fixture(autouse=True)
def path_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def quick_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are measured in no time, and not well; ``bench/test_limits.py`` is about them."""
    monkeypatch.setattr(limits, "levels", lambda _: dict.fromkeys(USED, 64 << 10))
    quick = functools.partial(limits.measure, seconds=0.001)
    monkeypatch.setattr("hybrid.cli.bench_compare.measure", quick)
    monkeypatch.setattr("hybrid.cli.commands.bench.measure_limits", quick)
