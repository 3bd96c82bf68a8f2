"""Lists and dicts of tensors: appended, popped, sliced, carried."""

# ruff: noqa: B007, RUF005  the programs are about these forms

import hybrid as hy
from tests.staging.harness import ITEMS_APART, Program, Table, draw, f32, i64

table = Table()
X, Y = f32([1.0, -2.0, 3.0]), f32([0.5, 0.25, -1.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]
ROWS = [draw(5, 3, seed=1), draw(5, 3, seed=2)]


@table.runs(X)
def append_and_stack(x):
    ys = []
    for i in range(5):
        x = hy.tanh(x) + i
        ys.append(x)
    return hy.stack(ys)


@table.runs(*ROWS)
def append_over_rows(x):
    h = hy.zeros(3)
    outputs = []
    for row in x:
        h = hy.tanh(h + row)
        outputs.append(h)
    return hy.stack(outputs), h, len(outputs)


@table.runs(*ROWS)
def append_two_lists(x):
    a, b = [], []
    for row in x:
        a.append(row * 2)
        b.append(hy.sum(row))
    return hy.stack(a), hy.stack(b, axis=0), hy.stack(a, axis=1)


@table.runs(*ROWS)
def append_and_concat(x):
    parts = []
    for row in x:
        parts.append(row[:2])
    return hy.concat(parts)


@table.runs(*ROWS)
def append_to_a_list_with_items(x):
    ys = [x[0] * 100]
    for row in x:
        ys.append(row)
    return ys


@table.runs(*ROWS)
def append_in_a_branch_alike(x):
    ys = []
    for row in x:
        if hy.sum(row) > 0:
            ys.append(row)
        else:
            ys.append(-row)
    return hy.stack(ys)


@table.runs(*NUMBERS)
def append_in_both_branches(x):
    ys = [x]
    if x > 0:
        ys.append(x * 2)
    else:
        ys.append(x * 3)
    return ys


@table.runs(*NUMBERS)
def append_in_one_then_pop(x):
    ys = [x]
    if x > 0:
        ys.append(x * 2)
        y = ys.pop()
    else:
        y = x
    return ys, y


@table.runs(*NUMBERS, may_refuse=True)
def append_in_one_branch(x):
    """The length depends on a value."""
    ys = [x]
    if x > 0:
        ys.append(x * 2)
    return ys


@table.runs(*NUMBERS)
def append_in_one_branch_and_sum(x):
    p = x > 0
    ys = [x]
    if p:
        ys.append(x * 2)
        total = sum(ys)
    else:
        total = ys[0]
    return total


@table.runs(*STARTS, identity=ITEMS_APART)
def append_in_while(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys


@table.runs(*STARTS)
def append_in_while_and_count(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return len(ys), x


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS[:3], identity=False)
def append_in_while_and_last(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys[-1], ys[0]


@table.runs(*STARTS)
def append_in_while_and_sum(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    total = hy.zeros(())
    for y in ys:
        total = total * 0.5 + y
    return total, sum(ys)


@table.runs(*STARTS, identity=ITEMS_APART)
def append_until_break(x):
    ys = []
    for i in range(6):
        ys.append(x)
        if x > 20:
            break
        x = x * 2
    return ys, i


@table.runs(*STARTS, identity=ITEMS_APART)
def append_limited_while(x):
    ys = []
    while x < 100 and len(ys) < 3:
        ys.append(x)
        x = x * 2
    return ys


@table.runs(X)
def pop_in_a_loop(x):
    ys = [x, x * 2, x * 3]
    total = hy.zeros(3)
    while ys:
        total = total * 0.5 + ys.pop()
    return total, ys


@table.runs(X)
def queue_of_fixed_length(x):
    window = [x, x + 1, x + 2]
    for i in range(5):
        window.append(hy.tanh(window[0] + window[2]) + i)
        window.pop(0)
    return window


@table.runs(*[(X, n) for n in COUNTS])
def queue_in_a_traced_loop(x, n):
    window = [x, x + 1]
    for i in range(n):
        window = [window[1], hy.tanh(window[0]) + window[1] + i]
    return window


@table.runs(*[(X, n) for n in COUNTS])
def queue_by_append_and_pop(x, n):
    window = [x, x + 1]
    for _ in range(n):
        window.append(window[0] + window[1])
        window.pop(0)
    return window


@table.runs(*[(X, n) for n in COUNTS])
def queue_by_slices(x, n):
    window = [x, x + 1, x + 2]
    for _ in range(n):
        window = window[1:] + [window[0] * 0.5]
    return window[::-1], window[:2]


@table.runs(*[(X, n) for n in COUNTS])
def items_assigned_in_a_loop(x, n):
    ys = [x, x * 2]
    for i in range(n):
        ys[0] = ys[0] + ys[1]
        ys[1] = ys[1] * 0.5 + i
    return ys


@table.runs(*NUMBERS)
def items_assigned_in_branches(x):
    ys = [x, x * 2, None]
    if x > 0:
        ys[0] = x + 100
    else:
        ys[1] = x - 100
    return ys


@table.runs(*NUMBERS)
def items_swapped(x):
    ys = [x, x * 2]
    if x > 0:
        ys[0], ys[1] = ys[1], ys[0]
    return ys


@table.runs(*NUMBERS)
def items_augmented(x):
    ys = [x * 1, 1]
    if x > 0:
        ys[0] += 5
        ys[1] += 2
    return ys


@table.runs(*NUMBERS)
def slices_assigned(x):
    ys = [x, x * 2, x * 3]
    if x > 0:
        ys[1:] = [x, x]
    else:
        ys[:2] = [x + 1, x + 2]
    return ys


@table.runs(*NUMBERS)
def many_methods(x):
    ys = [x, x * 2]
    if x > 0:
        ys.extend([x, x + 1])
        ys.reverse()
        ys.insert(0, x * 7)
        del ys[1]
        ys.pop()
    else:
        ys += [x * 5]
    return ys


@table.runs(*NUMBERS)
def aliased_lists(x):
    a = [x]
    b = a
    if x > 0:
        a[0] = x * 2
    b.append(x)
    return a, b, a is b


@table.runs(*NUMBERS)
def nested_lists(x):
    grid = [[x, x + 1], [x + 2, x + 3]]
    if x > 0:
        grid[0][1] = x * 10
    for i in range(2):
        grid[i][i] = grid[i][i] * 2
    return grid


@table.runs(*NUMBERS)
def list_of_tuples(x):
    pairs = [(x, 1), (x * 2, 2)]
    if x > 0:
        pairs[0] = (pairs[0][0] * 5, 1)
    return pairs


@table.runs(*NUMBERS)
def tuple_carried(x):
    pair = (x, x * 2)
    for i in range(3):
        if x > 0:
            pair = (pair[1], pair[0] + i)
    return pair


@table.runs(*NUMBERS)
def lists_concatenated(x):
    ys = [x]
    for i in range(3):
        ys = ys + [ys[-1] * 2 + i]
    return ys


@table.runs(*NUMBERS)
def list_indexed_by_the_loop(x):
    ys = [x, x * 2, x * 3]
    total = hy.zeros(())
    for i in range(3):
        total = total + ys[i] * i
    return total


@table.runs(*[(X, n) for n in COUNTS[:3]])
def list_indexed_by_a_tensor(x, n):
    ys = [x, x * 2, x * 3]
    return hy.stack(ys)[n]


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
