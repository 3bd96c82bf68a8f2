"""Pipelines of several ranks: the bits of one process, by all schedules."""

from __future__ import annotations

import pytest

from tests.distributed.ranks import require_well


@pytest.mark.parametrize(
    "ranks", [2, *[pytest.param(n, marks=pytest.mark.nightly) for n in (3, 4)]]
)
def test_stages_of_ranks(ranks: int) -> None:
    require_well(ranks, "pipelined.py")


@pytest.mark.nightly
def test_one_process_computes_all_stages() -> None:
    require_well(1, "pipelined.py")
    require_well(1, "held_stages.py")


@pytest.mark.parametrize(
    "ranks", [2, *[pytest.param(n, marks=pytest.mark.nightly) for n in (3, 4)]]
)
def test_stages_hold_their_own(ranks: int) -> None:
    require_well(ranks, "held_stages.py")
