"""return anywhere: early, in loops, in try and finally."""

# ruff: noqa: B007, B012  these forms are tested

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
ROWS = [draw(5, 3, seed=s) for s in (1, 2, 3)]
X = f32([1.0, -2.0, 3.0])


@table.runs(X, -X)
def return_early(x):
    if x[0] > 0:
        return x * 2
    x = x + 1
    return x * 3


@table.runs(X, -X)
def return_in_else(x):
    if x[0] > 0:
        x = x + 1
    else:
        return x
    return x * 3


@table.runs(X, -X, f32([0.0, 1.0, 2.0]), f32([1.0, 1.0, 1.0]), f32([1.0, -1.0, -1.0]))
def return_nested(x):
    if x[0] > 0:
        if x[1] > 0:
            return x
        x = x * 2
        if x[2] > 0:
            return x + 1
    elif x[0] < 0:
        return x - 1
    return x * 5


@table.runs(*STARTS)
def return_in_while(x):
    n = 0
    while x < 150:
        x = x * 2
        if x > 50:
            return x + 0.5
        n += 1
    return x - n


@table.runs(*STARTS)
def return_in_for(x):
    for i in range(5):
        x = x * 2
        if x > 50:
            return x, i
    return x, -1


@table.runs(*ROWS)
def return_a_row(x):
    for row in x:
        if hy.sum(row) > 1:
            return row
    return x[0] * 0


@table.runs(*ROWS)
def return_from_nested_loops(x):
    for i in range(5):
        for j in range(3):
            if x[i, j] > 1:
                return i * 10 + j
    return -1


@table.runs(*STARTS, f32(10.0), f32(5000.0))
def return_from_while_in_for(x):
    for i in range(3):
        while x < 20:
            x = x * 2
            if x > 18:
                return x + i
        x = x * 0.25
    return x


@table.runs(*STARTS)
def return_in_while_true(x):
    n = 0
    while True:
        n += 1
        x = x + 40
        if x > 100:
            return n


@table.runs(X, -X)
def return_of_structures(x):
    if x[0] > 0:
        return {"a": x, "b": [x + 1, (x,)]}
    return {"a": x * 2, "b": [x, (x * 3,)]}


@table.runs(X, -X)
def return_none_everywhere(x):
    if x[0] > 0:
        return
    x = x + 1
    return None


def large(x):
    if hy.sum(x) > 0:
        return x


def looked_for(x):
    found = None
    for v in x:
        if v > 2:
            found = v
    return found


@table.runs(X, -X)
def none_is_returned_by_a_function(x):
    y, z = large(x), large(x * 2)
    w = large(x - 1)
    if y is None:
        return x
    return y * 2 if z is not None and w is not None else y * 3


@table.runs(X, -X)
def none_is_tested_where_it_is_returned(x):
    large(x)
    held = {"large": large(x), "small": [large(-x)]}
    first = x if large(x) is None else x + 1
    return first * 2 if held["large"] is None else first * 3 + held["large"]


@table.runs(X, X * 2)
def what_all_calls_return_is_used(x):
    y = large(x)
    return y * 2, large(x) * 3, looked_for(x) + 1, looked_for(x)


@table.runs(X, -X)
def none_is_handed_on(x):
    def again(x):
        return looked_for(x)

    found = again(x)
    return x[0] if found is None else found


@table.runs(X, -X, covered=False)
def dead_code(x):
    if x[0] > 0:
        return x
        x = x * 100
    else:
        return -x
    x = x + 1
    return x


@table.runs(X, -X, covered=False)
def dead_code_in_a_loop(x):
    for i in range(3):
        if x[0] > 0:
            break
            x = x * 100
        x = x + 1
        continue
        x = x * 100
    return x


@table.runs(X, -X)
def return_in_try_finally(x):
    try:
        if x[0] > 0:
            return x * 2
        x = x + 1
    finally:
        x = x * 100
    return x


@table.runs(X, -X)
def return_through_finally_with_effects(x):
    log = [x]

    def inner(v):
        try:
            if v[0] > 0:
                return v * 2
            v = v - 1
        finally:
            log[0] = log[0] + v
        return v * 3

    return inner(x), log


@table.runs(*STARTS)
def break_in_try_finally(x):
    n = 0
    for _ in range(5):
        try:
            x = x * 2
            if x > 50:
                break
        finally:
            n += 1
    return x, n


@table.runs(*STARTS)
def continue_in_try_finally(x):
    n = 0
    for _ in range(5):
        try:
            if x > 50:
                continue
            x = x * 2
        finally:
            n += 1
        x = x + 1
    return x, n


@table.runs(*STARTS)
def return_in_loop_in_try_finally(x):
    total = [0]

    def inner(v):
        try:
            for i in range(4):
                v = v * 2
                if v > 50:
                    return v + i
            return v
        finally:
            total[0] += 1

    return inner(x), total


@table.runs(X, -X)
def python_return_in_finally(x):
    try:
        x = x * 2
    finally:
        return x


@table.runs(X, -X)
def python_break_in_finally(x):
    for i in range(3):
        try:
            x = x + 1
        finally:
            break
    return x, i


@table.runs((X, True), (X, False), (-X, False), plans=2)
def python_return_then_traced(x, early):
    if early:
        return x
    if x[0] > 0:
        return x * 2
    return x * 3


@table.runs(X, -X)
def return_in_with(x):
    with hy.no_grad():
        if x[0] > 0:
            return x * 2
    return x * 3


@table.runs(X, -X)
def returns_in_helper_functions(x):
    def sign(v):
        if v > 0:
            return 1
        if v < 0:
            return -1
        return 0

    return sign(x[0]) + 10 * sign(x[1]) + 100 * sign(x[0] * 0)


@table.runs(*STARTS)
def return_expression_with_a_loop_value(x):
    while x < 100:
        y = x * 3
        if y > 120:
            return y - x
        x = y
    return x


@table.runs(*STARTS)
def break_keeps_later_names(x):
    last = hy.zeros(())
    for i in range(6):
        last = x * i
        if last > 40:
            break
        after = last + 1
        x = x + after
    return x, last


@table.runs(*STARTS)
def loops_after_a_break(x):
    for _ in range(3):
        if x > 100:
            break
        x = x * 2
    for _ in range(3):
        if x < 0:
            break
        x = x - 50
    return x


@table.runs((X, i64(2)), (X, i64(9)), (-X, i64(0)))
def break_at_a_traced_index(x, k):
    for i in range(5):
        if i == k:
            break
        x = x * 2
    return x, i


PARAMETER = f32([1.0, 1.0])
PARAMETER.requires_grad = True


@table.runs((X, f32(0.0)), (X, f32(1.0)))
def return_in_an_iteration_that_is_taken_out(x, s):
    for _ in range(3):
        if s:
            PARAMETER.sum().backward()
            break
        return x
    return x + 1


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
