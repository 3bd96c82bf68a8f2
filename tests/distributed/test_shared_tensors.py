"""Tensors that ranks share: values, training and models, by one process and by several."""

from __future__ import annotations

import sys

import pytest

import hybrid as hy
import hybrid.distributed as dist
from tests.distributed.ranks import JOBS, launched, run


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_shared_tensors_of_ranks(ranks: int) -> None:
    done = launched(ranks, "sharded.py")
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: all is well" in done.stdout


@pytest.mark.nightly
def test_one_process_has_all_of_each_tensor() -> None:
    done = run([sys.executable, str(JOBS / "sharded.py")])
    assert (done.stdout, done.stderr) == ("rank 0 of 1: all is well\n", "")


def test_plans_without_shared_tensors_have_no_layout() -> None:
    mesh = dist.mesh((1,), ("tp",))
    w = dist.shard(hy.ones((4, 4)), mesh, (None, "tp"))
    function = hy.hybridize(lambda w: w @ w)
    assert dist.whole(function(w)).tolist() == [[4.0] * 4] * 4
    assert function.plans[0].layout() == ""
