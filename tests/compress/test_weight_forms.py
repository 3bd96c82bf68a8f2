"""Weights of few bits in groups: how they are rounded, what layers make of them, files, exports."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hybrid as hy
from hybrid import nn, ops
from hybrid.compress import load, quantize, report, save
from hybrid.compress.quantized_layers import QuantizedLayer
from hybrid.errors import CheckpointError
from hybrid.ops.matrix.grouped_products import NORMAL_FLOAT

F32 = np.float32
SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int8 in groups": {"group_size": 16},
    "int6": {"bits": 6, "group_size": 32},
    "int4": {"bits": 4, "group_size": 32},
    "int4 by outputs": {"bits": 4},
    "int4, asymmetric": {"bits": 4, "group_size": 16, "scheme": "asymmetric"},
    "int8, asymmetric": {"scheme": "asymmetric"},
    "int3": {"bits": 3, "group_size": 8},
    "nf4": {"scheme": "nf4", "group_size": 32},
}


def drawn(*shape: int, seed: int = 0) -> hy.Tensor:
    return hy.asarray(np.random.RandomState(seed).randn(*shape).astype(F32))


def rounded(weight: np.ndarray, bits: int, group: int, scheme: str) -> np.ndarray:
    """What the bytes stand for, in NumPy."""
    made = np.empty_like(weight)
    for first in range(0, weight.shape[1], group):
        w = weight[:, first : first + group]
        if scheme == "asymmetric":
            low, high = w.min(axis=1, keepdims=True), w.max(axis=1, keepdims=True)
            scale = (high - low) / F32(2**bits - 1)
            zero = low + scale * F32(2 ** (bits - 1))
            scale = np.where(scale == 0, F32(1), scale)
            half = 2 ** (bits - 1)
            found = np.clip(np.rint((w - zero) / scale), -half, half - 1) * scale + zero
        elif scheme == "nf4":
            scale = np.abs(w).max(axis=1, keepdims=True)
            nearest = np.abs((w / scale)[..., None] - NORMAL_FLOAT).argmin(axis=-1)
            found = NORMAL_FLOAT[nearest] * scale
        else:
            scale = np.abs(w).max(axis=1, keepdims=True) / F32(2 ** (bits - 1) - 1)
            found = np.rint(w / scale) * scale + F32(0)  # no integer is -0
        made[:, first : first + group] = found
    return made


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("size", [1, 33, 64])
def test_weights_are_those_of_numpy(name: str, size: int) -> None:
    given = SETTINGS[name]
    hy.random.seed(0)
    layer = nn.Linear(size, 20)
    made = quantize(layer, "weight_only", **given)
    bits = given.get("bits", 4 if name == "nf4" else 8)
    group = given.get("group_size", size)
    want = rounded(layer.weight.numpy(), bits, group, given.get("scheme", "symmetric"))
    assert made.weight.numpy().tobytes() == want.tobytes()
    x = drawn(5, size)
    found = made(x).numpy()
    exact = x.numpy().astype(np.float64) @ want.T.astype(np.float64) + layer.bias.numpy()
    assert np.abs(found - exact).max() < 2e-5
    made.hybridize()
    for _ in range(3):
        assert made(x).numpy().tobytes() == found.tobytes()


def test_rows_of_zeros_and_the_least_bits() -> None:
    layer = nn.Linear(10, 4)
    layer.weight = nn.Parameter(hy.zeros((4, 10)))
    for given in SETTINGS.values():
        assert (quantize(layer, "weight_only", **given).weight == 0).all()
    two = quantize(nn.Linear(10, 4), "weight_only", bits=2, group_size=5)
    assert set(np.unique(two.weight_q.numpy() & 15)) <= {7, 8, 9}


def first(found: Any) -> hy.Tensor:
    while isinstance(found, tuple):
        found = found[0]
    return found


class Attention(nn.Module):
    def __init__(self, **given: Any) -> None:
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **given)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        other = x[..., :8] if self.attention.kdim == 8 else x
        return self.attention(x, other, other, need_weights=False)[0]


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(33, 20), (5, 33)),
    "a row": (lambda: nn.Linear(33, 20, bias=False), (33,)),
    "stacks": (lambda: nn.Linear(32, 20), (2, 3, 32)),
    "rnn": (lambda: nn.RNN(16, 24), (5, 3, 16)),
    "lstm": (lambda: nn.LSTM(16, 24, num_layers=2, bidirectional=True), (5, 3, 16)),
    "projected": (lambda: nn.LSTM(16, 24, proj_size=9), (5, 3, 16)),
    "gru": (lambda: nn.GRU(16, 24, batch_first=True), (3, 5, 16)),
    "cell": (lambda: nn.LSTMCell(16, 24), (3, 16)),
    "attention": (Attention, (2, 5, 16)),
    "attention to others": (lambda: Attention(kdim=8, vdim=8), (2, 5, 16)),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 4, 32), (5, 3, 16)),
    "conv1d": (lambda: nn.Conv1d(6, 8, 3, padding=1), (2, 6, 9)),
    "conv2d": (
        lambda: nn.Conv2d(6, 8, 3, groups=2, padding_mode="reflect", padding=1), (2, 6, 7, 7),
    ),
    "conv3d": (lambda: nn.Conv3d(2, 4, 2, bias=False), (1, 2, 4, 4, 4)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(6, 4, 3, stride=2), (2, 6, 5)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(6, 4, 3, groups=2), (2, 6, 5, 5)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(3, 2, 2), (1, 3, 3, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "given",
    [
        {"method": "weight_only"},
        {"method": "weight_only", "bits": 4, "group_size": 8, "scheme": "asymmetric"},
        {"method": "weight_only", "scheme": "nf4", "group_size": 16},
        {"method": "dynamic", "bits": 4, "group_size": 8},
    ],
    ids=["int8", "int4", "nf4", "w4a8"],
)
def test_layers_compute_with_their_weights(name: str, given: dict[str, Any]) -> None:
    make, shape = LAYERS[name]
    hy.random.seed(0)
    net, x = make().eval(), drawn(*shape)
    made = quantize(net, **given)
    if given["method"] == "dynamic" and "conv" in name:
        return  # integer convolutions have no groups
    assert any(isinstance(part, QuantizedLayer) for part in made.modules())
    want, found = first(net(x)).numpy(), first(made(x)).numpy()
    # The same layer of floats with the weights that the bytes stand for.
    twin = copy.deepcopy(net)
    parts = dict(made.named_modules())
    for path, part in twin.named_modules():
        for own, parameter in part._parameters:
            parameter.assign(getattr(parts[path], own))
    near = first(twin(x)).numpy()
    loose = 0.06 if given["method"] == "dynamic" else 1e-5
    assert np.abs(found - near).max() <= loose * max(1, np.abs(near).max())
    far = 0.02 if given == {"method": "weight_only"} else 0.35
    assert np.abs(found - want).max() <= far * max(1, np.abs(want).max())
    made.hybridize()
    for _ in range(3):
        assert first(made(x)).numpy().tobytes() == found.tobytes()


@pytest.mark.parametrize("name", SETTINGS)
def test_an_embedding_reads_rows(name: str) -> None:
    table = nn.Embedding(50, 13)
    made = quantize(table, "weight_only", **SETTINGS[name])
    found = made(hy.asarray([[3, 0], [49, 3]]))
    assert found.numpy().tobytes() == made.weight.numpy()[[[3, 0], [49, 3]]].tobytes()
    in_groups = quantize(table, bits=4, group_size=4)
    assert np.abs(in_groups(hy.asarray([7])).numpy() - table.weight.numpy()[7]).max() < 0.4


def test_groups_of_dynamic_layers_are_those_of_numpy() -> None:
    hy.random.seed(0)
    layer, x = nn.Linear(50, 20), drawn(6, 50)
    made = quantize(layer, bits=4, group_size=16)
    w = layer.weight.numpy()
    s_x = np.abs(x.numpy()).max(axis=1, keepdims=True) / F32(127)
    q_x = np.clip(np.rint(x.numpy() / s_x), -127, 127).astype(np.int64)
    total = np.zeros((6, 20), F32)
    for begin in range(0, 50, 16):
        part = w[:, begin : begin + 16]
        scale = np.abs(part).max(axis=1) / F32(7)
        q = np.rint(part / scale[:, None]).astype(np.int64)
        total = total + (q_x[:, begin : begin + 16] @ q.T).astype(F32) * scale
    want = total * s_x + layer.bias.numpy()
    assert made(x).numpy().tobytes() == want.tobytes()


def test_states_become_small() -> None:
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    x = [drawn(4, 256)]
    int4 = report(net, quantize(net, "weight_only", bits=4, group_size=32), x)
    assert int4.bytes.ratio <= 0.22
    assert int4.parameters.ratio == 1 and not int4.left
    assert report(net, quantize(net, "weight_only"), x).bytes.ratio <= 0.30


def test_models_train_through_weights_in_bytes() -> None:
    made = quantize(nn.Linear(16, 8), "weight_only", bits=4, group_size=8)
    adapter, x = nn.Linear(16, 16), drawn(4, 16)
    made(adapter(x)).sum().backward()
    want = made.weight.numpy().sum(axis=0)[:, None] * x.numpy().sum(axis=0)
    np.testing.assert_allclose(adapter.weight.grad.numpy(), want, rtol=1e-4, atol=1e-5)


class Small(nn.Module):
    def __init__(self) -> None:
        self.conv, self.table = nn.Conv1d(3, 6, 3), nn.Embedding(7, 6)
        self.rnn, self.head = nn.GRU(6, 8), nn.Linear(8, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        rows = self.conv(x).mT + self.table(hy.asarray([2]))
        return self.head(self.rnn(rows)[0])


@pytest.mark.parametrize("name", SETTINGS)
def test_files_give_the_same_model(name: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    net, x = Small().eval(), drawn(2, 3, 9)
    made, path = quantize(net, "weight_only", **SETTINGS[name]), tmp_path / "m.safetensors"
    save(made, path)
    again = load(Small().eval(), path)
    assert str(again) == str(made)
    assert again(x).numpy().tobytes() == made(x).numpy().tobytes()


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save(quantize(Small(), "weight_only", bits=4, group_size=4), path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'\\"weight_only\\"', b'\\"dynamic\\"    ', 1))
    with pytest.raises(CheckpointError, match="a WeightOnlyConv1d is not made by method 'dynamic'"):
        load(Small(), path)


PROGRAMS = {
    **{name: ("weight_only", given) for name, given in SETTINGS.items()},
    "w4a8": ("dynamic", {"bits": 4, "group_size": 16}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_models_of_onnx(name: str, tmp_path: Path) -> None:
    hy.random.seed(0)
    method, given = PROGRAMS[name]
    net = nn.Sequential(nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 9)).eval()
    made, x = quantize(net, method, **given), drawn(6, 40)
    want = made(x).numpy()
    path = str(tmp_path / "m.hyb")
    hy.export({"predict": (made, x)}, path)
    assert hy.load_exported(path)["predict"](x).numpy().tobytes() == want.tobytes()
    path = str(tmp_path / "m.onnx")
    hy.onnx.export(made, path, x)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if method == "dynamic":
        assert found.tobytes() == want.tobytes()
    else:
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


class Tied(nn.Module):
    """Tokens [batch, length] -> logits: the output layer is the table."""

    def __init__(self) -> None:
        self.table, self.inner = nn.Embedding(40, 16), nn.Linear(16, 16)
        self.out = nn.Linear(16, 40, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.out(ops.tanh(self.inner(self.table(x))))


TIED = {
    "weights of four bits": {"method": "weight_only", "bits": 4, "group_size": 8},
    "nf4": {"method": "weight_only", "scheme": "nf4", "group_size": 8},
    "with data": {"method": "weight_only", "bits": 4, "group_size": 8, "data": [[[1, 2, 39]]]},
    "integers of four bits": {"bits": 4, "group_size": 8},
    "dynamic": {},
}


@pytest.mark.parametrize("name", TIED)
def test_an_output_layer_reads_the_bytes_of_its_table(name: str, tmp_path: Path) -> None:
    """Of 8 bits: few would cost most there."""
    hy.random.seed(0)
    given = dict(TIED[name])
    if "data" in given:
        given["data"] = [hy.asarray(batch) for batch in given["data"]]
    net, x = Tied().eval(), hy.asarray([[0, 39, 7], [1, 1, 2]])
    made = quantize(net, **given)
    assert made.out.weight_q is made.table.weight_q
    assert made.out.weight_scale is made.table.weight_scale
    assert made.table.weight_q.type == hy.zeros((40, 16), dtype=hy.int8).type
    assert made.out.scheme.bits == made.table.scheme.bits == 8
    assert made.inner.scheme.bits == given.get("bits", 4 if "scheme" in given else 8)
    want = net(x).numpy()
    assert np.abs(made(x).numpy() - want).max() < 0.15 * np.abs(want).max()
    save(made, tmp_path / "m.safetensors")
    loaded = load(Tied().eval(), tmp_path / "m.safetensors")
    assert loaded(x).numpy().tobytes() == made(x).numpy().tobytes()
    assert loaded.out.weight_q is loaded.table.weight_q
