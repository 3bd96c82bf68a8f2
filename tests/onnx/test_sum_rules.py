"""Layers as ONNX: every one of ``hybrid.nn``, and those that runtimes know as one op."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.ir import REGISTRY, Builder, Graph
from hybrid.nn import functional
from hybrid.onnx.model_assembly import OPSETS, ModelInput, model_of
from tests.helpers import part_of, parts
from tests.nn.layer_cases import Case
from tests.nn.test_layers import CASES
from tests.onnx.exported import assert_exported, assert_same, leaves, run

RANDOM = np.random.default_rng(11)
PARTS = 16


def drawn(*shape: int) -> hy.Tensor:
    return hy.asarray(RANDOM.standard_normal(shape).astype(np.float32))


def ops_of(made: Any) -> list[str]:
    return [node.op_type for node in made.graph.node]


# Every layer --------------------------------------------------------------------------------------


def given(value: Any) -> Any:
    """``value`` with a tensor for each array."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(given, value))
    return hy.asarray(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("part", parts(PARTS))
def test_every_layer_computes_the_same_there(part: int, tmp_path: Path) -> None:
    for number, case in part_of(enumerate(CASES), part, PARTS):
        assert_layer(case, tmp_path / "m.onnx", OPSETS[number % len(OPSETS)])


def assert_layer(case: Case, path: Path, opset: int) -> None:
    hy.random.seed(0)
    layer, args = case.make().eval(), [given(value) for value in case.inputs]
    with warnings.catch_warnings():
        if getattr(layer, "inplace", False):
            warnings.filterwarnings("ignore", "(?s).*what it writes to its argument")
        hy.onnx.export(layer, path, *args, opset=opset)
    onnx.checker.check_model(path, full_check=True)
    inputs = leaves(tuple(args))
    found, loaded = run(path, *inputs), leaves(hy.onnx.load(path)(*inputs))
    with hy.no_grad():
        wanted = leaves(layer(*args))
    assert_same(found, wanted, case.name)
    assert_same(loaded, wanted, case.name)


def test_what_is_written_to_an_argument_is_said(tmp_path: Path) -> None:
    x = drawn(3)
    with pytest.warns(UserWarning, match="what it writes to its argument input"):
        hy.onnx.export(nn.ReLU(inplace=True), tmp_path / "m.onnx", x)
    [got] = run(tmp_path / "m.onnx", x)
    np.testing.assert_array_equal(got, np.maximum(x.numpy(), 0))


# Layers that are one op ---------------------------------------------------------------------------


def settled(layer: nn.Module) -> nn.Module:
    """``layer`` with statistics and weights that are not those of the beginning."""
    for name, value in layer.state_dict().items():
        if "num_batches" not in name:
            value.assign(hy.abs(drawn(*value.shape)) + 0.5)
    return layer.eval()


LAYERS = [
    (nn.Linear(4, 3), (2, 4), 17, ["Gemm"]),
    (nn.Linear(4, 3), (2, 5, 4), 17, ["Transpose", "MatMul", "Add"]),
    (nn.Conv1d(2, 4, 3, padding=1), (2, 2, 5), 17, ["Conv"]),
    (nn.Conv2d(2, 4, 3, stride=2, groups=2), (2, 2, 5, 6), 18, ["Conv"]),
    (nn.Conv2d(2, 4, 3, bias=False), (2, 2, 5, 6), 18, ["Conv"]),
    (nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1), (2, 2, 5, 6), 18, ["ConvTranspose"]),
    (nn.BatchNorm1d(4), (2, 4), 17, ["BatchNormalization"]),
    (nn.BatchNorm2d(4, eps=0.1), (2, 4, 3, 5), 19, ["BatchNormalization"]),
    (nn.BatchNorm3d(4), (2, 4, 3, 5, 2), 23, ["BatchNormalization"]),
    (nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 5), 17, ["InstanceNormalization"]),
    (nn.GroupNorm(2, 4), (2, 4, 3, 5), 21, ["GroupNormalization"]),
    (nn.GroupNorm(2, 4, eps=0.1), (2, 4, 3), 20,
     ["Reshape", "LayerNormalization", "Reshape", "Reshape", "Mul", "Reshape", "Add"]),
    (nn.LayerNorm(4), (2, 3, 4), 17, ["LayerNormalization"]),
    (nn.RMSNorm(4), (2, 3, 4), 23, ["RMSNormalization"]),
    (nn.GELU(), (2, 3), 20, ["Gelu"]),
    (nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.ReLU()), (2, 1, 4, 4), 18,
     ["Conv", "BatchNormalization", "Relu"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "shape", "opset", "ops"), LAYERS, ids=[str(row[0]).split("(")[0] for row in LAYERS]
)
def test_layers_that_runtimes_know(
    layer: nn.Module, shape: tuple, opset: int, ops: list[str], tmp_path: Path
) -> None:
    args, path = [drawn(*shape)], tmp_path / "m.onnx"
    made = assert_exported(settled(layer), args, path, opset=opset)
    assert ops_of(made) == ops
    weights = {tensor.name for tensor in made.graph.initializer}
    assert {name for name, _ in layer.named_parameters()} <= weights


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.BatchNorm2d(4, affine=False), (2, 4, 3, 5)), (nn.BatchNorm1d(4), (3, 4, 2)),
     (nn.GroupNorm(2, 4, affine=False), (2, 4, 3)), (nn.InstanceNorm1d(4), (2, 4, 3))],
)  # fmt: skip
def test_norms_without_weights(layer: nn.Module, shape: tuple, tmp_path: Path) -> None:
    assert_exported(settled(layer), [drawn(*shape)], tmp_path / "m.onnx", opset=23)


