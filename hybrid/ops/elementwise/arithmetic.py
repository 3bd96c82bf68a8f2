"""Arithmetic, element by element: the field operations, rounding, the larger and the smaller."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.ops.elementwise import comparison
from hybrid.ops.support import shared_work
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import diagonal, unbroadcast
from hybrid.ops.support.dtypes import identity
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_type,
    is_number,
    require_floating,
    require_numeric,
)

# One operand -------------------------------------------------------------------------------------


@op(kernel="negative", elementwise=True)
def negative(x: TensorType) -> TensorType:
    """``-x``; integers wrap."""
    require_numeric("negative", x=x)
    return x


@negative.reference
def negative_reference(x):
    return np.negative(x)


negative.shares(shared_work.elementwise(linear=[(0,)]))


@diagonal(negative)
def negative_vjp(ct, _y, _x):
    return (negative(ct),)


@op(kernel="abs", elementwise=True, name="abs")
def absolute(x: TensorType) -> TensorType:
    """The absolute value; the smallest integer is its own."""
    require_numeric("abs", x=x)
    return x


@absolute.reference
def absolute_reference(x):
    return np.abs(x)


@diagonal(absolute)
def absolute_vjp(ct, _y, x):
    """The derivative at 0 is 0."""
    return (ct * sign(x),)


@op(kernel="sign", elementwise=True)
def sign(x: TensorType) -> TensorType:
    """-1, 0 or 1 as ``x`` is below, at or above zero; NaN stays NaN."""
    require_numeric("sign", x=x)
    return x


@sign.reference
def sign_reference(x):
    return np.sign(x)


@diagonal(sign)
def sign_vjp(_ct, _y, _x):
    return (None,)


# Rounding: piecewise constant, so derivatives are zero -------------------------------------------


@op(kernel="floor", elementwise=True)
def floor(x: TensorType) -> TensorType:
    """The largest integer not above ``x``, in its dtype."""
    require_numeric("floor", x=x)
    return x


@floor.reference
def floor_reference(x):
    return np.floor(x).astype(x.dtype)


@op(kernel="ceil", elementwise=True)
def ceil(x: TensorType) -> TensorType:
    """The smallest integer not below ``x``, in its dtype."""
    require_numeric("ceil", x=x)
    return x


@ceil.reference
def ceil_reference(x):
    return np.ceil(x).astype(x.dtype)


@op(kernel="trunc", elementwise=True)
def trunc(x: TensorType) -> TensorType:
    """``x`` without its fraction."""
    require_numeric("trunc", x=x)
    return x


@trunc.reference
def trunc_reference(x):
    return np.trunc(x).astype(x.dtype)


@op(kernel="round", elementwise=True, name="round")
def round_even(x: TensorType) -> TensorType:
    """The nearest integer, in the dtype of ``x``; halves go to the even neighbour."""
    require_numeric("round", x=x)
    return x


@round_even.reference
def round_even_reference(x):
    return np.round(x)


@diagonal(floor)
@diagonal(ceil)
@diagonal(trunc)
@diagonal(round_even)
def rounding_vjp(_ct, _y, _x):
    return (None,)


# Two operands ------------------------------------------------------------------------------------


@op(kernel="add", elementwise=True, commutative=True, promotes=True)
def add(a: TensorType, b: TensorType) -> TensorType:
    """``a + b``."""
    require_numeric("add", a=a, b=b)
    return broadcast_type("add", a, b)


add.shares(shared_work.elementwise(linear=[(0, 1)]))


@add.reference
def add_reference(a, b):
    return np.add(a, b)


@diagonal(add)
def add_vjp(ct, _y, _a, _b):
    return (lambda: unbroadcast(ct, _a)), (lambda: unbroadcast(ct, _b))


@op(kernel="subtract", elementwise=True, promotes=True)
def subtract(a: TensorType, b: TensorType) -> TensorType:
    """``a - b``."""
    require_numeric("subtract", a=a, b=b)
    return broadcast_type("subtract", a, b)


subtract.shares(shared_work.elementwise(linear=[(0, 1)]))


@subtract.reference
def subtract_reference(a, b):
    return np.subtract(a, b)


@diagonal(subtract)
def subtract_vjp(ct, _y, _a, _b):
    return (lambda: unbroadcast(ct, _a)), (lambda: negative(unbroadcast(ct, _b)))


@op(kernel="multiply", elementwise=True, commutative=True, promotes=True)
def multiply(a: TensorType, b: TensorType) -> TensorType:
    """``a * b``."""
    require_numeric("multiply", a=a, b=b)
    return broadcast_type("multiply", a, b)


multiply.shares(shared_work.elementwise(linear=[(0,), (1,)]))


@multiply.reference
def multiply_reference(a, b):
    return np.multiply(a, b)


@diagonal(multiply)
def multiply_vjp(ct, _y, a, b):
    return (lambda: unbroadcast(ct * b, a)), (lambda: unbroadcast(ct * a, b))


@op(kernel="divide", elementwise=True, promotes="floating")
def divide(a: TensorType, b: TensorType) -> TensorType:
    """``a / b``; the quotient of integers is float32."""
    require_floating("divide", a=a, b=b)
    return broadcast_type("divide", a, b)


divide.shares(shared_work.elementwise(linear=[(0,)]))


@divide.reference
def divide_reference(a, b):
    return np.divide(a, b)


@divide.samples
def divide_samples(draw):
    yield from draw.binary(b_low=0.5, b_high=3.0, floating=True)


@diagonal(divide)
def divide_vjp(ct, y, a, b):
    return (lambda: unbroadcast(ct / b, a)), (lambda: unbroadcast(-(ct * (y / b)), b))


@op(kernel="floor_divide", elementwise=True, promotes=True)
def floor_divide(a: TensorType, b: TensorType) -> TensorType:
    """``a / b`` rounded down; an integer divided by 0 gives 0.

    What is infinite is divided as by ``/``, as the array API says.
    """
    require_numeric("floor_divide", a=a, b=b)
    return broadcast_type("floor_divide", a, b)


@floor_divide.reference
def floor_divide_reference(a, b):
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.floor_divide(a, b)
        if found.dtype.kind != "f":
            return found
        return np.where(np.isinf(a) | np.isinf(b), a / b, found).astype(found.dtype)


@floor_divide.samples
def floor_divide_samples(draw):
    yield from draw.binary(dtypes=draw.integers)
    for low, high in [(5.1, 5.6), (-5.6, -5.1)]:  # away from where it jumps
        yield from draw.binary(floating=True, a_low=low, a_high=high, b_low=2.1, b_high=2.5)


@diagonal(floor_divide)
def floor_divide_vjp(_ct, _y, _a, _b):
    return None, None


@op(kernel="remainder", elementwise=True, promotes=True)
def remainder(a: TensorType, b: TensorType) -> TensorType:
    """``a - floor(a / b) * b``, which has the sign of ``b``; an integer modulo 0 gives 0."""
    require_numeric("remainder", a=a, b=b)
    return broadcast_type("remainder", a, b)


@remainder.reference
def remainder_reference(a, b):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.remainder(a, b)


@remainder.samples
def remainder_samples(draw):
    yield from draw.binary(b_low=0.5, b_high=3.0)


@diagonal(remainder)
def remainder_vjp(ct, _y, a, b):
    return (
        (lambda: unbroadcast(ct, a)),
        (lambda: negative(unbroadcast(ct * floor_divide(a, b), b))),
    )


@op(kernel="maximum", elementwise=True, commutative=True, promotes=True)
def maximum(a: TensorType, b: TensorType) -> TensorType:
    """The larger of ``a`` and ``b``; NaN when either is."""
    require_numeric("maximum", a=a, b=b)
    return broadcast_type("maximum", a, b)


@maximum.reference
def maximum_reference(a, b):
    return np.maximum(a, b)


@op(kernel="minimum", elementwise=True, commutative=True, promotes=True)
def minimum(a: TensorType, b: TensorType) -> TensorType:
    """The smaller of ``a`` and ``b``; NaN when either is."""
    require_numeric("minimum", a=a, b=b)
    return broadcast_type("minimum", a, b)


@minimum.reference
def minimum_reference(a, b):
    return np.minimum(a, b)


@diagonal(maximum)
@diagonal(minimum)
def extremum_vjp(ct, y, a, b):
    """The chosen operand gets the cotangent; equal operands get half each."""

    def share(x, other):
        kept = comparison.where(x == y, ct, 0.0)
        return unbroadcast(comparison.where(x == other, 0.5 * ct, kept), x)

    return (lambda: share(a, b)), (lambda: share(b, a))


# Functions ---------------------------------------------------------------------------------------


@remembered
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """``x`` with what lies below ``min`` or above ``max`` replaced by that bound."""
    x = as_tensor(x)
    if min is None and max is None:
        return identity(x)
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    if x.dtype.is_floating and is_number(low) and is_number(high):
        return comparison.bounded(x, low, high)
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)
