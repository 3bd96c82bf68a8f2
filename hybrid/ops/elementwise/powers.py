"""Powers and roots, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import TensorType, promote_scalar
from hybrid.errors import domain_error
from hybrid.ir import Builder, interpreter, op
from hybrid.ops.elementwise.bit_logic import logical_and, logical_not
from hybrid.ops.elementwise.comparison import isfinite, where
from hybrid.ops.elementwise.exponential import log
from hybrid.ops.elementwise.value_checks import require_values
from hybrid.ops.flow.control import cond
from hybrid.ops.support.derivatives import diagonal, unbroadcast
from hybrid.ops.support.dtypes import common, result_type
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_type,
    is_number,
    is_traced_number,
    require_floating,
    require_numeric,
    type_of,
)


@op(kernel="square", elementwise=True)
def square(x: TensorType) -> TensorType:
    """``x * x``."""
    require_numeric("square", x=x)
    return x


@square.reference
def square_reference(x):
    return np.square(x)


@diagonal(square)
def square_vjp(ct, _y, x):
    return (ct * (x + x),)


@op(kernel="sqrt", elementwise=True, domain=(0.0, 100.0), promotes="floating")
def sqrt(x: TensorType) -> TensorType:
    """The square root; NaN below zero."""
    require_floating("sqrt", x=x)
    return x


@sqrt.reference
def sqrt_reference(x):
    return np.sqrt(x)


@diagonal(sqrt)
def sqrt_vjp(ct, y, _x):
    """Infinite at 0, as the true derivative is."""
    return (ct / (y + y),)


@op(kernel="rsqrt", elementwise=True, domain=(0.1, 100.0), promotes="floating")
def rsqrt(x: TensorType) -> TensorType:
    """``1 / sqrt(x)``."""
    require_floating("rsqrt", x=x)
    return x


@rsqrt.reference
def rsqrt_reference(x):
    return (1 / np.sqrt(x)).astype(x.dtype)


@diagonal(rsqrt)
def rsqrt_vjp(ct, y, _x):
    return (ct * (-0.5 * (y * y * y)),)


@op(kernel="reciprocal", elementwise=True, domain=(0.1, 100.0), promotes="floating")
def reciprocal(x: TensorType) -> TensorType:
    """``1 / x``."""
    require_floating("reciprocal", x=x)
    return x


@reciprocal.reference
def reciprocal_reference(x):
    return np.reciprocal(x)


@diagonal(reciprocal)
def reciprocal_vjp(ct, y, _x):
    return (-(ct * (y * y)),)


@op(kernel="hypot", elementwise=True, commutative=True, promotes="floating")
def hypot(a: TensorType, b: TensorType) -> TensorType:
    """``sqrt(a*a + b*b)`` without overflow on the way."""
    require_floating("hypot", a=a, b=b)
    return broadcast_type("hypot", a, b)


@hypot.reference
def hypot_reference(a, b):
    return np.hypot(a, b)


@diagonal(hypot)
def hypot_vjp(ct, y, a, b):
    return (lambda: unbroadcast(ct * (a / y), a)), (lambda: unbroadcast(ct * (b / y), b))


@op(kernel="pow", elementwise=True, promotes=True, name="pow")
def power(a: TensorType, b: TensorType) -> TensorType:
    """``a`` to the power ``b``; of integers the powers of 0 and more, which ``hybrid.pow`` sees to.

    (A negative power of an integer is 0 here, unless ``a`` is 1 or -1.)
    """
    require_numeric("pow", a=a, b=b)
    return broadcast_type("pow", a, b)


@power.reference
def power_reference(a, b):
    if a.dtype.kind == "f":
        return np.power(a, b)
    if a.dtype.kind == "u":
        return np.power(a, b)
    result = np.power(a, np.maximum(b, 0))
    odd = np.bitwise_and(b, 1) == 1
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0))
    return np.where(b < 0, inverse, result).astype(a.dtype)


@power.samples
def power_samples(draw):
    yield from draw.binary(a_low=0.5, a_high=3.0, b_low=0.0, b_high=4.0)


@diagonal(power)
def power_vjp(ct, y, a, b):
    """For ``a``: 0 where ``b`` is 0, also where ``1 / a`` is no number, which counts as 1 there.

    For ``b``: 0 where ``a`` is 0 (the limit for positive powers), so no 0 * -inf arises.
    """

    def by_base():
        endless = logical_not(isfinite(reciprocal(a)))
        base = where(logical_and(b == 0, endless), 1.0, a)
        return unbroadcast(ct * (b * power(base, b - 1)), a)

    def by_exponent():
        safe = where(a == 0, 1.0, a)
        return unbroadcast(ct * (y * log(safe)), b)

    return by_base, by_exponent


def pow(a: Any, b: Any) -> Any:
    """``a`` to the power ``b``; the Python number 2 squares, unless it changes the dtype.

    An integer to a negative integer power is an ArgumentError.
    """
    if not is_number(b) or is_number(a):
        return power(a, _exponent_of(a, b))
    a = as_tensor(a)
    if is_traced_number(b):
        return _traced_power(a, b)
    if b < 0 and promote_scalar(a.dtype, b).kind == "int":
        raise domain_error("exponent", str(b))
    return square(a) if b == 2 and promote_scalar(a.dtype, b) is a.dtype else power(a, b)


def _exponent_of(a: Any, b: Any) -> Any:
    """``b``, no element of which may be negative where ``a`` to its power is an integer."""
    operands = [x if is_number(x) else as_tensor(x) for x in (a, b)]
    if result_type(*operands).kind != "int":
        return b
    return require_values(common(*operands)[1], subject="exponent")


def _traced_power(a: Any, b: Any) -> Any:
    """``a`` to the power of a Python number that is 2 or not when the plan runs."""
    twice = b == 2
    if twice is False or promote_scalar(a.dtype, b) is not a.dtype:
        return power(a, _exponent_of(a, b))
    base, exponent = common(a, _exponent_of(a, b))
    regions = []
    for name in ("then", "else"):
        builder = Builder(name)
        operands = [builder.param(type_of(x)) for x in (base, exponent)]
        rule, count = (square, 1) if name == "then" else (power, 2)
        regions.append(builder.finish(builder.apply(rule, operands[:count])))
    current = interpreter.current()
    return current.apply(cond, (as_tensor(twice), base, exponent), {}, tuple(regions))
