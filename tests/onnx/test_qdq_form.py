"""The QDQ form of quantized models: its nodes, its numbers in onnxruntime, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import convert, prepare_qat, quantize
from hybrid.errors import ArgumentError

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")


def drawn(*shape: int) -> hy.Tensor:
    return hy.asarray(np.random.RandomState(0).randn(*shape).astype(np.float32))


def mlp(bias: bool = True) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 96, bias=bias), nn.ReLU(), nn.Linear(96, 10))


def images() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=8, bias=False), nn.ReLU(), nn.Flatten(),
        nn.Linear(72, 5),
    )  # fmt: skip


def static(net: nn.Module, x: hy.Tensor, **settings: Any) -> nn.Module:
    return quantize(net, "static", data=[x], **settings)


def trained_aware(net: nn.Module, x: hy.Tensor) -> nn.Module:
    prepared = prepare_qat(net, bits=4, activation_bits=4)
    prepared(x)
    return convert(prepared)


def large_bias() -> nn.Module:
    net = mlp()
    net[0].bias = nn.Parameter(net[0].bias * 1e9)
    return net


class Text(nn.Module):
    """Attention, which stays dynamic; a layer is called twice, and the weight of one is read."""

    def __init__(self) -> None:
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.twice, self.last = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.last(self.twice(hy.tanh(self.twice(x)))) + self.last.weight[:, 0]


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[..., nn.Module]]] = {
    "rows": (mlp, (8, 64), static),
    "batches of rows": (mlp, (2, 4, 64), static),
    "no bias": (lambda: mlp(False), (8, 64), static),
    "no bias, batches": (lambda: mlp(False), (2, 4, 64), static),
    "one scale": (mlp, (8, 64), lambda net, x: static(net, x, per_channel=False)),
    "four bits": (mlp, (8, 64), trained_aware),
    "a layer in floats": (mlp, (8, 64), lambda net, x: static(net, x, skip=["0"])),
    "a bias beyond integers": (large_bias, (8, 64), static),
    "a layer alone": (lambda: nn.Linear(64, 9), (8, 64), static),
    "text": (Text, (2, 5, 16), static),
    "images": (images, (2, 3, 8, 8), static),
}


def made(name: str, path: Path, **settings: Any) -> tuple[nn.Module, hy.Tensor, np.ndarray]:
    make, shape, compress = MODELS[name]
    hy.random.seed(0)
    x = drawn(*shape)
    net = compress(make(), x).eval()
    hy.onnx.export(net, path, x, format="qdq", **settings)
    return net, x, net(x).numpy()


def run(path: Path, level: str, x: hy.Tensor, kept: Path | None = None) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    if kept is not None:
        options.optimized_model_filepath = str(kept)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_computes_nearly_the_same(name: str, opset: int, tmp_path: Path) -> None:
    """Within a thousandth of the largest result: a step of 256 where a number lies between two."""
    path = tmp_path / "m.onnx"
    _, x, want = made(name, path, opset=opset)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    near = np.abs(want).max() / (100 if name == "text" else 1000)
    for level in LEVELS:
        if (
            name == "four bits" and level == "ORT_ENABLE_ALL"
        ):  # makes integers of biases, coarse ones
            near = np.abs(want).max() / 10
        assert np.abs(run(path, level, x) - want).max() < near
    assert np.abs(hy.onnx.load(path)(x).numpy() - want).max() < near


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("name", ["rows", "batches of rows", "one scale"])
def test_onnxruntime_makes_integers_of_it(name: str, tmp_path: Path) -> None:
    path, kept = tmp_path / "m.onnx", tmp_path / "kept.onnx"
    _, x, _ = made(name, path)
    run(path, "ORT_ENABLE_ALL", x, kept)
    assert kinds(kept).count("QGemm") == 2 and "Gemm" not in kinds(kept)


def test_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    net, _, _ = made("rows", path)
    model = onnx.load(path)
    layer = ["DequantizeLinear", "QuantizeLinear", *["DequantizeLinear"] * 2, "Gemm"]
    assert kinds(path) == [*layer, "Relu", *layer]
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert not any(a.dtype == np.float32 and a.ndim > 1 for a in arrays.values())
    q = arrays["0.weight_q"]
    assert q.dtype == np.uint8
    assert (q.astype(int) - 128 == net[0].weight_q.numpy()).all()
    assert (arrays["0.weight_q_scale"] == net[0].weight_scale.numpy()).all()
    assert arrays["0.bias_q"].dtype == np.int32
    step = arrays["0.bias_q_scale"]
    assert np.abs(arrays["0.bias_q"] * step - net[0].bias.numpy()).max() <= step.max() / 2
    again = tmp_path / "again.onnx"
    made("rows", again)
    assert again.read_bytes() == path.read_bytes()


def test_other_layers_are_as_in_integers(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    net, _, _ = made("text", path)
    found = kinds(path)
    assert found.count("MatMulInteger") == 2  # of the attention
    assert found.count("QuantizeLinear") == 3  # layers in integers: out_proj is dynamic
    assert type(net.twice).__name__ == "QuantizedLinear"  # the model is as it was


def test_methods_axes_and_the_default(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.net = mlp()

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.net(x)

        def double(self, x: hy.Tensor) -> hy.Tensor:
            return 2 * self.net(x)

    hy.random.seed(0)
    x, path = drawn(8, 64), tmp_path / "m.onnx"
    net = static(Twice(), x).eval()
    hy.onnx.export(net.double, path, x, format="qdq", dynamic_axes={0: {0: "batch"}})
    want = net.double(x[:3]).numpy()
    assert np.abs(run(path, "ORT_ENABLE_ALL", x[:3]) - want).max() < 1e-3
    hy.onnx.export(net, path, x, format="integer")
    before = path.read_bytes()
    hy.onnx.export(net, path, x)
    assert path.read_bytes() == before and "QuantizeLinear" not in kinds(path)


BAD: dict[str, tuple[Callable[[str], Any], str]] = {
    "format": (
        lambda p: hy.onnx.export(mlp(), p, drawn(8, 64), format="int8"),
        'format=\'int8\' is unknown\nFix: use "integer" or "qdq".',
    ),
    "floats": (
        lambda p: hy.onnx.export(mlp(), p, drawn(8, 64), format="qdq"),
        'format="qdq" is of static layers, and this Sequential has none\n'
        "What goes into them has a scale that is known; other layers are as in integers.\n"
        'Fix: quantize(model, "static", data=...), or leave format out.',
    ),
    "dynamic": (
        lambda p: hy.onnx.export(quantize(mlp()), p, drawn(8, 64), format="qdq"),
        'format="qdq" is of static layers, and this Sequential has none\n'
        "What goes into them has a scale that is known; other layers are as in integers.\n"
        'Fix: quantize(model, "static", data=...), or leave format out.',
    ),
    "a function": (
        lambda p: hy.onnx.export(hy.tanh, p, drawn(8, 64), format="qdq"),
        'format="qdq" cannot take tanh\n'
        "Layers are written in another way, and what a plain function calls is not known.\n"
        "Fix: export the module itself, or a method of it.",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str, tmp_path: Path) -> None:
    call, text = BAD[what]
    with pytest.raises(ArgumentError) as caught:
        call(str(tmp_path / "m.onnx"))
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []
