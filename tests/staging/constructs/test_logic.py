"""Ternaries, and/or/not, chained comparisons, membership, walrus and match."""

# ruff: noqa: E712, E714, SIM108, SIM201, SIM208

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, flag, i64

table = Table()
X, Y = f32([1.0, -2.0, 3.0]), f32([0.5, 0.25, -1.0])
NUMBERS = [f32(v) for v in (-2.0, 0.0, 0.5, 2.0)]
PAIRS = [(flag(a), flag(b)) for a in (True, False) for b in (True, False)]
NUMBER_PAIRS = [(f32(a), f32(b)) for a in (0.0, 2.0) for b in (0.0, -3.0)]


@table.runs(*NUMBERS)
def ternary(x):
    return x * 2 if x > 0 else x - 1


@table.runs(*NUMBERS)
def ternary_nested(x):
    return x * 2 if x > 1 else (x + 5 if x > 0 else -x if x < -1 else x * 7)


@table.runs(*NUMBERS)
def ternary_in_an_expression(x):
    return (x if x > 0 else -x) * 3 + (1 if x > 1 else 2)


@table.runs(*NUMBERS)
def ternary_of_numbers(x):
    return 1 if x > 0 else -1


@table.runs(*NUMBERS)
def ternary_of_structures(x):
    return (x, [x + 1]) if x > 0 else (x * 2, [x])


@table.runs(*NUMBERS)
def ternary_is_lazy(x):
    def left(v):
        print("left")
        return hy.log(v)

    y = left(x) if x > 0 else x
    return y * 2


@table.runs(*NUMBERS)
def ternary_as_an_argument(x):
    return hy.maximum(x if x > 0 else x * 0, 0.25 if x > 1 else 0.125)


@table.runs(*PAIRS)
def and_of_flags(a, b):
    return a and b


@table.runs(*PAIRS)
def or_of_flags(a, b):
    return a or b


@table.runs(*NUMBER_PAIRS)
def and_returns_operands(x, y):
    return x and y


@table.runs(*NUMBER_PAIRS)
def or_returns_operands(x, y):
    return x or y


@table.runs(*NUMBER_PAIRS)
def or_of_three(x, y):
    return x or y or x + 7


@table.runs(*NUMBER_PAIRS)
def and_or_mixed(x, y):
    return (x and y) or (y and x + 1) or x - 5


@table.runs(*PAIRS)
def not_of_a_flag(a, b):
    if not a:
        return not b
    return bool(b)


@table.runs(*PAIRS)
def not_gives_a_bool(a, b):
    return not a, not not b, not (a and b)


@table.runs(*NUMBER_PAIRS)
def or_does_not_run_the_right(x, y):
    runs = hy.zeros(())

    def right():
        nonlocal runs
        runs = runs + 1
        return y

    z = x or right()
    return z, runs


@table.runs(*NUMBER_PAIRS)
def and_does_not_run_the_right(x, y):
    runs = hy.zeros(())

    def right():
        runs.assign(runs + 1)
        return y

    z = x and right()
    return z, runs


@table.makes(*NUMBER_PAIRS, plans=1)
def or_with_a_write_on_the_right():
    state = {"h": hy.ones(())}

    def right(y):
        state["h"] = state["h"] * 2
        return y

    def run(x, y):
        return x or right(y)

    return run, state


@table.runs(*NUMBERS)
def and_guards_the_right(x):
    """The right side would be NaN where the left does not hold."""
    if x > 0 and hy.log(x) < 0:
        return hy.log(x)
    return x * 2


@table.runs((None, f32(1.0)), (None, f32(0.0)), (f32(2.0), f32(0.0)), (f32(0.0), f32(0.0)), plans=2)
def none_and_traced(x, y):
    if x is not None and x > 0:
        return x
    return y or y + 1


@table.runs((f32(1.0), 0), (f32(1.0), 3), (f32(0.0), 3))
def python_and_traced(x, n):
    return n and x, n or x, x and x + n, x or x - n


@table.runs(*NUMBERS)
def condition_of_many(x):
    if (x > -1 and x < 1) or x == 2 or not x < 5:
        return x + 100
    return x


@table.runs(*NUMBERS)
def chained(x):
    return 0 < x < 1, 0 <= x <= 2, -2 < x != 0, -4 < -3 < x


@table.runs(*NUMBERS)
def chained_in_if(x):
    if -1 < x <= 0.5:
        return x * 10
    return x


@table.runs(*NUMBERS)
def chained_is_lazy(x):
    calls = []

    def once(v):
        calls.append(1)
        return v

    y = 0 < once(x) < 1
    return y, len(calls)


@table.runs((X, 2), (X, 5), plans=2)
def python_chained(x, n):
    if 1 < n < 4:
        return x
    return x * n


@table.runs(NUMBER_PAIRS[0], NUMBER_PAIRS[3])
def comparison_of_tensors(x, y):
    return x == y, x != y, x < y, x >= y, hy.all(x == x)


@table.runs((X, None), (X, Y))
def is_and_is_not(x, y):
    return x is y, x is not None, y is None, not y is x


@table.runs((X, X), (X, Y), (Y, Y))
def is_the_same_tensor(x, y):
    if x is y:
        return x * 2
    return x + y


