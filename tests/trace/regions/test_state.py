"""What outlives a statement: cells, attributes, subscripts, and objects that keep tensors."""

import hybrid as hy
from tests.staging.harness import Program, Table, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]


@table.runs(*NUMBERS)
def augmented_names(x):
    y = x * 1
    if x > 0:
        y += 1
        y *= x
    else:
        y -= 2
        y /= 4
    return y


@table.runs(*NUMBERS, grad=False)
def augmented_argument(x):
    """The cell that was given changes."""
    if x > 0:
        x += 1
    return x * 2


@table.runs(*STARTS)
def augmented_in_while(x):
    y = x * 0
    while y < 100:
        y += x
        y += 1
    return y


@table.runs(*[(X, n) for n in COUNTS])
def augmented_in_for(x, n):
    y = hy.zeros(3)
    for i in range(n):
        y += x * i
    return y


@table.runs(*[(X, n) for n in COUNTS])
def aliases_see_the_write(x, n):
    y = x * 1
    z = y
    for _ in range(n):
        y += 1
    return y, z


@table.runs(*NUMBERS)
def aliases_in_branches(x):
    y = x * 1
    z = y
    if x > 0:
        z += 5
    return y, z


@table.runs(*NUMBERS)
def slices_are_values(x):
    y = hy.stack([x, x, x])
    z = y[:2]
    if x > 0:
        z += 1
        y[0] = 7
    return y, z


@table.runs(X, -X)
def items_written(x):
    y = x * 1
    if x[0] > 0:
        y[0] = 10
    else:
        y[1:] = x[:2]
    return y


@table.runs(*[(X, n) for n in COUNTS[:3]])
def items_written_in_a_loop(x, n):
    y = hy.zeros(3)
    for i in range(n):
        y[i] = x[i] * 2 + i
    return y


@table.runs(X)
def items_written_in_a_fixed_loop(x):
    y = hy.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            y[i, j] = x[i] * x[j]
    return y


@table.runs(*[(X, n) for n in (i64(0), i64(2))])
def items_written_by_a_tensor(x, n):
    y = x * 1
    y[n] = 100
    y[n] += 1
    return y


@table.runs(X, -X)
def masked_write(x):
    y = x * 1
    y[y < 0] = 0
    if y[0] > 0:
        y[x > 2] = -1
    return y


@table.runs(*NUMBERS)
def assigned(x):
    y = hy.zeros(())
    if x > 0:
        y.assign(x)
    else:
        y.assign(x * 2)
    return y


@table.runs(X, -X)
def prefix_sums(x):
    y = x * 1
    for i in range(1, 3):
        y[i] += y[i - 1]
    return y


@table.runs(*NUMBERS)
def write_then_branch(x):
    y = x * 1
    y += 1
    if y > 0:
        y += 1
    if y > 2:
        y += 1
    return y


@table.runs(*NUMBERS)
def writes_through_a_helper(x):
    def bump(cell, by):
        if by > 0:
            cell += by
        else:
            cell.assign(cell * 2)

    y = hy.ones(())
    bump(y, x)
    bump(y, -x)
    return y


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
