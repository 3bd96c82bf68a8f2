"""Sizes that are not known: integer expressions over the symbols of open axes.

::

    sizes = OpenSizes()
    n = sizes.symbol("n", 37)  # an axis that has 37 elements here, and others at other calls
    2 * n + 1  # a Size that prints as 2*n+1, and is 75 here
    (n * 64) // 64 is n  # what can be said of all n is said
    n > 0  # True: of an axis that is open anyway
    n > 16  # True, and a condition of ``sizes``: it is so here

Code that computes with sizes runs once, at the sizes of one call.  Each Size knows its value there,
so every comparison has an answer.  Where that does not follow from the ranges of the symbols it is
a condition, which another binding of the symbols has to meet: then all that was computed holds for
that binding, too, and ``bound`` says what it is there.  An expression is a polynomial with integer
coefficients; quotients and remainders that do not come out even, and what else is no polynomial,
are variables of it by themselves (``SizeCall``).  A float made of sizes is a ``SizeFloat``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from hybrid.core.size_conditions import (
    RELATIONS,
    Condition,
    Defined,
    FloatCondition,
    Relation,
    polynomial_text,
)
from hybrid.core.size_functions import (
    FUNCTIONS,
    Monomial,
    Range,
    SizeCall,
    SizeSymbol,
    SizeValue,
    Terms,
    Variable,
    code_of,
    polynomial_range,
    range_of,
    sum_code,
    value_here,
)
from hybrid.core.size_values import SizeArray, SizeBytes, SizeFloat, SizeOfCall
from hybrid.errors import author_location

# Of a symbol: axes of no elements, and of one, are special to most ops, longer ones to kernels.
LOWEST, HIGHEST = 2, 2**31 - 1

# Of ranges: what fails where all comparisons do, and what holds where all of them do.
_LOOSE: dict[Relation, Relation] = {"==": "<=", "<": "<", "<=": "<="}
_STRICT: dict[Relation, Relation] = {"==": "<", "<": "<", "<=": "<="}
CODE_NAMES = {"inf": math.inf, "nan": math.nan, "functions": FUNCTIONS}  # names in texts of code
_OF_NUMPY = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "floor_divide": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip


class OpenSizes:
    """The symbols of one capture, and the conditions that their values have to meet."""

    __slots__ = (
        "_calls",
        "_tests",
        "conditions",
        "fixed",
        "inferred",
        "staged",
        "symbols",
        "types",
    )

    def __init__(self) -> None:
        self.symbols: list[SizeSymbol] = []
        self.conditions: dict[Any, Condition | FloatCondition | Defined] = {}
        self.fixed: list[tuple[Size, int]] = []  # what had to be a plain int, and which
        self.types: dict[Any, Any] = {}  # those of these sizes, by dtype and shape
        self.inferred: dict[Any, Any] = {}  # result types of ops on them
        # What gives the comparisons of open ints that are no conditions, in the test of a loop.
        self.staged: Callable[..., Any] | None = None
        self._calls: dict[Any, SizeCall] = {}
        self._tests: dict[int, Any] = {}  # by how many symbols they are of; -1: of how many

    def symbol(self, name: str, value: int, low: int = LOWEST, high: int = HIGHEST) -> Size:
        """A new symbol, of ``value`` here; other values lie between ``low`` and ``high``."""
        if not low <= value <= high:
            raise ValueError(f"{name} = {value} is not in its range, from {low} to {high}")
        made = SizeSymbol(name, value, low, high, self._next())
        self.symbols.append(made)
        return Size(self, (((made,), 1),))

    def holds(self, values: Sequence[int]) -> bool:
        """Whether all that was computed is so for these values of the symbols, in their order.

        Those of the first symbols alone are held against the conditions of these.
        """
        if self._tests.get(-1) != len(self.conditions):
            self._tests = {-1: len(self.conditions)}
        test = self._tests.get(len(values))
        if test is None:
            test = self._tests[len(values)] = self._compiled(len(values))
        return test(*values)

    def bound(self, value: Any, values: Sequence[int]) -> Any:
        """``value`` for these values of the symbols; what holds none of them as it is."""
        known: dict[Variable, Any] = dict(zip(self.symbols, values, strict=True))
        return _bound(value, known)

    def named(self, values: Sequence[int]) -> str:
        """``n = 3, m = 5``: these values of the symbols, as far as there are both."""
        pairs = zip(self.symbols, values, strict=False)
        return ", ".join([f"{symbol.name} = {value}" for symbol, value in pairs])

    def evaluator(self, formulas: Sequence[Any]) -> Callable[..., list[Any]]:
        """A function of values of the symbols that gives those of ``formulas``, in their order."""
        local = self._names()
        text = ", ".join([code_of(formula, local) for formula in formulas])
        return eval(f"lambda {', '.join(local.values())}: [{text}]", CODE_NAMES)

    def test_of(self, condition: Condition | FloatCondition | Defined) -> Callable[..., bool]:
        """A function of values of the symbols: whether they meet one condition."""
        local = self._names()
        return eval(f"lambda {', '.join(local.values())}: {condition.code(local)}", CODE_NAMES)

    def pinned(self) -> set[SizeSymbol]:
        """The symbols of which the conditions allow the value here alone."""
        return {condition.size.terms[0][0][0] for condition in self.fixing()}

    def fixing(self) -> list[Condition]:
        """The conditions that allow one value of a symbol alone."""
        found = [c for c in self.conditions.values() if type(c) is Condition]
        return [c for c in found if c.relation == "==" and c.holds and _is_shifted_symbol(c.size)]

    def asked(self) -> set[SizeSymbol]:
        """The symbols that the conditions are about."""
        return {symbol for found in self.conditions.values() for symbol in _symbols_in(found)}

    def drop(self, symbols: Iterable[SizeSymbol]) -> None:
        """Forget ``symbols`` of which nothing is made."""
        gone = set(symbols)
        self.symbols = [symbol for symbol in self.symbols if symbol not in gone]
        self._tests.clear()

    def symbols_of(self, numbers: Iterable[Any]) -> set[SizeSymbol]:
        """The symbols that determine ``numbers``."""
        return {symbol for number in numbers for symbol in _symbols_of(number)}

    def _next(self) -> int:
        return len(self.symbols) + len(self._calls)

    def _names(self) -> dict[Variable, str]:
        """The symbols as parameters of a function, in their order."""
        return {symbol: f"s{i}" for i, symbol in enumerate(self.symbols)}

    def _compiled(self, count: int) -> Callable[..., bool]:
        """A function of ``count`` values: ranges first, for conditions may divide."""
        known = self.symbols[:count]
        local = {symbol: name for symbol, name in self._names().items() if symbol in known}
        terms = [f"{s.low} <= {local[s]} <= {s.high}" for s in known]
        terms += [
            condition.code(local)
            for condition in self.conditions.values()
            if count == len(self.symbols) or local.keys() >= set(_symbols_in(condition))
        ]
        names = ", ".join(local.values())
        test = eval(f"lambda {names}: {' and '.join(terms) or 'True'}", CODE_NAMES)
        if not any(type(condition) is Defined for condition in self.conditions.values()):
            return test

        def holds(*values: int) -> bool:
            try:
                return test(*values)
            except (ArithmeticError, ValueError):
                return False

        return holds

    # What sizes ask ---------------------------------------------------------------------------

    def compare(self, size: Size, relation: Relation) -> bool:
        """How ``size`` compares with 0: for all bindings, or here, which is a condition."""
        low, high = size.range
        if relation == "==":
            if (low is not None and low > 0) or (high is not None and high < 0):
                return False
            factors = [count for monomial, count in size.terms if monomial]
            constant = dict(size.terms).get((), 0)
            if constant % math.gcd(*factors):
                return False
            if size.terms[0][1] < 0:  # one condition for both ways of asking
                size = -size
        else:
            edge = 0 if relation == "<" else 1  # below which it holds
            if high is not None and high < edge:
                return True
            if low is not None and low >= edge:
                return False
        answer = RELATIONS[relation](size.value, 0)
        key = size.terms, relation
        if key not in self.conditions:
            self.conditions[key] = Condition(size, relation, answer, author_location())
        return answer

    def compare_floats(self, left: Any, relation: Relation, right: Any) -> bool:
        """How two numbers compare, of which one is a float, as ``compare`` does."""
        (low, high), (least, most) = range_of(left), range_of(right)
        if low is not None and most is not None and not RELATIONS[_LOOSE[relation]](low, most):
            return False
        if high is not None and least is not None and RELATIONS[_STRICT[relation]](high, least):
            return relation != "=="
        answer = RELATIONS[relation](value_here(left), value_here(right))
        key = _key(left), relation, _key(right)
        if key not in self.conditions:
            made = FloatCondition(left, relation, right, answer, author_location())
            self.conditions[key] = made
        return answer

    def fix(self, number: Any) -> Any:
        """The value of ``number`` here, which is a condition from now on."""
        if type(number) is not Size:
            for symbol in _symbols_of(number):
                self.fix(Size(self, (((symbol,), 1),)))
            return number.value
        self.compare(number - number.value, "==")
        self.fixed.append((number, number.value))
        return number.value

    def divided(self, kind: str, left: Any, right: Any) -> Any:
        """``left // right`` or ``left % right``; ``right`` is not 0."""
        exact = _exact(self, left, right)
        if exact is not None:
            return exact if kind == "//" else 0
        low, high = range_of(left)
        least = range_of(right)[0]
        if low is not None and low >= 0 and high is not None and least is not None and high < least:
            return 0 if kind == "//" else left
        return self.call(kind, left, right)

    def call(self, name: str, *operands: Any) -> Any:
        """A function of the table of ``size_functions``, of numbers some of which are of symbols.

        A Size, a SizeFloat or SizeBytes; where the result is another thing, what it is here.
        """
        function = FUNCTIONS[name]
        operands = tuple([x.size if isinstance(x, SizeHolder) else x for x in operands])
        if not any(isinstance(x, SizeValue) for x in operands):
            return function.compute(*operands)
        if name in ("/", "//", "%") and operands[1] == 0:
            return function.compute(*map(value_here, operands))  # raises
        key = name, *[(_key(x), type(x)) for x in operands]
        found = self._calls.get(key)
        if found is None:
            found = SizeCall(function, operands, self._next())
            if type(found.value) not in _KINDS:
                plain = [self.fix(x) if isinstance(x, SizeValue) else x for x in operands]
                return function.compute(*plain)
            self._calls[key] = found
            if function.raises and None in found.range:
                self.conditions[key] = Defined(found, author_location())
        return _KINDS[type(found.value)](self, found)


