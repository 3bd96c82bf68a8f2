"""Arithmetic of traced numbers: each function is Python's operator, bit for bit.

Operands are Numbers and Python numbers, at least one of them a Number.  Where 64 bits or the order
of the checks would show, Python itself computes, called from the plan.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.core.open_numbers import is_open, size_of
from hybrid.core.size_functions import range_of
from hybrid.core.sizes import is_at_most
from hybrid.core.types import float64, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import NeedsValue, author_location
from hybrid.ir import Op
from hybrid.ir.interpreter import current
from hybrid.number.staging import HERE, MAX, MIN, NUMERIC, Raises, check, host
from hybrid.number.traced_number import Number, as_number, whole_part
from hybrid.ops.elementwise.exact_integers import (
    add_exact,
    multiply_exact,
    quotient,
    subtract_exact,
)

Operand = Any  # Number | bool | int | float
EXACT = 2**53  # ints up to here are float64s
ZERO: Raises = (ZeroDivisionError,)


def kind_of(x: Operand) -> str:
    """bool, int or float: what ``x`` is in Python."""
    if type(x) is Number:
        return x.kind
    return "bool" if isinstance(x, bool) else "int" if isinstance(x, int) else "float"


def limits(x: Operand) -> tuple[int, int]:
    """What a bool or int lies between."""
    if is_open(x):
        low, high = range_of(size_of(x))
        return MIN if low is None else low, MAX if high is None else high
    return (x.low, x.high) if type(x) is Number else (int(x), int(x))


def _bounds(x: Operand) -> tuple[Any, Any]:
    """The same as sizes of open axes, where they are."""
    if is_open(x):
        return size_of(x), size_of(x)
    return limits(x) if type(x) is not Number or x.bounds is None else x.bounds


def _bounded(number: Number, a: Operand, b: Operand, mirrored: bool = False) -> Number:
    """``number``, which is the sum or difference of ``a`` and ``b``, with its bounds."""
    if any(is_open(x) or (type(x) is Number and x.bounds is not None) for x in (a, b)):
        (a0, a1), (b0, b1) = _bounds(a), _bounds(b)
        number.bounds = (a0 - b1, a1 - b0) if mirrored else (a0 + b0, a1 + b1)
    return number


def fits(x: Operand) -> bool:
    """Whether ``x`` has a place in 64 bits."""
    return kind_of(x) == "float" or (limits(x)[0] >= MIN and limits(x)[1] <= MAX)


def is_float(*operands: Operand) -> bool:
    """Whether Python's result is a float because an operand is one."""
    return any(kind_of(x) == "float" for x in operands)


def _tensors(*operands: Operand, floating: bool = False) -> list[Tensor]:
    numbers = [as_number(x) for x in operands]
    return [n.floating() if floating else n.whole() for n in numbers]


def host_number(
    function: Callable[..., Any], kind: str, *operands: Operand, raises: Raises = NUMERIC
) -> Number:
    """``function`` of the plain numbers, computed by Python when the plan runs."""
    operands = tuple([as_number(x) if is_open(x) else x for x in operands])
    traced = [x.tensor for x in operands if type(x) is Number]
    arguments = [HERE if type(x) is Number else x for x in operands]
    return Number(kind, host(function, traced, (kind,), arguments, raises)[0])


# Sums and products -------------------------------------------------------------------------------


def add(a: Operand, b: Operand) -> Number:
    if is_float(a, b):
        return _floats(ops.add, operator.add, a, b)
    a, b = (as_number(x) if is_open(x) else x for x in (a, b))
    if type(a) is not Number:
        a, b = b, a
    (a0, a1), (b0, b1) = limits(a), limits(b)
    return _bounded(_sum(ops.add, operator.add, a, b, a0 + b0, a1 + b1), a, b)


def subtract(a: Operand, b: Operand) -> Number:
    if is_float(a, b):
        return _floats(ops.subtract, operator.sub, a, b)
    a, b = (as_number(x) if is_open(x) else x for x in (a, b))
    (a0, a1), (b0, b1) = limits(a), limits(b)
    found = _sum(ops.subtract, operator.sub, a, b, a0 - b1, a1 - b0)
    return _bounded(found, a, b, mirrored=True)


def _floats(op: Op, function: Callable[..., Any], a: Operand, b: Operand) -> Number:
    if not (fits(a) and fits(b)):
        return host_number(function, "float", a, b)
    return Number("float", op(*_tensors(a, b, floating=True)))


