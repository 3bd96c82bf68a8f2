"""The backend as onnx.backend.base describes it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.backend.base import Backend, BackendRep

from hybrid.errors import OnnxError
from hybrid.onnx import backend
from tests.onnx.small_models import model, network, node


def test_it_is_a_backend() -> None:
    assert issubclass(backend.HybridBackend, Backend) and issubclass(backend.Prepared, BackendRep)
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA:1")
    assert backend.is_compatible(network()) and not backend.is_compatible(network(), "CUDA")
    assert not backend.is_compatible(model([node("Nothing", ["x"], ["y"])]))


def test_models_run_with_arrays_in_order_or_by_name() -> None:
    x = np.ones((2, 4), np.float32)
    [first] = backend.run_model(network(), [x])
    [second] = backend.prepare(network(), hybridize=True).run({"x": x})
    [third] = backend.prepare(network()).run(x)
    assert np.array_equal(first, second) and np.array_equal(first, third)


def test_nodes_run() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    [y] = backend.run_node(node("Softmax", ["x"], ["y"], axis=0), [x], opset_version=12)
    assert np.isclose(y.sum(), 1)
    values, places = backend.run_node(
        node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2]), [x[None]]
    )
    assert values.tolist() == [[[2.0], [4.0]]] and places.tolist() == [[[1], [3]]]
    with pytest.raises(OnnxError, match="unknown op: Nothing"):
        backend.run_node(node("Nothing", ["x"], ["y"]), [x])
