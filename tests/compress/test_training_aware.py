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


UNSEEN = (
    "a prepared layer has seen no batch yet\n"
    "The range of what goes in is not known.\n"
    "Fix: train the model first, or call it in training mode once."
)

UNSEEN_AT = UNSEEN.replace("yet\n", "yet\n{}")


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("made", [network, lambda: nn.Conv1d(16, 4, 1)], ids=["linear", "conv"])
def test_evaluation_before_a_batch_is_refused(made: Callable[[], nn.Module], learned: bool) -> None:
    prepared = prepare_qat(made(), learned=learned).eval()
    x = hy.ones((2, 16, 3)) if isinstance(prepared, nn.Conv1d) else hy.ones((2, 16))
    layer = "PreparedLinear(in_features=16, out_features=32, bias=True)"
    place = "" if isinstance(prepared, nn.Conv1d) else f"In 0: {layer} got f32[2,16]\n"
    for call in (prepared, hy.hybridize(lambda x: prepared(x))):
        with pytest.raises(ArgumentError) as caught:
            call(x)
        text = UNSEEN_AT.format(place if call is prepared else "")  # a run raises it outside
        assert str(caught.value).startswith(text[:-1])
    prepared.train()(x)
    prepared.eval()
    want = prepared(x).numpy().tobytes()
    assert call(x).numpy().tobytes() == want == convert(prepared)(x).numpy().tobytes()


class Reading(nn.Module):
    """A parent that reads the weight of a child, which nobody calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.read = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return F.linear(self.called(x), self.read.weight, self.read.bias)


def test_a_layer_whose_weight_alone_is_read_is_named() -> None:
    prepared = prepare_qat(Reading()).train()
    prepared(hy.ones((2, 16)))
    with pytest.raises(ArgumentError) as caught:
        convert(prepared)
    assert str(caught.value) == (
        "the prepared layer 'read' has seen no batch yet\n"
        "The range of what goes in is not known: nobody has called the layer, though others may "
        "have read its weight.\n"
        "Fix: train the model first, or call it in training mode once; skip= a layer whose weight "
        "alone is used."
    )
    prepared = prepare_qat(Reading(), skip=["read"]).train()
    prepared(hy.ones((2, 16)))
    x = hy.asarray(task()[0])
    want = prepared.eval()(x).numpy().tobytes()
    assert convert(prepared)(x).numpy().tobytes() == want


# Attention ---------------------------------------------------------------------------------------


ATTENTIONS: dict[str, Callable[[], nn.Module]] = {
    "one weight": lambda: nn.MultiheadAttention(16, 4, batch_first=True),
    "three weights": lambda: nn.MultiheadAttention(16, 2, kdim=8, vdim=12, batch_first=True),
    "without biases": lambda: nn.MultiheadAttention(16, 4, bias=False, batch_first=True),
    "one more key": lambda: nn.MultiheadAttention(16, 4, add_bias_kv=True, batch_first=True),
}


def _attended(layer: nn.Module, x: hy.Tensor, across: bool) -> hy.Tensor:
    key = x[:, :3, : layer.kdim] if across or layer.kdim != 16 else x
    value = x[:, :3, : layer.vdim] if key is not x else x
    return layer(x, key, value)[0]


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("kind", ATTENTIONS)
def test_attention_trains_with_its_rounding(kind: str, across: bool, learned: bool) -> None:
    hy.random.seed(0)
    plain = ATTENTIONS[kind]().eval()
    x = hy.asarray(np.random.RandomState(0).randn(6, 5, 16).astype(np.float32))
    prepared = prepare_qat(plain, learned=learned).train()
    optimizer = hy.optim.SGD(prepared.parameters(), lr=1e-3)
    names = [name for name, _ in prepared.named_parameters()]
    assert any(name.endswith("proj_weight_step") for name in names) == learned
    for _ in range(2):
        optimizer.zero_grad()
        (_attended(prepared, x, across) ** 2).mean().backward()
        optimizer.step()
    for name, parameter in prepared.named_parameters():
        assert parameter.grad.numpy().any() or name in ("in_proj_bias", "bias_k"), name
    prepared.eval()
    got, made = _attended(prepared, x, across).numpy(), convert(prepared)
    assert _attended(made, x, across).numpy().tobytes() == got.tobytes()
    want = _attended(plain, x, across).numpy()
    assert (got * want).sum() > 0.99 * np.sqrt((got * got).sum() * (want * want).sum())
    assert not any(name.endswith("_step") for name in made.state_dict())


def test_a_transformer_layer_trains_as_eagerly() -> None:
    x = hy.asarray(np.random.RandomState(0).randn(4, 5, 16).astype(np.float32))
    found = []
    for hybridized in (False, True):
        hy.random.seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        prepared = prepare_qat(layer).train()
        optimizer = hy.optim.SGD(prepared.parameters(), lr=1e-2)

        def step(x: hy.Tensor, net: Any = prepared, optimizer: Any = optimizer) -> hy.Tensor:
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = hy.hybridize(step) if hybridized else step
        losses = [run(x).item() for _ in range(3)]
        want = prepared.eval()(x).numpy().tobytes()
        assert convert(prepared)(x).numpy().tobytes() == want
        found.append((losses, want))
    assert found[0] == found[1]