def _sum(
    op: Op, function: Callable[..., int], a: Operand, b: Operand, low: int, high: int
) -> Number:
    """The int sum or difference, which lies between ``low`` and ``high``."""
    if not (fits(a) and fits(b)):
        return host_number(function, "int", a, b)
    if low < MIN or high > MAX:
        op = add_exact if op is ops.add else subtract_exact
    return Number("int", op(*_tensors(a, b)), low, high)


def multiply(a: Operand, b: Operand) -> Number:
    if is_float(a, b):
        return _floats(ops.multiply, operator.mul, a, b)
    if not (fits(a) and fits(b)):
        return host_number(operator.mul, "int", a, b)
    corners = [i * j for i in limits(a) for j in limits(b)]
    low, high = min(corners), max(corners)
    x, y = _tensors(a, b)
    if low >= MIN and high <= MAX:
        return Number("int", ops.multiply(x, y), low, high, _scaled(a, b))
    return Number("int", multiply_exact(x, y), low, high)


def _scaled(a: Operand, b: Operand) -> tuple[Any, Any] | None:
    """The bounds of a product with what is not below 0."""
    if type(a) is not Number or a.bounds is None:
        a, b = b, a
    if type(a) is not Number or a.bounds is None or type(b) is Number or limits(b)[0] < 0:
        return None
    return a.bounds[0] * size_of(b), a.bounds[1] * size_of(b)


# Quotients ---------------------------------------------------------------------------------------


def _may_be_zero(x: Operand) -> bool:
    if type(x) is not Number:
        return x == 0
    return x.kind == "float" or x.low <= 0 <= x.high


def _check_divisor(function: Callable[..., Any], a: Operand, b: Operand) -> None:
    """Let Python raise its ZeroDivisionError."""
    if not _may_be_zero(b):
        return
    x, y = as_number(a).tensor, as_number(b).tensor
    check(y != 0, function, (x, y), ZERO)


def divide(a: Operand, b: Operand) -> Number:
    if not (fits(a) and fits(b)):
        return host_number(operator.truediv, "float", a, b)
    _check_divisor(operator.truediv, a, b)
    if is_float(a, b) or _all_exact(a, b):
        return Number("float", ops.divide(*_tensors(a, b, floating=True)))
    return Number("float", quotient(*_tensors(a, b)))


def _all_exact(*operands: Operand) -> bool:
    """Whether float64 holds every int among ``operands``."""
    return all(
        kind_of(x) == "float" or (limits(x)[0] >= -EXACT and limits(x)[1] <= EXACT)
        for x in operands
    )


def floor_divide(a: Operand, b: Operand) -> Number:
    return _quotient(ops.floor_divide, operator.floordiv, a, b, operator.floordiv)


def remainder(a: Operand, b: Operand) -> Number:
    return _quotient(ops.remainder, operator.mod, a, b, operator.mod)


def divide_modulo(a: Operand, b: Operand) -> tuple[Number, Number]:
    quotient = _quotient(ops.floor_divide, operator.floordiv, a, b, divmod)
    return quotient, _quotient(ops.remainder, operator.mod, a, b, None)


def _quotient(
    op: Op, function: Callable[..., Any], a: Operand, b: Operand, refuse: Callable[..., Any] | None
) -> Number:
    """``refuse`` is what raises for a divisor of 0; None when that has been looked at."""
    floating = is_float(a, b)
    if not (fits(a) and fits(b)):
        return host_number(function, "float" if floating else "int", a, b)
    if refuse is not None:
        _check_divisor(refuse, a, b)
    x, y = _tensors(a, b, floating=floating)
    if floating:
        return Number("float", _python_floor(x, y) if op is ops.floor_divide else op(x, y))
    (a0, a1), (b0, b1) = limits(a), limits(b)
    if op is ops.remainder:
        return Number("int", op(x, y), min(b0 + 1, 0), max(b1 - 1, 0))
    if a0 == MIN and b0 <= -1 <= b1:  # x // y is -x where y is -1, and -x may have no place
        zero = current().lift(0, int64)
        subtract_exact(zero, ops.where(y == -1, x, zero))
    most = max(abs(a0), abs(a1))
    return Number("int", op(x, y), -most if a0 < 0 or b0 < 0 else 0, most)


