"""The operators and methods of Number, which are those of bool, int and float."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.number import number_arithmetic
from hybrid.number.number_arithmetic import host_number, kind_of
from hybrid.number.traced_number import Number, whole_part

SAMPLES: dict[str, Any] = {"bool": True, "int": 1, "float": 1.0}


def is_plain(other: Any) -> bool:
    """Whether ``other`` is a Number or a number of Python's own classes."""
    return type(other) is Number or (
        isinstance(other, (bool, int, float)) and not isinstance(other, np.generic)
    )


def sample(x: Any) -> Any:
    """``x``; in place of a Number some number of its kind."""
    return SAMPLES[x.kind] if isinstance(x, Number) else x


def _foreign(number: Number, name: str, function: Callable[..., Any], *operands: Any) -> Any:
    """An operator with something that is no number; ``operands`` hold ``number``."""
    other = next(x for x in operands if x is not number)
    native = type(other) is Number or type(other).__module__ in ("builtins", "numpy")
    if isinstance(other, Tensor) or not native:
        return NotImplemented
    function(*map(sample, operands))  # raises what Python raises
    number.need_value(f"{name} with a {type(other).__name__}")


def _binary(
    name: str, compute: Callable[..., Any], function: Callable[..., Any], reflected: bool = False
) -> Callable[..., Any]:
    bits = name in ("&", "|", "^", "<<", ">>")

    def method(self: Number, other: Any) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if not is_plain(other) or (bits and "float" in (kind_of(a), kind_of(b))):
            return _foreign(self, name, function, a, b)
        return compute(a, b)

    return method


def _comparison(op: Any, function: Callable[..., bool]) -> Callable[..., Any]:
    def method(self: Number, other: Any) -> Any:
        if not is_plain(other):
            return NotImplemented
        return number_arithmetic.compare(op, function, self, other)

    return method


def _power(self: Number, other: Any, modulus: Any = None) -> Any:
    if modulus is None:
        return _plain_power(self, other)
    if "float" in map(kind_of, (self, other, modulus)):
        return pow(sample(self), sample(other), sample(modulus))  # raises what Python raises
    return host_number(pow, "int", self, other, modulus)


BINARY = {
    "add": ("+", number_arithmetic.add, operator.add),
    "sub": ("-", number_arithmetic.subtract, operator.sub),
    "mul": ("*", number_arithmetic.multiply, operator.mul),
    "truediv": ("/", number_arithmetic.divide, operator.truediv),
    "floordiv": ("//", number_arithmetic.floor_divide, operator.floordiv),
    "mod": ("%", number_arithmetic.remainder, operator.mod),
    "divmod": ("divmod()", number_arithmetic.divide_modulo, divmod),
    "pow": ("**", number_arithmetic.power, operator.pow),
    "lshift": ("<<", number_arithmetic.left_shift, operator.lshift),
    "rshift": (">>", number_arithmetic.right_shift, operator.rshift),
    "and": ("&", number_arithmetic.bit_and, operator.and_),
    "or": ("|", number_arithmetic.bit_or, operator.or_),
    "xor": ("^", number_arithmetic.bit_xor, operator.xor),
}
COMPARE = {
    "eq": (ops.equal, operator.eq),
    "ne": (ops.not_equal, operator.ne),
    "lt": (ops.less, operator.lt),
    "le": (ops.less_equal, operator.le),
    "gt": (ops.greater, operator.gt),
    "ge": (ops.greater_equal, operator.ge),
}
UNARY = {
    "neg": number_arithmetic.negative,
    "pos": number_arithmetic.positive,
    "abs": number_arithmetic.absolute,
    "invert": number_arithmetic.invert,
    "round": number_arithmetic.rounded,
}
for _name, (_symbol, _compute, _function) in BINARY.items():
    setattr(Number, f"__{_name}__", _binary(_symbol, _compute, _function))
    setattr(Number, f"__r{_name}__", _binary(_symbol, _compute, _function, reflected=True))
for _name, (_op, _function) in COMPARE.items():
    setattr(Number, f"__{_name}__", _comparison(_op, _function))
for _name, _compute in UNARY.items():
    setattr(Number, f"__{_name}__", _compute)
_plain_power = Number.__pow__  # type: ignore[attr-defined]
Number.__pow__ = _power  # type: ignore[attr-defined]


# Methods -----------------------------------------------------------------------------------------


def _whole(step: str, function: Callable[..., Any]) -> Callable[[Number], Any]:
    def method(self: Number) -> Any:
        return whole_part(self, step, function) if self.kind == "float" else +self

    return method


def to_int(number: Number) -> Number:
    """``int(number)``."""
    return whole_part(number, "trunc", int) if number.kind == "float" else +number


def to_float(number: Number) -> Number:
    """``float(number)``."""
    return Number("float", number.floating())


def to_bool(number: Number) -> Number | bool:
    """``bool(number)``."""
    return number if number.kind == "bool" else number != 0


def _method(name: str, kind: str) -> Callable[..., Any]:
    """The method ``name``, whose result has ``kind``, computed by Python."""

    def method(self: Number) -> Any:
        getattr(SAMPLES[self.kind], name)  # raises what Python raises
        return host_number(operator.methodcaller(name), kind, self)

    return method


def _real(self: Number) -> Number:
    return +self


def _imaginary(self: Number) -> int | float:
    return SAMPLES[self.kind].imag


def _is_integer(self: Number) -> Any:
    if self.kind != "float":
        return SAMPLES[self.kind].is_integer()  # of an int only since Python 3.12
    return Number("bool", (ops.floor(self.tensor) == self.tensor) & ops.isfinite(self.tensor))


Number.__trunc__ = _whole("trunc", math.trunc)  # type: ignore[attr-defined]
Number.__floor__ = _whole("floor", math.floor)  # type: ignore[attr-defined]
Number.__ceil__ = _whole("ceil", math.ceil)  # type: ignore[attr-defined]
Number.real = property(_real)  # type: ignore[attr-defined]
Number.imag = property(_imaginary)  # type: ignore[attr-defined]
Number.conjugate = _real  # type: ignore[attr-defined]
Number.is_integer = _is_integer  # type: ignore[attr-defined]
Number.bit_length = _method("bit_length", "int")  # type: ignore[attr-defined]
Number.bit_count = _method("bit_count", "int")  # type: ignore[attr-defined]
