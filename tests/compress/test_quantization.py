"""Quantized models: their numbers against NumPy's integers, their bits, and what is refused."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize
from hybrid.compress.quantized_layers import QuantizedEmbedding, QuantizedLinear
from hybrid.errors import ArgumentError, ArgumentTypeError

F32 = np.float32


@pytest.fixture(autouse=True)
def seeded() -> None:
    hy.random.seed(0)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(*shape).astype(F32)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def weights_of(layer: nn.Linear, high: int = 127) -> tuple[np.ndarray, np.ndarray]:
    w = layer.weight.numpy()
    scale = np.abs(w).max(axis=1) / F32(high)
    scale = np.where(scale == 0, F32(1), scale)
    return np.clip(np.rint(w / scale[:, None]), -high, high).astype(np.int64), scale


def by_rows(layer: nn.Linear, x: np.ndarray, high: int = 127) -> np.ndarray:
    """A dynamic layer in NumPy, in the order that the operations are promised in."""
    w, s_w = weights_of(layer, high)
    s_x = np.abs(x).max(axis=-1, keepdims=True) / F32(127)
    s_x = np.where(s_x == 0, F32(1), s_x)
    q = np.clip(np.rint(x / s_x), -127, 127).astype(np.int64)
    y = (q @ w.T).astype(F32) * s_x * s_w
    return y if layer.bias is None else y + layer.bias.numpy()


def by_one_scale(layer: nn.Linear, x: np.ndarray, lo: float, hi: float) -> np.ndarray:
    w, s_w = weights_of(layer)
    s_x = F32((hi - lo) / 255)
    z = int(np.clip(np.rint(-lo / np.float64(s_x)), 0, 255))
    q = np.clip(np.rint(x / s_x) + z, 0, 255).astype(np.int64)
    y = (q @ w.T - z * w.sum(axis=1)).astype(F32) * (s_x * s_w)
    return y + layer.bias.numpy()


@pytest.mark.parametrize("shape", [(5, 33), (1, 33), (33,), (2, 3, 33), (0, 33)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_dynamic_layer_is_that_of_numpy(shape: tuple[int, ...], bias: bool) -> None:
    layer, x = nn.Linear(33, 17, bias=bias), drawn(*shape)
    made = quantize(layer)
    want = by_rows(layer, x)
    for _ in range(2):
        assert made(hy.asarray(x)).numpy().tobytes() == want.astype(F32).tobytes()
        made.hybridize()


@pytest.mark.parametrize("bits", [2, 4, 7, 8])
def test_fewer_bits(bits: int) -> None:
    layer, x = nn.Linear(16, 8), drawn(4, 16)
    made = quantize(layer, bits=bits)
    high = 2 ** (bits - 1) - 1
    assert np.abs(made.weight_q.numpy()).max() <= high
    assert made(hy.asarray(x)).numpy().tobytes() == by_rows(layer, x, high).tobytes()


def test_a_static_layer_is_that_of_numpy() -> None:
    layer, x = nn.Linear(33, 17), drawn(50, 33)
    made = quantize(layer, "static", data=[x[:20], (x[20:], np.zeros(30))])
    want = by_one_scale(layer, x, float(x.min()), float(x.max()))
    assert made(hy.asarray(x)).numpy().tobytes() == want.tobytes()
    made.hybridize()
    assert made(hy.asarray(x)).numpy().tobytes() == want.tobytes()
    beyond = made(hy.asarray(x * 9)).numpy()
    assert beyond.tobytes() == by_one_scale(layer, x * 9, float(x.min()), float(x.max())).tobytes()


@pytest.mark.parametrize("method", ["dynamic", "static"])
@pytest.mark.parametrize("calibration", ["minmax", "percentile", "mse", "kl"])
def test_models_are_near_those_of_floats(method: str, calibration: str) -> None:
    net, x = network(), hy.asarray(drawn(200, 64))
    made = quantize(net, method, data=[x], calibration=calibration)
    one, other = net(x).numpy().ravel(), made(x).numpy().ravel()
    assert one @ other / np.sqrt((one @ one) * (other @ other)) > 0.999
    assert all(isinstance(made[i], QuantizedLinear) for i in (0, 2))
    assert net[0].weight.dtype is hy.float32 and type(net[0]) is nn.Linear


def test_rows_do_not_touch_each_other() -> None:
    made, x = quantize(network()), drawn(8, 64)
    x[3] *= 1e6
    x[5] = np.nan
    whole = made(hy.asarray(x)).numpy()
    for row in range(8):
        alone = made(hy.asarray(x[row : row + 1])).numpy()
        assert alone.tobytes() == whole[row : row + 1].tobytes()
    assert np.isnan(whole[5]).all() and np.isfinite(whole[[0, 3, 7]]).all()


def test_an_embedding_and_one_scale_for_all() -> None:
    table = nn.Embedding(50, 12)
    made = quantize(table)
    assert isinstance(made, QuantizedEmbedding)
    found = made(hy.asarray([[3, 0], [49, 3]]))
    assert found.shape == (2, 2, 12)
    assert (found.numpy() == made.weight.numpy()[[[3, 0], [49, 3]]]).all()
    assert np.abs(made.weight.numpy() - table.weight.numpy()).max() < 0.02
    one = quantize(table, per_channel=False)
    assert one.weight_scale.shape == () and (one(hy.asarray([7])) == one.weight[7]).all()


def test_layers_are_chosen_and_keep_their_names() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
    made = quantize(net, skip=["1"])
    assert type(made[1][0]) is nn.Linear and isinstance(made[0], QuantizedLinear)
    assert list(made.state_dict()) == [
        "0.weight_q", "0.weight_scale", "0.bias", "1.0.weight", "1.0.bias",
    ]  # fmt: skip
    assert not net.training or made.training
    shared = nn.Linear(8, 8)
    twice = quantize(nn.Sequential(shared, nn.ReLU(), shared))
    assert twice[0] is twice[2]


def test_in_place_and_options_of_hybridize() -> None:
    net, x = network(), hy.asarray(drawn(4, 64))
    net.hybridize(max_plans=7)
    want = quantize(net)(x).numpy()
    assert quantize(net, inplace=True) is net
    assert isinstance(net[0], QuantizedLinear)
    assert (net(x).numpy() == want).all()
    with pytest.raises(ArgumentError, match="cannot become another layer in place"):
        quantize(nn.Linear(3, 3), inplace=True)


def test_copies_pickles_files_and_gradients() -> None:
    made, x = quantize(network()), hy.asarray(drawn(4, 64))
    want = made(x).numpy()
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (other(x).numpy() == want).all()
    fresh = quantize(network())
    fresh.load_state_dict(made.state_dict())
    assert (fresh(x).numpy() == want).all()
    assert list(made.parameters()) == []


def test_a_calibration_leaves_modes_and_plans_as_they_were() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.first, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.drop(self.first(x))

    net = Net().train()
    net.hybridize()
    made = quantize(net, "static", data=[drawn(9, 6)])
    assert made.training and made.drop.training and net.training
    assert made._hybridized is not None


def failing() -> Iterator[Any]:
    yield drawn(3, 64)
    raise OSError("no more")


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "method": (lambda: quantize(network(), "half"), ArgumentError, "half"),
    "bits": (lambda: quantize(network(), bits=9), ArgumentError, "from 2 to 8"),
    "bits of a float": (lambda: quantize(network(), bits=8.0), ArgumentError, "from 2 to 8"),
    "scheme": (lambda: quantize(network(), scheme="both"), ArgumentError, "both"),
    "nf4": (lambda: quantize(network(), scheme="nf4"), ArgumentError, "'nf4', and the weights"),
    "nf4 of 8 bits": (
        lambda: quantize(network(), "weight_only", bits=8, scheme="nf4"), ArgumentError,
        "bits is 8 and scheme is 'nf4'",
    ),
    "asymmetric": (
        lambda: quantize(network(), scheme="asymmetric"), ArgumentError, "are symmetric",
    ),
    "static groups": (
        lambda: quantize(network(), "static", group_size=32, data=[]), ArgumentError,
        "group_size is 32 and method is 'static'",
    ),
    "groups and one scale": (
        lambda: quantize(network(), group_size=32, per_channel=False), ArgumentError,
        "group_size is 32 and per_channel is False",
    ),
    "weights of one scale": (
        lambda: quantize(network(), "weight_only", per_channel=False), ArgumentError,
        "per_channel is False and method is 'weight_only'",
    ),
    "group": (lambda: quantize(network(), group_size=0), ArgumentError, "group_size is 0"),
    "half a group": (
        lambda: quantize(network(), "weight_only", group_size=0.5), ArgumentError,
        "group_size is 0.5",
    ),
    "no data to compensate by": (
        lambda: quantize(network(), "weight_only", data=[]), ArgumentError, "are empty",
    ),
    "NaN to compensate by": (
        lambda: quantize(network(), "weight_only", data=[drawn(3, 64) * np.nan]), ArgumentError,
        "layer '0' cannot be compensated: there is NaN",
    ),
    "calibration": (
        lambda: quantize(network(), "static", data=[], calibration="best"), ArgumentError, "best",
    ),
    "no data": (lambda: quantize(network(), "static"), ArgumentError, "needs data"),
    "empty data": (lambda: quantize(network(), "static", data=[]), ArgumentError, "are empty"),
    "one array": (
        lambda: quantize(network(), "static", data=drawn(3, 64)), ArgumentTypeError, "one ndarray",
    ),
    "a number": (lambda: quantize(network(), "static", data=3), ArgumentTypeError, "data is a int"),
    "an empty batch": (lambda: quantize(network(), "static", data=[()]), ArgumentError, "is empty"),
    "NaN": (
        lambda: quantize(network(), "static", data=[drawn(3, 64) * np.nan]), ArgumentError,
        "layer '0' cannot be calibrated: there is NaN",
    ),
    "data that fail": (lambda: quantize(network(), "static", data=failing()), OSError, "no more"),
    "skip": (lambda: quantize(network(), skip=["3"]), ArgumentError, "skip names '3'"),
    "twice": (lambda: quantize(quantize(network())), ArgumentError, "quantized already"),
    "no module": (lambda: quantize(lambda x: x), ArgumentTypeError, "is no module"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, error, text = BAD[what]
    with pytest.raises(error, match=text):
        call()


def test_a_model_is_untouched_by_what_fails() -> None:
    net, x = network(), hy.asarray(drawn(4, 64))
    want = net(x).numpy()
    with pytest.raises(OSError, match="no more"):
        quantize(net, "static", data=failing(), inplace=True)
    assert type(net[0]) is nn.Linear and net.training
    assert (net(x).numpy() == want).all()


@pytest.mark.parametrize("inplace", [False, True])
def test_norms_behind_layers_are_folded_before_calibration(inplace: bool) -> None:
    net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    x = hy.asarray(drawn(200, 16))
    net(x)  # the norm gets statistics
    net.eval()
    want = net(x).numpy().ravel()
    made = quantize(net, "static", data=[x], inplace=inplace)
    assert isinstance(made[1], nn.Identity) and (made is net) == inplace
    found = made(x).numpy().ravel()
    assert found @ want / np.sqrt((found @ found) * (want @ want)) > 0.999


@pytest.mark.parametrize("name", ["weight_q", "weight_scale", "bias"])
def test_hybridized_layers_notice_what_is_replaced(name: str) -> None:
    one, other, x = quantize(nn.Linear(16, 4)), quantize(nn.Linear(16, 4)), hy.asarray(drawn(3, 16))
    one.hybridize()
    for _ in range(3):
        before = one(x).numpy()
    setattr(one, name, getattr(other, name))
    after = one(x).numpy()
    one.hybridize(False)
    assert (after == one(x).numpy()).all() and (after != before).any()
