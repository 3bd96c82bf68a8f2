"""Operands that bind names, guards of match, and containers of the author's.

PYTEST_DONT_REWRITE: the messages of assertions are compared.
"""

# ruff: noqa: RUF018, RUF100, SIM103, SIM114  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.7, 2.0)]


@table.runs(*NUMBERS)
def name_bound_in_the_second_operand(x):
    k = 2.0
    if (y := x * k) > 1 and (z := y - 1) > 0.5:
        return y + z
    return y


@table.runs(*NUMBERS)
def name_bound_in_either_operand(x):
    if (y := x) > 1 or (y := x + 1.5) > 2:
        return y
    return y * 0


@table.runs(*NUMBERS)
def name_bound_on_one_path_only(x):
    if x > 0 and (y := x * 3) > 3:
        x = x + 1
    return y


@table.runs(*NUMBERS)
def elif_that_binds(x):
    if x > 1:
        y = x
    elif x > 0 and (y := x * 3) > 1:
        y = y + 1
    else:
        y = x - 1
    return y


@table.runs(*NUMBERS)
def while_that_binds(x):
    n = 0
    while (y := x * 2) < 10 and (z := y + 1) < 9:
        x = x + 1 + z * z / 100
        n += 1
        if n == 2:
            break
    return x, y, n


@table.runs(*NUMBERS)
def value_that_binds(x):
    a = x > 0 and (y := x + 1) > 2
    b = not (a or (y := x - 1) < -2)
    return a, b, y


@table.runs(*NUMBERS)
def bound_value_that_binds(x):
    y = x
    if not (last := (hy.maximum(x, 0) and (y := x + 1))):
        y = y * 2
    return last, y


@table.runs((X, 2), (X, -2), plans=2, covered=False)
def message_that_binds(x, n):
    assert n > 0, (text := f"{n} is negative")
    text = "positive"
    return x * n, text


@table.runs(*NUMBERS)
def ternary_that_binds(x):
    r = (y := x + 1) if x > 0 else (y := x - 1)
    return r, y


@table.runs(*NUMBERS)
def chain_that_binds(x):
    y = z = x
    if 0 < (y := x + 1) < (z := x * 2):
        return z, z
    return y, z


@table.runs(*NUMBERS)
def assert_that_binds(x):
    assert x > 0 and (y := x * 2) > 2, "small"
    return y


@table.runs(*NUMBERS)
def nested_operands_that_bind(x):
    if x > 1 and ((y := x) > 3 or (y := x * 2) > 3) and not (x < 0 or (z := y) < 0):
        return y + z
    return x


@table.runs((X, 1), (X, 0), plans=2, covered=False)
def operands_that_python_knows(x, n):
    seen = []
    if n and (m := n + 1) and seen.append(m):
        return x
    return x * 2, seen


@table.runs(X, *NUMBERS, plans=2)
def guard_on_a_tensor(x):
    match x.shape:
        case (3,):
            return x
        case () if x > 1:
            return x + 1
        case () if x < 0:
            pass
        case _:
            return x - 1
    return x


@table.runs((f32(1.0), 2), (f32(-1.0), 2), (f32(3.0), 5), (f32(1.0), 3), plans=3, covered=False)
def guard_after_a_capture(x, n):
    match n:
        case 2 if x > 0:
            y = x + 1
        case k if x > 2:
            y = x * k
        case 3:
            y = x * 3
        case _:
            y = x - 1
    return y


@table.runs(*NUMBERS)
def guard_in_a_loop(x):
    total = x * 0
    for kind in ("up", "down", "up", "stop", "up"):
        match kind:
            case "up" if x > 0:
                total = total + x
            case "stop" if total > 3:
                break
            case "down":
                continue
        total = total + 1
    return total


@table.runs(*NUMBERS)
def guard_that_binds(x):
    match x:
        case y if (z := y + 1) > 1 and (w := z * 2) > 5:
            return w
        case _:
            return z


class Between:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __contains__(self, value):
        return self.low <= value <= self.high


class Above:
    def __init__(self, low):
        self.low = low

    def __contains__(self, value):
        if value < 0:
            return False
        return value > self.low


@table.runs(*NUMBERS)
def author_contains(x):
    inside = Between(0, 1)
    if x in inside:
        x = x + 10
    return x, x in Above(1.0), x not in inside


@table.runs(*NUMBERS)
def values_of_a_dict(x):
    return 2.0 in {"a": x}.values(), "a" in {"a": x}


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