class SizeHolder:
    """What has a ``size`` to compute with, and looks like another thing."""

    __slots__ = ("size",)

    size: Any


class Size(SizeValue):
    """An integer expression over the symbols of an ``OpenSizes``, which is no constant.

    It computes and compares as an int does.  Where Python or C asks for a plain int it is one:
    that the symbols give this value is a condition then.
    """

    __slots__ = ("_hash", "_range", "scope", "terms", "value")

    def __init__(self, scope: OpenSizes, terms: Terms) -> None:
        self.scope, self.terms = scope, terms
        self.value = sum(math.prod([v.value for v in m]) * c for m, c in terms)
        self._range: Range | None = None
        self._hash = hash(terms)

    @property
    def range(self) -> Range:
        """The least and the largest value for any binding."""
        if self._range is None:
            self._range = polynomial_range(self.terms)
        return self._range

    @property
    def is_single(self) -> bool:  # type: ignore[override]
        (monomial, count), *more = self.terms
        return not more and count == 1 and len(monomial) == 1

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() goes by: type rules ask whether sizes are ints."""
        return int

    # Arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._combined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, -1)

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, float):
            return self._called("-", other, self)
        return (-self)._combined(other, 1)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._called("*", self, other)
        made: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in terms:
                product = tuple(sorted((*a, *b), key=_order))
                made[product] = made.get(product, 0) + x * y
        return _made(self.scope, made)

    __rmul__ = __mul__

    def __pow__(self, other: Any) -> Any:
        return self._power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._power(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._divided("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._divided("%", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._called("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._called("/", other, self)

    # Comparisons ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._compared(other, "==", False)

    def __ne__(self, other: object) -> bool:
        found = self._compared(other, "==", False)
        return found if found is NotImplemented else not found

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, "<", False)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, "<=", False)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, "<=", True)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, "<", True)

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return not self._compared(0, "==", False)

    # A plain int ------------------------------------------------------------------------------

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What NumPy computes with it: arithmetic with one of its integers, or with an int."""
        compute = _OF_NUMPY.get(function.__name__)
        if compute and method == "__call__" and not options and not any(map(np.ndim, inputs)):
            return compute(*[x if type(x) is Size else operator.index(x) for x in inputs])
        plain = [x._plain() if type(x) is Size else x for x in inputs]
        return getattr(function, method)(*plain, **options)

    def __index__(self) -> int:
        return self._plain()

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        return float(self._plain())

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self._plain(), digits)

    def __floor__(self) -> Size:
        return self

    __ceil__ = __floor__

    def __format__(self, spec: str) -> str:
        return format(self._plain(), spec) if spec else str(self)

    def __str__(self) -> str:
        return polynomial_text(dict(self.terms))

    def __repr__(self) -> str:
        return f"<{self} = {self.value}>"

    def code(self, local: Mapping[Variable, str]) -> str:
        """A Python expression of it, in the names of its symbols."""
        return f"({sum_code(self.terms, local)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the size {self} belongs to a capture, and cannot be pickled")

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: dict) -> Size:
        return self

    # Within -----------------------------------------------------------------------------------

    def _plain(self) -> int:
        return self.scope.fix(self)

    def _terms_of(self, other: Any) -> Terms | None:
        if isinstance(other, SizeHolder):
            other = other.size
        if type(other) is Size:
            if other.scope is not self.scope:
                raise ValueError(f"the sizes {self} and {other} are those of two captures")
            return other.terms
        try:
            number = operator.index(other)
        except TypeError:
            return None
        return (((), number),) if number else ()

    def _combined(self, other: Any, sign: int) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            if sign > 0 or not isinstance(other, float):
                return self._called("+", self, other)
            return self._called("-", self, other)
        made = dict(self.terms)
        for monomial, count in terms:
            made[monomial] = made.get(monomial, 0) + sign * count
        return _made(self.scope, made)

    def _called(self, name: str, left: Any, right: Any) -> Any:
        """``left`` and ``right``, one of which it is, given to a function of the table."""
        left, right = (s.size if isinstance(s, SizeHolder) else s for s in (left, right))
        other = right if left is self else left
        if isinstance(other, float) or _is_whole(other):
            return self.scope.call(name, left, right)
        return NotImplemented

    def _power(self, base: Any, exponent: Any) -> Any:
        base, exponent = (s.size if isinstance(s, SizeHolder) else s for s in (base, exponent))
        whole = _is_whole(base) and _is_whole(exponent) and not exponent < 0  # else it is a float
        if whole and type(exponent) is not Size and exponent <= 8:
            return math.prod([base] * operator.index(exponent))
        return self._called("**", base, exponent)

    def _divided(self, kind: str, left: Any, right: Any) -> Any:
        left, right = (s.size if isinstance(s, SizeHolder) else s for s in (left, right))
        other = right if left is self else left
        if isinstance(other, float):
            return self.scope.call(kind, left, right)
        if self._terms_of(other) is None:
            return NotImplemented
        left, right = (s if type(s) is Size else operator.index(s) for s in (left, right))
        if right == 0:
            raise ZeroDivisionError(f"{left} {kind} 0")
        return self.scope.divided(kind, left, right)

    def _compared(self, other: Any, relation: Relation, opposite: bool) -> Any:
        if self is other:
            return (relation != "<") is not opposite
        if isinstance(other, SizeHolder):
            other = other.size
        if type(other) is Size and other.scope is not self.scope and relation == "==":
            return opposite
        if isinstance(other, float):
            if type(other) is SizeFloat:
                found = self.scope.compare_floats(self, relation, other)
                return found is not opposite
            if math.isnan(other):
                return False
            if math.isinf(other):
                return RELATIONS[relation](0, other) is not opposite
            if not other.is_integer() and relation == "==":
                return opposite
            relation = relation if other.is_integer() else "<"
            other = math.ceil(other)
        difference = self._combined(other, -1)
        if difference is NotImplemented:
            return NotImplemented
        if type(difference) is not Size:
            found = RELATIONS[relation](difference, 0)
        else:
            found = self.scope.compare(difference, relation)
        return found is not opposite


