"""Convolutions of bytes: what they compute in NumPy, hybridized, trained, in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import convert, load, prepare_qat, prune, quantize, remove, report, save
from hybrid.compress.calibration import scale_and_zero
from hybrid.compress.quantized_convolutions import CONVOLUTIONS
from tests.ops.spatial.integer_sums import summed

F32 = np.float32
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "1d": (lambda: nn.Conv1d(3, 5, 3, stride=2, padding=1), (4, 3, 17)),
    "2d": (lambda: nn.Conv2d(6, 10, (3, 2), padding=(2, 1), dilation=(1, 2)), (3, 6, 9, 8)),
    "3d": (lambda: nn.Conv3d(2, 4, 2, bias=False), (2, 2, 4, 5, 6)),
    "groups": (lambda: nn.Conv2d(8, 12, 3, groups=4, padding=1), (2, 8, 7, 7)),
    "depthwise": (lambda: nn.Conv2d(8, 16, 3, groups=8, stride=2), (2, 8, 11, 10)),
    "1x1": (lambda: nn.Conv2d(20, 30, 1, stride=2), (2, 20, 9, 9)),
    "same": (lambda: nn.Conv2d(4, 6, (2, 3), padding="same"), (2, 4, 6, 7)),
}


def made(name: str) -> tuple[Any, np.ndarray]:
    hy.random.seed(0)
    make, shape = LAYERS[name]
    x = np.random.RandomState(1).randn(*shape).astype(F32)
    return make(), x * np.arange(1, shape[0] + 1, dtype=F32).reshape(-1, *[1] * (len(shape) - 1))


def sums_of(layer: Any, steps: np.ndarray, q: np.ndarray, zero: int) -> np.ndarray:
    """The sums of a layer of "zeros"; those of "same" are given more room at the end."""
    padding = layer.padding
    if padding == "same":
        spans = [k - 1 for k in layer.kernel_size]
        ends = [(0, 0), (0, 0), *[(n // 2, n - n // 2) for n in spans]]
        steps, padding = np.pad(steps, ends, constant_values=zero), (0,) * len(spans)
    geometry = (layer.stride, padding, layer.dilation, layer.groups)
    return summed(steps, q, zero, *geometry)


def weights_of(layer: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Bytes and scales of the weight as they broadcast, and the bias."""
    weight = layer.weight.detach().numpy()
    column = (-1, *[1] * (weight.ndim - 2))
    scale = np.abs(weight).max(axis=tuple(range(1, weight.ndim))) / F32(127)
    q = np.clip(np.rint(weight / scale.reshape(-1, *[1] * (weight.ndim - 1))), -127, 127)
    bias = 0 if layer.bias is None else layer.bias.detach().numpy().reshape(column)
    return q.astype(np.int8), scale.reshape(column), bias


@pytest.mark.parametrize("name", LAYERS)
def test_dynamic_ones_compute_what_they_say(name: str) -> None:
    layer, x = made(name)
    q, s_w, bias = weights_of(layer)
    s_x = np.abs(x).max(axis=tuple(range(1, x.ndim)), keepdims=True) / F32(127)
    steps = np.rint(x / s_x).astype(np.int8)
    want = sums_of(layer, steps, q, 0).astype(F32) * s_x * s_w + bias
    found = quantize(layer)
    assert type(found) is CONVOLUTIONS[type(layer)]
    assert found(hy.asarray(x)).numpy().tobytes() == want.tobytes()
    exact = layer(hy.asarray(x)).numpy()
    assert np.abs(want - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize("name", LAYERS)
def test_static_ones_compute_what_they_say(name: str) -> None:
    layer, x = made(name)
    x = np.maximum(x, F32(-1))  # so that the zero point is not in the middle
    q, s_w, bias = weights_of(layer)
    s_x, zero = scale_and_zero(x.min(), x.max())
    steps = np.clip(np.rint(x / s_x) + zero, 0, 255).astype(np.uint8)
    wide = sums_of(layer, steps, q, int(zero)).astype(F32)
    found = quantize(layer, "static", data=[hy.asarray(x)])
    assert found(hy.asarray(x)).numpy().tobytes() == (wide * (s_x * s_w) + bias).tobytes()
    assert sorted(found.state_dict()) == sorted(
        ["weight_q", "weight_scale", "input_scale", "input_zero"]
        + ([] if layer.bias is None else ["bias"])
    )


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_they_have_the_same_bits_hybridized(method: str, name: str) -> None:
    layer, x = made(name)
    given = hy.asarray(x)
    found = quantize(layer, method, data=[given])
    want = found(given).numpy()
    found.hybridize()
    for _ in range(3):
        assert found(given).numpy().tobytes() == want.tobytes()


def test_samples_do_not_touch_each_other() -> None:
    layer, x = made("2d")
    found = quantize(layer)
    whole = found(hy.asarray(x)).numpy()
    for i in range(len(x)):
        assert found(hy.asarray(x[i : i + 1])).numpy().tobytes() == whole[i : i + 1].tobytes()
        assert found(hy.asarray(x[i])).numpy().tobytes() == whole[i].tobytes()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_images_are_continued_before_they_become_bytes(method: str, mode: str) -> None:
    hy.random.seed(0)
    layer, plain = nn.Conv2d(2, 4, 3, padding=1, padding_mode=mode), nn.Conv2d(2, 4, 3)
    plain.load_state_dict(layer.state_dict())
    x = hy.asarray(np.random.RandomState(0).randn(2, 2, 6, 6).astype(F32))
    wide = nn.functional.pad(x, (1, 1, 1, 1), mode=mode)
    one, other = quantize(layer, method, data=[x]), quantize(plain, method, data=[wide])
    assert one(x).numpy().tobytes() == other(wide).numpy().tobytes()


def test_one_scale_for_all_and_few_bits() -> None:
    layer, x = made("2d")
    found = quantize(layer, bits=4, per_channel=False)
    assert found.weight_scale.shape == () and np.abs(found.weight_q.numpy()).max() == 7
    want = nn.functional.conv2d(
        hy.asarray(x), found.weight, layer.bias, 1, layer.padding, layer.dilation
    )
    assert np.allclose(found(hy.asarray(x)).numpy(), want.numpy(), atol=0.3)


def test_sums_that_do_not_fit_stay_in_float() -> None:
    net = nn.Sequential(nn.Conv1d(1, 1, 70_000), nn.ConvTranspose1d(1, 1, 2), nn.Conv1d(1, 2, 2))
    x = hy.zeros((1, 1, 70_004))
    found = quantize(net)
    assert [type(layer).__name__ for layer in found] == [
        "Conv1d", "ConvTranspose1d", "QuantizedConv1d",
    ]  # fmt: skip
    text = str(report(net, found, [x]))
    assert "sums of 70000 products do not fit into 32 bits" in text
    assert "there is no quantized ConvTranspose1d" in text


# Training with the rounding in view ---------------------------------------------------------------


def network() -> nn.Sequential:
    hy.random.seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, padding_mode="circular"), nn.ReLU(),
        nn.Conv2d(6, 6, 3, groups=6, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 4),
    )  # fmt: skip


