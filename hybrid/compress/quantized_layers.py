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
from hybrid.compress.integer_products import Activations, static_linear, sums
from hybrid.compress.scheme import LONGEST, Scheme, blank_weight, quantized_weight
from hybrid.compress.weight_forms import (
    blank_groups,
    dequantized,
    grouped,
    is_grouped,
    linear_of,
    matrix_of,
)
from hybrid.core.types import float32, uint8
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.ops.support.operand_checks import as_tensor

_INNER = ("_parameters", "_modules", "_buffers", "_transient", "_hooks", "_hybridized")
_OWN = ("scheme", "in_groups", "shapes")


class QuantizedLayer(Module):
    """A layer with all that another one has, but matrices in bytes."""

    scheme: Scheme

    def __init__(self, layer: Module, scheme: Scheme, blank: bool = False) -> None:
        """``blank``: the numbers are to come, so none are rounded."""
        self.scheme = scheme
        absent = [name for name, value in vars(layer).items() if value is None and "bias" in name]
        for name, value in vars(layer).items():
            if name not in (*_INNER, *absent) and not isinstance(value, Tensor):
                setattr(self, name, value)
        self.in_groups = is_grouped(layer, scheme)
        self.shapes = {n: p.shape for n, p in layer._parameters if self.is_weight(n)}
        for name, parameter in layer._parameters:
            if not self.is_weight(name):
                self.register_buffer(name, asarray(parameter.detach(), copy=True))
                continue
            for end, tensor in self.quantized(parameter, blank).items():
                self.register_buffer(f"{name}_{end}", tensor)
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

    def quantized(self, weight: Tensor, blank: bool = False) -> dict[str, Tensor]:
        """The state that a matrix has, by the ends of its names."""
        if self.in_groups:
            if blank:
                return blank_groups(weight.shape, self.scheme)
            return grouped(matrix_of(weight), self.scheme)
        axis = 0 if self.scheme.per_channel else None
        if blank:
            q, scale = blank_weight(weight, axis)
        else:
            q, scale = quantized_weight(weight, self.scheme.high, axis)
        return {"q": q, "scale": scale}

    def calibrate(self, scale: Any, zero: Any) -> None:
        """Take static activations: uint8 of one ``scale`` and ``zero`` point."""
        self.register_buffer("input_scale", asarray(scale, dtype=float32, copy=True))
        self.register_buffer("input_zero", asarray(zero, dtype=uint8, copy=True))

    @property
    def activations(self) -> Activations:
        """Those of static layers."""
        return Activations(self.input_scale, self.input_zero, self.scheme.activation_high)

    def in_floats(self) -> Module:
        """A layer of floats whose weights are what the bytes of this one stand for."""
        kind: type[Module] = next(
            k for k in type(self).__mro__ if not issubclass(k, QuantizedLayer)
        )
        made = kind.__new__(kind)
        for name, value in vars(self).items():
            if name not in (*_INNER, *_OWN) and not isinstance(value, Tensor):
                setattr(made, name, value)
        for name in self._buffers:
            if name.endswith("_q"):
                setattr(made, name[:-2], Parameter(getattr(self, name[:-2])))
            elif "bias" in name and getattr(self, name) is not None:
                setattr(made, name, Parameter(getattr(self, name)))
        return made

    def weight_at(self, name: str) -> tuple[Tensor, ...] | None:
        """Bytes, scale and perhaps zero of a matrix; None if the layer has none of that name."""
        if f"{name}_q" not in self._buffers:
            return None
        found = getattr(self, f"{name}_q"), getattr(self, f"{name}_scale")
        zero = f"{name}_zero"
        return (*found, getattr(self, zero)) if zero in self._buffers else found

    def weights_at(self, *names: str) -> Iterator[Any]:
        """Matrices, each with its scales, and biases; None for those that the layer lacks."""
        for name in names:
            yield self.weight_at(name) if self.is_weight(name) else getattr(self, name, None)

    def extra_repr(self) -> str:
        scheme = self.scheme
        words = [super().extra_repr(), scheme.method, f"bits={scheme.bits}"]
        if scheme.group_size is not None:
            words.append(f"group_size={scheme.group_size}")
        if scheme.scheme != "symmetric":
            words.append(scheme.scheme)
        return ", ".join(word for word in words if word)

    def __getattr__(self, name: str) -> Any:
        if not name.endswith(("_q", "_scale", "_zero")) and f"{name}_q" in self._buffers:
            if self.in_groups:
                return dequantized(self.weight_at(name), self.shapes[name], self.scheme)
            q, scale = self.weight_at(name)
            return dequantize(q, scale, axis=0 if scale.ndim else None)
        return super().__getattr__(name)


class QuantizedLinear(QuantizedLayer, nn.Linear):
    """``x @ weight.T + bias`` of int8 products: [..., in] -> [..., out], float32.

    Dynamic: int8 with a scale for each row, ``f32(acc) * s_x * s_w + bias`` from left to right.
    Static: uint8 with one scale, ``f32(acc - z * sum_k w) * (s_x * s_w) + bias``.
    Weights alone: products of floats, with weights that are not written out in floats.
    """

    @classmethod
    def refusal(cls, layer: nn.Linear) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        if layer.in_features > LONGEST:
            return f"sums of {layer.in_features} products do not fit into 32 bits"
        return None

    def calibrate(self, scale: Any, zero: Any) -> None:
        """Take static activations, whose zero point counts as often as weights say."""
        super().calibrate(scale, zero)
        self.register_buffer("weight_sums", sums(self.weight_q))

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        if self.scheme.method != "static":
            return linear_of(self.scheme)(input, self.weight_at("weight"), self.bias)
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
        if self.in_groups:
            rows = tuple([ops.take(part, flat, axis=0) for part in self.weight_at("weight")])
            rows = dequantized(rows, (flat.shape[0], self.embedding_dim), self.scheme)
            return ops.reshape(rows, (*input.shape, self.embedding_dim))
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
