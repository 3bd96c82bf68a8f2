"""Sizes over symbols: what is computed once holds for each binding that meets the conditions."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.core.sizes import OpenSizes, Size, span


def two(n: int = 37, m: int = 12) -> tuple[OpenSizes, Size, Size]:
    sizes = OpenSizes()
    return sizes, sizes.symbol("n", n), sizes.symbol("m", m)


def conditions(sizes: OpenSizes) -> list[str]:
    return [str(condition) for condition in sizes.conditions.values()]


# Expressions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compute", "text", "value"),
    [
        (lambda n, m: n + 1, "n+1", 38),
        (lambda n, m: 1 - n, "-n+1", -36),
        (lambda n, m: 2 * n * m - m * 3, "2*n*m-3*m", 852),
        (lambda n, m: (n + 1) * (n - 1), "n*n-1", 1368),
        (lambda n, m: n**3, "n*n*n", 50653),
        (lambda n, m: n // 2, "(n // 2)", 18),
        (lambda n, m: (n + m) % 4 + n // m * 2, "((n+m) % 4)+2*(n // m)", 7),
        (lambda n, m: 100 // n, "(100 // n)", 2),
        (lambda n, m: -n, "-n", -37),
        (lambda n, m: math.prod((n, 3, m)), "3*n*m", 1332),
        (lambda n, m: np.int64(3) + n, "n+3", 40),
        (lambda n, m: n * np.int64(3), "3*n", 111),
        (lambda n, m: np.int64(100) % n, "(100 % n)", 26),
        (lambda n, m: sum((n, m, 5)), "n+m+5", 54),
        (lambda n, m: divmod(n, 2)[1], "(n % 2)", 1),
    ],
)
def test_expressions(compute: Callable[..., Size], text: str, value: int) -> None:
    sizes, n, m = two()
    found = compute(n, m)
    assert (str(found), found.value) == (text, value)
    assert sizes.bound(found, (37, 12)) == value
    assert sizes.bound(found, (50, 7)) == compute(50, 7)
    assert conditions(sizes) == []


@pytest.mark.parametrize(
    ("compute", "value"),
    [
        (lambda n, m: n - n, 0),
        (lambda n, m: (n * 64) // 64 - n, 0),
        (lambda n, m: (n * m) // m - n, 0),
        (lambda n, m: (n * n - m * m) // (n - m) - (n + m), 0),
        (lambda n, m: (4 * n * m + 2 * n) % (2 * n), 0),
        (lambda n, m: n % 1, 0),
        (lambda n, m: (n - n) // m, 0),
        (lambda n, m: n // 2 - n // 2, 0),
    ],
)
def test_what_comes_out_even_is_known(compute: Callable[..., Any], value: int) -> None:
    _, n, m = two()
    found = compute(n, m)
    assert type(found) is int
    assert found == value


def test_remainders_of_what_is_smaller() -> None:
    sizes = OpenSizes()
    n = sizes.symbol("n", 5, high=7)
    assert n % 8 is n
    assert n // 8 == 0
    assert conditions(sizes) == []


def test_equal_expressions_are_one_key() -> None:
    _, n, m = two()
    assert {(n + m, 64): 1}[(m + n, 64)] == 1
    assert n + m == m + n
    assert n // 2 + 0 == n // 2


# Comparisons ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda n, m: n == 1, False),
        (lambda n, m: n != 0, True),
        (lambda n, m: n > 1, True),
        (lambda n, m: n < 2, False),
        (lambda n, m: n * m >= 4, True),
        (lambda n, m: 64 * n == 64, False),
        (lambda n, m: 64 * n == 100, False),
        (lambda n, m: n + 1 > n, True),
        (lambda n, m: n <= n, True),
        (lambda n, m: n < n, False),
        (lambda n, m: bool(n), True),
        (lambda n, m: n in (0, 1), False),
        (lambda n, m: n % 8 < 8, True),
        (lambda n, m: n % 8 >= 0, True),
        (lambda n, m: n // 2 >= 0, True),
        (lambda n, m: (n - 5) % 3 < 0, False),
        (lambda n, m: -64 * m * (-n // 64) > 0, True),
        (lambda n, m: (-n) // m < 0, True),
        (lambda n, m: n == 0.0, False),
        (lambda n, m: n != 12.5, True),
        (lambda n, m: n > 0.5, True),
        (lambda n, m: n <= 1.5, False),
        (lambda n, m: n < math.inf, True),
        (lambda n, m: n <= -math.inf, False),
        (lambda n, m: n == math.inf, False),
        (lambda n, m: n > math.nan, False),
        (lambda n, m: n <= math.nan, False),
        (lambda n, m: n != math.nan, True),
    ],
)
def test_what_follows_from_ranges_is_no_condition(ask: Callable[..., bool], answer: bool) -> None:
    sizes, n, m = two()
    assert ask(n, m) is answer
    assert conditions(sizes) == []


@pytest.mark.parametrize(
    ("ask", "answer", "text"),
    [
        (lambda n, m: n > 16, True, "n > 16"),
        (lambda n, m: n < 16, False, "n >= 16"),
        (lambda n, m: n == 37, True, "n == 37"),
        (lambda n, m: n == 37.0, True, "n == 37"),
        (lambda n, m: n == 64, False, "n != 64"),
        (lambda n, m: n <= m, False, "n > m"),
        (lambda n, m: n % 2 == 0, False, "(n % 2) != 0"),
        (lambda n, m: max(n, m) is n, True, "m <= n"),
        (lambda n, m: n == 37.0, True, "n == 37"),
        (lambda n, m: n <= 16.0, False, "n > 16"),
        (lambda n, m: n < 16.5, False, "n >= 17"),
        (lambda n, m: n >= 16.5, True, "n >= 17"),
        (lambda n, m: n <= 16.5, False, "n >= 17"),
    ],
)
def test_what_is_so_here_is_a_condition(ask: Callable[..., bool], answer: bool, text: str) -> None:
    sizes, n, m = two()
    assert ask(n, m) is answer
    assert ask(n, m) is answer
    assert conditions(sizes) == [text]
    for values in ((37, 12), (12, 37), (16, 16), (17, 64), (64, 17), (5, 2)):
        assert sizes.holds(values) is (ask(*values) is answer)


def test_values_out_of_their_range_do_not_hold() -> None:
    sizes = OpenSizes()
    sizes.symbol("n", 8, low=1, high=512)
    assert [sizes.holds((value,)) for value in (0, 1, 512, 513)] == [False, True, True, False]
    with pytest.raises(ValueError, match="m = 1 is not in its range, from 2 to 2147483647"):
        sizes.symbol("m", 1)


@pytest.mark.parametrize(
    "ask",
    [int, operator.index, float, range, math.sqrt, lambda n: [0] * n,
     lambda n: np.minimum(n, [3, 99]), lambda n: np.zeros(n),
     lambda n: f"{n:3d}", "abc".center],
)  # fmt: skip
def test_a_plain_int_is_a_condition(ask: Callable[[Any], Any]) -> None:
    sizes, n, _ = two()
    wanted, found = ask(37), ask(n)
    assert np.array_equal(found, wanted) if isinstance(found, np.ndarray) else found == wanted
    assert conditions(sizes) == ["n == 37"]
    size, value = sizes.fixed[0]
    assert (str(size), value) in (("n", 37), ("-n", -37))
    assert sizes.holds((37, 5))
    assert not sizes.holds((38, 5))


FLOATS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda n, m: n / 2, "(n / 2)"), (lambda n, m: 1 / n, "(1 / n)"),
    (lambda n, m: n / m, "(n / m)"),
    (lambda n, m: n * 0.1, "(n * 0.1)"), (lambda n, m: 0.5 - n, "(0.5 - n)"),
    (lambda n, m: n + 0.1, "(n + 0.1)"), (lambda n, m: 2.5 // n, "(2.5 // n)"),
    (lambda n, m: (n + m) % 0.3, "((n+m) % 0.3)"), (lambda n, m: n**0.5, "(n ** 0.5)"),
    (lambda n, m: n**-2, "(n ** (-2))"), (lambda n, m: 2.0**m, "(2.0 ** m)"),
    (lambda n, m: -(n / m), "((n / m) * (-1.0))"), (lambda n, m: abs(0.5 - n), "abs((0.5 - n))"),
    (lambda n, m: (n / 3) * (m / 7) - 1, "(((n / 3) * (m / 7)) - 1)"),
    (lambda n, m: round(n / 3, 1), "round((n / 3), 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("compute", "text"), FLOATS)
def test_floats_of_sizes(compute: Callable[..., Any], text: str) -> None:
    sizes, n, m = two()
    found = compute(n, m)
    assert (str(found), found.value, isinstance(found, float)) == (text, compute(37, 12), True)
    assert found == compute(n, m)
    assert conditions(sizes) in ([], [f"{text[1:-1]} is defined"])
    for values in ((37, 12), (50, 7), (2, 3), (1000, 999)):
        bound = sizes.bound(found, values)
        assert (type(bound), bound) == (float, compute(*values))


WHOLE: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda n, m: math.floor(n / 3), "math.floor((n / 3))"),
    (lambda n, m: math.ceil(n * 0.3) + 1, "math.ceil((n * 0.3))+1"),
    (lambda n, m: math.trunc(-n / 2), "int(((-n) / 2))"),
    (lambda n, m: round(n / 4), "round((n / 4))"),
]  # fmt: skip


@pytest.mark.parametrize(("compute", "text"), WHOLE)
def test_ints_of_floats_of_sizes(compute: Callable[..., Any], text: str) -> None:
    sizes, n, m = two()
    found = compute(n, m)
    assert (type(found), str(found), conditions(sizes)) == (Size, text, [])
    for values in ((37, 12), (50, 7), (2, 3)):
        assert sizes.bound(found, values) == compute(*values)


@pytest.mark.parametrize(
    ("ask", "answer", "text"),
    [
        (lambda n, m: n / 2 > 8, True, "(n / 2) > 8"),
        (lambda n, m: n / 2 <= 8.5, False, "(n / 2) > 8.5"),
        (lambda n, m: n * 0.5 <= m, False, "(n * 0.5) > m"),
        (lambda n, m: n > m / 2, True, "n > (m / 2)"),
        (lambda n, m: n < 8.5, False, "n >= 9"),
        (lambda n, m: bool(n / 2 - 18), True, "((n / 2) - 18) != 0.0"),
    ],
)
def test_comparisons_of_floats_are_conditions(
    ask: Callable[..., bool], answer: bool, text: str
) -> None:
    sizes, n, m = two()
    assert ask(n, m) is answer
    assert conditions(sizes) == [text]
    for values in ((37, 12), (12, 37), (16, 16), (17, 64), (36, 4), (5, 2)):
        assert sizes.holds(values) is (ask(*values) is answer)


@pytest.mark.parametrize(
    "ask", [lambda n: n / 2 > 0, lambda n: n * 0.5 >= 1.0, lambda n: n**0.5 > 1, lambda n: n > 0.5]
)
def test_what_follows_for_floats_is_no_condition(ask: Callable[[Any], bool]) -> None:
    sizes, n, _ = two()
    assert ask(n) is True
    assert conditions(sizes) == []


def test_a_float_that_has_to_be_plain_fixes_its_sizes() -> None:
    sizes, n, m = two()
    assert float(n / (m + n)) == 37 / 49
    assert conditions(sizes) == ["n == 37", "m == 12"]
    assert {symbol.name for symbol in sizes.pinned()} == {"n", "m"}


def test_what_is_not_defined_for_all_sizes() -> None:
    sizes, n, _ = two()
    assert sizes.call("math.log", n - 5).value == math.log(32)
    assert conditions(sizes) == ["math.log(n-5) is defined"]
    assert [sizes.holds((value, 2)) for value in (4, 5, 6)] == [False, False, True]
    with pytest.raises(ValueError, match="math domain error"):
        sizes.call("math.log", n - 40)
    with pytest.raises(ZeroDivisionError):
        1 / (n - 37)
    with pytest.raises(OverflowError):
        1.5 ** (n * 10**6)
    with pytest.raises(TypeError, match="belongs to a capture"):
        pickle.dumps(n / 2)
    assert copy.deepcopy([n / 2]) == [n / 2]


def test_functions_of_which_the_kind_is_another_are_of_the_sizes_here() -> None:
    sizes, n, _ = two()
    assert sizes.call("math.isfinite", n / 2) is True
    assert sizes.call("math.frexp", n / 2) == math.frexp(18.5)
    assert conditions(sizes) == ["n == 37"]


def test_lines_that_have_asked_are_kept() -> None:
    sizes, n, _ = two()
    assert n > 16
    assert n / 2 > 8.5
    assert [c.at.path for c in sizes.conditions.values()] == [__file__] * 2
    first, second = [c.at.line for c in sizes.conditions.values()]
    assert second == first + 1


def test_text_is_no_condition() -> None:
    sizes, n, _ = two()
    assert f"{n + 1} {n!r}" == "n+1 <n = 37>"
    assert conditions(sizes) == []


def test_division_by_what_is_nothing_here() -> None:
    sizes, n, m = two(5, 5)
    for divide in (lambda: n // (n - m), lambda: n % (m - n), lambda: n // 0):
        with pytest.raises(ZeroDivisionError):
            divide()
    assert n // (n - m + 1) == 5
    assert not sizes.holds((5, 6))  # where it would be a division by 0


def test_a_divisor_is_not_zero() -> None:
    sizes, n, m = two(9, 5)
    assert (n // (n - m)).value == 2
    assert sizes.holds((9, 6))
    assert not sizes.holds((9, 9))


def test_sizes_are_those_of_one_capture() -> None:
    _, n, _ = two()
    _, other, _ = two()
    with pytest.raises(ValueError, match="the sizes n and n are those of two captures"):
        n + other
    with pytest.raises(TypeError, match="belongs to a capture"):
        pickle.dumps(n)
    assert n != other
    assert {n: 1}.get(other) is None
    assert copy.deepcopy((n,))[0] is n
    for wrong in ("a", None, [1]):
        assert n != wrong
        with pytest.raises(TypeError):
            n + wrong


# Any computation --------------------------------------------------------------------------------

OPS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.add, operator.mul,
    lambda a, b: a // b if b else a, lambda a, b: a % b if b else b,
    lambda a, b: a if a < b else b, lambda a, b: max(a, b), lambda a, b: a if a == b else b,
    lambda a, b: a * 8 // 8 if a > 10 else -b, lambda a, b: abs(a - b),
    lambda a, b: a // 3 if a % 3 == 0 else a + 1, lambda a, b: (a * b) // b if b else 0,
]  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 99), st.integers(0, 99)), max_size=8
)
VALUES = st.integers(2, 40)


@settings(max_examples=400, deadline=None)
@given(STEPS, st.tuples(VALUES, VALUES), st.lists(st.tuples(VALUES, VALUES), max_size=12))
def test_what_is_computed_once_holds_where_the_conditions_do(
    steps: list, here: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    def computed(n: Any, m: Any) -> list[Any]:
        known: list[Any] = [n, m, 1, 2, 64, n + m, 0]
        for apply, left, right in steps:
            known.append(apply(known[left % len(known)], known[right % len(known)]))
        return known

    sizes, n, m = two(*here)
    found = computed(n, m)
    assert sizes.holds(here)
    for values in (here, *others):
        if sizes.holds(values):
            assert [sizes.bound(size, values) for size in found] == computed(*values)


BOUNDS = st.none() | st.integers(-50, 50)


@settings(max_examples=300, deadline=None)
@given(BOUNDS, BOUNDS, st.none() | st.integers(-3, 3).filter(bool), VALUES, st.lists(VALUES))
def test_slices_of_open_axes(
    start: int | None, stop: int | None, step: int | None, here: int, others: list[int]
) -> None:
    sizes = OpenSizes()
    n = sizes.symbol("n", here)
    found = span(slice(start, stop, step), n)
    for size in (here, *others):
        if sizes.holds((size,)):
            wanted = range(*slice(start, stop, step).indices(size))
            first, count, by = sizes.bound(found, (size,))
            assert list(wanted) == [first + i * by for i in range(count)]
            assert (first, count, by) == span(slice(start, stop, step), size) or not count
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        span(slice(start, stop, 0), n)


def test_slices_that_sizes_bound() -> None:
    sizes, n, m = two(8, 12)
    assert span(slice(None), n) == (0, n, 1)
    assert span(slice(1, None), n) == (1, n - 1, 1)
    assert span(slice(-1, None), n) == (n - 1, 1, 1)
    assert span(slice(None, None, -1), n) == (n - 1, n, -1)
    assert conditions(sizes) == []
    assert span(slice(n, None), m) == (n, m - n, 1)
    assert conditions(sizes) == ["n <= m", "m > n"]
