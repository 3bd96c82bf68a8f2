"""Tensors that ranks share: values, training and models, by one process and by several."""

from __future__ import annotations

import pytest

import hybrid as hy
import hybrid.distributed as dist
from tests.distributed.ranks import require_well


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_shared_tensors_of_ranks(ranks: int) -> None:
    require_well(ranks, "sharded.py")


@pytest.mark.nightly
def test_one_process_has_all_of_each_tensor() -> None:
    require_well(1, "sharded.py")


def test_plans_without_shared_tensors_have_no_layout() -> None:
    mesh = dist.mesh((1,), ("tp",))
    w = dist.shard(hy.ones((4, 4)), mesh, (None, "tp"))
    function = hy.hybridize(lambda w: w @ w)
    assert dist.whole(function(w)).tolist() == [[4.0] * 4] * 4
    assert function.plans[0].layout() == ""
