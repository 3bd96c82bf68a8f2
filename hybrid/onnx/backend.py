"""The backend that ``onnx.backend.base`` describes, so that ONNX's own tests run on hybrid.

::

    backend_test = onnx.backend.test.BackendTest(hybrid.onnx.backend, __name__)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from hybrid import ops
from hybrid.autodiff import no_grad
from hybrid.core import types
from hybrid.eager.tensor import Tensor
from hybrid.onnx.onnx_module import OnnxModule, load


class Prepared(BackendRep):
    """A model that is ready to run: ``module`` is the module."""

    def __init__(self, module: OnnxModule) -> None:
        self.module = module

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The outputs, as arrays, of arrays in the order of the inputs, or by their names."""
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in self.module.input_names]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        with no_grad():
            found = self.module(*[operand(value) for value in inputs])
        return tuple(array(value) for value in (found if isinstance(found, tuple) else (found,)))


class HybridBackend(Backend):
    """Loads models with ``hybrid.onnx.load``; the only device is the CPU."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **options: Any) -> bool:
        """Whether ``prepare`` takes the model."""
        try:
            load(model)
        except ValueError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(
        cls, model: Any, device: str = "CPU", hybridize: bool = False, **options: Any
    ) -> Any:
        """The model as a module, hybridized if asked for."""
        module = load(model)
        if hybridize:
            module.hybridize()
        return Prepared(module)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **options: Any) -> Any:
        """What the model gives for ``inputs``."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> Any:
        """What one node gives for ``inputs``; ``opset_version=`` says of which opset it is."""
        values = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), None
            )
            for name, value in zip([n for n in node.input if n], inputs, strict=True)
        ]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        for result in results:
            result.type.tensor_type.elem_type = 0
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], node.op_type, values, results),
            opset_imports=[onnx.helper.make_opsetid(node.domain, version)],
        )
        return cls.run_model(model, inputs, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` is the CPU."""
        return device.partition(":")[0] == "CPU"


def operand(value: Any) -> Tensor:
    """An array as a tensor; those of bfloat16 are of ml_dtypes."""
    found = np.asarray(value)
    if found.dtype.name == "bfloat16":
        return ops.astype(ops.as_tensor(np.asarray(found, np.float32)), types.bfloat16)
    return ops.as_tensor(found)


def array(value: Tensor) -> np.ndarray:
    """A tensor as an array; one of bfloat16 as one of ml_dtypes."""
    if value.dtype is not types.bfloat16:
        return value.numpy()
    import ml_dtypes

    return value.astype(types.float32).numpy().astype(ml_dtypes.bfloat16)


is_compatible = HybridBackend.is_compatible
prepare = HybridBackend.prepare
run_model = HybridBackend.run_model
run_node = HybridBackend.run_node
supports_device = HybridBackend.supports_device
