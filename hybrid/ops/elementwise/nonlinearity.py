"""Activation functions made of other ops.

Where a formula breaks down (infinity less infinity, infinity times 0), the side of a ``where`` that
is not taken computes with 0, so that neither values nor gradients become NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.elementwise.activation import sigmoid, softplus
from hybrid.ops.elementwise.arithmetic import absolute, sign
from hybrid.ops.elementwise.bit_logic import logical_or
from hybrid.ops.elementwise.comparison import clamp, isinf, where
from hybrid.ops.elementwise.exponential import expm1
from hybrid.ops.elementwise.trigonometry import tanh
from hybrid.ops.layers.softmax import softmax
from hybrid.ops.shapes.concatenation import part
from hybrid.ops.support.call_cache import remembered, remembered_of_any
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import as_tensor, is_number, normalize_axis, type_of


def _require(name: str, label: str, value: Any, low: float = -math.inf) -> None:
    if not is_number(value) or not value >= low:
        bound = "" if low == -math.inf else f" of at least {low:g}"
        raise ArgumentError(f"{name} got {label} {value!r}", fix=f"give a number{bound}")


def _bounded(x: Any, low: float, high: float, formula: Callable[[Any], Any]) -> Any:
    """``formula(x)``, which is (nearly) 0 below ``low`` and ``x`` above ``high``, and 0 at 0."""
    above = x > high
    inside = where(logical_or(above, x < low), 0.0, x)
    return where(above, x, formula(inside))


# Rectifiers --------------------------------------------------------------------------------------


@remembered
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """``x`` above zero, ``negative_slope * x`` below."""
    x = as_tensor(x)
    return where(x > 0, x, negative_slope * x)


@remembered_of_any
def prelu(x: Any, weight: Any) -> Any:
    """``x`` above zero, ``weight * x`` below.

    ``weight`` has one element, or one for each channel: along axis 1 of ``x``, or the only axis.
    """
    x, weight = common(as_tensor(x), as_tensor(weight))
    rank = len(x.shape)
    channels = x.shape[min(1, rank - 1)] if rank else 1
    if len(weight.shape) > 1 or weight.shape not in ((), (1,), (channels,)):
        raise ShapeError(
            f"prelu cannot take {type_of(x)} and {type_of(weight)}",
            why=f"There is one weight, or one for each of the {channels} channels (axis 1).",
            fix="change the shape of the weight",
        )
    if weight.shape == (channels,) and rank > 1:
        weight = reshaped(weight, (channels, *(1,) * (rank - 2)))
    elif rank == 0:
        weight = reshaped(weight, ())
    above = x > 0
    return where(above, x, weight * where(above, 0.0, x))


@remembered
def elu(x: Any, alpha: float = 1.0) -> Any:
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below (Clevert et al. 2015)."""
    x = as_tensor(x)
    above = x > 0
    return where(above, x, alpha * expm1(where(above, 0.0, x)))


@remembered
def celu(x: Any, alpha: float = 1.0) -> Any:
    """``x`` above zero, ``alpha * (exp(x / alpha) - 1)`` below (Barron 2017)."""
    _require("celu", "alpha", alpha)
    if alpha == 0:
        raise ArgumentError("celu got alpha 0", fix="give another number")
    x = as_tensor(x)
    above = x > 0
    return where(above, x, alpha * expm1(where(above, 0.0, x) / alpha))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@remembered
def selu(x: Any) -> Any:
    """``1.0507 * elu(x, 1.6733)``: activations keep mean 0, variance 1 (Klambauer et al. 2017)."""
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@remembered
def threshold(x: Any, threshold: float, value: float) -> Any:
    """``x`` where it is above ``threshold``, else ``value``."""
    _require("threshold", "threshold", threshold)
    _require("threshold", "value", value)
    x = as_tensor(x)
    return where(x <= threshold, value, x)


# Pieces of lines; their slope is 0 at the ends of what is cut off ---------------------------------


@remembered
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """``x``, cut off at ``min_val`` and ``max_val``."""
    _require("hardtanh", "min_val", min_val)
    _require("hardtanh", "max_val", max_val, min_val)
    return clamp(as_tensor(x), min_val, max_val)


@remembered
def relu6(x: Any) -> Any:
    """``x``, cut off at 0 and 6."""
    return hardtanh(x, 0, 6)


@remembered
def hardsigmoid(x: Any) -> Any:
    """``x / 6 + 1/2``, cut off at 0 and 1."""
    return hardtanh(x, -3.0, 3.0) / 6 + 0.5


@remembered
def hardswish(x: Any) -> Any:
    """``x * hardsigmoid(x)`` (Howard et al. 2019)."""
    x = as_tensor(x)
    inside = where(logical_or(x <= -3, x >= 3), 0.0, x)
    return where(x >= 3, x, inside * (inside + 3) / 6)


@remembered
def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    """``x``, and 0 within ``lambd`` of 0."""
    _require("hardshrink", "lambd", lambd, 0)
    x = as_tensor(x)
    return where(absolute(x) <= lambd, 0.0, x)


@remembered
def softshrink(x: Any, lambd: float = 0.5) -> Any:
    """``x`` moved by ``lambd`` towards 0, which stops it."""
    _require("softshrink", "lambd", lambd, 0)
    x = as_tensor(x)
    return where(absolute(x) <= lambd, 0.0, x - lambd * sign(x))


# Smooth ones -------------------------------------------------------------------------------------


@remembered
def mish(x: Any) -> Any:
    """``x * tanh(softplus(x))`` (Misra 2019)."""
    return _bounded(as_tensor(x), -1e3, 50.0, lambda x: x * tanh(softplus(x)))


@remembered
def logsigmoid(x: Any) -> Any:
    """``log(sigmoid(x))`` without overflow."""
    return -softplus(-as_tensor(x))


@remembered
def softsign(x: Any) -> Any:
    """``x / (1 + abs(x))``."""
    x = as_tensor(x)
    infinite = isinf(x)
    inside = where(infinite, 0.0, x)
    return where(infinite, sign(x), inside / (1 + absolute(inside)))


@remembered
def tanhshrink(x: Any) -> Any:
    """``x - tanh(x)``."""
    x = as_tensor(x)
    return x - tanh(x)


@remembered
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of ``x`` along ``axis`` times sigmoid of the second (Dauphin et al. 2017)."""
    x = as_tensor(x)
    axis = normalize_axis("glu", axis, len(x.shape))
    size = x.shape[axis]
    if size % 2:
        raise ShapeError(
            f"glu cannot halve axis {axis} of {type_of(x)}",
            why=f"Its size, {size}, is odd.",
            fix="give an even number of elements along the axis",
        )
    return part(x, axis, 0, size // 2) * sigmoid(part(x, axis, size // 2, size // 2))


@remembered
def softmin(x: Any, axis: int = -1) -> Any:
    """Softmax of ``-x``."""
    return softmax(-as_tensor(x), axis)
