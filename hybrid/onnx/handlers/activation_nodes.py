"""Activations, softmaxes and what else goes over elements with a curve."""

from __future__ import annotations

import math

from hybrid import ops
from hybrid.onnx.known_values import axis_of
from hybrid.onnx.node_table import handles

for _op, _name, _since in (
    ("HardSwish", "hardswish", (14, 22)),
    ("Mish", "mish", (18, 22)),
    ("Relu", "relu", (1, 6, 13, 14)),
    ("Sigmoid", "sigmoid", (1, 6, 13)),
    ("Softplus", "softplus", (1, 22)),
):
    _text = (
        "hy.relu" if _name == "relu" else f"hy.{_name}" if _name in ("sigmoid", "softplus") else ""
    )
    handles(_op, *_since, text=_text or f"hy.nn.functional.{_name}")(getattr(ops, _name))
handles("Softsign", 1, 22, text="hy.nn.functional.softsign")(ops.softsign)


@handles("LeakyRelu", 1, 6, 16)
def leaky_relu(x, *, alpha=0.01):
    """LeakyRelu."""
    return ops.leaky_relu(x, alpha)


@handles("PRelu", 7, 9, 16, weights=(1,))
def prelu(x, slope):
    """PRelu: slope * x below zero; slope is broadcast."""
    return ops.where(ops.less(x, 0), ops.multiply(slope, x), x)


@handles("PRelu", 1, 6, weights=(1,))
def prelu_of_channels(x, slope):
    """PRelu as it was before opset 7: one slope, or one for each channel."""
    if slope.size > 1:
        slope = ops.reshape(slope, (slope.size, *[1] * (x.ndim - 2)))
    return ops.where(ops.less(x, 0), ops.multiply(slope, x), x)


@handles("Elu", 1, 6, 22)
def elu(x, *, alpha=1.0):
    """Elu."""
    return ops.where(ops.less(x, 0), ops.multiply(ops.expm1(ops.minimum(x, 0)), alpha), x)


@handles("Celu", 12, 28)
def celu(x, *, alpha=1.0):
    """Celu."""
    return ops.celu(x, alpha)


@handles("Selu", 6, 22)
def selu(x, *, alpha=1.6732631921768188, gamma=1.0507010221481323):
    """Selu."""
    below = ops.multiply(ops.expm1(ops.minimum(x, 0)), alpha)
    return ops.multiply(ops.where(ops.greater(x, 0), x, below), gamma)


@handles("Selu", 1)
def selu_of_opset_1(x, *, alpha=1.6732, gamma=1.0507):
    """Selu with the constants of opset 1."""
    return selu(x, alpha=alpha, gamma=gamma)


@handles("ThresholdedRelu", 10, 22)
def thresholded_relu(x, *, alpha=1.0):
    """ThresholdedRelu: x above alpha, 0 below."""
    return ops.where(ops.greater(x, alpha), x, ops.zeros_like(x))


@handles("HardSigmoid", 1, 6, 22)
def hard_sigmoid(x, *, alpha=0.2, beta=0.5):
    """HardSigmoid: alpha * x + beta between 0 and 1."""
    return ops.minimum(ops.maximum(ops.add(ops.multiply(x, alpha), beta), 0), 1)


@handles("Shrink", 9)
def shrink(x, *, bias=0.0, lambd=0.5):
    """Shrink: towards zero by bias where x is beyond lambd, 0 elsewhere."""
    below = ops.where(ops.less(x, -lambd), ops.add(x, _like(x, bias)), ops.zeros_like(x))
    return ops.where(ops.greater(x, lambd), ops.subtract(x, _like(x, bias)), below)


def _like(x, number):
    return number if x.dtype.is_floating else int(number)


@handles("Gelu", 20)
def gelu(x, *, approximate="none"):
    """Gelu."""
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


@handles("Swish", 24)
def swish(x, *, alpha=1.0):
    """Swish: x * sigmoid(alpha * x)."""
    if alpha == 1.0:
        return ops.silu(x)
    return ops.multiply(x, ops.sigmoid(ops.multiply(x, alpha)))


@handles("SwiGLU", 28)
def swiglu(a, b, *, alpha=1.0):
    """SwiGLU: swish(a) * b."""
    return ops.multiply(swish(a, alpha=alpha), b)


def _flat(function, x, axis):
    """``function`` of the rows of x, all axes from ``axis`` on in one: opsets 1 to 12."""
    axis = axis_of(axis, x.ndim)
    rows = ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return ops.reshape(function(rows), x.shape)


@handles("Softmax", 13)
def softmax(x, *, axis=-1):
    """Softmax."""
    return ops.softmax(x, axis)


@handles("Softmax", 1, 11)
def softmax_flat(x, *, axis=1):
    """Softmax over all axes from ``axis`` on."""
    return _flat(ops.softmax, x, axis)


@handles("LogSoftmax", 13)
def log_softmax(x, *, axis=-1):
    """LogSoftmax."""
    return ops.log_softmax(x, axis)


@handles("LogSoftmax", 1, 11)
def log_softmax_flat(x, *, axis=1):
    """LogSoftmax over all axes from ``axis`` on."""
    return _flat(ops.log_softmax, x, axis)


@handles("Hardmax", 13)
def hardmax(x, *, axis=-1):
    """Hardmax: 1 at the first of the largest, else 0."""
    axis = axis_of(axis, x.ndim)
    return ops.one_hot(ops.argmax(x, axis=axis), x.shape[axis], axis=axis, dtype=x.dtype)


@handles("Hardmax", 1, 11)
def hardmax_flat(x, *, axis=1):
    """Hardmax over all axes from ``axis`` on."""
    return _flat(hardmax, x, axis)
