"""Quantized layers have no derivative by what goes into them: asking for one says how to train."""

from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.compress import prepare_qat, quantize
from hybrid.errors import ArgumentError, GradientError

TEXT = (
    "a quantized layer has no derivative by what goes into it\n"
    "It computes with integers, which small changes do not move.\n"
    "Fix: train the model of floats, or prepare_qat(model), and then quantize or convert() it."
)


class Attention(nn.Module):
    """Attention of a tensor to itself."""

    def __init__(self) -> None:
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.inner(x, x, x)[0]


class Last(nn.Module):
    """The states of a recurrent network."""

    def __init__(self, inner: nn.Module) -> None:
        self.inner = inner

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.inner(x)[0]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(8, 4),
    "attention": Attention,
    "convolution": lambda: nn.Conv1d(3, 4, 3, padding=1),
    "lstm": lambda: Last(nn.LSTM(8, 4, batch_first=True)),
    "gru": lambda: Last(nn.GRU(8, 4, batch_first=True)),
}


def batch() -> hy.Tensor:
    return hy.asarray(np.random.RandomState(0).randn(2, 3, 8).astype(np.float32))


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("method", ["dynamic", "static"])
@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_through_a_quantized_layer_is_refused(
    name: str, method: str, hybridized: bool
) -> None:
    """Layers before it would learn from its scales alone, or not at all."""
    made = quantize(MODELS[name](), method, data=[batch()] if method == "static" else None)
    first = nn.Linear(8, 8)
    network = nn.Sequential(first, made)
    if hybridized:
        network.hybridize()
    with pytest.raises(GradientError) as caught:
        (first(batch()) + network(batch()).sum()).sum().backward()
    assert str(caught.value) == TEXT
    assert first.weight.grad is None


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_forward_mode_refuses_it_as_well(hybridized: bool) -> None:
    layer = quantize(nn.Linear(8, 4))

    def tangent(x: hy.Tensor) -> hy.Tensor:
        return hy.jvp(layer, (x,), (x,))[1]

    with pytest.raises(GradientError, match="no derivative by what goes into it"):
        (hy.hybridize(tangent) if hybridized else tangent)(batch())


def test_a_model_that_evaluates_runs_outside_of_no_grad() -> None:
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    mixed, x = quantize(network, skip=["0"]), batch()
    with hy.no_grad():
        want = mixed(x).numpy()
    assert (mixed(x).numpy() == want).all()
    assert (hy.vmap(mixed)(x).numpy() == want).all()


def test_a_prepared_model_trains_but_not_in_evaluation() -> None:
    network = prepare_qat(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)))
    network(batch()).sum().backward()
    network.eval()
    x = batch()
    x.requires_grad = True
    with pytest.raises(GradientError, match="no derivative by what goes into it"):
        network(x).sum().backward()


def test_an_optimizer_says_which_models_of_integers_train() -> None:
    network = quantize(nn.Linear(8, 4))
    with pytest.raises(ArgumentError) as caught:
        optim.SGD(network.parameters(), lr=0.1)
    assert str(caught.value) == (
        "the optimizer got no parameters\n"
        "A model with all layers quantized has none; one of prepare_qat(model) has.\n"
        "Fix: pass model.parameters(), a list of tensors, or a list of dicts with 'params'."
    )
