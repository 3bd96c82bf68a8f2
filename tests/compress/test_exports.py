"""Quantized models as programs and as ONNX: the very bits, without Python and in onnxruntime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import convert, prepare_qat, quantize


def drawn(*shape: int) -> hy.Tensor:
    return hy.asarray(np.random.RandomState(0).randn(*shape).astype(np.float32))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))


def cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), nn.ReLU(), nn.Conv2d(8, 12, 1),
        nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip


def trained_aware(net: nn.Module, x: hy.Tensor) -> nn.Module:
    prepared = prepare_qat(net, bits=6)
    prepared(x)
    return convert(prepared)


MLP, CNN = (8, 64), (2, 3, 8, 8)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[..., nn.Module]]] = {
    "mlp, dynamic": (mlp, MLP, lambda net, x: quantize(net)),
    "mlp, static": (mlp, MLP, lambda net, x: quantize(net, "static", data=[x])),
    "mlp, trained": (mlp, MLP, trained_aware),
    "mlp, four bits": (mlp, MLP, lambda net, x: quantize(net, bits=4)),
    "cnn, dynamic": (cnn, CNN, lambda net, x: quantize(net.eval())),
    "cnn, static": (cnn, CNN, lambda net, x: quantize(net, "static", data=[x])),
    "cnn, trained": (cnn, CNN, trained_aware),
    "lstm": (lambda: nn.LSTM(16, 24), (5, 3, 16), lambda net, x: quantize(net)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(16, 4, 32), (5, 3, 16), lambda net, x: quantize(net),
    ),
}  # fmt: skip


def made(name: str) -> tuple[nn.Module, hy.Tensor, np.ndarray]:
    make, shape, compress = MODELS[name]
    hy.random.seed(0)
    x = drawn(*shape)
    net = compress(make(), x).eval()
    return net, x, first(net(x)).numpy()


def first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", MODELS)
def test_programs_have_the_same_bits(name: str, tmp_path: Path) -> None:
    net, x, want = made(name)
    path = tmp_path / "m.hyb"
    hy.export({"predict": (net, x)}, str(path))
    found = first(hy.load_exported(str(path))["predict"](x)).numpy()
    assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", [n for n in MODELS if n[:3] in ("mlp", "cnn")])
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_onnxruntime_gives_the_same_bits(name: str, level: str, tmp_path: Path) -> None:
    """Sums of bytes too: onnxruntime's products of uint8 and int8 saturate on some machines."""
    net, x, want = made(name)
    path = str(tmp_path / "m.onnx")
    hy.onnx.export(net, path, x)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert found.tobytes() == want.tobytes()
    again = hy.onnx.load(path)
    assert again(x).numpy().tobytes() == want.tobytes()


def test_sequences_run_in_onnxruntime(tmp_path: Path) -> None:
    net, x, want = made("transformer")
    path = str(tmp_path / "m.onnx")
    hy.onnx.export(net, path, x)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert np.allclose(found, want, rtol=1e-4, atol=1e-4)
