"""Traced numbers compute what Python computes: value, kind and exception."""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import pytest

from hybrid.errors import ArgumentTypeError
from tests.numbers import Fixed, run

BOOLS = (False, True)
INTS = (0, 1, -1, 2, 7, -13, 63, 64, 2**31, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -2.5, 0.1, 7.0, 1e300, -1e-320, 2.0**53, 2.0**63, math.inf, -math.inf)
FLOATS = (*FLOATS, math.nan)
KINDS = {"bool": BOOLS, "int": INTS, "float": FLOATS}
BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    divmod, operator.and_, operator.or_, operator.xor, operator.rshift,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
UNARY = (
    operator.neg, operator.pos, operator.abs, operator.invert, round, math.floor, math.ceil,
    math.trunc,
)  # fmt: skip


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result with its kinds and bits, or the exception's class and text."""
    try:
        return exactly(function(*arguments))
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error), str(error)


def exactly(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(exactly, value))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return OverflowError, value.bit_length()
    return type(value), value


def same_outcome(function: Callable[..., Any], *arguments: Any) -> None:
    plain = [a.value if isinstance(a, Fixed) else a for a in arguments]
    wanted = outcome(function, *plain)
    found = outcome(lambda *args: run(function, *args), *arguments)
    if any(part[0] is OverflowError for part in (wanted, *wanted) if isinstance(part, tuple)):
        assert issubclass(found[0], OverflowError), (function, plain, wanted, found)
        return
    assert found == wanted, (function, plain)


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="-".join)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary_operators(function: Callable[..., Any], kinds: tuple[str, str]) -> None:
    for a, b in itertools.product(*[KINDS[kind] for kind in kinds]):
        same_outcome(function, a, b)
        same_outcome(function, a, Fixed(b))
        same_outcome(function, Fixed(a), b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_unary_operators(function: Callable[..., Any], kind: str) -> None:
    for a in KINDS[kind]:
        same_outcome(function, a)


SMALL_INTS = (0, 1, -1, 2, 5, 62, 63, 64, -3)


def test_powers_and_left_shifts() -> None:
    for a, b in itertools.product((*SMALL_INTS, True), SMALL_INTS):
        same_outcome(operator.lshift, a, b)
        same_outcome(operator.lshift, Fixed(a), b)
        same_outcome(operator.pow, a, Fixed(b))
        if b >= 0:
            same_outcome(operator.pow, a, b)
            same_outcome(operator.pow, Fixed(a), b)
            same_outcome(pow, a, b, 7)
    for a, b in itertools.product((0.0, 2.5, 3, 1e200), (0.5, 2.0, -1.0, 2, 7, -3)):
        same_outcome(operator.pow, float(a), b)
        same_outcome(operator.pow, a, float(b))
        same_outcome(operator.pow, Fixed(a), float(b))


def test_a_result_of_another_kind_than_captured() -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        run(lambda a, b: a**b, 2, -1)
    assert str(caught.value) == (
        f"a traced number became 0.5 ({__file__}:{caught.value.at.line})\n"
        f"    {caught.value.at.line} | run(lambda a, b: a**b, 2, -1)\n"
        "While the function was captured it was taken for an int: the kind of a number is the same "
        "in every run.\n"
        "Fix: make it a float, with float(), before this operation."
    )
    with pytest.raises(ArgumentTypeError, match=r"a traced number became \(.*j\)"):
        run(operator.pow, -2.0, 0.5)


def test_rounding_to_digits() -> None:
    for x, digits in itertools.product((2.675, -0.5, 1e22, 1234.5), (None, 0, 2, -2)):
        same_outcome(round, x, Fixed(digits))
    for x, digits in itertools.product((0, 15, 1250, -1350), (None, 0, 2, -2)):
        same_outcome(round, x, Fixed(digits))
        if digits is not None:
            same_outcome(round, x, digits)


@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts(name: str) -> None:
    for x in (True, 3, 2.5):
        same_outcome(operator.attrgetter(name), x)


def test_methods() -> None:
    for x in (True, 0, -9, 2**62):
        same_outcome(lambda n: (n.bit_length(), n.conjugate()), x)
    for x in (0.0, 1.5, 4.0, math.inf, math.nan):
        same_outcome(lambda n: n.is_integer(), x)
    with pytest.raises(AttributeError, match="'float' object has no attribute 'bit_length'"):
        run(lambda n: n.bit_length(), 1.5)
