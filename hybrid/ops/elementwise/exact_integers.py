"""Python's arithmetic of ints that are only known when a plan runs: exact, or an error.

Not elementwise to passes, which move such ops freely: these may raise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, float64, int64
from hybrid.errors import NumberRangeError
from hybrid.ir import Op, op
from hybrid.ops.support.batching import with_rows
from hybrid.ops.support.operand_checks import require_dtype, require_shape


def _exact_type(name: str, a: TensorType, b: TensorType) -> TensorType:
    require_dtype(name, "a", a, int64)
    require_dtype(name, "b", b, int64)
    require_shape(name, "b", b, a.shape)
    return a


@op(kernel="add_exact", raises=NumberRangeError, differentiable=False)
def add_exact(a: TensorType, b: TensorType) -> TensorType:
    """``a + b`` of int64 tensors of one shape; NumberRangeError where that has no 64 bits."""
    return _exact_type("add_exact", a, b)


@op(kernel="subtract_exact", raises=NumberRangeError, differentiable=False)
def subtract_exact(a: TensorType, b: TensorType) -> TensorType:
    """``a - b`` of int64 tensors of one shape; NumberRangeError where that has no 64 bits."""
    return _exact_type("subtract_exact", a, b)


@op(kernel="multiply_exact", raises=NumberRangeError, differentiable=False)
def multiply_exact(a: TensorType, b: TensorType) -> TensorType:
    """``a * b`` of int64 tensors of one shape; NumberRangeError where that has no 64 bits."""
    return _exact_type("multiply_exact", a, b)


@op(kernel="quotient", differentiable=False)
def quotient(a: TensorType, b: TensorType) -> TensorType:
    """``a / b`` of int64 tensors of one shape as Python divides ints: float64, rounded once.

    What is divided by 0 is inf, -inf or NaN.
    """
    return _exact_type("quotient", a, b).with_dtype(float64)


def _divide(a: int, b: int) -> float:
    return a / b if b else float(np.float64(a) / np.float64(b))


def _complete(exact: Op, function: Callable[[int, int], Any], dtype: Any = np.int64) -> None:
    """Give ``exact`` what all of them have; its reference is Python's ``function`` of each pair."""

    @exact.reference
    def reference(a, b):
        found = [function(int(x), int(y)) for x, y in zip(np.ravel(a), np.ravel(b), strict=True)]
        for value in found:
            if dtype is np.int64 and not -(2**63) <= value < 2**63:
                raise NumberRangeError(value)
        return np.asarray(found, dtype).reshape(np.shape(a))

    @exact.batch
    def batch(rows, batched, *operands):
        return exact(*[with_rows(x, rows, b) for x, b in zip(operands, batched, strict=True)])

    @exact.samples
    def samples(draw):
        for shape in ((), (3,), (2, 0), (5, 7)):
            yield (draw("int64", *shape), draw("int64", *shape)), {}
        largest = np.asarray([3037000499, -(2**31), 2**62 - 1], np.int64)
        yield (largest, np.asarray([3037000499, 2**31, -1], np.int64)), {}


_complete(add_exact, operator.add)
_complete(subtract_exact, operator.sub)
_complete(multiply_exact, operator.mul)
_complete(quotient, _divide, np.float64)
