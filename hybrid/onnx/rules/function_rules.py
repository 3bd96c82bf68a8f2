"""Exponentials, powers, angles and activations: an op of ONNX, or the definition by some."""

from __future__ import annotations

import math

from hybrid.core.types import bool_, float32, int64
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.elementwise_rules import (
    compared,
    copy_sign,
    is_infinite,
    sign_bit,
    where,
)


def _same(name: str, op: str) -> None:
    writes(name)(lambda g, x: g(op, x))


for _name, _op in {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "sigmoid": "Sigmoid", "erf": "Erf",
}.items():  # fmt: skip
    _same(_name, _op)


# Exponentials and logarithms ----------------------------------------------------------------------


@writes("expm1")
def expm1(g: GraphWriter, x: Wire) -> Wire:
    """``tanh(x / 2) * (exp(x) + 1)``, in which nothing cancels near 0."""
    half = g("Tanh", g("Mul", x, g.constant(0.5, x.dtype)))
    return g("Mul", half, g("Add", g("Exp", x), g.constant(1, x.dtype)))


@writes("log1p")
def log1p(g: GraphWriter, x: Wire) -> Wire:
    """``log(u) * (x / (u - 1))`` of ``u = 1 + x``, which takes back what u was rounded by."""
    one, zero = g.constant(1, x.dtype), g.zero(x.dtype)
    above = g("Add", x, one)
    taken = g("Sub", above, one)
    log = g("Log", above)
    exact = g("Equal", taken, x, dtype=bool_)
    corrected = g("Mul", log, g("Div", x, taken))
    small = where(g, g("Equal", taken, zero, dtype=bool_), x, corrected)
    return where(g, exact, log, small)


@writes("log2")
def log2(g: GraphWriter, x: Wire) -> Wire:
    return g("Div", g("Log", x), g.constant(math.log(2), x.dtype))


@writes("log10")
def log10(g: GraphWriter, x: Wire) -> Wire:
    return g("Div", g("Log", x), g.constant(math.log(10), x.dtype))


@writes("softplus")
def softplus(g: GraphWriter, x: Wire) -> Wire:
    if x.dtype is float32:
        return g("Softplus", x)
    tail = log1p(g, g("Exp", g("Neg", g("Abs", x))))
    return g("Add", g("Max", x, g.zero(x.dtype)), tail)


# Powers -------------------------------------------------------------------------------------------


@writes("square")
def square(g: GraphWriter, x: Wire) -> Wire:
    return g.wide("Mul", x, x)


@writes("rsqrt")
def rsqrt(g: GraphWriter, x: Wire) -> Wire:
    return g("Reciprocal", g("Sqrt", x))


