"""Open ints compute, compare and look like ints; what depends on the value is a condition."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hybrid.core.open_numbers import (
    OpenInt,
    any_open,
    called,
    is_open,
    is_same,
    open_array,
    open_number,
    size_of,
    sizes_of_ints,
)
from hybrid.core.sizes import OpenSizes
from hybrid.ops.shapes import creation as creation  # which adds to the table of functions


class Own:
    """A class of the author's that knows what to do with ints."""

    def __radd__(self, other: Any) -> Any:
        return "added", type(other)

    def __lt__(self, other: Any) -> bool:
        return True


def made(n: int = 37, m: int = 12) -> tuple[OpenSizes, Any, Any]:
    sizes = OpenSizes()
    return sizes, open_number(sizes.symbol("n", n)), open_number(sizes.symbol("m", m))


def conditions(sizes: OpenSizes) -> list[str]:
    return [str(condition) for condition in sizes.conditions.values()]


OPEN: list[Callable[[Any, Any], Any]] = [
    lambda n, m: n + 1, lambda n, m: 1 + n, lambda n, m: n - m, lambda n, m: 5 - n,
    lambda n, m: n * m * 2, lambda n, m: n // m, lambda n, m: 100 // n, lambda n, m: n % 8,
    lambda n, m: 100 % n, lambda n, m: n**2, lambda n, m: -n, lambda n, m: +n,
    lambda n, m: ~n, lambda n, m: math.floor(n), lambda n, m: math.trunc(n), lambda n, m: round(n),
    lambda n, m: sum([n, m, 1]), lambda n, m: math.prod([n, m]), lambda n, m: divmod(n, m),
    lambda n, m: divmod(100, n), lambda n, m: True + n, lambda n, m: copy.deepcopy([n])[0],
    lambda n, m: n / 2, lambda n, m: 1 / n, lambda n, m: n * 0.5, lambda n, m: n**0.5,
    lambda n, m: (n / m + 1) // 0.7, lambda n, m: divmod(n / 2, m), lambda n, m: -(n / 2),
    lambda n, m: abs(1 - n / 2), lambda n, m: +(n / 2), lambda n, m: math.floor(n / 2),
    lambda n, m: math.ceil(n / 3), lambda n, m: math.trunc(n / 3), lambda n, m: round(n / 3),
    lambda n, m: round(n / 3, 2), lambda n, m: copy.deepcopy([n / 2])[0], lambda n, m: n & 4,
    lambda n, m: 1 | n, lambda n, m: n >> 1, lambda n, m: n ^ m, lambda n, m: (n - 1).bit_length(),
    lambda n, m: sum([n / 2, m, 1]), lambda n, m: copy.copy(n / 2), lambda n, m: 2 - n / m,
]  # fmt: skip
KNOWN: list[Callable[[Any, Any], Any]] = [
    lambda n, m: n > 1, lambda n, m: n == 0, lambda n, m: n != 1, lambda n, m: bool(n),
    lambda n, m: n - n, lambda n, m: (8 * n) % 8, lambda n, m: isinstance(n, int),
    lambda n, m: isinstance(n, (str, bool)), lambda n, m: abs(n) == n, lambda n, m: n == "37",
    lambda n, m: n is None, lambda n, m: n >= 2, lambda n, m: n * 2 // 2 == n,
    lambda n, m: isinstance(n / 2, float), lambda n, m: isinstance(n / 2, (int, str)),
    lambda n, m: n / 2 > 0, lambda n, m: bool(n / 2), lambda n, m: n / 2 == "a",
    lambda n, m: n / 2 != 0.25,
]  # fmt: skip
CONDITIONAL: list[Callable[[Any, Any], Any]] = [
    lambda n, m: n > m, lambda n, m: n == 37, lambda n, m: max(n, m, 3) == n, lambda n, m: n < 64,
    lambda n, m: str(n), lambda n, m: f"{n:>5}", lambda n, m: repr([n]), lambda n, m: {37: 1}[n],
    lambda n, m: int(n), lambda n, m: float(n), lambda n, m: complex(n), lambda n, m: range(n),
    lambda n, m: [1] * n, lambda n, m: "abc"[m - 11], lambda n, m: 2**m, lambda n, m: 1 << m,
    lambda n, m: math.sqrt(n), lambda n, m: n.bit_count(), lambda n, m: str(n / 2),
    lambda n, m: f"{n / m:.2f}", lambda n, m: repr([n / 2]), lambda n, m: {18.5: 1}[n / 2],
    lambda n, m: float(n / 2), lambda n, m: int(n / 2), lambda n, m: complex(n / 2),
    lambda n, m: (n / 2).is_integer(), lambda n, m: np.asarray(n / 2).shape, lambda n, m: n / 2 > m,
    lambda n, m: n / 2 == 18.5, lambda n, m: pickle.loads(pickle.dumps(n / 2)),
    lambda n, m: list(np.zeros(m)), lambda n, m: int(np.arange(100)[n]), lambda n, m: hash(n),
    lambda n, m: pickle.loads(pickle.dumps(n)), lambda n, m: n.real, lambda n, m: round(n, -1),
    lambda n, m: n in range(3, 40), lambda n, m: sorted([n, m, 20]), lambda n, m: min(n, 64) == 37,
    lambda n, m: np.array([n, 2]).dtype.kind, lambda n, m: np.asarray(n).shape,
    lambda n, m: n == 37.0, lambda n, m: n.to_bytes(2, "big"),
]  # fmt: skip


