"""Quantized convolutions: bytes in place of images and weights, and sums of int32.

What lies outside of an image is 0, of which the bytes are the zero point.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from hybrid import nn, ops
from hybrid.compress.functional import conv_integer
from hybrid.compress.integer_products import Activations, before, rows_quantized, scaled
from hybrid.compress.quantized_layers import QuantizedLayer
from hybrid.compress.scheme import LONGEST
from hybrid.eager.tensor import Tensor
from hybrid.nn import functional
from hybrid.ops.spatial.windows import padding_pairs, per_axis
from hybrid.ops.support.dtypes import made_of_integers
from hybrid.ops.support.operand_checks import as_tensor


def dynamic_convolution(
    x: Tensor, weight: tuple[Tensor, Tensor], bias: Tensor | None, geometry: dict[str, Any]
) -> Tensor:
    """The convolution of ``x`` [N, C, *spatial], or without N, with int8 and its scale.

    Each sample has a scale of its own: ``f32(acc) * s_x * s_w + bias``, from left to right.
    """
    q, scale = weight
    spatial = q.ndim - 2
    steps, s_x = rows_quantized(x, tuple(range(x.ndim - spatial - 1, x.ndim)))
    sums = conv_integer(steps, q, **geometry)
    y = scaled(sums, s_x, before(scale, spatial), before(bias, spatial))
    return made_of_integers(y, x)


def static_convolution(
    x: Tensor,
    weight: tuple[Tensor, Tensor],
    bias: Tensor | None,
    activations: Activations,
    geometry: dict[str, Any],
) -> Tensor:
    """The same of one scale and zero point: ``f32(acc) * (s_x * s_w) + bias``.

    The zero point is taken from what enters the sums, to the same integers.
    """
    q, scale = weight
    spatial = q.ndim - 2
    x, geometry = only_read(x, q, geometry)
    steps = activations.quantized(x)
    sums = conv_integer(steps, q, zero=activations.zero, **geometry)
    factor = before(ops.multiply(activations.scale, scale), spatial)
    return made_of_integers(scaled(sums, factor, None, before(bias, spatial)), x)


def only_read(x: Tensor, q: Tensor, geometry: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """``x`` without the places that a kernel of one place steps over, so that none is quantized."""
    kernel, padding = q.shape[2:], geometry["padding"]
    stride, dilation = (
        per_axis("conv", name, geometry[name], len(kernel), least=1)
        for name in ("stride", "dilation")
    )
    if max(kernel) > 1 or max(stride) == 1:
        return x, geometry
    if any([max(pair) for pair in padding_pairs("conv", padding, kernel, stride, dilation)]):
        return x, geometry
    return x[(..., *[slice(None, None, step) for step in stride])], {**geometry, "stride": 1}


def padded(layer: Any, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """What the sums of a convolution are taken of, and the arguments of their geometry."""
    padding = layer.padding
    if layer.padding_mode != "zeros":
        x, padding = functional.pad(x, layer._widths, mode=layer.padding_mode), 0
    names = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    return x, {**names, "padding": padding}


class QuantizedConvolution(QuantizedLayer):
    """A convolution of int8 weights; its result is float32.

    Dynamic: int8 with a scale for each sample.  Static: uint8 with one scale and zero point.
    """

    rank: ClassVar[int]

    @classmethod
    def refusal(cls, layer: Any) -> str | None:
        """Why ``layer`` stays in float; None if it need not."""
        terms = math.prod(layer.weight.shape[1:])
        return f"sums of {terms} products do not fit into 32 bits" if terms > LONGEST else None

    def forward(self, input: Tensor) -> Tensor:
        x, geometry = padded(self, as_tensor(input))
        weight = self.weight_q, self.weight_scale
        if self.scheme.method == "dynamic":
            return dynamic_convolution(x, weight, self.bias, geometry)
        return static_convolution(x, weight, self.bias, self.activations, geometry)


class QuantizedConv1d(QuantizedConvolution, nn.Conv1d):
    """Conv1d of int8 products."""


class QuantizedConv2d(QuantizedConvolution, nn.Conv2d):
    """Conv2d of int8 products."""


class QuantizedConv3d(QuantizedConvolution, nn.Conv3d):
    """Conv3d of int8 products."""


CONVOLUTIONS = {
    nn.Conv1d: QuantizedConv1d,
    nn.Conv2d: QuantizedConv2d,
    nn.Conv3d: QuantizedConv3d,
}


# Convolutions of floats whose weights are kept in few bits: they compute with the ``weight`` that
# the bytes stand for, which is made anew in each call, so that memory holds the bytes alone.


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
