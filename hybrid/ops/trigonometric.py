"""Trigonometric and hyperbolic functions, element by element; angles are in radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.ir import op
from hybrid.ops.arithmetic import absolute
from hybrid.ops.bits import copysign
from hybrid.ops.checks import as_tensor, broadcast_type, require_floating
from hybrid.ops.comparison import where
from hybrid.ops.derivatives import diagonal, unbroadcast
from hybrid.ops.exponential import exp, expm1, log, log1p
from hybrid.ops.powers import sqrt, square
from hybrid.types import TensorType


@op(kernel="sin", elementwise=True, promotes="floating")
def sin(x: TensorType) -> TensorType:
    """Sine."""
    require_floating("sin", x=x)
    return x


@sin.reference
def sin_reference(x):
    return np.sin(x)


@diagonal(sin)
def sin_vjp(ct, _y, x):
    return (ct * cos(x),)


@op(kernel="cos", elementwise=True, promotes="floating")
def cos(x: TensorType) -> TensorType:
    """Cosine."""
    require_floating("cos", x=x)
    return x


@cos.reference
def cos_reference(x):
    return np.cos(x)


@diagonal(cos)
def cos_vjp(ct, _y, x):
    return (-(ct * sin(x)),)


@op(kernel="tan", elementwise=True, domain=(-1.4, 1.4), promotes="floating")
def tan(x: TensorType) -> TensorType:
    """Tangent."""
    require_floating("tan", x=x)
    return x


@tan.reference
def tan_reference(x):
    return np.tan(x)


@diagonal(tan)
def tan_vjp(ct, y, _x):
    return (ct * (y * y + 1),)


@op(kernel="tanh", elementwise=True, promotes="floating")
def tanh(x: TensorType) -> TensorType:
    """Hyperbolic tangent."""
    require_floating("tanh", x=x)
    return x


@tanh.reference
def tanh_reference(x):
    return np.tanh(x)


@diagonal(tanh)
def tanh_vjp(ct, y, _x):
    return (ct * (1 - y * y),)


@op(kernel="atan2", elementwise=True, promotes="floating")
def atan2(a: TensorType, b: TensorType) -> TensorType:
    """The angle of the point (``b``, ``a``), in [-pi, pi]."""
    require_floating("atan2", a=a, b=b)
    return broadcast_type("atan2", a, b)


@atan2.reference
def atan2_reference(a, b):
    return np.arctan2(a, b)


@diagonal(atan2)
def atan2_vjp(ct, _y, a, b):
    def over_radius(x):
        return ct * (x / (a * a + b * b))

    return (lambda: unbroadcast(over_radius(b), a)), (lambda: unbroadcast(-over_radius(a), b))


# Functions ---------------------------------------------------------------------------------------


def atan(x: Any) -> Any:
    """Inverse tangent, in [-pi/2, pi/2]."""
    return atan2(x, 1.0)


def asin(x: Any) -> Any:
    """Inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    x = as_tensor(x)
    return atan2(x, sqrt((1 - x) * (1 + x)))


def acos(x: Any) -> Any:
    """Inverse cosine, in [0, pi]; NaN outside [-1, 1]."""
    x = as_tensor(x)
    return atan2(sqrt((1 - x) * (1 + x)), x)


def sinh(x: Any) -> Any:
    """Hyperbolic sine."""
    grown = expm1(x)
    shrunk = where(grown > 1, 1 - 1 / (grown + 1), grown / (grown + 1))  # each where it is exact
    return 0.5 * (grown + shrunk)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""
    grown = exp(absolute(x))
    return 0.5 * grown + 0.5 / grown


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine."""
    x = as_tensor(x)
    size = absolute(x)
    small, large = size < 0.5, size > 1e8  # where 1 is lost beside the square, which may overflow
    near = where(small, x, where(large, 1.0, size))
    found = log1p(near * (1 + near / (1 + sqrt(1 + square(near)))))
    far = log(where(large, size, 1.0)) + math.log(2)
    return where(small, found, copysign(where(large, far, found), x))


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine; NaN below 1."""
    above = as_tensor(x) - 1
    return log1p(above + sqrt(above * (above + 2)))


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    x = as_tensor(x)
    return 0.5 * log1p(2 * x / (1 - x))