def _python_floor(x: Any, y: Any) -> Any:
    """``x // y`` of floats; Python differs from the array API where one is infinite."""
    below = ops.logical_and(ops.isinf(y), x * y < 0)
    found = ops.where(below, -1.0, ops.floor_divide(x, y))
    return ops.where(ops.isinf(x), float("nan"), found)


# Powers and bits ---------------------------------------------------------------------------------


def power(a: Operand, b: Operand) -> Number | int:
    if is_float(a, b):
        return host_number(operator.pow, "float", a, b)
    low, high = limits(b)
    if high < 0:
        return host_number(operator.pow, "float", a, b)
    if low == high == 0:
        return 1
    if low == high == 1:
        return positive(a)
    if low == high == 2:
        return multiply(a, a)
    if limits(a) == (2, 2) and low >= 0:
        return left_shift(1, b)
    if low < 0 and (high - low < MAX or current().general):
        # A loop's index or an input: where the exponent is negative Python makes a float, so only
        # a plain number tells which kind it is.
        raise NeedsValue("int ** a negative int", "int", b, at=author_location())
    return host_number(operator.pow, "int", a, b)


def left_shift(a: Operand, b: Operand) -> Number:
    (a0, a1), (b0, b1) = limits(a), limits(b)
    if b0 >= 0 and b1 <= 62 and fits(a):
        corners = [i << j for i in (a0, a1) for j in (b0, b1)]
        if min(corners) >= MIN and max(corners) <= MAX:
            result = ops.bitwise_left_shift(*_tensors(a, b))
            return Number("int", result, min(corners), max(corners))
    return host_number(operator.lshift, "int", a, b)


def right_shift(a: Operand, b: Operand) -> Number:
    if not (fits(a) and fits(b)):
        return host_number(operator.rshift, "int", a, b)
    (a0, a1), (b0, b1) = limits(a), limits(b)
    x, y = _tensors(a, b)
    if b0 < 0:
        check(y >= 0, operator.rshift, (x, y), (ValueError,))
    if b1 > 63:
        y = ops.minimum(y, 63)
    return Number("int", ops.bitwise_right_shift(x, y), min(a0, 0), max(a1, -1))


def bit_and(a: Operand, b: Operand) -> Number:
    known = [limits(x)[1] for x in (a, b) if limits(x)[0] >= 0]
    return _bits(ops.bitwise_and, operator.and_, a, b, (0, min(known)) if known else (MIN, MAX))


def bit_or(a: Operand, b: Operand) -> Number:
    return _bits(ops.bitwise_or, operator.or_, a, b, _widest(a, b))


def bit_xor(a: Operand, b: Operand) -> Number:
    return _bits(ops.bitwise_xor, operator.xor, a, b, _widest(a, b))


def _widest(a: Operand, b: Operand) -> tuple[int, int]:
    """What the bits of either can make."""
    (a0, a1), (b0, b1) = limits(a), limits(b)
    if a0 < 0 or b0 < 0:
        return MIN, MAX
    return 0, (1 << max(a1.bit_length(), b1.bit_length())) - 1


def _bits(
    op: Op, function: Callable[..., Any], a: Operand, b: Operand, known: tuple[int, int]
) -> Number:
    if not (fits(a) and fits(b)):
        return host_number(function, "int", a, b)
    if kind_of(a) == kind_of(b) == "bool":
        return Number("bool", op(as_number(a).tensor, as_number(b).tensor))
    return Number("int", op(*_tensors(a, b)), *known)


# One operand -------------------------------------------------------------------------------------


def negative(a: Number) -> Number:
    if a.kind == "float":
        return Number("float", ops.negative(a.tensor))
    return _mirrored(ops.negative, a, -a.high, -a.low)


def absolute(a: Number) -> Number:
    if a.kind == "float":
        return Number("float", ops.abs(a.tensor))
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return _mirrored(ops.abs, a, low, max(abs(a.low), abs(a.high)))


def _mirrored(op: Op, a: Number, low: int, high: int) -> Number:
    x = a.whole()
    if a.low == MIN:
        below = subtract_exact(current().lift(0, int64), x)
        return Number("int", below if op is ops.negative else ops.maximum(x, below), low, high)
    return Number("int", op(x), low, high)


def positive(a: Operand) -> Number:
    a = as_number(a)
    return Number("int", a.whole(), a.low, a.high) if a.kind == "bool" else a