@writes("hypot")
def hypot(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """``m * sqrt(1 + (n / m)^2)`` of the larger m and the smaller n: no square overflows."""
    one, zero = g.constant(1, a.dtype), g.zero(a.dtype)
    first, second = g("Abs", a), g("Abs", b)
    large, small = g("Max", first, second), g("Min", first, second)
    ratio = g("Div", small, where(g, g("Equal", large, zero, dtype=bool_), one, large))
    found = g("Mul", large, g("Sqrt", g("Add", one, g("Mul", ratio, ratio))))
    infinite = g("Or", is_infinite(g, a), is_infinite(g, b))
    return where(g, infinite, g.constant(math.inf, a.dtype), found)


@writes("pow")
def power(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if a.dtype.is_floating:
        return g("Pow", a, b)
    known = g.array_of(b)
    if known is not None and not known.ndim and 0 <= int(known) <= 64:
        return _power_of(g, a, int(known))
    return _integer_power(g, a, b)


def _power_of(g: GraphWriter, a: Wire, exponent: int) -> Wire:
    """The product of as many factors, by squaring; integers wrap."""
    if exponent == 0:  # of the shape of a
        return g.wide("Add", g.wide("Mul", a, g.zero(a.dtype)), g.constant(1, a.dtype))
    found, square = None, a
    while exponent:
        if exponent & 1:
            found = square if found is None else g.wide("Mul", found, square)
        exponent >>= 1
        if exponent:
            square = g.wide("Mul", square, square)
    assert found is not None
    return found


def _integer_power(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """By squaring, in a loop that ends when no exponent has a bit left; integers wrap.

    A negative power is 0 unless ``a`` is 1 or -1.
    """
    one, zero, two = (g.constant(n, a.dtype) for n in (1, 0, 2))
    exponents = b if b.dtype.kind == "uint" else g.wide("Max", b, zero)
    full = g.wide("Mul", a, g.wide("Add", g.wide("Mul", b, zero), one))  # of the common shape
    ones = g.wide("Add", g.wide("Mul", full, zero), one)

    inner = g.inner()
    names = [g.model.free_name(n) for n in ("turn", "going", "power", "square", "exponent")]
    found, square, left = (Wire(name, a.dtype) for name in names[2:])
    odd = compared(inner, "Equal", inner("Mod", left, two), one)
    made = where(inner, odd, inner.wide("Mul", found, square), found)
    squared = inner.wide("Mul", square, square)
    rest = inner.wide("Div", left, two)
    more = _any_left(inner, rest)
    body = inner.plain_graph(
        "powers",
        [(names[0], int64, ()), (names[1], bool_, ())]
        + [(name, a.dtype, None) for name in names[2:]],
        [(more, ()), (made, None), (squared, None), (rest, None)],
    )
    result, _, _ = g(
        "Loop", None, _any_left(g, exponents), ones, full, exponents,
        dtype=(a.dtype,) * 3, outputs=3, body=body,
    )  # fmt: skip
    if b.dtype.kind == "uint":
        return result
    minus = g.constant(-1, a.dtype)
    is_odd = compared(g, "Equal", g("Mod", b, two), one)
    of_minus = where(g, is_odd, minus, one)
    inverse = where(g, compared(g, "Equal", a, minus), of_minus, zero)
    inverse = where(g, compared(g, "Equal", a, one), one, inverse)
    return where(g, compared(g, "Less", b, zero), inverse, result)


def _any_left(g: GraphWriter, exponents: Wire) -> Wire:
    """Whether some exponent is above 0."""
    flags = g.cast(compared(g, "Greater", exponents, g.zero(exponents.dtype)), int64)
    count = g("ReduceSum", flags, keepdims=0)
    return compared(g, "Greater", count, g.zero(int64))


# Angles -------------------------------------------------------------------------------------------


@writes("atan2")
def atan2(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    """The angle of the absolute values, turned into the quadrant that the signs say."""
    zero, one = g.zero(a.dtype), g.constant(1, a.dtype)
    up, along = g("Abs", a), g("Abs", b)
    flat = g("Equal", g("Max", up, along), zero, dtype=bool_)
    corner = g("And", is_infinite(g, a), is_infinite(g, b))
    ratio = g("Div", where(g, flat, zero, up), where(g, flat, one, along))
    angle = g("Atan", where(g, corner, one, ratio))
    turned = g("Sub", g.constant(math.pi, a.dtype), angle)
    return copy_sign(g, where(g, sign_bit(g, b), turned, angle), a)


# Activations --------------------------------------------------------------------------------------

_ROOT = math.sqrt(2)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_LINEAR, _CUBIC = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715


@writes("relu")
def relu(g: GraphWriter, x: Wire) -> Wire:
    return g("Relu", x) if x.dtype.is_floating else g.wide("Max", x, g.zero(x.dtype))


@writes("silu")
def silu(g: GraphWriter, x: Wire) -> Wire:
    return g("Mul", x, g("Sigmoid", x))


@writes("gelu")
def gelu(g: GraphWriter, x: Wire) -> Wire:
    if g.opset >= 20:
        return g("Gelu", x)
    return g("Mul", g("Mul", x, g.constant(0.5, x.dtype)), _twice_share(g, x))


def _twice_share(g: GraphWriter, x: Wire) -> Wire:
    """``1 + erf(x / sqrt(2))``."""
    erf = g("Erf", g("Div", x, g.constant(_ROOT, x.dtype)))
    return g("Add", erf, g.constant(1, x.dtype))


@writes("gelu_tanh")
def gelu_tanh(g: GraphWriter, x: Wire) -> Wire:
    if g.opset >= 20:
        return g("Gelu", x, approximate="tanh")
    inner = g("Tanh", _tanh_argument(g, x, g("Mul", x, x)))
    return g("Mul", g("Mul", x, g.constant(0.5, x.dtype)), g("Add", inner, _one(g, x)))


def _one(g: GraphWriter, x: Wire) -> Wire:
    return g.constant(1, x.dtype)


def _tanh_argument(g: GraphWriter, x: Wire, squared: Wire) -> Wire:
    """``sqrt(2 / pi) * (x + 0.044715 x^3)``."""
    factor = g("Add", g("Mul", squared, g.constant(_CUBIC, x.dtype)), g.constant(_LINEAR, x.dtype))
    return g("Mul", x, factor)


def _within(g: GraphWriter, x: Wire, limit: float) -> Wire:
    return g("Clip", x, g.constant(-limit, x.dtype), g.constant(limit, x.dtype))


@writes("gelu_slope")
def gelu_slope(g: GraphWriter, x: Wire) -> Wire:
    """``F(x) + x f(x)`` of the normal distribution F and its density f."""
    x = _within(g, x, 40)
    half = g.constant(0.5, x.dtype)
    share = g("Mul", _twice_share(g, x), half)
    density = g("Exp", g("Neg", g("Mul", half, g("Mul", x, x))))
    return g("Add", share, g("Mul", g("Mul", x, g.constant(_DENSITY, x.dtype)), density))


@writes("gelu_tanh_slope")
def gelu_tanh_slope(g: GraphWriter, x: Wire) -> Wire:
    """The derivative of ``s(2z) * x``, s the logistic function and z the argument of tanh."""
    x = _within(g, x, 22)
    squared = g("Mul", x, x)
    twice = g("Mul", _tanh_argument(g, x, squared), g.constant(2, x.dtype))
    share, rest = g("Sigmoid", twice), g("Sigmoid", g("Neg", twice))
    steep = g("Add", g("Mul", squared, g.constant(6 * _CUBIC, x.dtype)),
              g.constant(2 * _LINEAR, x.dtype))  # fmt: skip
    more = g("Mul", g("Mul", x, rest), steep)
    return g("Mul", share, g("Add", more, _one(g, x)))


@writes("silu_slope")
def silu_slope(g: GraphWriter, x: Wire) -> Wire:
    x = _within(g, x, 1000)
    share = g("Sigmoid", x)
    more = g("Mul", x, g("Sigmoid", g("Neg", x)))
    return g("Mul", share, g("Add", more, _one(g, x)))
