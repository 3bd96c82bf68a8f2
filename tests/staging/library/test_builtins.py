"""Builtins and math on traced values: hybridized functions give what eager ones give."""

# ruff: noqa: B905  zip() as authors write it

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hybrid as hy
import hybrid.staging.library.builtins
from hybrid.core.tree import flatten
from hybrid.errors import CaptureError, NeedsValue
from hybrid.staging.sessions.overrides import OVERRIDES

X = hy.asarray([3.0, -1.5, 0.25, 7.0])
M = hy.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]])
I = hy.asarray([4, 0, -3])  # noqa: E741  integers
N = hy.asarray(3)


def exactly(value: Any) -> Any:
    """A result with its structure, classes and bits."""
    leaves, structure = flatten(value)
    return structure, [
        (leaf.type, leaf.numpy().tobytes()) if isinstance(leaf, hy.Tensor) else
        (type(leaf), leaf.hex() if isinstance(leaf, float) else leaf)
        for leaf in leaves
    ]  # fmt: skip


def same(function: Callable[..., Any], *arguments: Any) -> hy.Hybridized:
    """Eager and hybridized calls agree, twice; exceptions, too."""
    hybridized = hy.hybridize(function)
    try:
        wanted, raised = exactly(function(*arguments)), None
    except Exception as error:
        wanted, raised = None, error
    for _ in range(2):
        if raised is None:
            assert exactly(hybridized(*arguments)) == wanted
        else:
            with pytest.raises(type(raised)) as caught:
                hybridized(*arguments)
            assert caught.value.args == raised.args
    return hybridized


def first(x: Any) -> Any:
    return x[0].item()


