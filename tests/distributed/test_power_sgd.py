"""Gradients summed up as products of thin matrices: what is left out comes later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed.power_sgd import orthonormal
from hybrid.errors import ArgumentError, ArgumentTypeError, HybridError
from hybrid.memory.channels import WORLD, Channel
from tests.distributed.ranks import require_well

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    "ranks", [2, pytest.param(3, marks=nightly), pytest.param(4, marks=nightly)]
)
def test_ranks_send_thin_matrices(ranks: int, tmp_path: Path) -> None:
    require_well(ranks, "compressed.py", str(tmp_path))


def _bound(**how: Any) -> dist.PowerSGD:
    compress = dist.PowerSGD(**how)
    compress.bind(Channel(WORLD), [("weight", hy.zeros((12, 3, 5))), ("bias", hy.zeros(12))])
    return compress


def test_nothing_is_lost() -> None:
    draw = np.random.default_rng(0)
    given = [hy.asarray(draw.standard_normal((12, 3, 5)).astype("f4")) for _ in range(6)]
    compress = _bound(rank=2)
    assert compress.names == {0: "weight"}
    assert (compress.nbytes, compress.whole_nbytes) == (4 * (2 * 27 + 12 + 2), 4 * (180 + 12 + 2))
    found = [compress.summed({0: g}, hy.ones(1))[0][0].numpy().copy() for g in given]
    for made in found:
        assert np.linalg.matrix_rank(made.reshape(12, 15), tol=1e-4) == 2
    total = np.sum([g.numpy() for g in given], axis=0, dtype="f8")
    left = compress.errors[0].numpy().reshape(12, 3, 5)
    np.testing.assert_allclose(np.sum(found, axis=0) + left, total, atol=1e-5)
    assert abs(left).max() > 0.1
    forgets = _bound(rank=2, error_feedback=False)
    for g in given:
        forgets.summed({0: g}, hy.ones(1))
    assert not forgets.errors[0].numpy().any()


def test_matrices_of_low_rank_come_whole() -> None:
    draw = np.random.default_rng(0)
    compress = _bound(rank=3)
    for number in range(4):  # one of zeros on the way
        low = draw.standard_normal((12, 2)) @ draw.standard_normal((2, 15)) * (number != 1)
        gradient = hy.asarray(low.astype("f4").reshape(12, 3, 5))
        made = compress.summed({0: gradient}, hy.ones(1))[0][0]
        np.testing.assert_allclose(made.numpy(), gradient.numpy(), atol=2e-6)


def test_what_is_infinite_is_seen_and_leaves_nothing() -> None:
    draw = np.random.default_rng(0)
    good = draw.standard_normal((12, 3, 5)).astype("f4")
    compress, other = _bound(rank=2), _bound(rank=2)
    for number, value in enumerate((0.0, np.inf, np.nan, 0.0)):
        bad = good.copy()
        bad[3, 1, 2] += value
        made = compress.summed({0: hy.asarray(bad)}, hy.ones(1))[0][0].numpy()
        if number in (0, 3):
            assert (made == other.summed({0: hy.asarray(good)}, hy.ones(1))[0][0].numpy()).all()
        else:
            assert np.isnan(made).all()
    assert (compress.errors[0].numpy() == other.errors[0].numpy()).all()


@pytest.mark.parametrize("dtype", [hy.float32, hy.float64])
def test_columns_are_orthonormal(dtype: Any) -> None:
    draw = np.random.default_rng(0)
    a = draw.standard_normal((30, 4))
    near, dependent = a.copy(), a.copy()
    near[:, 2] = near[:, 0] + 1e-5 * draw.standard_normal(30)
    dependent[:, 1], dependent[:, 3] = 0, 2 * dependent[:, 0]
    given = [hy.asarray(x).astype(dtype) for x in (a, near, dependent, 1e-20 * a[:7])]
    for at, made in orthonormal(dict(enumerate(given))).items():
        x = made.astype(hy.float64).numpy()
        wanted = np.diag([1.0, 0.0, 1.0, 0.0]) if at == 2 else np.eye(4)
        np.testing.assert_allclose(x.T @ x, wanted, atol=1e-6 if dtype is hy.float32 else 1e-9)
        before = given[at].astype(hy.float64).numpy()
        left = before - x @ (x.T @ before)
        assert abs(left).max() <= 1e-6 * abs(before).max()


WRONG = [
    (lambda m, o: dist.PowerSGD(0), ArgumentError, "rank of PowerSGD is 0"),
    (lambda m, o: dist.PowerSGD(2.0), ArgumentTypeError, "rank of PowerSGD is 2.0"),
    (lambda m, o: dist.PowerSGD(seed=-1), ArgumentError, "seed of PowerSGD is -1"),
    (lambda m, o: dist.PowerSGD(seed=None), ArgumentTypeError, "seed of PowerSGD is None"),
    (lambda m, o: dist.PowerSGD(error_feedback=1), ArgumentTypeError, "give True or False"),
    (lambda m, o: dist.data_parallel(m, o, compress=4), ArgumentTypeError, "PowerSGD(rank=4)"),
    (
        lambda m, o: dist.data_parallel(m, o, shards=4, compress=dist.PowerSGD()),
        ArgumentError,
        'use shards="ranks" and zero=0',
    ),
    (
        lambda m, o: dist.data_parallel(m, o, zero=1, compress=dist.PowerSGD(error_feedback=False)),
        ArgumentError,
        "PowerSGD(rank=4, seed=0, error_feedback=False) with shards='ranks' and zero=1",
    ),
]


@pytest.mark.parametrize(("call", "kind", "said"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments(call: Any, kind: type[HybridError], said: str) -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(kind) as caught:
        call(model, hy.optim.SGD(model.parameters(), lr=0.1))
    assert said in str(caught.value) and "\nFix: " in str(caught.value)


def test_what_no_rank_uses_leaves_no_trace() -> None:
    compress = _bound(rank=1)
    draw = np.random.default_rng(0)
    compress.summed({0: hy.asarray(draw.standard_normal((12, 3, 5)).astype("f4"))}, hy.ones(1))
    before = compress.errors[0].numpy().copy(), compress.thin[0].numpy().copy()
    assert before[0].any()
    compress.summed({0: hy.zeros((12, 3, 5))}, hy.zeros(1))
    assert (compress.errors[0].numpy() == before[0]).all()
    assert (compress.thin[0].numpy() == before[1]).all()
