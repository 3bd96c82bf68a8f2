"""Linear, and the layers that are hardly more than a name: Dropout, Flatten, Identity."""

from __future__ import annotations

import math
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentError
from hybrid.nn import functional, init
from hybrid.nn.module import Module
from hybrid.nn.parameter import Parameter
from hybrid.tensor import Tensor


class Linear(Module):
    """``x @ weight.T + bias``: [..., in] -> [..., out].

    ``weight`` is [out, in] and ``bias`` [out] (or None); both start evenly over ±1 / sqrt(in).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: Any = None
    ) -> None:
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise ArgumentError(f"{name} is {size!r}", fix="give an int >= 0")
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(ops.zeros((out_features, in_features), dtype=dtype))
        self.bias = Parameter(ops.zeros((out_features,), dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


class Dropout(Module):
    """In training, zeroes elements with probability ``p``, scales the others by ``1 / (1 - p)``."""

    def __init__(self, p: float = 0.5) -> None:
        functional.require_probability(p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Makes the axes from ``start_axis`` to ``end_axis`` one: by default all but the batch's."""

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis, self.end_axis = start_axis, end_axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.flatten(x, self.start_axis, self.end_axis)

    def extra_repr(self) -> str:
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"


class Identity(Module):
    """Its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x