CONVERSIONS = {
    "bool": lambda x: (bool(x[0]), bool(x[0] - 3.0), bool(x[0].item()), bool(x[0] > 5), bool([x])),
    "int": lambda x: (int(x[0]), int(x[1]), int(first(x) / 2), int(x[0] > 5), int("12", 8)),
    "float": lambda x: (float(x[0]), float(x[0] > 5), float(int(x[3])), float("1.5")),
    "int of infinity": lambda x: int(x[0] / 0.0),
    "int of nan": lambda x: int((x[0] - x[0]) / 0.0),
    "float of many": lambda x: float(x),
    "bool of many": lambda x: bool(x),
    "int of a text": lambda x: int("a"),
    "type": lambda x: (type(first(x)), type(int(x[0])) is int, type(x) is hy.Tensor),
    "isinstance": lambda x: (isinstance(first(x), float), isinstance(int(x[0]), (str, int))),
    "abs": lambda x: (abs(x), abs(x[1].item()), abs(int(x[1]))),
    "round": lambda x: (round(first(x) / 7, 2), round(first(x)), round(int(x[3]), -1)),
    "divmod": lambda x: (divmod(first(x), 2), divmod(7, int(x[0]))),
    "pow": lambda x: (pow(int(x[0]), 2), pow(2, int(x[0]), 5), pow(first(x), 0.5), pow(x, 2)),
    "pow of floats and a modulus": lambda x: pow(2, first(x), 5),
    "divmod by zero": lambda x: divmod(1, int(x[2])),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: (x[0].item(), (x > 0)[1].item(), x.sum().item() + 1),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    same(CONVERSIONS[name], X)


def product(items: Any) -> Any:
    total = 1
    for item in items:
        total = total * item
    return total


def pairs(x: Any) -> Iterator[Any]:
    yield x[0].item()
    yield x[1].item()
    yield 2.5


CHOICES = {
    "max of numbers": lambda x: max(first(x), x[1].item(), 2.5),
    "min of numbers": lambda x: min([x[0].item(), x[1].item()]),
    "max of tensors": lambda x: max(x[0], x[1]),
    "min of a tensor": lambda x: min(x),
    "max of ints": lambda x: max(int(x[0]), int(x[1]), 1),
    "max of an iterator": lambda x: max(pairs(x)),
    "max by key": lambda x: max(x[0].item(), x[1].item(), key=lambda v: v * v - 3 * v),
    "min by key of others": lambda x: min([x, -x], key=lambda v: v[0].item() + v[1].item()),
    "min by a plain key": lambda x: min([x[0], x[1]], key=lambda v: len(v.shape)),
    "max of plain ones": lambda x: (max(1, 2), max([x], key=id), max([], default=x), min("ba")),
    "max of nothing": lambda x: max([]),
    "max without arguments": lambda x: max(),
    "equal ones keep the first": lambda x: max(x[0] * 0, x[1] * 0),
    "any": lambda x: any([x[0] > 5, x[1] > 5]),
    "any that holds": lambda x: any([x[0] > 5, x[3] > 5]),
    "any of rows": lambda x: any(x),
    "any with a plain one": lambda x: any([x[0] > 5, True]),
    "any of nothing": lambda x: (any([]), all([]), any(()), all(iter([]))),
    "all": lambda x: all([x[0] > 5, x[1] > 5]),
    "all that hold": lambda x: all([x[0] > 2, x[1] < 5, 1]),
    "all with a false one": lambda x: all([x[0] > 2, []]),
    "all of a generator": lambda x: all(v > -9 for v in x),
    "any of a generator": lambda x: any(v > 5 for v in x),
    "any is lazy": lambda x: any(1 / v > 0 for v in (x[0].item(), x[2].item() * 0)),
    "any is not too lazy": lambda x: any(1 / v > 9 for v in (x[0].item(), x[2].item() * 0)),
    "sum of numbers": lambda x: sum([x[0].item(), x[1].item(), 0.1, 1]),
    "sum of rows": lambda x: sum(x),
    "sum from": lambda x: sum([x[0], x[1]], x[2]),
    "sum of a generator": lambda x: sum(v * v for v in x),
    "sum of plain ones": lambda x: (sum([1, 2]), sum([0.1] * 10), sum([1.5], 2)),
    "map": lambda x: list(map(lambda a, b: a if a > b else b, x, reversed(x))),
    "map of several": lambda x: [*map(operator.add, [1, 2], [x[0], x[1]])],
    "filter": lambda x: list(filter(None, [0, 1, 2])) + list(filter(lambda v: v.ndim, [x, x[0]])),
    "reduce": lambda x: functools.reduce(lambda a, b: a * b if b > 0 else a - b, x),
    "reduce from": lambda x: functools.reduce(operator.add, x, 1.0),
    "reduce of nothing": lambda x: functools.reduce(operator.add, []),
    "sorted": lambda x: (sorted([3, 1, 2]), sorted([x, x[0]], key=lambda v: v.ndim)[0]),
    "sorted in reverse": lambda x: sorted([(1, x), (2, x[0])], key=lambda p: p[0], reverse=True),
    "sorted of one": lambda x: sorted([x[0]]),
    "len": lambda x: (len(x), len([x, x]), len("ab")),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str) -> None:
    same(CHOICES[name], X)


def test_the_other_side_is_chosen_too() -> None:
    for name in ("max of numbers", "min of a tensor", "max by key", "any", "all", "reduce"):
        hybridized = same(CHOICES[name], X)
        for x in (-X, X * 0.0, X + 10.0):
            assert exactly(hybridized(x)) == exactly(CHOICES[name](x))
        assert len(hybridized.plans) == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: sorted(x), "sorted() of traced values"),
        (lambda x: sorted([1, 2], key=lambda i: x[i]), "sorted() of traced values"),
        (lambda x: list(filter(lambda v: v > 0, x)), "filter() got a traced truth"),
    ],
)
def test_what_depends_on_an_order_or_a_number_of_items(
    function: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X)
    assert caught.value.what == words
    assert caught.value.at.path == __file__


def test_sorting_numbers_needs_their_values() -> None:
    with pytest.raises(NeedsValue, match=r"sorted\(\) needs the value of a traced float"):
        hy.hybridize(lambda x: sorted([x[0].item(), x[1].item()]))(X)


