"""Conditions: what the values of symbols have to meet, for what was computed to hold.

::

    n > 16        a Condition: of sizes, as a polynomial that compares with 0
    (n / 2) > 8.5 a FloatCondition: of floats that are made of sizes
    math.log(n-4) is defined
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from hybrid.core.size_functions import (
    Monomial,
    SizeCall,
    SizeValue,
    Variable,
    code_of,
    sum_code,
)
from hybrid.errors import Location

Relation = Literal["==", "<", "<="]
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_OPPOSITE = {"==": "!=", "<": ">=", "<=": ">"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Condition(NamedTuple):
    """That ``size``, compared with 0, gives ``holds``."""

    size: Any  # a Size
    relation: Relation
    holds: bool
    at: Location | None = None  # the author's line that has asked

    def __str__(self) -> str:
        left, sign, right = self._sides()
        return f"{polynomial_text(left)} {sign} {polynomial_text(right)}"

    def code(self, local: Mapping[Variable, str]) -> str:
        left, sign, right = self._sides()
        return f"{sum_code(left.items(), local)} {sign} {sum_code(right.items(), local)}"

    def _sides(self) -> tuple[dict[Monomial, int], str, dict[Monomial, int]]:
        """Both sides of the comparison, without negative terms."""
        left = {m: c for m, c in self.size.terms if c > 0}
        right = {m: -c for m, c in self.size.terms if c < 0}
        return left, self.relation if self.holds else _OPPOSITE[self.relation], right


class FloatCondition(NamedTuple):
    """That a float made of sizes, compared with a number, gives ``holds``."""

    left: Any
    relation: Relation
    right: Any
    holds: bool
    at: Location | None = None

    def __str__(self) -> str:
        sign = self.relation if self.holds else _OPPOSITE[self.relation]
        if isinstance(self.left, SizeValue):
            return f"{self.left} {sign} {self.right}"
        return f"{self.right} {_MIRRORED[sign]} {self.left}"

    def code(self, local: Mapping[Variable, str]) -> str:
        found = f"({code_of(self.left, local)} {self.relation} {code_of(self.right, local)})"
        return f"{found} is {self.holds}"  # not its opposite: nan compares with nothing


class Defined(NamedTuple):
    """That a function raises nothing for the numbers that it gets."""

    call: SizeCall
    at: Location | None = None

    def __str__(self) -> str:
        return f"{self.call} is defined"

    def code(self, local: Mapping[Variable, str]) -> str:
        return f"{self.call.code(local)} is not None"


def polynomial_text(terms: Mapping[Monomial, int]) -> str:
    text = ""
    for monomial, count in terms.items():
        factors = [] if abs(count) == 1 and monomial else [str(abs(count))]
        factors += [_factor(variable) for variable in monomial]
        sign = "-" if count < 0 else "+" if text else ""
        text += sign + "*".join(factors)
    return text or "0"


def _factor(variable: Variable) -> str:
    infix = isinstance(variable, SizeCall) and variable.function.infix
    return f"({variable})" if infix else str(variable)
