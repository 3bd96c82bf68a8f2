"""Quantized layers: modules of bytes and scales in place of those of floats.

Their state is ``weight_q`` (bytes), ``weight_scale``, ``bias`` and, of static ones,
``input_scale``, ``input_zero`` and ``weight_sums``: buffers, so that a plan serves whatever they
hold.  ``weight`` is what the bytes stand for, so code that reads it keeps its meaning.
"""

from __future__ import annotations

from typing import Any

from hybrid import nn, ops
from hybrid.compress import functional
from hybrid.compress.integer_products import Activations, dynamic_linear, static_linear, sums
from hybrid.compress.scheme import LONGEST, Scheme, quantized_weight
from hybrid.core.types import float32, uint8
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import as_tensor


class QuantizedLayer(Module):
    """What all quantized layers share: weights in bytes, and how they began."""

    scheme: Scheme
    axis = 0  # of the weight, along which each place has a scale

    def take(self, layer: Module, scheme: Scheme) -> None:
        """The weight of ``layer`` in bytes, its bias as it is."""
        self.scheme = scheme
        q, scale = quantized_weight(
            layer.weight, scheme.high, self.axis if scheme.per_channel else None
        )
        self.register_buffer("weight_q", q)
        self.register_buffer("weight_scale", scale)
        bias = getattr(layer, "bias", None)
        self.register_buffer("bias", None if bias is None else _copy(bias))
        self.train(layer.training)

    def calibrate(self, scale: Any, zero: Any) -> None:
        """Take static activations: uint8 of one ``scale`` and ``zero`` point."""
        self.register_buffer("input_scale", asarray(scale, dtype=float32))
        self.register_buffer("input_zero", asarray(zero, dtype=uint8))
        self.register_buffer("weight_sums", sums(self.weight_q))

    @property
    def weight(self) -> Tensor:
        """The weight that the bytes stand for, float32."""
        axis = None if self.weight_scale.ndim == 0 else self.axis
        return functional.dequantize(self.weight_q, self.weight_scale, axis=axis)

    @property
    def activations(self) -> Activations:
        """Those of static layers."""
        return Activations(self.input_scale, self.input_zero, self.scheme.activation_high)

    def extra_repr(self) -> str:
        words = [self.described(), self.scheme.method, f"bits={self.scheme.bits}"]
        return ", ".join(word for word in words if word)


def _copy(x: Tensor) -> Tensor:
    return asarray(x.detach().numpy().copy())


class QuantizedLinear(QuantizedLayer):
    """``x @ weight.T + bias`` of int8 products: [..., in] -> [..., out], float32.

    Dynamic: int8 with a scale for each row, ``f32(acc) * s_x * s_w + bias`` from left to right.
    Static: uint8 with one scale, ``f32(acc - z * sum_k w) * (s_x * s_w) + bias``.
    """

    def __init__(self, layer: nn.Linear, scheme: Scheme) -> None:
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.take(layer, scheme)

    @staticmethod
    def refusal(layer: nn.Linear) -> str | None:
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

    def described(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class QuantizedEmbedding(QuantizedLayer):
    """Rows of a table of int8, each times its scale: indices [...] -> [..., features], float32."""

    def __init__(self, layer: nn.Embedding, scheme: Scheme) -> None:
        self.num_embeddings, self.embedding_dim = layer.num_embeddings, layer.embedding_dim
        self.padding_idx = layer.padding_idx
        self.take(layer, scheme)

    @staticmethod
    def refusal(layer: nn.Embedding) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        return "its rows are scaled to max_norm as they are read" if layer.max_norm else None

    def forward(self, input: Tensor) -> Tensor:
        flat = ops.reshape(input, (-1,))
        rows = ops.astype(ops.take(self.weight_q, flat, axis=0), float32)
        scale = self.weight_scale
        if scale.ndim:
            scale = ops.reshape(ops.take(scale, flat, axis=0), (-1, 1))
        return ops.reshape(ops.multiply(rows, scale), (*input.shape, self.embedding_dim))

    def described(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


def replaced(network: Module, made: dict[int, Any]) -> Module:
    """``network`` with layers in place of those of these ids; what it becomes, if it is one."""
    for parent in (*network.modules(), *made.values()):
        for name, child in parent._modules:  # one module may have several names
            if id(child) in made:
                setattr(parent, name, made[id(child)])
    return made.get(id(network), network)
