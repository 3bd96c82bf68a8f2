"""Elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.calls.control_functions import py_call
from hybrid.core import types
from hybrid.core.types import tensor_type
from hybrid.errors import OnnxError
from hybrid.memory.bfloat16 import memory_dtype
from hybrid.onnx.known_values import as_operand, axis_of, dtype_of_known
from hybrid.onnx.node_table import handles

# Functions of hy that are the op: the text calls them by their own names.
_PLAIN: dict[str, tuple[str, tuple[int, ...]]] = {
    "Abs": ("abs", (1, 6, 13)),
    "Acos": ("acos", (7, 22)),
    "Acosh": ("acosh", (9, 22)),
    "Asin": ("asin", (7, 22)),
    "Asinh": ("asinh", (9, 22)),
    "Atan": ("atan", (7, 22)),
    "Atanh": ("atanh", (9, 22)),
    "BitwiseAnd": ("bitwise_and", (18,)),
    "BitwiseNot": ("bitwise_invert", (18,)),
    "BitwiseOr": ("bitwise_or", (18,)),
    "BitwiseXor": ("bitwise_xor", (18,)),
    "Ceil": ("ceil", (1, 6, 13)),
    "Cos": ("cos", (7, 22)),
    "Cosh": ("cosh", (9, 22)),
    "Erf": ("erf", (9, 13)),
    "Exp": ("exp", (1, 6, 13)),
    "Floor": ("floor", (1, 6, 13)),
    "IsNaN": ("isnan", (9, 13, 20)),
    "Log": ("log", (1, 6, 13)),
    "Neg": ("negative", (1, 6, 13)),
    "Reciprocal": ("reciprocal", (1, 6, 13)),
    "Round": ("round", (11, 22)),
    "Sign": ("sign", (9, 13)),
    "Sin": ("sin", (7, 22)),
    "Sinh": ("sinh", (9, 22)),
    "Sqrt": ("sqrt", (1, 6, 13)),
    "Tan": ("tan", (7, 22)),
    "Tanh": ("tanh", (1, 6, 13)),
}
for _op, (_name, _since) in _PLAIN.items():
    handles(_op, *_since, text=f"hy.{_name}")(getattr(ops, _name))

_two = functools.partial(handles, weights=(0, 1))


def _open_quotient(a: Any, b: Any) -> Any:
    """The quotient of sizes of open axes, cut off, and 0 where b is."""
    if b == 0:
        return 0
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


_OPEN_QUOTIENTS = np.frompyfunc(_open_quotient, 2, 1)
_OPEN_RESTS = np.frompyfunc(lambda a, b: a - _open_quotient(a, b) * b, 2, 1)


def _safe_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotients of known values: those of integers are cut off, and 0 where b is."""
    if a.dtype.kind == "f":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(a, b).astype(a.dtype)
    if a.dtype == object or b.dtype == object:
        return _OPEN_QUOTIENTS(a, b)
    with np.errstate(divide="ignore"):
        floor = np.floor_divide(a, b)
    rest = a - floor * b
    return (floor + ((rest != 0) & ((a < 0) != (b < 0)) & (b != 0))).astype(a.dtype)


@_two("Add", 7, 13, 14, known=lambda a, b: a + b, traced=True)
def add(a, b):
    """Add: a + b."""
    return ops.add(a, b)


@_two("Sub", 7, 13, 14, known=lambda a, b: a - b, traced=True)
def sub(a, b):
    """Sub: a - b."""
    return ops.subtract(a, b)


@_two("Mul", 7, 13, 14, known=lambda a, b: a * b, traced=True)
def mul(a, b):
    """Mul: a * b."""
    return ops.multiply(a, b)


@_two("Div", 7, 13, 14, known=_safe_divide)
def div(a, b):
    """Div: a / b; of integers the quotient without its fraction."""
    return ops.divide(a, b) if a.dtype.is_floating else _truncated(a, b)


def _truncated(a, b):
    floor = ops.floor_divide(a, b)
    if a.dtype.kind == "uint":
        return floor
    left = ops.subtract(a, ops.multiply(floor, b))
    differ = ops.not_equal(ops.less(a, 0), ops.less(b, 0))
    up = ops.logical_and(ops.not_equal(left, 0), differ)
    up = ops.logical_and(up, ops.not_equal(b, 0))
    return ops.add(floor, ops.astype(up, a.dtype))


