"""Small models, written with the helpers of the package onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"


def value(name: str, dtype: int = TensorProto.FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: dict[str, np.ndarray] | None = None,
    name: str = "small",
) -> Any:
    tensors = [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()]
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs), tensors)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    weights: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    ml: int = 0,
    functions: Sequence[Any] = (),
    domains: Sequence[Any] = (),
) -> Any:
    """A model of float inputs "x" and outputs "y" unless others are given."""
    made = graph(nodes, inputs or [value("x")], outputs or [value("y")], weights)
    imports = [helper.make_opsetid("", opset), *domains]
    if ml:
        imports.append(helper.make_opsetid(ML, ml))
    return helper.make_model(made, opset_imports=imports, ir_version=8, functions=list(functions))


node = helper.make_node


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def network() -> Any:
    """Two layers, the names of whose weights are those of PyTorch."""
    rng = np.random.default_rng(0)
    weights = {
        "layers.0.weight": rng.normal(size=(8, 4)).astype(np.float32),
        "layers.0.bias": rng.normal(size=8).astype(np.float32),
        "onnx::MatMul_7": rng.normal(size=(8, 3)).astype(np.float32),
        "scale": np.array(0.5, np.float32),
        "shape": np.array([0, -1], np.int64),
    }
    nodes = [
        node("Gemm", ["x", "layers.0.weight", "layers.0.bias"], ["/0/Gemm_output_0"], transB=1),
        node("Relu", ["/0/Gemm_output_0"], ["/1/Relu_output_0"]),
        node("MatMul", ["/1/Relu_output_0", "onnx::MatMul_7"], ["h"]),
        node("Mul", ["h", "scale"], ["scaled"]),
        node("Reshape", ["scaled", "shape"], ["y"]),
    ]
    return model(nodes, [value("x", shape=["batch", 4])], weights=weights)


def saved(made: Any, path: Any) -> str:
    onnx.save(made, path)
    return str(path)