def _made(scope: OpenSizes, terms: Mapping[Monomial, int]) -> Any:
    """The Size of these terms, or the int."""
    left = {monomial: count for monomial, count in terms.items() if count}
    if not left.keys() - {()}:
        return left.get((), 0)
    ordered = sorted(left.items(), key=lambda term: (-len(term[0]), [*map(_order, term[0])]))
    return Size(scope, tuple(ordered))


def _exact(scope: OpenSizes, left: Any, right: Any) -> Any:
    """The quotient, where it comes out even for all bindings."""
    if type(right) is not Size:
        terms = left.terms if type(left) is Size else (((), left),)
        if all(count % right == 0 for _, count in terms):
            return _made(scope, {monomial: count // right for monomial, count in terms})
        return None
    if type(left) is not Size:
        return 0 if left == 0 else None
    rest: Any = left
    quotient: Any = 0
    top, factor = right.terms[0]
    while type(rest) is Size:  # a division of polynomials, by the leading terms
        monomial, count = rest.terms[0]
        over = list(monomial)
        for variable in top:
            if variable not in over:
                return None
            over.remove(variable)
        if count % factor:
            return None
        part = _made(scope, {tuple(over): count // factor})
        quotient, rest = quotient + part, rest - part * right
    return quotient if rest == 0 else None


def is_at_most(a: Any, b: Any) -> bool | None:
    """Whether ``a <= b`` for all sizes; None where it depends on them.  That is no condition."""
    low, high = range_of(a - b)
    if high is not None and high <= 0:
        return True
    return False if low is not None and low > 0 else None


def span(item: slice, size: Any) -> tuple[Any, Any, int]:
    """First element, number of elements and step of a slice of an axis of ``size``."""
    bounds = item.start, item.stop, item.step
    if type(size) is not Size and not any(type(bound) is Size for bound in bounds):
        first, stop, step = item.indices(size)
        return first, len(range(first, stop, step)), step
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, stop = (low, high) if step > 0 else (high, low)
    first, last = (
        default if bound is None else _inside(bound, size, low, high)
        for bound, default in ((item.start, start), (item.stop, stop))
    )
    reach = last - first if step > 0 else first - last
    return first, (reach + abs(step) - 1) // abs(step) if reach > 0 else 0, step


def _inside(bound: Any, size: Any, low: Any, high: Any) -> Any:
    """A bound of a slice, counted from the front and not beyond the axis."""
    bound = bound if type(bound) is Size else operator.index(bound)
    if bound < 0:
        bound = bound + size
        return low if bound < low else bound
    return high if bound > high else bound


# Values and ranges ------------------------------------------------------------------------------


def _key(number: Any) -> Any:
    if type(number) is Size:
        return number.terms
    return repr(number) if isinstance(number, float) and type(number) is float else number


def _is_whole(number: Any) -> bool:
    return type(number) is Size or hasattr(number, "__index__")


def _symbols_of(number: Any) -> Iterator[SizeSymbol]:
    """The symbols that determine ``number``, each time they occur."""
    calls = [number.call] if isinstance(number, SizeOfCall) else []
    if type(number) is Size:
        variables = [variable for monomial, _ in number.terms for variable in monomial]
        yield from [v for v in variables if type(v) is SizeSymbol]
        calls = [v for v in variables if isinstance(v, SizeCall)]
    for call in calls:
        for operand in call.operands:
            yield from _symbols_of(operand)


def _symbols_in(condition: Condition | FloatCondition | Defined) -> Iterator[SizeSymbol]:
    """The symbols that a condition is about."""
    if type(condition) is Condition:
        yield from _symbols_of(condition.size)
    elif type(condition) is FloatCondition:
        yield from _symbols_of(condition.left)
        yield from _symbols_of(condition.right)
    else:
        for operand in condition.call.operands:
            yield from _symbols_of(operand)


def _order(variable: Variable) -> int:
    return variable.order


def _bound(value: Any, known: dict[Variable, Any]) -> Any:
    if type(value) is tuple:
        return tuple([_bound(item, known) for item in value])
    if isinstance(value, SizeOfCall):
        return _bound_variable(value.call, known)
    if type(value) is not Size:
        return value
    total = 0
    for monomial, count in value.terms:
        for variable in monomial:
            count *= _bound_variable(variable, known)
        total += count
    return total


def _bound_variable(variable: Variable, known: dict[Variable, Any]) -> Any:
    if variable not in known:
        assert isinstance(variable, SizeCall)
        operands = [_bound(operand, known) for operand in variable.operands]
        scope = next((o.scope for o in operands if isinstance(o, SizeValue)), None)
        if scope is None:
            known[variable] = variable.function.compute(*operands)
        else:  # of other symbols
            known[variable] = scope.call(variable.function.name, *operands)
    return known[variable]


def _is_shifted_symbol(size: Size) -> bool:
    """Whether it is a symbol, times and plus a number."""
    variables = {variable for monomial, _ in size.terms for variable in monomial}
    return (
        len(variables) == 1
        and len(size.terms[0][0]) == 1
        and all(type(variable) is SizeSymbol for variable in variables)
    )


def _of_int(scope: OpenSizes, call: SizeCall) -> Size:
    return Size(scope, (((call,), 1),))


_KINDS: dict[type, Callable[..., Any]] = {
    int: _of_int,
    float: SizeFloat,
    bytes: SizeBytes,
    np.ndarray: SizeArray,
}
