"""Smoothing: the same bits in floats, less error in integers, and what is left is named."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize, smooth
from hybrid.compress.smoothing import channel_scales
from hybrid.errors import ArgumentError, ArgumentTypeError

F = nn.functional
LARGE = [3, 17]  # channels that are 60 times the others


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def uneven(norm: nn.Module) -> None:
    weight = np.ones(norm.weight.shape, np.float32)
    weight[LARGE] = 60
    norm.weight = nn.Parameter(hy.asarray(weight))


def transformer(seed: int = 0) -> nn.Module:
    hy.random.seed(seed)
    net = nn.TransformerEncoderLayer(32, 4, 64, norm_first=True, batch_first=True)
    uneven(net.norm1)
    uneven(net.norm2)
    return net.eval()


def smoothed(net: nn.Module, *args: Any, **settings: Any) -> tuple[nn.Module, str]:
    """What ``smooth`` gives, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = smooth(net, *args, **settings)
    return found, "".join(str(one.message) for one in caught)


def noise(net: nn.Module, x: hy.Tensor, want: np.ndarray) -> float:
    away = net(x).numpy() - want
    return float(np.sqrt((away**2).sum() / (want**2).sum()))


@pytest.mark.parametrize("seed", range(3))
def test_a_transformer_loses_less_than_half_of_what_it_did(seed: int) -> None:
    """0.37, 0.24 and 0.18 of the error; another scale for each channel gives 0.40, 0.23, 0.20."""
    net, x = transformer(seed), hy.asarray(drawn(8, 10, 32, seed=seed))
    want = net(x).numpy()
    made, left = smoothed(net, [x])
    assert made(x).numpy().tobytes() == want.tobytes()
    assert left == "smooth left what goes into\n  self_attn.out_proj: attention makes it"
    assert noise(quantize(made), x, want) < 0.5 * noise(quantize(net), x, want)
    assert net(x).numpy().tobytes() == want.tobytes()  # the model itself is as it was


class Rms(nn.Module):
    def __init__(self) -> None:
        self.norm, self.gate, self.up = nn.RMSNorm(32), nn.Linear(32, 48), nn.Linear(32, 48)
        self.down = nn.Linear(48, 8)
        uneven(self.norm)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = self.norm(x)
        return self.down(F.silu(self.gate(x)) * self.up(x))


