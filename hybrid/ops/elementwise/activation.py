"""Activation functions that are kernels, element by element; nonlinearity.py has the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import Op, op
from hybrid.ops.elementwise.arithmetic import maximum, minimum
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.elementwise.exponential import exp
from hybrid.ops.support.derivatives import diagonal
from hybrid.ops.support.operand_checks import require_floating, require_numeric

_erf = np.vectorize(math.erf, otypes=[np.float64])


@op(kernel="relu", elementwise=True)
def relu(x: TensorType) -> TensorType:
    """``max(x, 0)``; NaN stays NaN."""
    require_numeric("relu", x=x)
    return x


@relu.reference
def relu_reference(x):
    return np.maximum(x, 0)


@diagonal(relu)
def relu_vjp(ct, y, _x):
    """The derivative at 0 is 0."""
    return (where(y > 0, ct, 0.0),)


@op(kernel="sigmoid", elementwise=True, promotes="floating")
def sigmoid(x: TensorType) -> TensorType:
    """``1 / (1 + exp(-x))``."""
    require_floating("sigmoid", x=x)
    return x


@sigmoid.reference
def sigmoid_reference(x):
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, 1, small) / (1 + small)).astype(x.dtype)


@diagonal(sigmoid)
def sigmoid_vjp(ct, y, _x):
    return (ct * (y * (1 - y)),)


@op(kernel="erf", elementwise=True, promotes="floating")
def erf(x: TensorType) -> TensorType:
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t*t)`` from 0 to ``x``."""
    require_floating("erf", x=x)
    return x


@erf.reference
def erf_reference(x):
    return _erf(x).astype(x.dtype)


@diagonal(erf)
def erf_vjp(ct, _y, x):
    return (ct * (2 / math.sqrt(math.pi) * exp(-(x * x))),)


@op(kernel="gelu", elementwise=True, promotes="floating")
def gelu(x: TensorType) -> TensorType:
    """``x`` times the normal distribution function at ``x`` (Hendrycks and Gimpel 2016)."""
    require_floating("gelu", x=x)
    return x


@gelu.reference
def gelu_reference(x):
    wide = np.where(x == -np.inf, 0, x).astype(np.float64)  # the limit there is 0
    return (wide * 0.5 * (1 + _erf(wide / math.sqrt(2)))).astype(x.dtype)


@op(kernel="gelu_tanh", elementwise=True, promotes="floating")
def gelu_tanh(x: TensorType) -> TensorType:
    """The approximation of gelu by tanh that some published weights were trained with."""
    require_floating("gelu_tanh", x=x)
    return x


@gelu_tanh.reference
def gelu_tanh_reference(x):
    wide = np.maximum(x, -1e30).astype(np.float64)
    return (wide * _logistic(_tanh_argument(wide))).astype(x.dtype)


@op(kernel="silu", elementwise=True, promotes="floating")
def silu(x: TensorType) -> TensorType:
    """``x * sigmoid(x)``."""
    require_floating("silu", x=x)
    return x


@silu.reference
def silu_reference(x):
    return np.where(x == -np.inf, 0, x).astype(x.dtype) * sigmoid_reference(x)  # the limit is 0


# Their derivatives, for the backward pass: one kernel each, and derived from formulas in turn -----

_LINEAR, _CUBIC = math.sqrt(8 / math.pi), math.sqrt(8 / math.pi) * 0.044715


def _tanh_argument(x: Any) -> Any:
    """What the logistic function is taken of in gelu_tanh, for (1 + tanh z) / 2 is that of 2 z."""
    return x * (_LINEAR + _CUBIC * (x * x))


def _logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _within(x: Any, limit: float) -> Any:
    """``x`` held within limits beyond which the derivatives do not change."""
    return maximum(minimum(x, limit), -limit)


@op(kernel="gelu_slope", elementwise=True, promotes="floating")
def gelu_slope(x: TensorType) -> TensorType:
    """The derivative of gelu: ``Phi(x) + x * phi(x)`` of the normal distribution."""
    require_floating("gelu_slope", x=x)
    return x


@gelu_slope.reference
def gelu_slope_reference(x):
    wide = np.clip(x, -40, 40).astype(np.float64)
    density = np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    return (0.5 * (1 + _erf(wide / math.sqrt(2))) + wide * density).astype(x.dtype)


@diagonal(gelu_slope)
def gelu_slope_vjp(ct, _y, x):
    x = _within(x, 40.0)
    square = x * x
    density = exp(-0.5 * square) * (1 / math.sqrt(2 * math.pi))
    return (ct * (density * (2 - square)),)


@op(kernel="gelu_tanh_slope", elementwise=True, promotes="floating")
def gelu_tanh_slope(x: TensorType) -> TensorType:
    """The derivative of gelu_tanh."""
    require_floating("gelu_tanh_slope", x=x)
    return x


@gelu_tanh_slope.reference
def gelu_tanh_slope_reference(x):
    wide = np.clip(x, -22, 22).astype(np.float64)
    z = _tanh_argument(wide)
    inner = _LINEAR + 3 * _CUBIC * wide * wide
    return (_logistic(z) * (1 + wide * _logistic(-z) * inner)).astype(x.dtype)


@diagonal(gelu_tanh_slope)
def gelu_tanh_slope_vjp(ct, _y, x):
    """``s (1 - s) (2 z' + x ((1 - 2 s) z'^2 + z''))``, ``s`` the logistic function of ``z``."""
    x = _within(x, 22.0)
    s, slope = sigmoid(_tanh_argument(x)), _LINEAR + 3 * _CUBIC * (x * x)
    bend = (1 - 2 * s) * (slope * slope) + 6 * _CUBIC * x
    return (ct * (s * (1 - s) * (2 * slope + x * bend)),)


@op(kernel="silu_slope", elementwise=True, promotes="floating")
def silu_slope(x: TensorType) -> TensorType:
    """The derivative of silu: ``s * (1 + x * (1 - s))``, ``s`` the logistic function of ``x``."""
    require_floating("silu_slope", x=x)
    return x


@silu_slope.reference
def silu_slope_reference(x):
    wide = np.clip(x, -1000, 1000).astype(np.float64)
    return (_logistic(wide) * (1 + wide * _logistic(-wide))).astype(x.dtype)


@diagonal(silu_slope)
def silu_slope_vjp(ct, _y, x):
    x = _within(x, 1000.0)
    s = sigmoid(x)
    return (ct * (s * (1 - s) * (2 + x * (1 - 2 * s))),)


def _sloped(function: Op, slope: Op) -> None:
    @diagonal(function)
    def rule(ct, _y, x):
        return (ct * slope(x),)


for _function, _slope in [(gelu, gelu_slope), (gelu_tanh, gelu_tanh_slope), (silu, silu_slope)]:
    _sloped(_function, _slope)


@op(kernel="softplus", elementwise=True, promotes="floating")
def softplus(x: TensorType) -> TensorType:
    """``log(1 + exp(x))`` without overflow."""
    require_floating("softplus", x=x)
    return x


@softplus.reference
def softplus_reference(x):
    return np.logaddexp(x, np.zeros((), x.dtype))


@diagonal(softplus)
def softplus_vjp(ct, _y, x):
    return (ct * sigmoid(x),)
