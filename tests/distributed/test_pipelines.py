"""Pipelines of several ranks: the bits of one process, by all schedules."""

from __future__ import annotations

import sys

import pytest

from tests.distributed.ranks import JOBS, launched, run


@pytest.mark.parametrize(
    "ranks", [2, *[pytest.param(n, marks=pytest.mark.nightly) for n in (3, 4)]]
)
def test_stages_of_ranks(ranks: int) -> None:
    done = launched(ranks, "pipelined.py")
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: all is well" in done.stdout


@pytest.mark.nightly
def test_one_process_computes_all_stages() -> None:
    done = run([sys.executable, str(JOBS / "pipelined.py")])
    assert (done.stdout, done.stderr) == ("rank 0 of 1: all is well\n", "")
