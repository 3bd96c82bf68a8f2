"""Activation functions that are kernels, element by element; nonlinearity.py has the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.ir import op
from hybrid.ops.arithmetic import maximum, minimum
from hybrid.ops.checks import require_floating, require_numeric
from hybrid.ops.comparison import where
from hybrid.ops.derivatives import diagonal
from hybrid.ops.exponential import exp
from hybrid.types import TensorType

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


def _finite(x: Any) -> Any:
    """``x``, with infinities made numbers that any factor of 0 takes to 0."""
    return maximum(minimum(x, 1e30), -1e30)


@op(kernel="gelu", elementwise=True, promotes="floating")
def gelu(x: TensorType) -> TensorType:
    """``x`` times the normal distribution function at ``x`` (Hendrycks and Gimpel 2016)."""
    require_floating("gelu", x=x)
    return x


@gelu.reference
def gelu_reference(x):
    wide = np.where(x == -np.inf, 0, x).astype(np.float64)  # the limit there is 0
    return (wide * 0.5 * (1 + _erf(wide / math.sqrt(2)))).astype(x.dtype)


@diagonal(gelu)
def gelu_vjp(ct, _y, x):
    x = _finite(x)
    below = 0.5 * (1 + erf(x * math.sqrt(0.5)))
    density = exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))
    return (ct * (below + x * density),)


@op(kernel="silu", elementwise=True, promotes="floating")
def silu(x: TensorType) -> TensorType:
    """``x * sigmoid(x)``."""
    require_floating("silu", x=x)
    return x


@silu.reference
def silu_reference(x):
    return np.where(x == -np.inf, 0, x).astype(x.dtype) * sigmoid_reference(x)  # the limit is 0


@diagonal(silu)
def silu_vjp(ct, _y, x):
    gate, x = sigmoid(x), _finite(x)
    return (ct * (gate * (1 + x * (1 - gate))),)


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
