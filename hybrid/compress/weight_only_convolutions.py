"""Convolutions of floats whose weights are kept in few bits.

The layers compute as those of floats do, with the ``weight`` that the bytes stand for: it is made
anew in each call, so that memory holds the bytes alone.
"""

from __future__ import annotations

from hybrid import nn
from hybrid.compress.quantized_layers import QuantizedLayer


class WeightOnlyConv1d(QuantizedLayer, nn.Conv1d):
    """Conv1d with a weight in bytes."""


class WeightOnlyConv2d(QuantizedLayer, nn.Conv2d):
    """Conv2d with a weight in bytes."""


class WeightOnlyConv3d(QuantizedLayer, nn.Conv3d):
    """Conv3d with a weight in bytes."""


class WeightOnlyConvTranspose1d(QuantizedLayer, nn.ConvTranspose1d):
    """ConvTranspose1d with a weight in bytes."""


class WeightOnlyConvTranspose2d(QuantizedLayer, nn.ConvTranspose2d):
    """ConvTranspose2d with a weight in bytes."""


class WeightOnlyConvTranspose3d(QuantizedLayer, nn.ConvTranspose3d):
    """ConvTranspose3d with a weight in bytes."""


WEIGHT_ONLY_CONVOLUTIONS = {
    nn.Conv1d: WeightOnlyConv1d,
    nn.Conv2d: WeightOnlyConv2d,
    nn.Conv3d: WeightOnlyConv3d,
    nn.ConvTranspose1d: WeightOnlyConvTranspose1d,
    nn.ConvTranspose2d: WeightOnlyConvTranspose2d,
    nn.ConvTranspose3d: WeightOnlyConvTranspose3d,
}