def test_norms_of_float64(tmp_path: Path) -> None:
    x = hy.asarray(RANDOM.standard_normal((2, 4, 3)))
    for layer in (nn.BatchNorm1d(4), nn.InstanceNorm1d(4, affine=True), nn.GroupNorm(4, 4)):
        layer = settled(layer).to(hy.float64)
        made = assert_exported(layer, [x], tmp_path / "m.onnx", opset=18)
        assert "InstanceNormalization" not in ops_of(made)  # for which there is no kernel


def test_what_something_else_reads_stays(tmp_path: Path) -> None:
    weight, bias = drawn(4, 2, 3), drawn(4)

    def function(x):
        plain = functional.conv1d(x, weight)
        return plain + bias[:, None], plain

    made = assert_exported(function, [drawn(2, 2, 5)], tmp_path / "m.onnx")
    assert ops_of(made) == ["Conv", "Reshape", "Add", "Identity"]


def test_sums_that_are_no_bias(tmp_path: Path) -> None:
    weight = drawn(4, 4, 1)

    def along_the_wrong_axis(x, y):
        return functional.conv1d(x, weight) + y.reshape((1, 1, 4))

    def of_each_row(x, y):
        return x[:, 0] @ weight[:, :, 0] + y[:, None]

    for function in (along_the_wrong_axis, of_each_row):
        made = assert_exported(function, [drawn(4, 4, 4), drawn(4)], tmp_path / "m.onnx")
        assert ops_of(made).count("Add") == 1


def test_a_bias_behind_what_a_transposed_convolution_adds() -> None:
    """Its result is longer than ONNX lets it be: zeros are added, and get the bias, too."""
    builder = Builder("f")
    shapes = {"y": (1, 2, 3), "w": (2, 3, 2), "b": (3,)}
    arrays = {name: drawn(*shape) for name, shape in shapes.items()}
    params = [builder.param(x.type, name) for name, x in arrays.items()]
    attrs = {"stride": (2,), "padding": (0,), "dilation": (1,), "groups": 1, "size": (11,)}
    (found,) = builder.apply(REGISTRY["conv_transpose"], params[:2], attrs)
    (column,) = builder.apply(REGISTRY["reshape"], params[2:], {"shape": (3, 1)})
    graph: Graph = builder.finish(builder.apply(REGISTRY["add"], (found, column), {}))
    inputs = [ModelInput(p.hint, p.type, p) for p in params]
    model = model_of(graph, {}, inputs, ["sum"], 18)
    onnx.checker.check_model(model, full_check=True)
    y, w, b = arrays.values()
    want = REGISTRY["conv_transpose"](y, w, **attrs) + b.reshape((3, 1))
    module = hy.onnx.load(model)
    np.testing.assert_allclose(module(y, w, b).numpy(), want.numpy(), 1e-5, 1e-6)
