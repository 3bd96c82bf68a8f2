"""Each form that looks at a Python number, in calls that change it between int, float and bool."""

from __future__ import annotations

import itertools
import math

import pytest

import hybrid as hy
from tests.staging.harness import describe

FORMS = {}
NUMBERS = (1, 2, 3, 0, True, 1.0, 2.5, False, 4, -1, 1, -0.5, 2, 3.0, True, 0.0, -3)


def form(function):
    FORMS[function.__name__] = function
    return function


@form
def pattern_of_a_tuple(x, k, flag):
    match (k, flag):
        case (1, True):
            return x + 100
        case (2, _):
            return x + 200
    return x


@form
def patterns_of_values(x, k, flag):
    match k:
        case 1:
            return x + 100
        case 2 | 3:
            return x + 200
        case n if n > 3:
            return x + n
    return x


@form
def pattern_of_a_list(x, k, flag):
    match [k, flag]:
        case [1, True]:
            x = x + 100
        case [a, b] if a == 2:
            x = x + 200 + b
        case _:
            pass
    return x


@form
def pattern_of_a_dict(x, k, flag):
    match {"k": k}:
        case {"k": 1}:
            return x + 100
        case {"k": n}:
            return x + 10 * n


@form
def patterns_of_classes(x, k, flag):
    match k:
        case bool():
            return x + 1
        case int(1):
            return x + 100
        case int():
            return x + 7
        case float(n):
            return x + n
    return x


@form
def members(x, k, flag):
    y = x + 100 if k in (1, 5) else x
    y = y + (10 if k in {1, 2} else 0)
    return y + (1 if {1: 2}.get(k) else 0), k in [2, 3], (k, flag) == (1, True)


@form
def keys(x, k, flag):
    return x + {1: 100, 2: 200, 3: 300, 0: 400, 4: 500}.get(k, 7)


@form
def subscripts(x, k, flag):
    return x + [5, 6, 7, 8, 9][int(k)], [1, 2, 3, 4, 5][: int(k)]


@form
def texts(x, k, flag):
    return f"{k}", f"{k:>6}", str(k), repr(k), f"{'a' * int(k)}"


@form
def kinds(x, k, flag):
    return type(k) is int, type(k) is bool, isinstance(k, int), isinstance(k, float), type(k)


@form
def library_functions(x, k, flag):
    return (
        sorted([k, 2, -1]),
        max(k, 2),
        min(k, 1),
        divmod(k, 2),
        abs(-k),
        sum([k, k]),
        math.floor(k),
    )


@form
def arithmetic(x, k, flag):
    return k**2, k * 2, k / 3, k // 2, k % 3, -k, +k, round(k), int(k), float(k), bool(k), k + flag


@form
def powers_with_negative_exponents(x, k, flag):
    return 2**-k, 2.0**-k, x * 2**-k


@form
def ranges(x, k, flag):
    return x + sum(range(int(k))) + len(range(0, int(k), 2)), hy.arange(10)[: int(k)]


@form
def comparisons(x, k, flag):
    return 0 < k < 3, k == 1, k != 2, not k, k and 5, k or 7, 10 if k else 0, k is True


@form
def hashes(x, k, flag):
    return hash(k), {k: 1}, {k, 1}


@form
def bound_where_a_loop_breaks(x, k, flag):
    for i in range(4):
        if i == k:
            found = k
            break
    else:
        found = k + 1
    c = 0
    while c < 2:
        c += 1
        x = x + found
        if c > 5:
            break
    else:
        x = x * found
    return x, found


@form
def bound_where_a_tensor_breaks(x, k, flag):
    for i in range(4):
        if x > i:
            found = k * 2
            break
    else:
        found = k * 3
    while x < 5:
        x = hy.abs(x) + 1
    else:
        x = x * found
    return x, found


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("kinds", ["changing", "int", "float", "bool"])
def test_same_as_eager(name: str, kinds: str) -> None:
    function = FORMS[name]
    hybridized = hy.hybridize(function)
    chosen = [k for k in NUMBERS if kinds in ("changing", type(k).__name__)]
    for k, flag in itertools.product(chosen, (True, False)):
        found = []
        for f in (function, hybridized):
            try:
                found.append(describe(f(hy.asarray(0.5), k, flag)))
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1], (k, flag)
