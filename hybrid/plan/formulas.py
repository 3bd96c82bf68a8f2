"""Formulas of a program: numbers that depend on sizes, as rows that C evaluates.

::

    symbols 0: n, 1: m        2: 4        3: n * 4        # 4*n is number 3
    n // 8 is even            4: 8   5: n // 8   6: 2   7: 5 % 2   8: 0   9: 7 == 8

Numbers are found by their places: those of symbols first, then what each row gives.  Floats are the
integers of their bits.  A row that is a comparison says that it holds.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hybrid.core.size_conditions import Defined, FloatCondition
from hybrid.core.size_functions import FUNCTIONS, SizeCall, SizeSymbol, SizeValue
from hybrid.core.size_values import SizeBytes, SizeOfCall
from hybrid.core.sizes import HIGHEST, OpenSizes, Size

OPS = (
    "constant", "+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**", "abs", "bit_length",
    "math.isqrt", "float", "f+", "f-", "f*", "f/", "f//", "f%", "f**", "fabs", "int", "math.floor",
    "math.ceil", "round", "math", "==", "!=", "<", ">=", "<=", ">", "f==", "f!=", "f<", "f!<",
    "f<=", "f!<=",
)  # fmt: skip
MATH = (
    "sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "tanh", "atan",
    "fabs",
)  # fmt: skip
_NUMBER = {name: at for at, name in enumerate(OPS)}
_RELATIONS = {("==", True): "==", ("==", False): "!=", ("<", True): "<", ("<", False): ">=",
              ("<=", True): "<=", ("<=", False): ">"}  # fmt: skip
FILLS = ("int", "float", "range", "float range", "linspace", "eye", "lower", "upper", "nearest")
_OF_INT = ("abs", "bit_length", "math.isqrt", "float")
_FLOATS = {"linspace": (0, 1), "nearest": (2,)}  # which numbers of a fill are floats


class Formula(NamedTuple):
    """One row: ``op`` of the numbers ``a`` and ``b``; of a constant ``b`` is the value."""

    op: int
    a: int
    b: int


class Fill(NamedTuple):
    """A literal that depends on sizes: what it is, and of which numbers."""

    kind: int
    dtype: Any
    given: tuple[int, ...]


class Unknown(Exception):
    """A function of sizes that C does not compute."""


class FormulaWriter:
    """Rows of formulas over the symbols ``names``, each written once."""

    def __init__(self, names: Sequence[str]) -> None:
        self.rows: list[Formula] = []
        self._symbols = {name: at for at, name in enumerate(names)}
        self._known: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The place of ``value``: an int, a float, or one of symbols."""
        if type(value) is Size:
            return self._sum(value.terms)
        if isinstance(value, SizeOfCall):
            return self._call(value.call)
        if isinstance(value, float):
            return self._constant(struct.unpack("<q", struct.pack("<d", value))[0])
        return self._constant(operator.index(value))

    def real(self, value: Any) -> int:
        """The place of ``value`` as a float."""
        at = self.number(value)
        return at if isinstance(value, float) else self._row("float", at)

    def dim(self, size: Any) -> int:
        """A size in a type: below 0 it is a number of a formula."""
        return -1 - self.number(size) if isinstance(size, SizeValue) else size

    def require(self, condition: Any) -> None:
        """A row that says that ``condition`` holds."""
        if isinstance(condition, Defined):
            self._call(condition.call)  # fails where it is not
        elif isinstance(condition, FloatCondition):
            mark = "f" if condition.holds else "f!"
            op = mark + condition.relation
            left, right = self.real(condition.left), self.real(condition.right)
            self._row("f!=" if op == "f!==" else op, left, right)
        else:
            terms = condition.size.terms
            sides = [[(m, abs(c)) for m, c in terms if (c < 0) is right] for right in (False, True)]
            self._row(_RELATIONS[condition.relation, condition.holds], *map(self._sum, sides))

    def compare(self, left: int, sign: str, right: int) -> None:
        """A row that says how a number compares with an int."""
        self._row(sign, left, self.number(right))

    def conditions(self, sizes: OpenSizes) -> None:
        """Rows that say that all that was computed with ``sizes`` holds."""
        for symbol in sizes.symbols:
            at = self._symbols[symbol.name]
            self.compare(at, ">=", symbol.low)
            self.compare(at, "<=", symbol.high)
        for condition in sizes.conditions.values():
            self.require(condition)

    def symbol(self, name: str) -> int:
        """The place of a symbol."""
        return self._symbols[name]

    def fill(self, data: Any) -> Fill:
        """What a literal that depends on sizes is made of; raises Unknown."""
        if not isinstance(data, SizeBytes):
            dtype, value = data
            kind = "float" if isinstance(value, float) else "int"
            return self._filled(kind, dtype, [self.number(value)])
        array, dtype = data.call.operands
        name, given = array.call.function.name, array.call.operands
        if name == "arange":
            if any(isinstance(x, float) for x in given):
                return self._filled("float range", dtype, [self.real(x) for x in given])
            return self._filled("range", dtype, [self.number(x) for x in given])
        if name not in FILLS:
            raise Unknown(f"{name} of a size")
        floats = _FLOATS.get(name, ())
        numbers = [self.real(x) if at in floats else self.number(x) for at, x in enumerate(given)]
        return self._filled(name, dtype, numbers)

    def _filled(self, kind: str, dtype: Any, given: Sequence[int]) -> Fill:
        return Fill(FILLS.index(kind), dtype, (*given, *[0] * (4 - len(given))))

    # Rows -------------------------------------------------------------------------------------

    def _row(self, op: str, a: int = 0, b: int = 0) -> int:
        key = op, a, b
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = len(self._symbols) + len(self.rows)
            self.rows.append(Formula(_NUMBER[op], a, b))
        return at

    def _constant(self, value: int) -> int:
        if not -(2**63) <= value < 2**63:
            raise Unknown(f"the number {value}")
        return self._row("constant", 0, value)

    def _sum(self, terms: Sequence[tuple[Any, int]]) -> int:
        at = None
        for monomial, count in terms:
            term = None if count == 1 and monomial else self._constant(count)
            for variable in monomial:
                own = self._variable(variable)
                term = own if term is None else self._row("*", term, own)
            at = term if at is None else self._row("+", at, term)
        return self._constant(0) if at is None else at

    def _variable(self, variable: Any) -> int:
        if isinstance(variable, SizeSymbol):
            return self._symbols[variable.name]
        return self._call(variable)

    def _call(self, call: SizeCall) -> int:
        name, given = call.function.name, call.operands
        floats = [isinstance(x, float) for x in given]
        if name.startswith("math.") and name[5:] in MATH and len(given) == 1:
            return self._row("math", self.real(given[0]), MATH.index(name[5:]))
        if len(given) == 2 and (any(floats) or name == "/" or type(call.value) is float):
            if f"f{name}" in _NUMBER:
                return self._row(f"f{name}", *map(self.real, given))
        elif len(given) == 1 and any(floats):
            if name in ("int", "math.trunc", "math.floor", "math.ceil", "round"):
                return self._row("int" if name == "math.trunc" else name, self.real(given[0]))
            if name in ("float", "abs"):
                at = self.real(given[0])
                return at if name == "float" else self._row("fabs", at)
        elif name in _NUMBER and (len(given) == 2 or name in _OF_INT):
            return self._row(name, *map(self.number, given))
        raise Unknown(f"{name} of a size")