def perceptron() -> nn.Module:
    """A linear layer makes the large channels; relu lets them through."""
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8))
    weight = net[0].weight.numpy().copy()
    weight[LARGE] *= 60
    net[0].weight = nn.Parameter(hy.asarray(weight))
    return net


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "one norm for two layers": (Rms, (40, 32), "down: multiply makes it"),
    "a linear layer, and relu": (perceptron, (40, 16), "0: it comes from outside"),
    "no bias": (
        lambda: nn.Sequential(nn.LayerNorm(32, bias=False), nn.Linear(32, 8, bias=False)),
        (40, 32),
        "",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_other_models_lose_less_and_keep_their_bits(name: str) -> None:
    hy.random.seed(0)
    make, shape, left = MODELS[name]
    net, x = make().eval(), drawn(*shape)
    if isinstance(net, nn.Sequential) and isinstance(net[0], nn.LayerNorm):
        uneven(net[0])
    x = hy.asarray(x)
    want = net(x).numpy()
    made, said = smoothed(net, [x[:20], (x[20:], np.zeros(20))])
    assert made(x).numpy().tobytes() == want.tobytes()
    assert left in said and bool(left) == bool(said)
    assert noise(quantize(made), x, want) < 0.8 * noise(quantize(net), x, want)


def test_in_place_strength_and_hybridized_models() -> None:
    net, x = transformer(), hy.asarray(drawn(8, 10, 32))
    net.hybridize()
    want = net(x).numpy()
    weight = net.norm1.weight
    before = weight.numpy().copy()
    found, _ = smoothed(net, [x], inplace=True)
    assert found is net and net.norm1.weight is weight and net._hybridized is not None
    assert (weight.numpy() < before)[LARGE].all()
    assert net(x).numpy().tobytes() == want.tobytes()
    evened, _ = smoothed(transformer(), [x], strength=1.0)
    seen = np.abs(F.layer_norm(x, (32,), evened.norm1.weight, evened.norm1.bias).numpy())
    most = seen.max(axis=(0, 1))
    assert (most >= 0.7).all() and (most <= 1.5).all()  # a power of two is the nearest to 1


def test_scales_are_powers_of_two_and_1_where_nothing_is_known() -> None:
    x, w = np.array([8.0, 0.0, 3.0, 2.0, 1e30]), np.array([0.5, 1.0, 0.0, np.inf, 1e-30])
    assert channel_scales(x, w, 0.5).tolist() == [4.0, 1.0, 1.0, 1.0, 2.0**24]
    assert channel_scales(x, w, 1.0)[0] == 8.0 and channel_scales(x, w, 0.0)[0] == 2.0


class Left(nn.Module):
    """A norm, and a layer that reads it in one of the ways in which it cannot be smoothed."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.norm = nn.LayerNorm(32, elementwise_affine=how != "no weight")
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        y = self.norm(x)
        z = self.first(y)
        ways = {
            "added": lambda: z + y,
            "a result": lambda: (z, y),
            "the weight is read": lambda: z + self.first.weight[0],
            "the norm is read": lambda: z + self.norm(x * 2.0),
            "no weight": lambda: z,
            "skip": lambda: z,
        }
        return ways[self.how]()


LEFT = {
    "added": "first: add reads it, too",
    "a result": "first: it is a result of the model",
    "the weight is read": "first: first.weight is read elsewhere, too",
    "the norm is read": "first: norm.weight is read elsewhere, too",
    "no weight": "first: what makes it has no weight of its own",
    "skip": "first: first is in skip",
}


@pytest.mark.parametrize("how", LEFT)
def test_what_cannot_be_smoothed_is_named(how: str) -> None:
    net, x = Left(how), hy.asarray(drawn(4, 32))
    before = {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}
    with pytest.raises(ArgumentError) as caught:
        smooth(net, [x], skip=["first"] if how == "skip" else [], inplace=True)
    assert f"nothing in this Left can be smoothed:\n  {LEFT[how]}" in str(caught.value)
    assert "quantize it as it is" in str(caught.value)
    after = net.state_dict()
    assert all((after[name].numpy() == before[name]).all() for name in before)


def test_batches_of_keywords() -> None:
    net, x = transformer(), hy.asarray(drawn(8, 10, 32))
    found, _ = smoothed(net, [{"src": x}])
    assert found(x).numpy().tobytes() == net(x).numpy().tobytes()
    assert (found.norm1.weight.numpy() != net.norm1.weight.numpy()).any()


BAD: dict[str, tuple[Callable[[nn.Module], Any], type[Exception], str]] = {
    "strength": (lambda n: smooth(n, [X], strength=1.5), ArgumentError, "strength is 1.5"),
    "a text": (lambda n: smooth(n, [X], strength="much"), ArgumentError, "strength is 'much'"),
    "skip": (lambda n: smooth(n, [X], skip=["no"]), ArgumentError, "skip names 'no'"),
    "empty data": (lambda n: smooth(n, []), ArgumentError, "data to smooth by are empty"),
    "one array": (lambda n: smooth(n, drawn(3, 32)), ArgumentTypeError, "one ndarray"),
    "NaN": (
        lambda n: smooth(n, [X * np.float32(np.nan)]), ArgumentError,
        "layer 'self_attn.in_proj_weight' cannot be smoothed: there is NaN or infinity",
    ),
    "integers": (lambda n: smooth(quantize(n), [X]), ArgumentError, "quantized already"),
    "no module": (lambda n: smooth(lambda x: x, [X]), ArgumentTypeError, "is no module"),
}  # fmt: skip
X = hy.asarray(drawn(2, 3, 32))


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, error, text = BAD[what]
    net = transformer()
    twin = copy.deepcopy(net)
    with pytest.raises(error, match=text):
        call(net)
    assert (net(X).numpy() == twin(X).numpy()).all()