@table.runs((X, X), (X, Y), (Y, Y))
def is_not_the_same_tensor(x, y):
    if x is not y:
        return x + y, x is not x
    return x * 2, y is not x


@table.runs((X, "a"), (X, "b"), plans=2, covered=False)
def in_python_containers(x, name):
    table_of = {"a": 2.0}
    if name in table_of:
        return x * table_of[name]
    if name not in ["c"]:
        return x + 1
    raise AssertionError


@table.runs(*NUMBERS)
def walrus(x):
    if (y := x * 2) > 1:
        return y
    return y + 100


@table.runs(*NUMBERS, may_refuse=True)
def walrus_on_the_right_of_and(x):
    y = x
    if x > 0 and (y := x * 2) > 1:
        return y
    return y + 100


@table.runs(*NUMBERS, may_refuse=True)
def walrus_in_a_ternary(x):
    z = (y := x * 2) if x > 0 else (y := x * 3)
    return y, z


@table.runs(*NUMBERS)
def walrus_in_a_loop(x):
    total = x * 0
    for i in range(3):
        if (y := x + i) > 1:
            total = total + y
    return total, y


@table.runs(*NUMBERS)
def bool_of_a_condition(x):
    return bool(x > 0), bool(x)


@table.runs(*NUMBERS)
def conditions_as_numbers(x):
    return (x > 0) + 1, hy.astype(x > 0, hy.float32) * 3


@table.runs(*NUMBERS)
def any_and_all_of_python_lists(x):
    if any([x > 1, x < -1]):
        x = x * 10
    if all([x > -100, x < 100]):
        x = x + 1
    return x


@table.runs(*NUMBERS, covered=False)
def identity_with_true(x):
    p = x > 0
    if p is True:
        return x
    return x + 1


@table.runs(*NUMBERS, covered=False)
def equal_to_true(x):
    p = x > 0
    if p == True:
        return x
    return x + 1


@table.runs((X, 0), (X, 1), (X, "s"), (X, (1, 2)), (X, [5]), (X, {"k": 3}), (X, None), (X, 4.5))
def match_on_python(x, what):
    match what:
        case 0:
            return x
        case int(n) if n > 0:
            return x * n
        case "s" | "t":
            return x + 1
        case (a, b) if a < b:
            return x + a + b
        case [a, *rest]:
            return x * a + len(rest)
        case {"k": v}:
            return x - v
        case None:
            return -x
        case _:
            return x * what


@table.runs((X, "up"), (-X, "up"), (X, "down"), (-X, "down"), plans=2)
def match_with_traced_bodies(x, direction):
    match direction:
        case "up":
            if x[0] > 0:
                y = x * 2
            else:
                y = x * 3
        case "down":
            y = x
            while hy.sum(y) > -10:
                y = y - 5
    return y


@table.runs((X, 1), (-X, 1), (X, 2), (-X, 2), may_refuse=True)
def match_with_a_traced_guard(x, n):
    match n:
        case 1 if x[0] > 0:
            return x
        case 1:
            return x * 10
        case k:
            return x * k


@table.runs((X, "a"), (-X, "a"), (X, "b"), (-X, "b"), plans=2)
def returns_in_match(x, name):
    for _ in range(3):
        match name:
            case "a":
                if x[0] > 2:
                    return x
                x = x + 1
            case _:
                break
    return x * 5


@table.runs(*[(a, b, x) for a, b in PAIRS for x in NUMBERS[:1]])
def bitwise_is_not_lazy(a, b, x):
    if a & b | ~a:
        return x
    return x + 1


@table.runs(*PAIRS)
def comparisons_of_flags(a, b):
    if a == b:
        return 1
    return 2


@table.runs((i64(3), draw(5)), (i64(0), draw(5)))
def or_as_a_default(n, x):
    size = n or 5
    return x * size


@table.runs(*NUMBERS)
def lambdas(x):
    choose = lambda v: v if v > 0 else -v  # noqa: E731
    return choose(x) + (lambda v, k=2: v and v * k)(x)


@table.runs(*NUMBERS)
def ternary_of_functions(x):
    f = hy.exp if x is not None else hy.log
    return f(x)


@table.runs(*NUMBERS)
def ternary_of_slices(x):
    v = hy.stack([x, x + 1, x + 2])
    return v[1 if x > 0 else 0], v[hy.where(x > 0, 2, 0)]


@table.runs((X, -1), (X, 1), plans=2)
def python_ternary(x, n):
    return x if n > 0 else hy.stack([x, x])


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


# Truth of tensors of one element ----------------------------------------------------------------

ONE = [f32([v]) for v in (1.0, 2.0, 3.0, 150.0)]
one_element = Table()


@one_element.runs(*ONE)
def either_of_one_element(x):
    if x == 1.0 or x == 2.0:
        return x + 10
    return x


@one_element.runs(*ONE)
def both_in_a_while(x):
    while x > 0 and x < 100:
        x = x * 2
    return x


@one_element.runs(*ONE)
def negated_and_nested(x):
    if not (x == 1.0) and (x > 100 or x == 2.0):
        return x + 10
    return x * 2 if (x == 3.0 or not x > 1) else x


@one_element.runs(*ONE)
def beside_a_number(x):
    k = x.item()
    if k > 2 and x < 100:
        return x + 1
    assert x or k
    return x


@one_element.each()
def test_truths_of_one_element(program: Program) -> None:
    program.check()
