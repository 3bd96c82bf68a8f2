"""Activations as modules.

With ``inplace`` the result is written to the input, too.
"""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ShapeError
from hybrid.nn import functional
from hybrid.nn.functions.spelling import chosen_dim
from hybrid.nn.layers.layer import Layer, new_parameter, require_sizes
from hybrid.ops.layers.losses import require_parameter

# Without parameters ------------------------------------------------------------------------------


class Sigmoid(Layer):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.sigmoid(input)


class Tanh(Layer):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.tanh(input)


class LogSigmoid(Layer):
    """``log(sigmoid(x))``, accurate far below zero."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.logsigmoid(input)


class Softsign(Layer):
    """``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.softsign(input)


class Tanhshrink(Layer):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.tanhshrink(input)


class GELU(Layer):
    """``x`` times the normal distribution function at ``x``, or its approximation by ``"tanh"``."""

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        functional.require_choice("approximate", approximate, ("none", "tanh"))
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return functional.gelu(input, self.approximate)


# Of one element, in place if asked for -----------------------------------------------------------


class _InPlace(Layer):
    """An activation without parameters of its own."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def _placed(self, x: Tensor, y: Tensor) -> Tensor:
        return x.write_in_place(y) if self.inplace else y

    def extra_repr(self) -> str:
        shown = super().extra_repr()
        return f"{shown}{', ' if shown else ''}inplace=True" if self.inplace else shown


class ReLU(_InPlace):
    """``max(x, 0)``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.relu(input))


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.relu6(input))


class SiLU(_InPlace):
    """``x * sigmoid(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.silu(input))


class Mish(_InPlace):
    """``x * tanh(softplus(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.mish(input))


class SELU(_InPlace):
    """ELU with the scale and slope that keep mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.selu(input))


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.hardswish(input))


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.hardsigmoid(input))


class ELU(_InPlace):
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        require_parameter("ELU", "alpha", alpha)
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.elu(input, self.alpha))


class CELU(_InPlace):
    """``x`` above zero, ``alpha * (exp(x / alpha) - 1)`` below."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        require_parameter("CELU", "alpha", alpha)
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.celu(input, self.alpha))


class LeakyReLU(_InPlace):
    """``x`` above zero, ``negative_slope * x`` below."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        require_parameter("LeakyReLU", "negative_slope", negative_slope)
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.leaky_relu(input, self.negative_slope))


class RReLU(_InPlace):
    """``x`` above zero, ``x`` times a slope from [lower, upper) below: drawn for each element in
    training, else the mean of the two.
    """

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        require_parameter("RReLU", "lower", lower)
        require_parameter("RReLU", "upper", upper, lower)
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_InPlace):
    """``min(max(x, min_val), max_val)``."""

    _shown = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        require_parameter("Hardtanh", "min_val", min_val)
        require_parameter("Hardtanh", "max_val", max_val, min_val)
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.hardtanh(input, self.min_val, self.max_val))


class Threshold(_InPlace):
    """``x`` above ``threshold``, else ``value``."""

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        require_parameter("Threshold", "threshold", threshold)
        require_parameter("Threshold", "value", value)
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._placed(input, ops.threshold(input, self.threshold, self.value))


# Of one element, with parameters -----------------------------------------------------------------


class Hardshrink(Layer):
    """``x`` further than ``lambd`` from zero, else 0."""

    _shown = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        require_parameter("Hardshrink", "lambd", lambd, 0)
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return ops.hardshrink(input, self.lambd)


class Softshrink(Hardshrink):
    """``x`` brought nearer to zero by ``lambd``, at most to 0."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.softshrink(input, self.lambd)


class Softplus(Layer):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        require_parameter("Softplus", "beta", beta)
        require_parameter("Softplus", "threshold", threshold)
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return functional.softplus(input, self.beta, self.threshold)


class PReLU(Layer):
    """``x`` above zero, ``weight * x`` below: one learnt slope, or one for each channel (axis 1).

    ``weight`` is [num_parameters] and starts as ``init`` (He et al. 2015).
    """

    _shown = ("num_parameters",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        require_sizes(1, num_parameters=num_parameters)
        require_parameter("PReLU", "init", init)
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter(num_parameters, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every slope ``init``."""
        self.weight.assign(ops.full(self.weight.shape, self.init, dtype=self.weight.dtype))

    def forward(self, input: Tensor) -> Tensor:
        return ops.prelu(input, self.weight)


# Along an axis -----------------------------------------------------------------------------------


class Softmax(Layer):
    """Exponentials along the axis ``dim`` (the last unless given), scaled to sum to one.

    ``axis`` is another word for ``dim``.
    """

    _shown = ("dim",)

    def __init__(self, dim: int | None = None, *, axis: int | None = None) -> None:
        self.dim = chosen_dim(type(self).__name__, dim, axis, -1)

    def forward(self, input: Tensor) -> Tensor:
        return ops.softmax(input, self.dim)


class LogSoftmax(Softmax):
    """The logarithm of Softmax, accurate where that is nearly 0."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.log_softmax(input, self.dim)


class Softmin(Softmax):
    """Softmax of ``-x``."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.softmin(input, self.dim)


class Softmax2d(Layer):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d cannot take {input.type}",
                why="It takes [N, C, H, W] or [C, H, W].",
                fix="use Softmax with the axis of the channels",
            )
        return ops.softmax(input, -3)


class GLU(Softmax):
    """The first half along ``dim`` times the sigmoid of the second (Dauphin et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.glu(input, self.dim)
