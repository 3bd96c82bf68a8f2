"""Layers of vectors: Linear and Bilinear, similarities and distances, changes of shape.

Flatten, Unflatten and Identity leave the elements as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.nn import functional, init
from hybrid.nn.functions.spelling import chosen_dim
from hybrid.nn.layers.layer import Layer, new_parameter, require_sizes
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module


@takes("..., in_features")
class Linear(Module):
    """``x @ weight.T + bias``: [..., in] -> [..., out].

    ``weight`` is [out, in] and ``bias`` [out] (or None); both start evenly over ±1 / sqrt(in).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        require_sizes(in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, dtype=dtype, device=device)
        self.bias = new_parameter(out_features, dtype=dtype, device=device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.uniform_by_fan(self.bias, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        return ops.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


@takes("..., in1_features")
class Bilinear(Module):
    """``y[o] = x1 @ weight[o] @ x2 + bias[o]``: [..., in1] and [..., in2] -> [..., out].

    ``weight`` is [out, in1, in2], ``bias`` [out]; both start evenly over ±1 / sqrt(in1).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        require_sizes(1, in1_features=in1_features)
        require_sizes(in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = new_parameter(*shape, dtype=dtype, device=device)
        self.bias = new_parameter(out_features, dtype=dtype, device=device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.uniform_by_fan(self.weight, self.in1_features)
        init.uniform_by_fan(self.bias, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Layer):
    """Makes the axes from ``start_dim`` to ``end_dim`` one: by default all but the batch's."""

    _shown = ("start_dim", "end_dim")

    def __init__(
        self,
        start_dim: int | None = None,
        end_dim: int | None = None,
        *,
        start_axis: int | None = None,
        end_axis: int | None = None,
    ) -> None:
        self.start_dim = chosen_dim("Flatten", start_dim, start_axis, 1)
        self.end_dim = chosen_dim("Flatten", end_dim, end_axis, -1)

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, self.start_dim, self.end_dim)


class Unflatten(Layer):
    """Makes the axis ``dim`` several of ``unflattened_size``, of which one may be -1."""

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return ops.unflatten(input, self.dim, self.unflattened_size)


class Identity(Module):
    """Its input, whatever arguments it is made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        return input


class CosineSimilarity(Layer):
    """The cosine of the angle between vectors along ``dim``; a norm counts as ``eps`` at least."""

    _shown = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ops.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Layer):
    """The ``p``-norm of ``x1 - x2 + eps`` along the last axis."""

    _shown = ("p", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ops.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
