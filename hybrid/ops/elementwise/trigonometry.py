"""Trigonometric and hyperbolic functions, element by element; angles are in radians."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.ops.elementwise.powers import hypot, sqrt
from hybrid.ops.support.derivatives import diagonal, unbroadcast
from hybrid.ops.support.operand_checks import broadcast_type, require_floating


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


@op(kernel="sinh", elementwise=True, promotes="floating")
def sinh(x: TensorType) -> TensorType:
    """Hyperbolic sine."""
    require_floating("sinh", x=x)
    return x


@sinh.reference
def sinh_reference(x):
    return np.sinh(x)


@diagonal(sinh)
def sinh_vjp(ct, _y, x):
    return (ct * cosh(x),)


@op(kernel="cosh", elementwise=True, promotes="floating")
def cosh(x: TensorType) -> TensorType:
    """Hyperbolic cosine."""
    require_floating("cosh", x=x)
    return x


@cosh.reference
def cosh_reference(x):
    return np.cosh(x)


@diagonal(cosh)
def cosh_vjp(ct, _y, x):
    return (ct * sinh(x),)


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


@op(kernel="asin", elementwise=True, domain=(-0.9, 0.9), promotes="floating")
def asin(x: TensorType) -> TensorType:
    """Inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    require_floating("asin", x=x)
    return x


@asin.reference
def asin_reference(x):
    return np.arcsin(x)


@diagonal(asin)
def asin_vjp(ct, _y, x):
    """Infinite at -1 and 1, as the true derivative is."""
    return (ct / sqrt((1 - x) * (1 + x)),)


@op(kernel="acos", elementwise=True, domain=(-0.9, 0.9), promotes="floating")
def acos(x: TensorType) -> TensorType:
    """Inverse cosine, in [0, pi]; NaN outside [-1, 1]."""
    require_floating("acos", x=x)
    return x


@acos.reference
def acos_reference(x):
    return np.arccos(x)


@diagonal(acos)
def acos_vjp(ct, _y, x):
    """Infinite at -1 and 1, as the true derivative is."""
    return (-(ct / sqrt((1 - x) * (1 + x))),)


@op(kernel="atan", elementwise=True, promotes="floating")
def atan(x: TensorType) -> TensorType:
    """Inverse tangent, in [-pi/2, pi/2]."""
    require_floating("atan", x=x)
    return x


@atan.reference
def atan_reference(x):
    return np.arctan(x)


@diagonal(atan)
def atan_vjp(ct, _y, x):
    return (ct / (x * x + 1),)


@op(kernel="asinh", elementwise=True, promotes="floating")
def asinh(x: TensorType) -> TensorType:
    """Inverse hyperbolic sine."""
    require_floating("asinh", x=x)
    return x


@asinh.reference
def asinh_reference(x):
    return np.arcsinh(x)


@diagonal(asinh)
def asinh_vjp(ct, _y, x):
    """``hypot`` is finite where the square of ``x`` is not."""
    return (ct / hypot(x, 1.0),)


@op(kernel="acosh", elementwise=True, domain=(1.1, 100.0), promotes="floating")
def acosh(x: TensorType) -> TensorType:
    """Inverse hyperbolic cosine; NaN below 1."""
    require_floating("acosh", x=x)
    return x


@acosh.reference
def acosh_reference(x):
    return np.arccosh(x)


@diagonal(acosh)
def acosh_vjp(ct, _y, x):
    """Infinite at 1; two roots, because the square of ``x`` may overflow."""
    return (ct / (sqrt(x - 1) * sqrt(x + 1)),)


@op(kernel="atanh", elementwise=True, domain=(-0.9, 0.9), promotes="floating")
def atanh(x: TensorType) -> TensorType:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    require_floating("atanh", x=x)
    return x


@atanh.reference
def atanh_reference(x):
    return np.arctanh(x)


@diagonal(atanh)
def atanh_vjp(ct, _y, x):
    return (ct / ((1 - x) * (1 + x)),)


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
