"""Quantized layers of several weights: attention and recurrent networks.

Their products with weights are those of dynamic layers, whatever the method: int8 rows with scales
of their own; but those of floats, where weights alone are quantized.  Scores, gates and states stay
float32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hybrid import nn, ops
from hybrid.compress.quantized_layers import QuantizedLayer
from hybrid.compress.weight_forms import Linear, linear_of
from hybrid.eager.tensor import Tensor
from hybrid.nn.layers.cells import STEPS, cell
from hybrid.nn.layers.recurrence import loop

# Recurrent networks ------------------------------------------------------------------------------


@functools.cache
def _loops_of(linear: Linear) -> dict[str, Any]:
    return {mode: loop(step, linear) for mode, step in STEPS.items()}


@functools.cache
def _cells_of(linear: Linear) -> dict[str, Any]:
    return {mode: cell(step, linear) for mode, step in STEPS.items()}


class _QuantizedRecurrent(QuantizedLayer):
    @property
    def _linear(self) -> Linear:
        return linear_of(self.scheme)

    @property
    def _loops(self) -> dict[str, Any]:
        return _loops_of(linear_of(self.scheme))

    def _weights(self, suffix: str) -> Iterator[Any]:
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        return self.weights_at(*[kind + suffix for kind in kinds])


class _QuantizedCell(QuantizedLayer):
    @property
    def _cells(self) -> dict[str, Any]:
        return _cells_of(linear_of(self.scheme))

    def _weights(self) -> tuple[Any, ...]:
        return tuple(self.weights_at("weight_ih", "bias_ih", "weight_hh", "bias_hh"))


class QuantizedRNN(_QuantizedRecurrent, nn.RNN):
    """RNN with weights in bytes."""


class QuantizedLSTM(_QuantizedRecurrent, nn.LSTM):
    """LSTM with weights in bytes."""


class QuantizedGRU(_QuantizedRecurrent, nn.GRU):
    """GRU with weights in bytes."""


class QuantizedRNNCell(_QuantizedCell, nn.RNNCell):
    """RNNCell with weights in bytes."""


class QuantizedLSTMCell(_QuantizedCell, nn.LSTMCell):
    """LSTMCell with weights in bytes."""


class QuantizedGRUCell(_QuantizedCell, nn.GRUCell):
    """GRUCell with weights in bytes."""


# Attention ---------------------------------------------------------------------------------------


class QuantizedMultiheadAttention(QuantizedLayer, nn.MultiheadAttention):
    """MultiheadAttention whose products with weights are of int8; ``out_proj`` is a layer.

    ``in_proj_weight_q`` has the bytes of all three projections, or each has its own.
    """

    def merged(self, found: Tensor) -> Tensor:
        """What all heads have found, projected."""
        return self.out_proj(found)

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads; three products, or one where they are one."""
        linear = linear_of(self.scheme)
        whole, bias = self.weight_at("in_proj_weight"), self.in_proj_bias
        if whole is not None and key is query and value is key:
            return ops.chunk(linear(query, whole, bias), 3, axis=-1)
        biases = [None] * 3 if bias is None else ops.chunk(bias, 3, axis=0)
        if whole is None:
            weights = self.weights_at("q_proj_weight", "k_proj_weight", "v_proj_weight")
        else:
            parts = [ops.chunk(x, 3, axis=0) if x.ndim else [x] * 3 for x in whole]
            weights = zip(*parts, strict=True)
        inputs = (query, key, value)
        return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


SEQUENCES = {
    nn.RNN: QuantizedRNN,
    nn.LSTM: QuantizedLSTM,
    nn.GRU: QuantizedGRU,
    nn.RNNCell: QuantizedRNNCell,
    nn.LSTMCell: QuantizedLSTMCell,
    nn.GRUCell: QuantizedGRUCell,
    nn.MultiheadAttention: QuantizedMultiheadAttention,
}
