"""Compensated rounding: how much nearer results come on inputs that depend on each other."""

from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize
from hybrid.compress.compensation import BLOCK

F32 = np.float32


def correlated(rows: int, size: int, seed: int) -> hy.Tensor:
    """Inputs of which a quarter of the directions hold nearly all."""
    draw = np.random.RandomState(seed)
    mixing = np.random.RandomState(0).randn(size // 4, size)
    x = draw.randn(rows, size // 4) @ mixing / np.sqrt(size / 4) + 0.2 * draw.randn(rows, size)
    return hy.asarray(x.astype(F32))


def error(layer: nn.Module, made: nn.Module, x: hy.Tensor) -> float:
    return float(np.sqrt(np.mean((layer(x).numpy() - made(x).numpy()) ** 2)))


@pytest.mark.parametrize(
    ("given", "gain"),
    [
        ({"bits": 4, "group_size": 32}, 1.5),
        ({"bits": 3}, 1.5),
        ({"bits": 4, "group_size": 48, "scheme": "asymmetric"}, 1.5),
        ({"scheme": "nf4", "group_size": 16}, 1.5),
    ],
)
def test_the_error_of_the_results_becomes_smaller(given: dict[str, Any], gain: float) -> None:
    hy.random.seed(0)
    layer = nn.Linear(BLOCK + 64, 48)
    seen, other = correlated(512, BLOCK + 64, 1), correlated(512, BLOCK + 64, 2)
    plain = quantize(layer, "weight_only", **given)
    made = quantize(layer, "weight_only", data=[seen[:256], (seen[256:], 0)], **given)
    assert {k: v.type for k, v in made.state_dict().items()} == {
        k: v.type for k, v in plain.state_dict().items()
    }
    assert error(layer, plain, other) > gain * error(layer, made, other)


def test_inputs_that_do_not_depend_on_each_other_gain_nothing() -> None:
    """The Hessian is a multiple of the identity: each weight goes to the nearest."""
    layer = nn.Linear(8, 5)
    made = quantize(layer, "weight_only", bits=4, data=[np.eye(8, dtype=F32)])
    plain = quantize(layer, "weight_only", bits=4)
    assert (made.weight_q == plain.weight_q).all() and (made.weight == plain.weight).all()


def test_layers_that_no_batch_reaches_and_inputs_of_zeros() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.used, self.spare = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.used(x)

    net = Net()
    made = quantize(net, "weight_only", bits=4, data=[np.zeros((3, 6), F32)])
    plain = quantize(net, "weight_only", bits=4)
    for name, tensor in made.state_dict().items():
        assert (tensor == plain.state_dict()[name]).all(), name
