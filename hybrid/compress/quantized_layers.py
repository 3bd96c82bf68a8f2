"""Quantized layers: modules of bytes and scales in place of those of floats.

Their state is ``weight_q`` (bytes), ``weight_scale``, ``bias`` and, of static ones,
``input_scale``, ``input_zero`` and ``weight_sums``: buffers, so that a plan serves whatever they
hold.  ``weight`` is what the bytes stand for, so code that reads it keeps its meaning.  So it is
with the matrices of layers that have several: ``weight_ih_l0_q``, ``weight_ih_l0_scale``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid import nn, ops
from hybrid.compress.functional import dequantize
from hybrid.compress.integer_products import Activations, dynamic_linear, static_linear, sums
from hybrid.compress.scheme import LONGEST, Scheme, quantized_weight
from hybrid.core.types import float32, uint8
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import as_tensor

_INNER = ("_parameters", "_modules", "_buffers", "_transient", "_hooks", "_hybridized")


class QuantizedLayer(Module):
    """A layer with all that another one has, but matrices in bytes."""

    scheme: Scheme

    def __init__(self, layer: Module, scheme: Scheme) -> None:
        self.scheme = scheme
        absent = [name for name, value in vars(layer).items() if value is None and "bias" in name]
        for name, value in vars(layer).items():
            if name not in (*_INNER, *absent) and not isinstance(value, Tensor):
                setattr(self, name, value)
        axis = 0 if scheme.per_channel else None
        for name, parameter in layer._parameters:
            if not self.is_weight(name):
                self.register_buffer(name, asarray(parameter.detach(), copy=True))
            else:
                q, scale = quantized_weight(parameter, scheme.high, axis)
                self.register_buffer(f"{name}_q", q)
                self.register_buffer(f"{name}_scale", scale)
        for name in absent:
            self.register_buffer(name, None)

    @classmethod
    def refusal(cls, layer: Any) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        return None

    @staticmethod
    def is_weight(name: str) -> bool:
        """Whether that is the name of a matrix, and no bias."""
        return "weight" in name

    def calibrate(self, scale: Any, zero: Any) -> None:
        """Take static activations: uint8 of one ``scale`` and ``zero`` point."""
        self.register_buffer("input_scale", asarray(scale, dtype=float32, copy=True))
        self.register_buffer("input_zero", asarray(zero, dtype=uint8, copy=True))
        self.register_buffer("weight_sums", sums(self.weight_q))

    @property
    def activations(self) -> Activations:
        """Those of static layers."""
        return Activations(self.input_scale, self.input_zero, self.scheme.activation_high)

    def weight_at(self, name: str) -> tuple[Tensor, Tensor] | None:
        """The bytes and the scale of a matrix; None if the layer has none of that name."""
        if f"{name}_q" not in self._buffers:
            return None
        return getattr(self, f"{name}_q"), getattr(self, f"{name}_scale")

    def weights_at(self, *names: str) -> Iterator[Any]:
        """Matrices, each with its scale, and biases; None for those that the layer lacks."""
        for name in names:
            yield self.weight_at(name) if self.is_weight(name) else getattr(self, name, None)

    def extra_repr(self) -> str:
        words = [super().extra_repr(), self.scheme.method, f"bits={self.scheme.bits}"]
        return ", ".join(word for word in words if word)

    def __getattr__(self, name: str) -> Any:
        if not name.endswith(("_q", "_scale")) and f"{name}_q" in self._buffers:
            q, scale = self.weight_at(name)
            return dequantize(q, scale, axis=0 if scale.ndim else None)
        return super().__getattr__(name)


class QuantizedLinear(QuantizedLayer, nn.Linear):
    """``x @ weight.T + bias`` of int8 products: [..., in] -> [..., out], float32.

    Dynamic: int8 with a scale for each row, ``f32(acc) * s_x * s_w + bias`` from left to right.
    Static: uint8 with one scale, ``f32(acc - z * sum_k w) * (s_x * s_w) + bias``.
    """

    @classmethod
    def refusal(cls, layer: nn.Linear) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        if layer.in_features > LONGEST:
            return f"sums of {layer.in_features} products do not fit into 32 bits"
        return None

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        if self.scheme.method == "dynamic":
            return dynamic_linear(input, (self.weight_q, self.weight_scale), self.bias)
        weight = self.weight_q, self.weight_scale, self.weight_sums
        return static_linear(input, weight, self.bias, self.activations)


class QuantizedEmbedding(QuantizedLayer, nn.Embedding):
    """Rows of a table of int8, each times its scale: indices [...] -> [..., features], float32."""

    @classmethod
    def refusal(cls, layer: nn.Embedding) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        return "its rows are scaled to max_norm as they are read" if layer.max_norm else None

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        flat = ops.reshape(input, (-1,))
        rows = ops.astype(ops.take(self.weight_q, flat, axis=0), float32)
        scale = self.weight_scale
        if scale.ndim:
            scale = ops.reshape(ops.take(scale, flat, axis=0), (-1, 1))
        return ops.reshape(ops.multiply(rows, scale), (*input.shape, self.embedding_dim))


def replaced(network: Module, made: dict[int, Any]) -> Module:
    """``network`` with layers in place of those of these ids; what it becomes, if it is one."""
    for parent in (*network.modules(), *made.values()):
        for name, child in parent._modules:  # one module may have several names
            if id(child) in made:
                setattr(parent, name, made[id(child)])
    return made.get(id(network), network)