# Loops -------------------------------------------------------------------------------------------


def over(make: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over ``make(x, n)`` that adds up what it gets."""

    def function(x: Any, n: Any) -> Any:
        total, count = x[0] * 0.0, 0
        for item in make(x, n):
            for part in item if isinstance(item, tuple) else (item,):
                total = total * 0.5 + part
            count += 1
        return total, count

    return function


LOOPS = {
    "range(n)": (lambda x, n: range(n), True),
    "range(1, n)": (lambda x, n: range(1, n), True),
    "range(n, 0, -1)": (lambda x, n: range(n, 0, -1), True),
    "range(0, 2 * n, 2)": (lambda x, n: range(0, n * 2, 2), True),
    "range(9, n, -4)": (lambda x, n: range(9, n, -4), True),
    "range(item)": (lambda x, n: range(n.item() + 1), True),
    "range(n) that is empty": (lambda x, n: range(n, 1), True),
    "range of a traced step": (lambda x, n: range(0, 10, n), True),
    "enumerate(x)": (lambda x, n: enumerate(x), True),
    "enumerate(x, 5)": (lambda x, n: enumerate(x, 5), True),
    "enumerate(x, start=n)": (lambda x, n: enumerate(x, start=int(n)), True),
    "enumerate(range(n))": (lambda x, n: enumerate(range(n)), True),
    "enumerate of a list": (lambda x, n: enumerate([x[0], x[1]]), False),
    "zip(x, x)": (lambda x, n: zip(x, x * 2.0), True),
    "zip of two lengths": (lambda x, n: zip(x[1:], x), True),
    "zip(x, range(n))": (lambda x, n: zip(x, range(n)), True),
    "zip of a list": (lambda x, n: zip([1, 2], x), False),
    "zip strictly": (lambda x, n: zip(x, x, strict=True), True),
    "zip strictly of two lengths": (lambda x, n: zip(x[1:], x, strict=True), False),
    "reversed(x)": (lambda x, n: reversed(x), True),
    "reversed(range(n))": (lambda x, n: reversed(range(n)), True),
    "enumerate(reversed(x))": (lambda x, n: enumerate(reversed(x)), True),
    "zip of iterators": (lambda x, n: zip(x, reversed(x)), True),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    make, kept = LOOPS[name]
    hybridized = same(over(make), X, N)
    if kept:
        graph = hybridized.graph(X, N)
        assert any(node.op.name in ("for", "while") for node in graph.walk()), graph


def test_a_step_of_zero() -> None:
    same(over(lambda x, n: range(0, 5, n - 3)), X, N)
    same(over(lambda x, n: range(n, 5, 0)), X, N)
    same(over(lambda x, n: range(n * 1.0)), X, N)
    same(over(lambda x, n: range(n.item() * 1.0)), X, N)


def test_ranges_know_their_length_and_their_numbers() -> None:
    def function(n: Any) -> Any:
        numbers = range(1, n + 7, 3)
        return len(numbers), numbers[0], numbers[-1], numbers[n - 2], len(range(n, 2)), range(n)[2]

    same(function, N)
    same(lambda n: range(n)[5], N)
    same(lambda n: range(n)[-4], N)


def test_a_float_beyond_64_bits() -> None:
    with pytest.raises(OverflowError, match="an int grew to 102 bits"):
        hy.hybridize(lambda x: int(x[0] * 1e30))(X)


def test_iterators_go_on_where_they_are() -> None:
    def function(x: Any) -> Any:
        items = enumerate(x)
        begin = next(items)
        total = x[0] * 0.0
        for i, row in items:
            total = total + row * i
        return begin, total, list(zip(x, x))[1], list(reversed(x))[1]

    same(function, X)


def test_an_iterator_serves_one_loop() -> None:
    def function(x: Any) -> Any:
        items = enumerate(x)
        total = x[0]
        for i, row in items:
            total = total + row * i
        for i, row in items:
            total = total + row * i
        return total

    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X)
    assert caught.value.what == "an iterator was used again after a loop had gone over it"
    assert caught.value.fix == "make a new one with enumerate(), zip() or reversed()"


def test_part_of_a_range_of_a_length_to_come() -> None:
    with pytest.raises(NeedsValue):
        hy.hybridize(lambda n: range(n)[:1])(N)


# math --------------------------------------------------------------------------------------------

ONE = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "degrees", "erf",
    "erfc", "exp", "expm1", "fabs", "floor", "frexp", "gamma", "isfinite", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "modf", "radians", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc", "ulp",
]  # fmt: skip
VALUES = hy.asarray([0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -3.0, 1e3, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize("name", ONE)
def test_functions_of_math(name: str) -> None:
    function = getattr(math, name)
    if name == "trunc":  # which takes no tensor
        callers = [lambda x: function(x.item())]
    else:
        callers = [lambda x: function(x), lambda x: function(x.item())]
    for caller in callers:
        hybridized = hy.hybridize(caller)
        for i in range(len(VALUES)):
            x = VALUES[i]
            try:
                wanted = exactly(caller(x))
            except (ValueError, OverflowError) as error:
                with pytest.raises(type(error)) as caught:
                    hybridized(x)
                assert caught.value.args == error.args
            else:
                assert exactly(hybridized(x)) == wanted, i


MATHS = {
    "atan2": lambda x, i: (math.atan2(x[0], x[1]), math.atan2(1, x[1].item())),
    "copysign": lambda x, i: math.copysign(x[0], -0.0),
    "fmod": lambda x, i: math.fmod(x[0], x[1]),
    "fmod of zero": lambda x, i: math.fmod(x[0], 0.0),
    "hypot": lambda x, i: math.hypot(x[0], 2, x[1]),
    "dist": lambda x, i: math.dist([x[0], 1.0], (2.0, x[1].item())),
    "isclose": lambda x, i: math.isclose(x[0], 3.1, rel_tol=x[2]),
    "ldexp": lambda x, i: math.ldexp(x[0], i[0].item()),
    "log of a base": lambda x, i: math.log(x[0], 2),
    "pow": lambda x, i: math.pow(x[0], x[1]),
    "prod": lambda x, i: (math.prod([x[0].item(), 2]), math.prod([i[0].item(), 2], start=3)),
    "fsum": lambda x, i: math.fsum([x[0].item(), 0.1, 0.2]),
    "gcd": lambda x, i: (math.gcd(i[0].item(), 6), math.lcm(i[0].item(), i[2].item(), 5)),
    "comb": lambda x, i: (math.comb(9, i[0].item()), math.perm(i[0].item()), math.factorial(3)),
    "factorial": lambda x, i: math.factorial(i[0].item()),
    "factorial below": lambda x, i: math.factorial(i[2].item()),
    "isqrt": lambda x, i: math.isqrt(i[0].item()),
    "sqrt of an int": lambda x, i: (math.sqrt(i[0].item()), math.sqrt(4)),
    "sqrt of a negative int": lambda x, i: math.sqrt(i[2].item()),
    "floor of an int": lambda x, i: (math.floor(i[0].item()), math.trunc(i[2].item())),
    "ceil": lambda x, i: (math.ceil(x[2]), math.ceil(i[2].item())),
    "trunc of a tensor": lambda x, i: math.trunc(x[1]),
    "sin of many": lambda x, i: math.sin(x),
    "sin of nothing": lambda x, i: math.sin(),
    "floor of many": lambda x, i: math.floor(x, i),
}


@pytest.mark.parametrize("name", MATHS)
def test_other_functions_of_math(name: str) -> None:
    same(MATHS[name], X, I)


def test_every_function_of_math_has_an_override() -> None:
    functions = {f for n, f in vars(math).items() if callable(f) and not n.startswith("_")}
    assert functions <= OVERRIDES.keys()
