"""Strategies: what ranks compute by them is what one process computes, and takes what is said."""

from __future__ import annotations

import pytest

from hybrid.distributed.strategies.link_speeds import LinkSpeeds, volume
from hybrid.errors import ArgumentError
from tests.distributed.ranks import launched, require_well

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    ("ranks", "parts"),
    [
        (2, ("perceptrons", "branches", "links", "memory", "mistakes", "predictions")),
        pytest.param(2, ("language_models",), marks=nightly),
        pytest.param(4, ("language_models",), marks=nightly),
        pytest.param(4, ("perceptrons", "branches", "links", "memory", "mistakes"), marks=nightly),
    ],
)
def test_steps_run_by_strategies(ranks: int, parts: tuple[str, ...]) -> None:
    done = launched(ranks, "strategies.py", *parts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all is well") == ranks


@pytest.mark.nightly
def test_one_process_has_one_strategy() -> None:
    require_well(1, "strategies.py")


def test_links_tell_times_that_were_not_measured() -> None:
    """Between sizes and beyond them, and of more ranks: alpha log2 N + volume / beta."""
    points = {"all_reduce": ((0.0, 1e-6), (1e6, 1e-6 + 1e-3), (2e6, 1e-6 + 2e-3))}
    links = LinkSpeeds(2, points)
    assert links.alpha == 1e-6 and links.beta == pytest.approx(1e9, rel=1e-3)
    assert links.seconds("all_reduce", 500_000) == pytest.approx(1e-6 + 5e-4)
    assert links.seconds("all_reduce", 4_000_000) == pytest.approx(1e-6 + 4e-3)
    for ranks in (2, 4, 64):
        want = ranks.bit_length() - 1, 2 * (ranks - 1) / ranks * 1e5 / 1e9
        assert links.seconds("all_reduce", 1e5, ranks) == pytest.approx(want[0] * 1e-6 + want[1])
    assert links.seconds("all_reduce", 1e9, 1) == 0.0
    assert volume("all_gather", 10, 4) == 30 and volume("broadcast", 10, 4) == 10
    with pytest.raises(ArgumentError) as caught:
        links.seconds("all_to_all", 8)
    assert str(caught.value) == (
        "no time is known of 'all_to_all' between ranks\n"
        "Measured with 2 ranks were all_reduce.\nFix: ask for one of those."
    )