# The same in Python -------------------------------------------------------------------------------

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "**": operator.pow,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
    ">": operator.gt, "!<": lambda a, b: not a < b, "!<=": lambda a, b: not a <= b,
}  # fmt: skip
_OF_FLOAT = ("int", "math.floor", "math.ceil", "round", "math")
_OF_ONE = (*_OF_FLOAT, *_OF_INT, "fabs")
_WRONG = (ArithmeticError, ValueError, IndexError, TypeError)


def hold(rows: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """Whether the conditions of a case hold for ``sizes``; where these are open, so are they."""
    numbers = [*sizes]
    try:
        for op, a, b in rows:
            numbers.append(_value(OPS[op], numbers, a, b))
    except _WRONG:
        return False
    return None not in numbers


def _value(op: str, numbers: Sequence[Any], a: int, b: int) -> Any:
    """What a row gives; None: a condition does not hold."""
    if op == "constant":
        return b
    floats = (op.startswith("f") and op != "float") or op in _OF_FLOAT
    left = _real(numbers[a]) if floats else numbers[a]
    if op == "math":
        return _called(f"math.{MATH[b]}", left)
    if op in _OF_ONE:
        return _called("abs" if op == "fabs" else op, left)
    right = _real(numbers[b]) if floats else numbers[b]
    sign = op[1:] if floats else op
    if sign in _COMPARISONS:
        return 0 if _COMPARISONS[sign](left, right) else None
    return _ARITHMETIC[sign](left, right)


def _real(number: Any) -> Any:
    if isinstance(number, float):
        return number
    return struct.unpack("<d", struct.pack("<q", number))[0]  # of a constant


def _called(name: str, operand: Any) -> Any:
    if isinstance(operand, SizeValue):
        return operand.scope.call(name, operand)
    return FUNCTIONS[name].compute(operand)


def described(rows: Sequence[Any], names: Sequence[str]) -> str:
    """The conditions of a case for people: ``batch 2 to 15, n % 8 == 0``."""
    texts = [*names]
    ranges: dict[str, list[int]] = {}
    others: list[str] = []
    for op, a, b in rows:
        sign = OPS[op]
        texts.append(str(b) if sign == "constant" else _text(sign, texts, a, b))
        bare = sign.removeprefix("f") if sign != "float" else sign
        if bare not in _COMPARISONS:
            continue
        if texts[a] in names and texts[b].isdigit() and sign in _ENDS:
            _narrow(ranges.setdefault(texts[a], [0, HIGHEST]), sign, int(texts[b]))
        elif texts[b] in names and texts[a].isdigit() and sign in _ENDS:
            _narrow(ranges.setdefault(texts[b], [0, HIGHEST]), _TURNED[sign], int(texts[a]))
        else:
            others.append(texts[-1])
    told = [
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, (low, high) in ranges.items()
    ]
    return ", ".join([*told, *others])


_TURNED = {"==": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ENDS: Mapping[str, Callable[[int], tuple[int, int]]] = {
    "==": lambda n: (n, n), "<": lambda n: (0, n - 1), "<=": lambda n: (0, n),
    ">": lambda n: (n + 1, HIGHEST), ">=": lambda n: (n, HIGHEST),
}  # fmt: skip


def _narrow(ends: list[int], sign: str, number: int) -> None:
    low, high = _ENDS[sign](number)
    ends[:] = max(ends[0], low), min(ends[1], high)


def _text(sign: str, texts: Sequence[str], a: int, b: int) -> str:
    if sign == "math":
        return f"math.{MATH[b]}({texts[a]})"
    if sign in _OF_ONE:
        return f"{sign}({texts[a]})"
    bare = sign.removeprefix("f")
    if bare in _COMPARISONS:
        return f"{texts[a]} {bare} {texts[b]}"
    return f"({texts[a]} {bare} {texts[b]})"