def invert(a: Number) -> Number:
    if a.kind == "float":
        raise TypeError("bad operand type for unary ~: 'float'")
    return Number("int", ops.bitwise_invert(a.whole()), ~int(a.high), ~int(a.low))


def rounded(a: Number, digits: Any = None) -> Number:
    if a.kind == "float":
        if digits is None:
            return whole_part(a, "round", round)
        return host_number(round, "float", a, digits)
    if digits is None or (type(digits) is int and digits >= 0):
        return positive(a)
    return host_number(round, "int", a, digits)


# Comparisons -------------------------------------------------------------------------------------


def compare(op: Op, function: Callable[..., bool], a: Operand, b: Operand) -> Number | bool:
    """A bool Number, or a bool where what the ints lie between decides."""
    if not is_float(a, b):
        known = _decided(function, limits(a), limits(b))
        if known is None:
            known = _decided_by_sizes(function, _bounds(a), _bounds(b))
        if known is not None:
            return known
        return Number("bool", op(*_tensors(a, b)))
    if kind_of(a) == kind_of(b) or _all_exact(a, b):
        return Number("bool", op(*_tensors(a, b, floating=True)))
    if not fits(a if kind_of(a) != "float" else b):
        return host_number(function, "bool", a, b, raises=())
    if kind_of(b) != "float":
        op, a, b = _MIRRORED[op], b, a
    return Number("bool", _compared(op, as_number(a).whole(), as_number(b).tensor))


# n < x as x > n; and the whole number next to x that n compares with as it does with x.
_MIRRORED = {
    ops.less: ops.greater,
    ops.less_equal: ops.greater_equal,
    ops.greater: ops.less,
    ops.greater_equal: ops.less_equal,
    ops.equal: ops.equal,
    ops.not_equal: ops.not_equal,
}
_NEXT = {
    ops.less: ops.ceil,
    ops.less_equal: ops.floor,
    ops.greater: ops.floor,
    ops.greater_equal: ops.ceil,
}


def _compared(op: Op, n: Tensor, x: Tensor) -> Tensor:
    """``op`` of the very int ``n`` and the float ``x``, which may have a fraction, or no place."""
    inside = ops.logical_and(x >= float(MIN), x < -float(MIN))
    if op in _NEXT:
        near = op(n, ops.cast(_NEXT[op](x), dtype=int64))
    else:
        whole = ops.equal(ops.trunc(x), x)
        same = ops.logical_and(whole, ops.equal(n, ops.cast(x, dtype=int64)))
        near = same if op is ops.equal else ops.logical_not(same)
    return ops.where(inside, near, op(ops.full((), 0.0, dtype=float64), x))


def _decided(function: Callable[..., bool], a: tuple[int, int], b: tuple[int, int]) -> bool | None:
    """The comparison of any int of ``a`` with any of ``b``, when it is always the same."""
    if a[0] <= b[1] and b[0] <= a[1] and function in (operator.eq, operator.ne):
        return None if a[0] != a[1] or b[0] != b[1] else function(a[0], b[0])
    results = {function(i, j) for i in a for j in b}
    return results.pop() if len(results) == 1 else None


def _decided_by_sizes(
    function: Callable[..., bool], a: tuple[Any, Any], b: tuple[Any, Any]
) -> bool | None:
    """The same where ends are sizes of open axes."""
    if is_at_most(a[1] + 1, b[0]) is True:  # each of a is below each of b
        return function(0, 1)
    if is_at_most(b[1] + 1, a[0]) is True:
        return function(1, 0)
    if function is operator.le or function is operator.gt:
        return function(0, 0) if is_at_most(a[1], b[0]) is True else None
    if function is operator.ge or function is operator.lt:
        return function(0, 0) if is_at_most(b[1], a[0]) is True else None
    return None


def choose(test: Any, a: Operand, b: Operand) -> Any:
    """``a`` if ``test`` (a bool, or a Number that is one) else ``b``; of two kinds, the wider."""
    if type(test) is not Number:
        return a if test else b
    if is_float(a, b):
        return Number("float", ops.where(test.tensor, *_tensors(a, b, floating=True)))
    if kind_of(a) == kind_of(b) == "bool":
        return Number("bool", ops.where(test.tensor, as_number(a).tensor, as_number(b).tensor))
    (a0, a1), (b0, b1) = limits(a), limits(b)
    return Number("int", ops.where(test.tensor, *_tensors(a, b)), min(a0, b0), max(a1, b1))
