"""match on values that only a run knows, and on numbers that have become inputs."""

# ruff: noqa: SIM108, SIM116, RUF100  the programs are about these

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, describe, f32

table = Table()
X = f32([1.0, -2.0, 3.0])
SIDES = [(X, f32(v)) for v in (0.0, 1.0)]


@table.runs(*SIDES, covered=False)
def true_and_false(x, s):
    match bool(s < 0.25):
        case False:
            return x
        case True:
            return x + 1
    return x + 2


@table.runs(*SIDES, covered=False)
def in_a_tuple_with_a_guard(x, s):
    match (1, bool(s < 0.25)):
        case [z, False] if z:
            return x * z
        case [_, True]:
            return x + 1
        case _:
            return x + 2


@table.runs(*SIDES, covered=False)
def alternatives(x, s):
    match (bool(s < 0.25), 1):
        case (True | None, 2) | (False, 1):
            return x
        case ((True | False) as q, n):
            return x + n if q else x
        case _:
            return x + 2


@table.runs(*SIDES, covered=False)
def in_a_dict(x, s):
    match {"p": bool(s > 0.25), "q": [True, None]}:
        case {"p": True, "q": [True, None]}:
            return x
        case {"p": False, **rest}:
            return x + len(rest)
        case _:
            return x + 2


@table.runs(*SIDES, covered=False)
def names_of_the_arm_that_is_taken(x, s):
    match (bool(s > 0.25), s):
        case (True, y):
            z = y * 2
        case (False, z):
            y = z * 3
    return x + y, z


@table.each()
def test_same(program: Program) -> None:
    program.check()


def tuples(x, k, flag):
    match (k, flag):
        case (1, True):
            return x + 100
        case (2, _):
            return x + 200
    return x


def values_and_captures(x, k, flag):
    match k:
        case 1:
            return x + 100
        case 2 | 3:
            return x + 200
        case n if n > 3:
            return x + n
    return x


def sequences(x, k, flag):
    match [k, flag]:
        case [1, True]:
            x = x + 100
        case [a, b] if a == 2:
            x = x + 200 + b
        case _:
            pass
    return x


def mappings(x, k, flag):
    match {"k": k}:
        case {"k": 1}:
            return x + 100
        case {"k": n}:
            return x + 10 * n
    return x


def classes(x, k, flag):
    match k:
        case bool():
            return x + 50
        case int(1):
            return x + 100
        case int():
            return x + 7
        case float(f):
            return x * f
    return x


def powers(x, k, flag):
    return x + 2**-k + k**2 + (k + 3) ** (k - 2)


def singletons(x, k, flag):
    match k:
        case True:
            x = x + 1
        case False:
            x = x + 2
        case 1:
            x = x + 3
        case None:
            x = x + 4
        case str():
            x = x + 5
    return x


FORMS = [tuples, values_and_captures, sequences, mappings, classes, powers, singletons]
ORDERS: dict[str, list[Any]] = {
    "ints": [1, 2, 3, 0, 1, 4, 1, -2, 5],
    "ints and floats": [1, 2, 1.0, 0.5, 3, 2.5, 1],
    "floats and ints": [0.5, 1.5, 1, 2, 2.0, 0],
    "bools": [True, 1, False, 0, 2, True, 1],
    "others": [1, None, 2, "a", 3, None, 1.5],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_numbers_that_become_inputs(form: Any, order: str) -> None:
    fast, x = hy.hybridize(form), f32(1.0)
    for at, k in enumerate(ORDERS[order]):
        flag = at % 3 != 1
        results = []
        for function in (form, fast):
            try:
                results.append(describe(function(x, k, flag)))
            except (TypeError, ZeroDivisionError) as error:
                results.append(type(error))
        assert results[0] == results[1], f"call {at}: {k!r}, {flag}"


@pytest.mark.parametrize("flag", [True, False])
def test_alternatives_with_a_guard_are_tried_once(flag: bool) -> None:
    def tried(x, v):
        match (True, v):
            case (True, a) | (a, _) if a is True:
                return x
            case (True, n) | (n, True) if n == 0:
                return x + 1
        return x + 2

    x = f32(1.0)
    assert describe(hy.hybridize(tried)(x, flag)) == describe(tried(x, flag))

    def of_a_run(x, s):
        match (True, bool(s > 0)):
            case (True, a) | (a, _) if a is True:
                return x
        return x + 2

    with pytest.raises(CaptureError, match="match needs the value of a traced bool"):
        hy.hybridize(of_a_run)(x, f32(1.0))