def task() -> tuple[hy.Tensor, hy.Tensor]:
    x = np.random.RandomState(0).randn(64, 2, 8, 8).astype(F32)
    return hy.asarray(x), hy.asarray((x.mean(axis=(2, 3)) @ np.ones((2, 4)) > 0).argmax(axis=1))


def trained(net: nn.Module, steps: int, hybridized: bool = True) -> list[float]:
    x, y = task()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.01)

    def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = hy.hybridize(step) if hybridized else step
    return [float(step(x, y)) for _ in range(steps)]


WAYS: dict[str, dict[str, Any]] = {
    "learnt": {},
    "followed": {"learned": False},
    "few bits": {"bits": 3, "activation_bits": 5},
}


@pytest.mark.parametrize("way", WAYS)
def test_prepared_for_evaluation_and_converted_are_the_same_bits(way: str) -> None:
    prepared = prepare_qat(network(), **WAYS[way])
    losses = trained(prepared, 20)
    assert losses[-1] < losses[0]
    x, _ = task()
    prepared.eval()
    want = prepared(x).numpy()
    found = convert(prepared)
    assert [type(found[i]).__name__ for i in (0, 2, 5)] == [
        "QuantizedConv2d", "QuantizedConv2d", "QuantizedLinear",
    ]  # fmt: skip
    for net in (found, prepared):
        assert net(x).numpy().tobytes() == want.tobytes()
        net.hybridize()
        for _ in range(2):
            assert net(x).numpy().tobytes() == want.tobytes()


def test_training_has_the_same_bits_hybridized() -> None:
    one, other = prepare_qat(network()), prepare_qat(network())
    assert trained(one, 4) == trained(other, 4, hybridized=False)


@pytest.mark.parametrize("make", [
    lambda: nn.Conv1d(3, 4, 3, padding=1), lambda: nn.Conv3d(3, 4, 3, padding=1),
    lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect", bias=False),
])  # fmt: skip
def test_what_a_layer_trains_with_stands_for_its_integers(make: Callable[[], Any]) -> None:
    hy.random.seed(0)
    layer = prepare_qat(make())
    shape = (2, 3, *[6] * layer.rank)
    x = hy.asarray(np.random.RandomState(0).randn(*shape).astype(F32))
    trains = layer(x).numpy()
    assert np.allclose(trains, layer.eval()(x).numpy(), rtol=1e-4, atol=1e-5)


# Files, pruning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["dynamic", "static", "prepared", "converted"])
def test_files_have_them(way: str, tmp_path: Path) -> None:
    x, _ = task()
    if way in ("dynamic", "static"):
        found = quantize(network(), way, data=[x])
    else:
        found = prepare_qat(network())
        found(x)
        found = convert(found) if way == "converted" else found.eval()
    path = tmp_path / "m.safetensors"
    save(found, path)
    again = load(network(), path).eval()
    assert [type(a) for a in again] == [type(a) for a in found]
    assert again(x).numpy().tobytes() == found(x).numpy().tobytes()


@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_what_is_smaller_is_quantized(method: str, tmp_path: Path) -> None:
    x, _ = task()
    hy.random.seed(0)
    net = nn.Sequential(nn.Conv2d(2, 12, 3), nn.ReLU(), nn.Conv2d(12, 4, 3)).eval()
    pruned = prune(net, 0.5, structure="channel", example=x)
    smaller = remove(net, x)
    assert pruned.sparsity() > 0.2 and smaller[0].out_channels < 12
    found = quantize(smaller, method, data=[x])
    assert found[0].weight_q.shape[0] == found[2].weight_q.shape[1] == smaller[0].out_channels
    want = smaller(x).numpy()
    assert np.abs(found(x).numpy() - want).max() < 0.03 * np.abs(want).max()
    fresh = nn.Sequential(nn.Conv2d(2, 12, 3), nn.ReLU(), nn.Conv2d(12, 4, 3))
    save(found, tmp_path / "m")
    assert load(fresh, tmp_path / "m")(x).numpy().tobytes() == found(x).numpy().tobytes()
