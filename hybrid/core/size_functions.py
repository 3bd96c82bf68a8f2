"""Functions of sizes that are no polynomials, by name: what a binding of the symbols calls.

::

    SizeCall(FUNCTIONS["//"], (n, 8))  # prints as (n // 8)
    SizeCall(FUNCTIONS["math.sqrt"], (n,))  # prints as math.sqrt(n)

Each computes what Python does with plain numbers, with Python's own function, so that the bits are
those.  Folders above add functions that give ``bytes``: elements of tensors that depend on sizes.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Range = tuple["int | float | None", "int | float | None"]  # the least and the largest; None: any
ANY: Range = (None, None)


class SizeFunction(NamedTuple):
    """A function of plain numbers, and what is known of it without them."""

    name: str
    compute: Callable[..., Any]
    range: Callable[..., Range]  # of the result, from those of the operands
    raises: bool  # for some numbers
    infix: bool  # whether it stands between its operands


class SizeSymbol:
    """A variable of sizes: its name, its value here, and its range."""

    __slots__ = ("high", "low", "name", "order", "value")

    def __init__(self, name: str, value: int, low: int, high: int, order: int) -> None:
        self.name, self.value, self.low, self.high, self.order = name, value, low, high, order

    @property
    def range(self) -> Range:
        return self.low, self.high

    def __str__(self) -> str:
        return self.name

    def code(self, local: Mapping[Variable, str]) -> str:
        return local[self]


class SizeCall:
    """A function of sizes, which is no polynomial: a variable that others determine."""

    __slots__ = ("function", "operands", "order", "range", "value")

    def __init__(self, function: SizeFunction, operands: tuple[Any, ...], order: int) -> None:
        self.function, self.operands, self.order = function, operands, order
        self.value = function.compute(*map(value_here, operands))
        self.range = function.range(*map(range_of, operands))

    def __str__(self) -> str:
        texts = list(map(str, self.operands))
        if not self.function.infix:
            return f"{self.function.name}({', '.join(texts)})"
        sides = [
            text if is_single(side) else f"({text})"
            for side, text in zip(self.operands, texts, strict=True)
        ]
        return f" {self.function.name} ".join(sides)

    def code(self, local: Mapping[Variable, str]) -> str:
        """A Python expression of it, in the names of its symbols and of the table."""
        operands = ", ".join([code_of(operand, local) for operand in self.operands])
        return f"functions[{self.function.name!r}].compute({operands})"


Variable = SizeSymbol | SizeCall
Monomial = tuple[Variable, ...]  # a product, by ascending order
Terms = tuple[tuple[Monomial, int], ...]  # a sum, with factors that are not 0


class SizeValue:
    """The base class of what symbols determine: it has a ``value`` here and a ``range``."""

    __slots__ = ()
    scope: Any  # an OpenSizes
    value: Any
    range: Range
    is_single = False  # whether its text needs no brackets beside an operator

    def code(self, local: Mapping[Variable, str]) -> str:
        raise NotImplementedError


def value_here(number: Any) -> Any:
    """What ``number`` (that of symbols, or plain) is at the call at hand; that is no condition."""
    return number.value if isinstance(number, SizeValue) else number


def range_of(number: Any) -> Range:
    """What ``number`` lies between."""
    if isinstance(number, SizeValue):
        return number.range
    return (number, number) if isinstance(number, (int, float)) else ANY


def polynomial_range(terms: Terms) -> Range:
    """What a sum of products of variables lies between."""
    ends = [_scaled(_product_range(monomial), count) for monomial, count in terms]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    return None if None in lows else sum(lows), None if None in highs else sum(highs)


def _scaled(range_: Range, factor: int) -> Range:
    low, high = (None if end is None else end * factor for end in range_)
    return (low, high) if factor > 0 else (high, low)


def _product_range(monomial: Monomial) -> Range:
    low: float = 1
    high: float = 1  # ints, but for infinity
    for variable in monomial:
        least, most = variable.range
        others = (-math.inf if least is None else least, math.inf if most is None else most)
        ends = [0 if 0 in (x, y) else x * y for x in (low, high) for y in others]
        low, high = min(ends), max(ends)
    return None if low == -math.inf else int(low), None if high == math.inf else int(high)


def is_single(number: Any) -> bool:
    """Whether its text is one word."""
    return number.is_single if isinstance(number, SizeValue) else number >= 0


def code_of(number: Any, local: Mapping[Variable, str]) -> str:
    """A Python expression of ``number``, in the names of its symbols."""
    return number.code(local) if isinstance(number, SizeValue) else f"({number!r})"


def sum_code(terms: Iterable[tuple[Monomial, int]], local: Mapping[Variable, str]) -> str:
    """A Python expression of a sum of products of variables."""
    products = []
    for monomial, count in terms:
        factors = [] if count == 1 and monomial else [str(count)]
        products.append("*".join([*factors, *[v.code(local) for v in monomial]]))
    return " + ".join(products) or "0"


# Ranges -----------------------------------------------------------------------------------------


def _any(*_ranges: Range) -> Range:
    return ANY


def _between(compute: Callable[..., Any]) -> Callable[..., Range]:
    """The range of what is monotone in each operand: what it is at the corners."""

    def range_(*ranges: Range) -> Range:
        if any(None in ends for ends in ranges):
            return ANY
        try:
            found = [compute(*corner) for corner in itertools.product(*ranges)]
        except (ArithmeticError, ValueError):
            return ANY
        return (min(found), max(found)) if all(map(math.isfinite, found)) else ANY

    return range_


def _of_one(compute: Callable[..., Any]) -> Callable[..., Range]:
    """The same where there is one operand alone."""
    between = _between(compute)
    return lambda *ranges: between(*ranges) if len(ranges) == 1 else ANY


def _quotient(left: Range, right: Range) -> Range:
    (low, high), (least, most) = left, right
    if least is None or least <= 0 or _is_float(left, right):
        return ANY
    # Divided by less it is further from 0, by more it is nearer, but never above -1 again.
    first = low if low is None else low // least if low < 0 else low // most if most else 0
    last = high if high is None else high // least if high >= 0 else high // most if most else -1
    return first, last


def _remainder(left: Range, right: Range) -> Range:
    (low, high), (least, most) = left, right
    if least is None or least <= 0 or _is_float(left, right):
        return ANY
    small = low is not None and low >= 0 and high is not None
    ends = [end for end in (most and most - 1, high if small else None) if end is not None]
    return 0, min(ends, default=None)


def _is_float(*ranges: Range) -> bool:
    return any(isinstance(end, float) for ends in ranges for end in ends)


def _divided(left: Range, right: Range) -> Range:
    low, high = right
    if low is None or high is None or low <= 0 <= high:
        return ANY
    return _between(operator.truediv)(left, right)


def _power(base: Range, exponent: Range) -> Range:
    low, high = exponent
    if low != high or low is None or abs(low) > 4 or base[0] is None or base[0] <= 0:
        return ANY
    return _between(operator.pow)(base, exponent)


def _masked(left: Range, right: Range) -> Range:
    highs = [high for low, high in (left, right) if low is not None and low >= 0]
    return (0, min(highs)) if highs and None not in highs else ANY


def _more(left: Range, right: Range) -> Range:
    """Of what is at least as large as either, where neither is below 0."""
    lows = [low for low, _ in (left, right) if low is not None and low >= 0]
    return (max(lows), None) if len(lows) == 2 else ANY


def _less(left: Range, _right: Range) -> Range:
    """Of what is nearer to 0."""
    low, high = left
    return (0, high) if low is not None and low >= 0 else ANY


def _not_negative(compute: Callable[..., Any]) -> Callable[..., Range]:
    """The same as ``_between`` for operands that are not below 0."""
    between = _between(compute)

    def range_(*ranges: Range) -> Range:
        if any(low is None or low < 0 for low, _ in ranges):
            return ANY
        return between(*ranges)

    return range_


# The table --------------------------------------------------------------------------------------

FUNCTIONS: dict[str, SizeFunction] = {}


def size_function(
    name: str,
    compute: Callable[..., Any],
    range_: Callable[..., Range] = _any,
    raises: bool = True,
    infix: bool = False,
) -> None:
    """Add a function of plain numbers (and of dtypes) to the table."""
    FUNCTIONS[name] = SizeFunction(name, compute, range_, raises, infix)


def _shifted(number: int, places: int) -> int:
    if places > 4096:  # which no size is near; Python would fill the memory
        raise OverflowError("too many digits in integer")
    return number << places


for _name, _compute, _range_of in (
    ("//", operator.floordiv, _quotient), ("%", operator.mod, _remainder),
    ("/", operator.truediv, _divided), ("**", operator.pow, _power),
    ("&", operator.and_, _masked), ("|", operator.or_, _more), ("^", operator.xor, _any),
    ("<<", _shifted, _more), (">>", operator.rshift, _less),
    ("+", operator.add, _between(operator.add)), ("-", operator.sub, _between(operator.sub)),
    ("*", operator.mul, _between(operator.mul)),
):  # fmt: skip
    size_function(_name, _compute, _range_of, _name in ("**", "<<", ">>"), infix=True)
for _name, _compute, _range_of in (
    ("float", float, _between(float)), ("int", int, _between(int)),
    ("round", round, _between(round)), ("abs", abs, _not_negative(abs)),
    ("bit_length", int.bit_length, _not_negative(int.bit_length)),
):  # fmt: skip
    size_function(_name, _compute, _range_of, _name != "abs")
_MONOTONE = {"floor", "ceil", "trunc", "sqrt", "isqrt", "log", "log2", "log10"}
for _name in dir(math):
    if callable(getattr(math, _name)) and not _name.startswith("_"):
        _compute = getattr(math, _name)
        _known = _name in (
            "floor",
            "ceil",
            "trunc",
            "sqrt",
            "isqrt",
            "log",
            "log2",
            "log10",
            "fabs",
        )
        size_function(f"math.{_name}", _compute, _of_one(_compute) if _known else _any)