def _known_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    power = np.power(a, b)
    return power if object in (a.dtype, b.dtype) else power.astype(a.dtype)


@handles("Pow", 7, 12, 13, 15, known=_known_pow)
def pow(a, b):
    """Pow: a to the power b, in the type of a."""
    if a.dtype is b.dtype:
        return ops.pow(a, b)
    if b.dtype.is_floating and not a.dtype.is_floating:  # float32 holds too few integers
        wide = types.float64 if a.dtype.itemsize >= 4 else b.dtype
        return ops.astype(ops.pow(ops.astype(a, wide), ops.astype(b, wide)), a.dtype)
    if a.dtype.is_floating:
        return ops.pow(a, ops.astype(b, a.dtype))
    return ops.astype(ops.pow(ops.astype(a, types.int64), ops.astype(b, types.int64)), a.dtype)


def _known_mod(a: np.ndarray, b: np.ndarray, *, fmod: int = 0) -> np.ndarray:
    if fmod and (a.dtype == object or b.dtype == object):
        return _OPEN_RESTS(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.fmod(a, b) if fmod else a % b


@handles("Mod", 10, 13, 28, known=_known_mod)
def mod(a, b, *, fmod=0):
    """Mod: what is left of a / b, with the sign of b, or of a as C's fmod has it."""
    if not fmod:
        return ops.remainder(a, b)
    if not a.dtype.is_floating:
        return ops.subtract(a, ops.multiply(_truncated(a, b), b))
    size = ops.abs(b)
    rest = ops.remainder(ops.abs(a), ops.where(ops.isinf(size), ops.add(ops.abs(a), 1), size))
    return ops.copysign(rest, a)


@handles("BitShift", 11, 28)
def bit_shift(a, b, *, direction):
    """BitShift: the bits of a, b places to the LEFT or RIGHT."""
    if direction not in ("LEFT", "RIGHT"):
        raise OnnxError(f"BitShift got direction {direction!r}", why="It is LEFT or RIGHT.")
    shift = ops.bitwise_left_shift if direction == "LEFT" else ops.bitwise_right_shift
    return shift(a, b)


@handles("And", 7, known=np.logical_and)
def logical_and(a, b):
    """And."""
    return ops.logical_and(a, b)


@handles("Or", 7, known=np.logical_or)
def logical_or(a, b):
    """Or."""
    return ops.logical_or(a, b)


@handles("Xor", 7, known=np.logical_xor)
def logical_xor(a, b):
    """Xor."""
    return ops.logical_xor(a, b)


@handles("Not", 1, known=np.logical_not)
def logical_not(x):
    """Not."""
    return ops.logical_not(x)


def _compared(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda a, b: np.asarray(function(a, b)).astype(bool)


@handles("Equal", 7, 11, 13, 19, known=_compared(lambda a, b: a == b))
def equal(a, b):
    """Equal."""
    return ops.equal(a, b)


@handles("Less", 7, 9, 13, known=_compared(lambda a, b: a < b))
def less(a, b):
    """Less."""
    return ops.less(a, b)


@handles("LessOrEqual", 12, 16, known=_compared(lambda a, b: a <= b))
def less_or_equal(a, b):
    """LessOrEqual."""
    return ops.less_equal(a, b)


@handles("Greater", 7, 9, 13, known=_compared(lambda a, b: a > b))
def greater(a, b):
    """Greater."""
    return ops.greater(a, b)


@handles("GreaterOrEqual", 12, 16, known=_compared(lambda a, b: a >= b))
def greater_or_equal(a, b):
    """GreaterOrEqual."""
    return ops.greater_equal(a, b)


# Before opset 7 the second operand was broadcast only if asked for, from ``axis`` on.


def _set_out(a, b, axis, broadcast):
    """The operand b with axes of length 1 behind it, so that its first axis meets ``axis``."""
    if not broadcast or axis is None or not b.ndim:
        return b
    axis = axis_of(axis, a.ndim)
    return ops.reshape(b, (*b.shape, *[1] * (a.ndim - axis - b.ndim)))


_OLD: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "Add": (add, (1, 6)),
    "Sub": (sub, (1, 6)),
    "Mul": (mul, (1, 6)),
    "Div": (div, (1, 6)),
    "Pow": (pow, (1,)),
    "And": (logical_and, (1,)),
    "Or": (logical_or, (1,)),
    "Xor": (logical_xor, (1,)),
    "Equal": (equal, (1,)),
    "Less": (less, (1,)),
    "Greater": (greater, (1,)),
}


def _from_axis(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def made(a, b, *, axis=None, broadcast=0):
        return function(a, _set_out(a, b, axis, broadcast))

    made.__name__ = f"{function.__name__}_from_axis"
    made.__doc__ = f"{op} as it was before opset 7."
    return made


for _op, (_function, _since) in _OLD.items():
    _made = handles(_op, *_since)(_from_axis(_op, _function))
    globals()[_made.__name__] = _made


@handles("Max", 1, 6, 8, 12, 13, known=lambda *values: functools.reduce(np.maximum, values))
def maximum(first, *others):
    """Max of all inputs."""
    return functools.reduce(ops.maximum, others, first)


@handles("Min", 1, 6, 8, 12, 13, known=lambda *values: functools.reduce(np.minimum, values))
def minimum(first, *others):
    """Min of all inputs."""
    return functools.reduce(ops.minimum, others, first)


@handles("Sum", 1, 6, 8, 13, weights=(0, 1, 2, 3))
def total(first, *others):
    """Sum of all inputs."""
    return functools.reduce(ops.add, others, first)


@handles("Mean", 1, 6, 8, 13)
def mean(first, *others):
    """Mean of all inputs."""
    return ops.divide(functools.reduce(ops.add, others, first), 1 + len(others))


def _known_where(condition, a, b):
    return np.where(condition.astype(bool), a, b)


@handles("Where", 9, 16, known=_known_where)
def where(condition, a, b):
    """Where."""
    return ops.where(condition, a, b)


@handles("IsInf", 10, 20)
def is_inf(x, *, detect_negative=1, detect_positive=1):
    """IsInf, of either sign or both."""
    infinite = ops.isinf(x)
    if detect_negative and detect_positive:
        return infinite
    if not detect_negative and not detect_positive:
        return ops.zeros_like(infinite)
    return ops.logical_and(infinite, ops.less(x, 0) if detect_negative else ops.greater(x, 0))


@handles("Clip", 11, 12, 13)
def clip(x, low=None, high=None):
    """Clip: x between low and high; high where these cross."""
    if low is not None:
        x = ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@handles("Clip", 1, 6)
def clip_between(x, *, min=-3.4028234663852886e38, max=3.4028234663852886e38):
    """Clip with its limits as attributes: opsets 1 to 10."""
    return ops.minimum(ops.maximum(x, min), max)


def _known_cast(x: np.ndarray, *, to, saturate=1, round_mode="up") -> np.ndarray:
    if x.dtype == object and to is types.int64:
        return x
    if x.dtype == object or to.numpy is None:
        return ops.astype(as_operand(x), to)
    return x.astype(to.numpy)


@handles("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28, known=_known_cast)
def cast(x, *, to, saturate=1, round_mode="up"):
    """Cast: x as ``to``."""
    return x if x.dtype is to else _converted(x, to)


def _converted(x, to):
    if x.dtype.is_floating and to.is_integer and to.itemsize < 4:
        return ops.astype(ops.astype(x, types.int32), to)  # as C does: wraps round
    return ops.astype(x, to)


@handles("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(x, like, *, saturate=1, round_mode="up"):
    """CastLike: x as the type of ``like``."""
    to = dtype_of_known(like)
    return x if x.dtype is to else _converted(x, to)


@handles("BitCast", 26)
def bit_cast(x, *, to):
    """BitCast: the bits of x as numbers of the type ``to``."""
    if x.dtype.itemsize != to.itemsize:
        raise OnnxError(f"BitCast of {x.dtype} to {to}", why="They differ in size.")
    if x.dtype is to:
        return x
    kind, held = memory_dtype(x.dtype), memory_dtype(to)

    def view(values: np.ndarray) -> np.ndarray:
        return np.array(values).view(kind).view(held)

    return py_call(view, x, result=tensor_type(to, x.shape))
