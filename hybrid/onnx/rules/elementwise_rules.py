"""Arithmetic, comparisons, logic and casts, with the meaning of NumPy where ONNX has another."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import BY_NAME, DType, bool_, float64, int64, uint64
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes

# What is the same in ONNX -------------------------------------------------------------------------


def _same(name: str, op: str) -> None:
    """Let ``op`` of ONNX be what ``name`` is of numbers of any dtype."""
    writes(name)(lambda g, *operands: g.wide(op, *operands))


for _name, _op in {
    "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "minimum": "Min",
    "add_exact": "Add", "subtract_exact": "Sub", "multiply_exact": "Mul",
}.items():  # fmt: skip
    _same(_name, _op)


def _compares(name: str, op: str) -> None:
    writes(name)(lambda g, a, b: compared(g, op, a, b))


def compared(g: GraphWriter, op: str, a: Wire, b: Wire) -> Wire:
    """A comparison, which gives bools."""
    if a.dtype is bool_ and op != "Equal":
        a, b = (g.cast(x, BY_NAME["int32"]) for x in (a, b))
    return g.wide(op, a, b, dtype=bool_)


for _name, _op in {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}.items():  # fmt: skip
    _compares(_name, _op)


@writes("not_equal")
def not_equal(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    return g("Not", compared(g, "Equal", a, b))


@writes("identity", "fresh_variable", "stop_gradient", "known_alike", "require_values")
def identity(_g: GraphWriter, x: Wire, **_: Any) -> Wire:
    return x


@writes("as_variable", "made_of_integers", "after")
def first_of(_g: GraphWriter, x: Wire, *_others: Wire) -> Wire:
    return x


# Signs and roundings ------------------------------------------------------------------------------


@writes("negative")
def negative(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype.kind == "uint":
        return g.wide("Sub", g.zero(x.dtype), x)
    return g.wide("Neg", x)


@writes("abs")
def absolute(g: GraphWriter, x: Wire) -> Wire:
    return x if x.dtype.kind == "uint" else g.wide("Abs", x)


@writes("sign")
def sign(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype.kind == "uint":
        return g.wide("Min", x, g.constant(1, x.dtype))
    found = g.wide("Sign", x)
    return where(g, is_nan(g, x), x, found) if x.dtype.is_floating else found


def _rounds(name: str, op: str) -> None:
    writes(name)(lambda g, x: g(op, x) if x.dtype.is_floating else x)


for _name, _op in {"floor": "Floor", "ceil": "Ceil", "round": "Round"}.items():
    _rounds(_name, _op)


@writes("trunc")
def trunc(g: GraphWriter, x: Wire) -> Wire:
    if not x.dtype.is_floating:
        return x
    below = compared(g, "Less", x, g.zero(x.dtype))
    return where(g, below, g("Ceil", x), g("Floor", x))


@writes("isnan")
def is_nan(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype.is_floating:
        return g("IsNaN", x, dtype=bool_)
    return g("Not", compared(g, "Equal", x, x))


@writes("isinf")
def is_infinite(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype.is_floating:
        return g("IsInf", x, dtype=bool_)
    return g("Not", compared(g, "Equal", x, x))


@writes("isfinite")
def is_finite(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype.is_floating:
        return g("Not", g("Or", is_nan(g, x), is_infinite(g, x)))
    return compared(g, "Equal", x, x)


@writes("signbit")
def sign_bit(g: GraphWriter, x: Wire) -> Wire:
    zero = g.zero(x.dtype)
    below = compared(g, "Less", x, zero)
    behind_zero = compared(g, "Less", g("Reciprocal", x), zero)  # of -0 it is -inf
    return g("Or", below, behind_zero)


@writes("copysign")
def copy_sign(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    size = g("Abs", a)
    return where(g, sign_bit(g, b), g("Neg", size), size)


# Choices ------------------------------------------------------------------------------------------


@writes("where")
def where(g: GraphWriter, condition: Wire, a: Wire, b: Wire) -> Wire:
    if a.dtype is bool_:
        return g("Or", g("And", condition, a), g("And", g("Not", condition), b))
    return g.wide("Where", condition, a, b)


@writes("clip")
def clip(g: GraphWriter, x: Wire, low: Wire, high: Wire) -> Wire:
    if _in_order(g, low, high):
        return g.wide("Clip", x, low, high)
    return g.wide("Min", g.wide("Max", x, low), high)


@writes("clamp")
def clamp(g: GraphWriter, x: Wire, low: Wire, high: Wire) -> Wire:
    if _in_order(g, low, high):
        return g.wide("Clip", x, low, high)
    inside = where(g, compared(g, "GreaterOrEqual", x, high), high, x)
    return where(g, compared(g, "LessOrEqual", x, low), low, inside)


def _in_order(g: GraphWriter, low: Wire, high: Wire) -> bool:
    """Whether these are constant scalars, the first no larger."""
    least, most = g.array_of(low), g.array_of(high)
    if least is None or most is None or least.ndim or most.ndim:
        return False
    return bool(least <= most)


# Quotients ----------------------------------------------------------------------------------------


@writes("divide")
def divide(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    return g("Div", a, b)


@writes("quotient")
def quotient(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """Of floats: ints of more than 53 bits are rounded before they are divided."""
    return g("Div", g.cast(a, float64), g.cast(b, float64))


@writes("remainder")
def remainder(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if a.dtype.is_floating:
        return _float_remainder(g, a, b)
    known = g.array_of(b)
    if known is None or np.isin(known, (0, -1)).any():  # by -1 the least integer overflows
        b = where(g, _is_any_of(g, b, 0, -1), g.constant(1, b.dtype), b)
    return g("Mod", a, b)


def _float_remainder(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """What is left of a division by way of C, with the sign of the divisor."""
    rest = g("Mod", a, b, fmod=1)
    return where(g, _crosses(g, rest, b), g("Add", rest, b), rest)


def _crosses(g: GraphWriter, rest: Wire, b: Wire) -> Wire:
    """Whether a remainder that is not 0 has another sign than the divisor."""
    zero = g.zero(b.dtype)
    apart = g("Xor", compared(g, "Less", rest, zero), compared(g, "Less", b, zero))
    return g("And", g("Not", compared(g, "Equal", rest, zero)), apart)


def _is_any_of(g: GraphWriter, x: Wire, *numbers: int) -> Wire:
    """Whether each element is one of ``numbers``, as far as the dtype has them."""
    limits = np.iinfo(x.dtype.numpy)
    found = [
        compared(g, "Equal", x, g.constant(n, x.dtype)) for n in numbers if n >= int(limits.min)
    ]
    return found[0] if len(found) == 1 else g("Or", *found)


@writes("floor_divide")
def floor_divide(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if a.dtype.is_floating:
        return _float_floor_divide(g, a, b)
    known = g.array_of(b)
    plain = known is not None and not np.isin(known, (0, -1)).any()
    one, zero = g.constant(1, a.dtype), g.zero(a.dtype)
    divisor = b if plain else where(g, _is_any_of(g, b, 0, -1), one, b)
    found = g.wide("Div", a, divisor)  # towards zero
    if a.dtype.kind == "int":
        rest = g("Mod", a, divisor)  # with the sign of the divisor: then it is not that of a
        apart = g("Xor", compared(g, "Less", a, zero), compared(g, "Less", divisor, zero))
        down = g("And", g("Not", compared(g, "Equal", rest, zero)), apart)
        found = where(g, down, g.wide("Sub", found, one), found)
        if not plain:
            found = where(g, _is_any_of(g, b, -1), negative(g, a), found)
    return found if plain else where(g, _is_any_of(g, b, 0), zero, found)


def _float_floor_divide(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """As NumPy does, by way of the remainder; what is infinite is divided plainly."""
    one = g.constant(1, a.dtype)
    rest = g("Mod", a, b, fmod=1)
    found = g("Div", g("Sub", a, rest), b)
    found = where(g, _crosses(g, rest, b), g("Sub", found, one), found)
    low = g("Floor", found)
    far = compared(g, "Greater", g("Sub", found, low), g.constant(0.5, a.dtype))
    low = where(g, far, g("Add", low, one), low)
    infinite = g("Or", is_infinite(g, a), is_infinite(g, b))
    plain = g("Or", infinite, compared(g, "Equal", b, g.zero(b.dtype)))
    return where(g, plain, g("Div", a, b), low)


# Bits and logic -----------------------------------------------------------------------------------


@writes("logical_not")
def logical_not(g: GraphWriter, x: Wire) -> Wire:
    return g("Not", x) if x.dtype is bool_ else compared(g, "Equal", x, g.zero(x.dtype))


def _logic(name: str, op: str) -> None:
    writes(f"logical_{name}")(lambda g, a, b: g(op, a, b))

    def bits(g: GraphWriter, a: Wire, b: Wire) -> Wire:
        if a.dtype is bool_:
            return g(op, a, b)
        g.needs(18, f"Bitwise{op}")
        return g(f"Bitwise{op}", a, b)

    writes(f"bitwise_{name}")(bits)


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    _logic(_name, _op)


@writes("bitwise_invert")
def bitwise_invert(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype is bool_:
        return g("Not", x)
    ones = g.constant(-1 if x.dtype.kind == "int" else np.iinfo(x.dtype.numpy).max, x.dtype)
    return g.wide("Sub", ones, x)


def _unsigned(dtype: DType) -> DType:
    return BY_NAME[f"u{dtype.name}"] if dtype.kind == "int" else dtype


@writes("bitwise_left_shift")
def bitwise_left_shift(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    kind = _unsigned(a.dtype)
    moved = g("BitShift", g.cast(a, kind), g.cast(b, kind), direction="LEFT")
    return g.cast(moved, a.dtype)


@writes("bitwise_right_shift")
def bitwise_right_shift(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if a.dtype.kind == "uint":
        return g("BitShift", a, b, direction="RIGHT")
    kind = _unsigned(a.dtype)
    below = compared(g, "Less", a, g.zero(a.dtype))
    positive = where(g, below, bitwise_invert(g, a), a)  # a negative one by way of its complement
    moved = g("BitShift", g.cast(positive, kind), g.cast(b, kind), direction="RIGHT")
    moved = g.cast(moved, a.dtype)
    return where(g, below, bitwise_invert(g, moved), moved)


# Casts --------------------------------------------------------------------------------------------


@writes("cast")
def cast(g: GraphWriter, x: Wire, *, dtype: DType) -> Wire:
    if not x.dtype.is_floating or not dtype.is_integer:
        return g.cast(x, dtype)
    limits = np.iinfo(dtype.numpy)
    least, most = int(limits.min), int(limits.max)
    known = where(g, is_nan(g, x), g.zero(x.dtype), x)
    with np.errstate(all="ignore"):
        exact = x.dtype.numpy.type(most) == most and x.dtype.numpy.type(least) == least
    if exact and int(x.dtype.numpy.type(most)) == most:
        low, high = g.constant(least, x.dtype), g.constant(most, x.dtype)
        return g.cast(g("Clip", known, low, high), dtype)
    # The largest integer is no float: what reaches the next one is told apart.
    inside = np.nextafter(x.dtype.numpy.type(most), x.dtype.numpy.type(0))
    low, high = g.constant(least, x.dtype), g.constant(inside, x.dtype)
    found = g.cast(g("Clip", known, low, high), dtype)
    above = compared(g, "GreaterOrEqual", known, g.constant(float(most), x.dtype))
    return where(g, above, g.constant(most, dtype), found)


def ordered(g: GraphWriter, x: Wire) -> Wire:
    """Numbers in the same order, of a dtype that kernels compare: uint64 as int64."""
    if x.dtype is not uint64:
        return x
    return g("Add", g.cast(x, int64), g.constant(np.iinfo(np.int64).min, int64))


def unordered(g: GraphWriter, x: Wire, dtype: DType) -> Wire:
    """What ``ordered`` has made of elements of ``dtype``, as these."""
    if dtype is not uint64:
        return x
    return g.cast(g("Add", x, g.constant(np.iinfo(np.int64).min, int64)), dtype)
