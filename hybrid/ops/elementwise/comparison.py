"""Comparison, classification and choice, element by element; the sign bit, and the next number."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import TensorType, bool_, tensor_type
from hybrid.ir import op
from hybrid.ops.support import shared_work
from hybrid.ops.support.call_cache import remembered_of_three
from hybrid.ops.support.derivatives import diagonal, unbroadcast
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    broadcast_type,
    require_dtype,
    require_floating,
    require_numeric,
    require_same_dtype,
)


def _compared(name: str, a: TensorType, b: TensorType) -> TensorType:
    require_same_dtype(name, a, b)
    return tensor_type(bool_, broadcast_shapes(name, a, b))


@op(kernel="equal", elementwise=True, commutative=True, promotes=True, differentiable=False)
def equal(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a == b``; NaN equals nothing."""
    return _compared("equal", a, b)


@equal.reference
def equal_reference(a, b):
    return np.equal(a, b)


@op(kernel="not_equal", elementwise=True, commutative=True, promotes=True, differentiable=False)
def not_equal(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a != b``."""
    return _compared("not_equal", a, b)


@not_equal.reference
def not_equal_reference(a, b):
    return np.not_equal(a, b)


@op(kernel="less", elementwise=True, promotes=True, differentiable=False)
def less(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a < b``."""
    return _compared("less", a, b)


@less.reference
def less_reference(a, b):
    return np.less(a, b)


@op(kernel="less_equal", elementwise=True, promotes=True, differentiable=False)
def less_equal(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a <= b``."""
    return _compared("less_equal", a, b)


@less_equal.reference
def less_equal_reference(a, b):
    return np.less_equal(a, b)


@op(kernel="greater", elementwise=True, promotes=True, differentiable=False)
def greater(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a > b``."""
    return _compared("greater", a, b)


@greater.reference
def greater_reference(a, b):
    return np.greater(a, b)


@op(kernel="greater_equal", elementwise=True, promotes=True, differentiable=False)
def greater_equal(a: TensorType, b: TensorType) -> TensorType:
    """Whether ``a >= b``."""
    return _compared("greater_equal", a, b)


@greater_equal.reference
def greater_equal_reference(a, b):
    return np.greater_equal(a, b)


@op(kernel="isnan", elementwise=True, differentiable=False)
def isnan(x: TensorType) -> TensorType:
    """Whether ``x`` is not a number."""
    return x.with_dtype(bool_)


@isnan.reference
def isnan_reference(x):
    return np.isnan(x)


@op(kernel="isinf", elementwise=True, differentiable=False)
def isinf(x: TensorType) -> TensorType:
    """Whether ``x`` is infinite."""
    return x.with_dtype(bool_)


@isinf.reference
def isinf_reference(x):
    return np.isinf(x)


@op(kernel="isfinite", elementwise=True, differentiable=False)
def isfinite(x: TensorType) -> TensorType:
    """Whether ``x`` is a number and not infinite."""
    return x.with_dtype(bool_)


@isfinite.reference
def isfinite_reference(x):
    return np.isfinite(x)


@op(
    kernel=lambda types, _attrs: f"where_{types[1].dtype.short}",
    elementwise=True,
    name="where",
)
def select(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """``a`` where ``condition`` holds, else ``b``."""
    require_dtype("where", "condition", condition, bool_)
    require_same_dtype("where", a, b)
    return tensor_type(a.dtype, broadcast_shapes("where", condition, a, b))


select.shares(shared_work.elementwise(linear=[(1, 2)]))


@select.reference
def select_reference(condition, a, b):
    return np.where(condition, a, b)


@select.samples
def select_samples(draw):
    for dtype in draw.all:
        for shapes in [
            ((), (), ()),
            ((0,), (0,), (0,)),
            ((17,), (17,), (17,)),
            ((5,), (), (5,)),
            ((4, 1), (3,), (4, 3)),
            ((3, 4), (4,), (3, 1)),
        ]:
            yield (draw("bool", *shapes[0]), *(draw(dtype, *shape) for shape in shapes[1:])), {}


@diagonal(select)
def select_vjp(ct, _y, condition, _a, _b):
    """The side not taken gets exact zeros, whatever its own derivative is."""
    return (
        None,
        (lambda: unbroadcast(where(condition, ct, 0.0), _a)),
        (lambda: unbroadcast(where(condition, 0.0, ct), _b)),
    )


@remembered_of_three
def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where ``condition`` holds, else ``b``; ``a`` and ``b`` are promoted together."""
    a, b = common(a, b)
    return select(as_tensor(condition), a, b)


@op(kernel="clamp", elementwise=True, promotes=True)
def clamp(x: TensorType, low: TensorType, high: TensorType) -> TensorType:
    """``low`` where ``x <= low``, else ``high`` where ``x >= high``, else ``x`` (NaN, too)."""
    require_numeric("clamp", x=x, low=low, high=high)
    require_same_dtype("clamp", x, low, high)
    return tensor_type(x.dtype, broadcast_shapes("clamp", x, low, high))


@clamp.reference
def clamp_reference(x, low, high):
    return np.where(x <= low, low, np.where(x >= high, high, x))


@clamp.samples
def clamp_samples(draw):
    for dtype in draw.numbers:
        for shapes in [((), (), ()), ((0,), (), ()), ((33,), (), ()), ((4, 1), (3,), (4, 3))]:
            yield tuple([draw(dtype, *shape) for shape in shapes]), {}


@diagonal(clamp)
def clamp_vjp(ct, _y, x, low, high):
    """What is cut off, and what lies on a bound, has slope 0."""
    below, above = x <= low, x >= high
    return (
        (lambda: unbroadcast(where(below, 0.0, where(above, 0.0, ct)), x)),
        (lambda: unbroadcast(where(below, ct, 0.0), low)),
        (lambda: unbroadcast(where(below, 0.0, where(above, ct, 0.0)), high)),
    )


@op(kernel="clip", elementwise=True, promotes=True, name="clip")
def bounded(x: TensorType, low: TensorType, high: TensorType) -> TensorType:
    """The smaller of ``high`` and the larger of ``x`` and ``low``; NaN when one of them is."""
    return clamp.rule(x, low, high)


@bounded.reference
def bounded_reference(x, low, high):
    return np.minimum(np.maximum(x, low), high)


bounded.samples(clamp_samples)


@diagonal(bounded)
def bounded_vjp(ct, _y, x, low, high):
    """On a bound the slope is that of ``x``."""
    below, above = x < low, x > high
    crossed = high < low
    return (
        (lambda: unbroadcast(where(below, 0.0, where(above, 0.0, ct)), x)),
        (lambda: unbroadcast(where(below, where(crossed, 0.0, ct), 0.0), low)),
        (lambda: unbroadcast(where(crossed, ct, where(above, ct, 0.0)), high)),
    )


@op(kernel="signbit", elementwise=True, differentiable=False, promotes="floating")
def signbit(x: TensorType) -> TensorType:
    """Whether the sign bit is set: of -0 and of some NaN, too."""
    require_floating("signbit", x=x)
    return x.with_dtype(bool_)


@signbit.reference
def signbit_reference(x):
    return np.signbit(x)


@op(kernel="copysign", elementwise=True, promotes="floating")
def copysign(a: TensorType, b: TensorType) -> TensorType:
    """The magnitude of ``a`` with the sign bit of ``b``."""
    require_floating("copysign", a=a, b=b)
    return broadcast_type("copysign", a, b)


@copysign.reference
def copysign_reference(a, b):
    return np.copysign(a, b)


@copysign.samples
def copysign_samples(draw):
    yield from draw.binary(floating=True, a_low=0.3, b_low=0.3)
    yield from draw.binary(floating=True, a_high=-0.3, b_low=0.3)
    yield from draw.binary(floating=True, a_low=0.3, b_high=-0.3)


@diagonal(copysign)
def copysign_vjp(ct, _y, a, b):
    return (lambda: unbroadcast(where(signbit(a) == signbit(b), ct, -ct), a)), None


@op(kernel="nextafter", elementwise=True, differentiable=False, promotes="floating")
def nextafter(a: TensorType, b: TensorType) -> TensorType:
    """The number next to ``a`` on the way to ``b``; ``b`` where they are equal."""
    require_floating("nextafter", a=a, b=b)
    return broadcast_type("nextafter", a, b)


@nextafter.reference
def nextafter_reference(a, b):
    return np.nextafter(a, b)
