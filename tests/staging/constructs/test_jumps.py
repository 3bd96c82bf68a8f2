"""break, continue, return anywhere, and the else of loops."""

# ruff: noqa: B007  these forms are tested

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
ROWS = [draw(5, 3, seed=s) for s in (1, 2, 3)]
X = f32([1.0, -2.0, 3.0])


@table.runs(*STARTS)
def break_in_while(x):
    while True:
        x = x * 2
        if x > 100:
            break
        x = x + 1
    return x


@table.runs(*STARTS)
def break_in_range(x):
    for i in range(10):
        x = x * 2
        if x > 100:
            break
    return x, i


@table.runs(*STARTS)
def break_at_once(x):
    for i in range(10):
        if x > 100:
            break
        x = x + i * 10
    return x, i


@table.runs(*STARTS)
def break_with_another_value(x):
    y = x
    for i in range(10):
        if y > 100:
            y = -y
            break
        y = y * 1.5 + i
    return y


@table.runs(*ROWS)
def break_over_rows(x):
    total = hy.zeros(3)
    for row in x:
        if hy.sum(row) > 1:
            break
        total = total + row
    return total


@table.runs((*STARTS[:1], i64(4)), (STARTS[0], i64(20)), (STARTS[3], i64(3)), (STARTS[0], i64(0)))
def break_in_traced_range(x, n):
    for i in range(n):
        x = x + i
        if x > 30:
            break
    return x


@table.runs(([X, -X, X],), ([-X, -X, -X],), plans=2)
def break_over_a_list(xs):
    total = hy.zeros(3)
    for x in xs:
        if x[0] > 0:
            total = total + 100
            break
        total = total + x
    return total


@table.runs(*STARTS)
def continue_in_while(x):
    n = 0
    skipped = 0
    while n < 6:
        n += 1
        if x > 20:
            skipped += 1
            continue
        x = x * 2
    return x, skipped


@table.runs(*STARTS)
def continue_in_range(x):
    for i in range(6):
        if x > 20:
            continue
        x = x * 2 + i
    return x


@table.runs(*ROWS)
def continue_over_rows(x):
    total = hy.zeros(3)
    for row in x:
        if hy.sum(row) < 0:
            continue
        total = total + row
    return total


@table.runs(*STARTS)
def continue_and_break(x):
    kept = 0
    for i in range(20):
        x = x + 3
        if x < 10:
            continue
        kept += 1
        if x > 40:
            break
        x = x + i
    return x, kept, i


@table.runs(*STARTS)
def several_breaks(x):
    n = 0
    while n < 50:
        n += 1
        if x > 100:
            break
        x = x * 1.5
        if n > 5:
            break
        x = x + 0.25
    return x, n


@table.runs(*ROWS)
def break_of_the_inner_loop(x):
    total = hy.zeros(())
    for row in x:
        for v in row:
            if v < 0:
                break
            total = total + v
        total = total * 0.5
    return total


@table.runs(*ROWS)
def break_of_both_loops(x):
    total = hy.zeros(())
    found = False
    for row in x:
        for v in row:
            if v > 1:
                found = True
                break
            total = total + v
        if found:
            break
    return total, found


@table.runs(X, -X)
def break_that_python_decides(x):
    for i in range(10):
        if i == 3:
            break
        x = x + i
    return x, i


@table.runs(X, -X)
def continue_that_python_decides(x):
    for i in range(5):
        if i % 2:
            continue
        x = x * 2 + i
    return x


@table.runs(*STARTS)
def python_break_after_a_traced_one(x):
    for i in range(8):
        if x > 30:
            break
        if i == 5:
            break
        x = x * 1.5
    return x


@table.runs(*STARTS)
def for_else(x):
    for _ in range(5):
        x = x + 10
        if x > 60:
            break
    else:
        x = -x
    return x


@table.runs(*STARTS)
def while_else(x):
    n = 0
    while n < 4:
        n += 1
        x = x * 2
        if x > 100:
            break
    else:
        x = x + 1000
    return x, n


@table.runs(*STARTS)
def while_else_without_break(x):
    while x < 100:
        x = x * 2
    else:
        x = x + 1
    return x


@table.runs(*ROWS)
def search_with_else(x):
    for i in range(5):
        if x[i, 0] > 1:
            where = i
            break
    else:
        where = -1
    return where


@table.runs(*STARTS)
def else_returns(x):
    for _ in range(4):
        x = x * 2
        if x > 100:
            break
    else:
        return x
    return x * 0 - 1


@table.runs(*STARTS)
def continue_and_else(x):
    n = 0
    while x < 100:
        x = x + 20
        if x > 60:
            continue
        n += 1
    else:
        n += 100
    return x, n


@table.runs(*STARTS, covered=False)  # which never returns there
def a_break_that_python_decides_behind_a_loop_that_returns(x):
    found = {"a": x}
    for _ in range(int(x) // 40):
        return x * 2
    while True:
        if found:
            break
        return x
    return x + 1


@table.runs(*STARTS)
def a_break_of_python_beside_an_error_that_may_be_raised(x):
    xs, n = [x, x * 2], 0
    try:
        while True:
            if x > 100:
                raise ValueError("high", x)
            n += 1
            if len(xs) == 2:
                break
        xs.append(x + n)
    except ValueError as error:
        xs = [error.args[1], x, x]
    return xs


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
