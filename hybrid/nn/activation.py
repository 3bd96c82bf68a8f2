"""Activations as modules."""

from __future__ import annotations

from hybrid.nn import functional
from hybrid.nn.module import Module
from hybrid.tensor import Tensor


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class GELU(Module):
    """``x`` times the normal distribution function at ``x``, or its approximation by ``"tanh"``."""

    def __init__(self, approximate: str = "none") -> None:
        functional.require_choice("approximate", approximate, ("none", "tanh"))
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """``x * sigmoid(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.tanh(x)


class Softmax(Module):
    """Exponentials along ``axis``, scaled to sum to one."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class LogSoftmax(Softmax):
    """The logarithm of Softmax, accurate where that is nearly 0."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(x, self.axis)
