"""Running statistics: what training does to them, and what evaluation makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError
from tests.helpers import same, tensor

BATCHES = [tensor(6, 3, 4, seed=seed) * (seed + 1) + seed for seed in range(4)]


def test_statistics_are_an_average_of_the_batches() -> None:
    layer = nn.BatchNorm1d(3, momentum=0.3)
    mean, variance = np.zeros(3), np.ones(3)
    for batch in BATCHES:
        layer(batch)
        values = batch.numpy().astype(np.float64)
        mean = 0.7 * mean + 0.3 * values.mean((0, 2))
        variance = 0.7 * variance + 0.3 * values.var((0, 2), ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), variance, rtol=1e-4)
    assert layer.num_batches_tracked.item() == 4
    assert layer.num_batches_tracked.dtype is hy.int64


@pytest.mark.parametrize("hybridized", [False, True])
def test_without_momentum_it_is_the_mean_of_all_batches(hybridized) -> None:
    layer = nn.BatchNorm1d(3, momentum=None)
    if hybridized:
        layer.hybridize()
    for batch in BATCHES:
        layer(batch)
    values = [batch.numpy().astype(np.float64) for batch in BATCHES]
    means = np.mean([v.mean((0, 2)) for v in values], axis=0)
    variances = np.mean([v.var((0, 2), ddof=1) for v in values], axis=0)
    np.testing.assert_allclose(layer.running_mean.numpy(), means, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), variances, rtol=1e-4)
    if hybridized:
        assert len(layer.plans) == 1


def test_evaluation_leaves_them_alone() -> None:
    layer = nn.BatchNorm1d(3)
    layer(BATCHES[0])
    before = {name: t.numpy().copy() for name, t in layer.state_dict().items()}
    layer.eval()
    one = layer(BATCHES[1])
    assert all(np.array_equal(t.numpy(), before[name]) for name, t in layer.state_dict().items())
    assert same(layer(BATCHES[1][:1]), one[:1])  # no element depends on the others


def test_without_statistics_the_batch_counts_in_evaluation_too() -> None:
    layer = nn.BatchNorm1d(3, track_running_stats=False)
    assert layer.running_mean is None and list(layer.state_dict()) == ["weight", "bias"]
    trained = layer(BATCHES[0])
    assert same(layer.eval()(BATCHES[0]), trained)


def test_statistics_are_not_taken_when_tracking_is_switched_off() -> None:
    layer = nn.BatchNorm1d(3)
    layer.track_running_stats = False
    layer(BATCHES[0])
    assert layer.running_mean.tolist() == [0.0] * 3 and layer.num_batches_tracked.item() == 0


def test_training_and_evaluation_are_two_plans() -> None:
    layer = nn.Sequential(nn.Conv1d(3, 3, 1), nn.BatchNorm1d(3)).hybridize()
    twin = nn.Sequential(nn.Conv1d(3, 3, 1), nn.BatchNorm1d(3))
    twin.load_state_dict(layer.state_dict())
    for training in (True, False, True, False):
        layer.train(training)
        twin.train(training)
        for batch in BATCHES:
            assert same(layer(batch), twin(batch))
    assert all(map(same, layer.state_dict().values(), twin.state_dict().values()))
    assert len(layer.plans) == 2


def test_statistics_are_reset() -> None:
    layer = nn.BatchNorm1d(3)
    layer(BATCHES[0])
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0.0] * 3 and layer.running_var.tolist() == [1.0] * 3
    assert layer.num_batches_tracked.item() == 0


def test_instance_norm_averages_over_the_batch() -> None:
    layer = nn.InstanceNorm1d(3, track_running_stats=True)
    layer(BATCHES[1])
    values = BATCHES[1].numpy().astype(np.float64)
    mean = 0.1 * values.mean(2).mean(0)
    variance = 0.9 + 0.1 * values.var(2, ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), variance, rtol=1e-4)
    layer.eval()
    alone = layer(BATCHES[1][0])
    assert alone.shape == (3, 4) and same(alone, layer(BATCHES[1])[0])


def test_a_batch_of_one_value_is_refused() -> None:
    with pytest.raises(hy.HybridError, match="batch_norm got 1 value per channel"):
        nn.BatchNorm1d(3)(tensor(1, 3))
    assert nn.BatchNorm1d(3).eval()(tensor(1, 3)).shape == (1, 3)


def test_rms_norm_adds_what_it_is_given() -> None:
    x = tensor(2, 4)
    values = x.numpy().astype(np.float64)
    wanted = values / np.sqrt((values**2).mean(1, keepdims=True) + 0.5)
    found = nn.RMSNorm(4, eps=0.5, elementwise_affine=False)(x)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


class Versioned(dict):
    """A state with what PyTorch notes about it."""

    _metadata: dict


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_states_of_old_have_no_count_of_batches(kind):
    """It came with version 2, which PyTorch notes; plain dicts are taken for old ones, as there."""
    net = nn.Sequential(nn.Sequential(kind(2, affine=True, track_running_stats=True)))
    net[0][0].num_batches_tracked.assign(5)
    state = net.state_dict()
    del state["0.0.num_batches_tracked"]
    for version in (None, 1, 2):
        given = Versioned(state) if version else state
        if version:
            given._metadata = {"": {"version": 1}, "0.0": {"version": version}}
        net[0][0].running_mean.assign([7.0, 7.0])
        if version == 2:
            with pytest.raises(ArgumentError, match=r"missing: 0\.0\.num_batches_tracked"):
                net.load_state_dict(given)
            assert net.load_state_dict(given, strict=False)[0] == ["0.0.num_batches_tracked"]
        else:
            assert net.load_state_dict(given) == ([], [])
        assert net[0][0].running_mean.tolist() == [0.0, 0.0]
        assert net[0][0].num_batches_tracked.item() == 5 and len(state) == 4
