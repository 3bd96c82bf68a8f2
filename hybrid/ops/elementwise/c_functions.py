"""Functions of the C library: the very ones that Python's ``math`` calls, so the bits are those.

::

    %c: f64[] = c_function %x, %x {function="cos"}

For Python numbers in programs, where there is no Python.  What is elementwise to users has kernels
of its own, which are the same on all machines.
"""

from __future__ import annotations

import math

import numpy as np

from hybrid.core.types import TensorType, float64
from hybrid.ir import op
from hybrid.ops.support.batching import with_rows
from hybrid.ops.support.operand_checks import require_choice, require_dtype, require_shape

ONE = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "exp", "expm1", "log", "log1p", "log2", "log10",
)  # fmt: skip
NAMES = (*ONE, "pow", "atan2", "fmod")  # by the number that the kernel knows each by
_AT_0 = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}  # where they are -inf


@op(differentiable=False)
def c_function(x: TensorType, y: TensorType, *, function: str) -> TensorType:
    """``function`` of the C library of ``x``, and of ``y`` if it has two arguments; float64.

    Where Python raises it is what C has there: NaN, or an infinity.
    """
    require_dtype("c_function", "x", x, float64)
    require_dtype("c_function", "y", y, float64)
    require_shape("c_function", "y", y, x.shape)
    require_choice("function", function, NAMES)
    return x


@c_function.reference
def c_function_reference(x, y, *, function):
    pairs = zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True)
    found = [_computed(function, a, b) for a, b in pairs]
    return np.asarray(found, np.float64).reshape(np.shape(x))


def _computed(function: str, a: float, b: float) -> float:
    try:
        return getattr(math, function)(*((a,) if function in ONE else (a, b)))
    except OverflowError:
        negative = a < 0 and (function == "sinh" or (function == "pow" and b % 2 == 1))
        return -math.inf if negative else math.inf
    except ValueError:
        if a == _AT_0.get(function):
            return -math.inf
        if function == "atanh" and abs(a) == 1:
            return math.copysign(math.inf, a)
        if function == "pow" and a == 0:
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


@c_function.lowering
def c_function_lowering(emit, x, y, result, *, function):
    count = (math.prod(result.shape),)
    views = [emit.dense(operand).reshape(count) for operand in (x, y)]
    emit.kernel("c_function", views, [result.reshape(count)], [NAMES.index(function)])


@c_function.batch
def c_function_batch(rows, batched, x, y, *, function):
    operands = [with_rows(t, rows, b) for t, b in zip((x, y), batched, strict=True)]
    return c_function(*operands, function=function)


@c_function.samples
def c_function_samples(draw):
    special = np.asarray([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e3, -1e3])
    infinite = np.asarray([np.nan, np.inf, -np.inf, np.nan, np.inf])
    for function in NAMES:
        yield (draw("float64"), draw("float64")), {"function": function}
        yield (special, special[::-1].copy()), {"function": function}
        if function != "atan2":  # the sign of NaN is another matter
            yield (infinite[1:3], np.asarray([2.0, 3.0])), {"function": function}
    yield (draw("float64", 2, 3), draw("float64", 2, 3)), {"function": "pow"}