def plain(value: Any) -> Any:
    """The value here, without a condition."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.size.value if is_open(value) else value


@pytest.mark.parametrize("compute", OPEN)
def test_arithmetic_stays_open(compute: Callable[..., Any]) -> None:
    sizes, n, m = made()
    found = compute(n, m)
    assert conditions(sizes) == []
    for values in ((37, 12), (50, 7), (2, 3)):
        wanted = compute(*values)
        bound = sizes.bound(sizes_of_ints(found), values)
        assert bound == wanted
    assert plain(found) == plain(compute(37, 12))


@pytest.mark.parametrize("compute", KNOWN)
def test_what_is_so_for_all_values_is_no_condition(compute: Callable[..., Any]) -> None:
    sizes, n, m = made()
    assert compute(n, m) == compute(37, 12)
    assert type(compute(n, m)) is type(compute(37, 12))
    assert conditions(sizes) == []


@pytest.mark.parametrize("compute", CONDITIONAL)
def test_what_depends_on_the_value_is_a_condition(compute: Callable[..., Any]) -> None:
    sizes, n, m = made()
    wanted = compute(37, 12)
    found = compute(n, m)
    assert plain(found) == plain(wanted)
    assert conditions(sizes) != []
    for values in ((37, 12), (12, 37), (38, 12), (37, 13), (64, 64)):
        if sizes.holds(values):
            bound = sizes_of_ints(found)
            bound = [sizes.bound(item, values) for item in bound] if type(bound) is list else bound
            assert bound == compute(*values)
    assert sizes.holds((37, 12))


def test_what_others_compute_with_it() -> None:
    sizes, n, _ = made()
    assert n + Own() == ("added", OpenInt)
    assert n > Own()
    with pytest.raises(TypeError):
        n + "a"
    with pytest.raises(TypeError):
        n < None  # noqa: B015
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(AttributeError):
        n.nothing  # noqa: B018
    assert operator.index(n) == 37
    assert open_number(5) == 5
    assert type(open_number(n.size - n.size)) is int
    assert conditions(sizes) == ["n == 37"]


def test_floats_of_others_and_what_floats_do_not_have() -> None:
    sizes, n, _ = made()
    assert n / 2 + Own() == ("added", type(n / 2))
    with pytest.raises(TypeError):
        n / 2 + "a"
    with pytest.raises(TypeError):
        n / 2 & 1
    with pytest.raises(AttributeError, match="'float' object has no attribute 'nothing'"):
        (n / 2).nothing  # noqa: B018
    assert conditions(sizes) == []
    assert type(n * np.float64(0.5)) is np.float64
    assert conditions(sizes) == ["n == 37"]


def test_functions_and_arrays() -> None:
    sizes, n, m = made()
    root = called("math.sqrt", n)
    assert (is_open(root), str(size_of(root))) == (True, "math.sqrt(n)")
    array = open_array("arange", (n - m,), m, n, 1)
    assert (array.shape, str(array)) == ((size_of(n - m),), "arange(m, n, 1)")
    assert sizes.bound(array, (9, 4)).tolist() == [4, 5, 6, 7, 8]
    assert any_open(3, n)
    assert any_open(size_of(n / 2))
    assert not any_open(3, 0.5)
    assert conditions(sizes) == []


def test_equal_for_all_sizes() -> None:
    sizes, n, m = made()
    assert is_same((n * 2, 4), (n + n, 4))
    assert not is_same(n, m)
    assert not is_same(n, 37)
    assert not is_same((n,), (n, n))
    assert is_same(4, 4)
    assert conditions(sizes) == []
