"""Training with rounding in view: the same bits when converted, gradients, and what is refused."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import convert, prepare_qat, quantize
from hybrid.compress.quantized_layers import QuantizedLinear
from hybrid.errors import ArgumentError

F = nn.functional


def network() -> nn.Sequential:
    hy.random.seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def task() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.RandomState(0).randn(256, 16).astype(np.float32)
    return x, (x @ np.random.RandomState(1).randn(16, 4)).argmax(axis=1)


def trained(net: nn.Module, steps: int = 60, hybridized: bool = True) -> list[float]:
    x, y = (hy.asarray(part) for part in task())
    optimizer = hy.optim.Adam(net.parameters(), lr=0.01)

    def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = hy.hybridize(step) if hybridized else step
    return [float(step(x, y)) for _ in range(steps)]


WAYS: dict[str, dict[str, Any]] = {
    "learnt": {},
    "followed": {"learned": False},
    "few bits": {"bits": 2, "activation_bits": 4},
    "few bits, followed": {"bits": 3, "activation_bits": 5, "learned": False},
}


@pytest.mark.parametrize("way", WAYS)
def test_prepared_for_evaluation_and_converted_are_the_same_bits(way: str) -> None:
    prepared = prepare_qat(network(), **WAYS[way])
    losses = trained(prepared)
    assert losses[-1] < 0.3 * losses[0]
    x, labels = task()
    prepared.eval()
    want = prepared(hy.asarray(x)).numpy()
    made = convert(prepared)
    assert made(hy.asarray(x)).numpy().tobytes() == want.tobytes()
    assert (want.argmax(axis=1) == labels).mean() > 0.9
    for net in (prepared, made):
        net.hybridize()
        for _ in range(2):
            assert net(hy.asarray(x)).numpy().tobytes() == want.tobytes()
    assert all(isinstance(made[i], QuantizedLinear) for i in (0, 2)) and not made.training
    high = 2 ** (WAYS[way].get("bits", 8) - 1) - 1
    assert np.abs(made[0].weight_q.numpy()).max() <= high


@pytest.mark.parametrize("way", WAYS)
def test_training_has_the_same_bits_hybridized(way: str) -> None:
    one, other = prepare_qat(network(), **WAYS[way]), prepare_qat(network(), **WAYS[way])
    assert trained(one, 5) == trained(other, 5, hybridized=False)
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in pairs)


def test_rounding_in_training_is_that_of_the_integers() -> None:
    """What a layer trains with stands for the integers that it will have."""
    layer = prepare_qat(nn.Linear(16, 8))
    x = hy.asarray(task()[0])
    trains = layer(x).numpy()
    layer.eval()
    assert np.allclose(trains, layer(x).numpy(), rtol=1e-4, atol=1e-5)


def test_two_bits_give_back_at_least_half_of_what_rounding_takes() -> None:
    x, labels = task()
    net = network()
    trained(net, 150)

    def share(net: nn.Module) -> float:
        return float((net.eval()(hy.asarray(x)).numpy().argmax(axis=1) == labels).mean())

    rounded = share(quantize(net, bits=2))
    aware = prepare_qat(net.train(), bits=2, activation_bits=4)
    trained(aware, 150)
    whole = share(net)
    assert share(aware) - rounded >= (whole - rounded) / 2 > 0
    assert share(aware) > whole - 0.03


def test_state_copies_and_names() -> None:
    prepared = prepare_qat(network(), skip=["2"])
    assert list(dict(prepared.named_parameters())) == [
        "0.weight", "0.bias", "0.weight_step", "0.input_step", "2.weight", "2.bias",
    ]  # fmt: skip
    trained(prepared, 3)
    fresh = prepare_qat(network(), skip=["2"])
    fresh.load_state_dict(prepared.state_dict())
    x = hy.asarray(task()[0])
    want = prepared.eval()(x).numpy()
    for other in (fresh.eval(), copy.deepcopy(prepared)):
        assert (other(x).numpy() == want).all()
    assert type(convert(prepared)[2]) is nn.Linear


def test_steps_stay_positive() -> None:
    prepared = prepare_qat(nn.Linear(16, 4))
    x = hy.asarray(task()[0])
    prepared(x)
    prepared.weight_step.assign(-prepared.weight_step.detach())
    assert np.isfinite(prepared(x).numpy()).all()
    assert (convert(prepared).weight_scale.numpy() > 0).all()


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "bits": (lambda: prepare_qat(network(), bits=1), "bits is 1"),
    "activation bits": (
        lambda: prepare_qat(network(), activation_bits=16),
        "activation_bits is 16",
    ),
    "skip": (lambda: prepare_qat(network(), skip=["9"]), "skip names '9'"),
    "all skipped": (lambda: prepare_qat(network(), skip=["0", "2"]), "can be prepared"),
    "nothing there": (lambda: prepare_qat(nn.ReLU()), "no linear layer"),
    "twice": (lambda: prepare_qat(prepare_qat(network())), "layer '0' is prepared already"),
    "integers": (lambda: prepare_qat(quantize(network())), "quantized already"),
    "a plain model": (lambda: convert(network()), "this Sequential is not prepared"),
    "no batch": (lambda: convert(prepare_qat(network())), "has seen no batch yet"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, text = BAD[what]
    with pytest.raises(ArgumentError, match=text):
        call()
