"""Exponentials and logarithms, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.ops.elementwise.arithmetic import maximum
from hybrid.ops.elementwise.bit_logic import logical_and
from hybrid.ops.elementwise.comparison import isinf, where
from hybrid.ops.support.call_cache import remembered_of_two
from hybrid.ops.support.derivatives import diagonal
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import require_floating


@op(kernel="exp", elementwise=True, promotes="floating")
def exp(x: TensorType) -> TensorType:
    """``e`` to the power ``x``."""
    require_floating("exp", x=x)
    return x


@exp.reference
def exp_reference(x):
    return np.exp(x)


@diagonal(exp)
def exp_vjp(ct, y, _x):
    return (ct * y,)


@op(kernel="expm1", elementwise=True, promotes="floating")
def expm1(x: TensorType) -> TensorType:
    """``exp(x) - 1``, accurate near 0."""
    require_floating("expm1", x=x)
    return x


@expm1.reference
def expm1_reference(x):
    return np.expm1(x)


@diagonal(expm1)
def expm1_vjp(ct, y, _x):
    return (ct * (y + 1),)


@op(kernel="log", elementwise=True, domain=(0.1, 100.0), promotes="floating")
def log(x: TensorType) -> TensorType:
    """The natural logarithm; NaN below zero."""
    require_floating("log", x=x)
    return x


@log.reference
def log_reference(x):
    return np.log(x)


@diagonal(log)
def log_vjp(ct, _y, x):
    return (ct / x,)


@op(kernel="log1p", elementwise=True, domain=(-0.9, 100.0), promotes="floating")
def log1p(x: TensorType) -> TensorType:
    """``log(1 + x)``, accurate near 0."""
    require_floating("log1p", x=x)
    return x


@log1p.reference
def log1p_reference(x):
    return np.log1p(x)


@diagonal(log1p)
def log1p_vjp(ct, _y, x):
    return (ct / (x + 1),)


@op(kernel="log2", elementwise=True, domain=(0.1, 100.0), promotes="floating")
def log2(x: TensorType) -> TensorType:
    """The logarithm to base 2."""
    require_floating("log2", x=x)
    return x


@log2.reference
def log2_reference(x):
    return np.log2(x)


@diagonal(log2)
def log2_vjp(ct, _y, x):
    return (ct / (x * math.log(2)),)


@op(kernel="log10", elementwise=True, domain=(0.1, 100.0), promotes="floating")
def log10(x: TensorType) -> TensorType:
    """The logarithm to base 10, exact for powers of 10."""
    require_floating("log10", x=x)
    return x


@log10.reference
def log10_reference(x):
    return np.log10(x)


@diagonal(log10)
def log10_vjp(ct, _y, x):
    return (ct / (x * math.log(10)),)


# Functions ---------------------------------------------------------------------------------------


@remembered_of_two
def logaddexp(a: Any, b: Any) -> Any:
    """``log(exp(a) + exp(b))`` without overflow; equal infinities give themselves.

    Where ``a`` and ``b`` are equal each has half of the gradient, infinite ones included.
    """
    a, b = common(a, b)
    same = logical_and(a == b, isinf(a))  # whose difference is NaN
    left, right = where(same, 0.0, a), where(same, 0.0, b)
    first = left > right
    high, low = where(first, left, right), where(first, right, left)
    # Smooth on both sides of a tie, as a maximum and a distance are not.
    return where(same, maximum(a, b), high + log1p(exp(low - high)))
