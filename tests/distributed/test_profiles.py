"""Profiles of ranks: communication beside computation, and all of them as one."""

from __future__ import annotations

import pytest

from tests.distributed.ranks import require_well


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=pytest.mark.nightly)])
def test_profiles_of_ranks(ranks: int) -> None:
    require_well(ranks, "profiled.py")
