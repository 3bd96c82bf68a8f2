"""Quantized layers of several weights: attention and recurrent networks.

Their products with weights are those of dynamic layers, whatever the method: int8 rows with scales
of their own.  Scores, gates and states stay float32.  ``weight_ih_l0_q`` and ``weight_ih_l0_scale``
stand for ``weight_ih_l0``, and so on; the names without are what the bytes stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid import nn, ops
from hybrid.compress.functional import dequantize
from hybrid.compress.integer_products import dynamic_linear
from hybrid.compress.quantized_layers import QuantizedLayer
from hybrid.compress.scheme import Scheme, quantized_weight
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.functions.multihead import attend
from hybrid.nn.layers.cells import STEPS, cell
from hybrid.nn.layers.recurrence import loop
from hybrid.nn.modules.module import Module

_INNER = ("_parameters", "_modules", "_buffers", "_transient", "_hooks", "_hybridized")


class _SeveralWeights(QuantizedLayer):
    """A layer with all that another one has, but matrices in bytes."""

    def __init__(self, layer: Module, scheme: Scheme) -> None:
        self.scheme = scheme
        for name, value in vars(layer).items():
            if name not in _INNER and not isinstance(value, Tensor):
                setattr(self, name, value)
        for name, parameter in layer._parameters:
            if parameter is None:
                setattr(self, name, None)
            elif self.is_weight(name):
                axis = 0 if scheme.per_channel else None
                q, scale = quantized_weight(parameter, scheme.high, axis)
                self.register_buffer(f"{name}_q", q)
                self.register_buffer(f"{name}_scale", scale)
            else:
                self.register_buffer(name, asarray(parameter.detach(), copy=True))

    @staticmethod
    def refusal(layer: Module) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        return None

    @staticmethod
    def is_weight(name: str) -> bool:
        """Whether that is the name of a matrix, and no bias."""
        return "weight" in name

    def weight_at(self, name: str) -> tuple[Tensor, Tensor] | None:
        """The bytes and the scale of a matrix; None if the layer has none of that name."""
        if f"{name}_q" not in self._buffers:
            return None
        return getattr(self, f"{name}_q"), getattr(self, f"{name}_scale")

    def weights_at(self, *names: str) -> Iterator[Any]:
        """Matrices, each with its scale, and biases; None for those that the layer lacks."""
        for name in names:
            yield self.weight_at(name) if self.is_weight(name) else getattr(self, name, None)

    def described(self) -> str:
        return super(QuantizedLayer, self).extra_repr()

    def __getattr__(self, name: str) -> Any:
        if not name.endswith(("_q", "_scale")) and f"{name}_q" in self._buffers:
            q, scale = self.weight_at(name)
            return dequantize(q, scale, axis=0 if scale.ndim else None)
        return super().__getattr__(name)


# Recurrent networks ------------------------------------------------------------------------------


class _QuantizedRecurrent(_SeveralWeights):
    _linear = staticmethod(dynamic_linear)
    _loops = {mode: loop(step, dynamic_linear) for mode, step in STEPS.items()}  # noqa: RUF012

    def _weights(self, suffix: str) -> Iterator[Any]:
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        return self.weights_at(*[kind + suffix for kind in kinds])


class _QuantizedCell(_SeveralWeights):
    _cells = {mode: cell(step, dynamic_linear) for mode, step in STEPS.items()}  # noqa: RUF012

    def _weights(self) -> tuple[Any, ...]:
        return tuple(self.weights_at("weight_ih", "bias_ih", "weight_hh", "bias_hh"))


class QuantizedRNN(_QuantizedRecurrent, nn.RNN):
    """RNN with int8 products."""


class QuantizedLSTM(_QuantizedRecurrent, nn.LSTM):
    """LSTM with int8 products."""


class QuantizedGRU(_QuantizedRecurrent, nn.GRU):
    """GRU with int8 products."""


class QuantizedRNNCell(_QuantizedCell, nn.RNNCell):
    """RNNCell with int8 products."""


class QuantizedLSTMCell(_QuantizedCell, nn.LSTMCell):
    """LSTMCell with int8 products."""


class QuantizedGRUCell(_QuantizedCell, nn.GRUCell):
    """GRUCell with int8 products."""


# Attention ---------------------------------------------------------------------------------------


class QuantizedMultiheadAttention(_SeveralWeights, nn.MultiheadAttention):
    """MultiheadAttention whose products with weights are of int8; ``out_proj`` is a layer.

    ``in_proj_weight_q`` has the bytes of all three projections, or each has its own.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What the queries find, and the weights; see ``multi_head_attention_forward``."""
        return attend(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.projected,
            self.out_proj,
            inner=self.out_proj.in_features,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            dropout_p=self.dropout if self.training else 0.0,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            batch_first=self.batch_first,
        )

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads; three products, or one where they are one."""
        whole, bias = self.weight_at("in_proj_weight"), self.in_proj_bias
        if whole is not None and key is query and value is key:
            return ops.chunk(dynamic_linear(query, whole, bias), 3, axis=-1)
        biases = [None] * 3 if bias is None else ops.chunk(bias, 3, axis=0)
        if whole is None:
            weights = self.weights_at("q_proj_weight", "k_proj_weight", "v_proj_weight")
        else:
            q, scale = whole
            scales = ops.chunk(scale, 3, axis=0) if scale.ndim else [scale] * 3
            weights = zip(ops.chunk(q, 3, axis=0), scales, strict=True)
        inputs = (query, key, value)
        return [dynamic_linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


SEQUENCES = {
    nn.RNN: QuantizedRNN,
    nn.LSTM: QuantizedLSTM,
    nn.GRU: QuantizedGRU,
    nn.RNNCell: QuantizedRNNCell,
    nn.LSTMCell: QuantizedLSTMCell,
    nn.GRUCell: QuantizedGRUCell,
    nn.MultiheadAttention: QuantizedMultiheadAttention,
}
