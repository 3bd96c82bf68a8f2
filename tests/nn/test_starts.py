"""The values that parameters start with: their distributions are PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn


def even(bound):
    return "even", bound


def by_xavier(*shape):
    return even(math.sqrt(6 / sum(shape)))


BOUND = 1 / math.sqrt(50)
RECURRENT = {name: even(BOUND) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
AFFINE = {"weight": 1.0, "bias": 0.0}
STATISTICS = {"running_mean": 0.0, "running_var": 1.0, "num_batches_tracked": 0.0}

STARTS = [  # what is made, and how each cell of its state starts: a number, or a distribution
    (lambda: nn.Linear(400, 300), dict.fromkeys(("weight", "bias"), even(1 / 20))),
    (
        lambda: nn.Bilinear(25, 40, 300),
        {"weight": even(1 / 5), "bias": even(1 / 5)},
    ),
    (
        lambda: nn.Conv1d(40, 300, 10, groups=4),
        {"weight": even(1 / 10), "bias": even(1 / 10)},
    ),
    (lambda: nn.Conv2d(16, 300, (5, 5)), {"weight": even(1 / 20), "bias": even(1 / 20)}),
    (lambda: nn.Conv3d(5, 300, (5, 4, 4)), {"weight": even(1 / 20), "bias": even(1 / 20)}),
    # Of a transposed weight [in, out, ...] the second axis is counted, as PyTorch does.
    (
        lambda: nn.ConvTranspose2d(4, 400, (2, 2)),
        {"weight": even(1 / 40), "bias": even(1 / 40)},
    ),
    (lambda: nn.Embedding(100, 90), {"weight": ("normal", 1.0)}),
    (lambda: nn.EmbeddingBag(100, 90), {"weight": ("normal", 1.0)}),
    (lambda: nn.PReLU(3), {"weight": 0.25}),
    (lambda: nn.BatchNorm2d(7), AFFINE | STATISTICS),
    (lambda: nn.InstanceNorm1d(7, affine=True, track_running_stats=True), AFFINE | STATISTICS),
    (lambda: nn.LayerNorm((3, 4)), AFFINE),
    (lambda: nn.RMSNorm(4), {"weight": 1.0}),
    (lambda: nn.GroupNorm(2, 4), AFFINE),
    *[
        (
            lambda kind=kind: kind(30, 50),
            {f"{name}_l0": start for name, start in RECURRENT.items()},
        )
        for kind in (nn.RNN, nn.LSTM, nn.GRU)
    ],
    (
        lambda: nn.LSTM(30, 50, proj_size=20, bias=False),
        dict.fromkeys(("weight_ih_l0", "weight_hh_l0", "weight_hr_l0"), even(BOUND)),
    ),
    *[
        (lambda kind=kind: kind(30, 50), RECURRENT)
        for kind in (nn.RNNCell, nn.LSTMCell, nn.GRUCell)
    ],
    (
        lambda: nn.MultiheadAttention(100, 4, add_bias_kv=True),
        {
            "in_proj_weight": by_xavier(300, 100),
            "in_proj_bias": 0.0,
            "bias_k": ("normal", math.sqrt(2 / 200)),
            "bias_v": ("normal", math.sqrt(2 / 200)),
            "out_proj.weight": even(1 / 10),
            "out_proj.bias": 0.0,
        },
    ),
    (
        lambda: nn.MultiheadAttention(100, 4, kdim=60, bias=False),
        {
            "q_proj_weight": by_xavier(100, 100),
            "k_proj_weight": by_xavier(100, 60),
            "v_proj_weight": by_xavier(100, 100),
            "out_proj.weight": even(1 / 10),
        },
    ),
]


def require(values: np.ndarray, start) -> None:
    if isinstance(start, float):
        assert (values == start).all()
        return
    kind, size = start
    few = values.size < 1000
    error = 0.35 if few else 0.05
    assert abs(values.mean()) < error * size
    if kind == "normal":
        assert abs(values.std() - size) < error * size
        return
    assert np.abs(values).max() <= size * (1 + 1e-6)
    assert np.abs(values).max() > size * (0.8 if few else 0.97)
    assert abs(values.std() - size / math.sqrt(3)) < error * size


@pytest.mark.parametrize(("make", "starts"), STARTS)
def test_starts(make, starts) -> None:
    hy.random.seed(0)
    module = make()
    state = module.state_dict()
    assert set(state) == set(starts)
    for name, start in starts.items():
        require(state[name].numpy(), start)
    hy.random.seed(0)
    again = make().state_dict()
    assert all(again[name].numpy().tobytes() == state[name].numpy().tobytes() for name in state)
    if hasattr(module, "reset_parameters") and any(isinstance(s, tuple) for s in starts.values()):
        hy.random.seed(1)
        module.reset_parameters()
        drawn = [name for name in starts if "out_proj" not in name and starts[name] != 0.0]
        for name in drawn:
            assert (module.state_dict()[name].numpy() != state[name].numpy()).any()
            require(module.state_dict()[name].numpy(), starts[name])


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: nn.Linear(3, 2, **given),
        lambda **given: nn.Conv2d(3, 2, 3, **given),
        lambda **given: nn.ConvTranspose1d(3, 2, 3, **given),
        lambda **given: nn.BatchNorm1d(3, **given),
        lambda **given: nn.LayerNorm(3, **given),
        lambda **given: nn.Embedding(3, 2, **given),
        lambda **given: nn.GRU(3, 2, **given),
        lambda **given: nn.MultiheadAttention(4, 2, **given),
        lambda **given: nn.Transformer(4, 2, 1, 1, 8, **given),
    ],
)
def test_dtypes_and_devices(make) -> None:
    found = make(dtype=hy.float64, device="cpu")
    assert {p.dtype for p in found.parameters()} == {hy.float64}
    assert {p.dtype for p in make().parameters()} == {hy.float32}
    assert all(p.requires_grad for p in found.parameters())
    with pytest.raises(hy.HybridError, match="device"):
        make(device="tpu")
