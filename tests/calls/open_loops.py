"""Loops over sizes, as people write them: more of the programs of test_open_programs.py."""

from __future__ import annotations

import hybrid as hy
from tests.calls.open_programs import batch, program, row, rows, t, two

# Loops ------------------------------------------------------------------------------------------


@program(rows)
def for_range(x):
    total = hy.zeros(4)
    for i in range(x.shape[0]):
        total = hy.tanh(total + x[i])
    return total


@program(rows)
def for_range_index_as_number(x):
    total = hy.zeros(4)
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total


@program(rows)
def for_rows(x):
    total = hy.zeros(4)
    for one in x:
        total = hy.tanh(total * one) + one
    return total


@program(two)
def for_zip(x, y):
    total = hy.zeros(4)
    for a, b in zip(x, y, strict=True):
        total = total * 0.5 + a * b
    return total


@program(rows)
def for_enumerate(x):
    total = hy.zeros(4)
    for i, one in enumerate(x):
        total = total * 0.5 + one * i
    return total


@program(rows)
def for_enumerate_from(x):
    total = hy.zeros(4)
    for i, one in enumerate(x, 3):
        total = total * 0.5 + one * i
    return total


@program(rows)
def for_reversed_range(x):
    total = hy.zeros(4)
    for i in reversed(range(len(x))):
        total = hy.tanh(total + x[i])
    return total


@program(rows)
def for_reversed_rows(x):
    total = hy.zeros(4)
    for one in reversed(x):
        total = hy.tanh(total + one)
    return total


@program(rows)
def for_range_step(x):
    total = hy.zeros(4)
    for i in range(0, x.shape[0], 4):
        total = hy.tanh(total + x[i])
    return total


@program(rows)
def for_range_backwards(x):
    total = hy.zeros(4)
    for i in range(x.shape[0] - 1, -1, -1):
        total = hy.tanh(total + x[i])
    return total


@program(rows)
def for_range_from_one(x):
    total = x[0]
    for i in range(1, x.shape[0]):
        total = hy.tanh(total + x[i])
    return total


@program(rows)
def for_nested(x):
    total = hy.zeros(())
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total = hy.tanh(total + x[i, j])
    return total


@program(lambda n: (t(n, n + 2),))
def for_nested_open(x):
    total = hy.zeros(())
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total = hy.tanh(total + x[i, j])
    return total


@program(rows)
def for_with_break(x):
    total = hy.zeros(4)
    for i in range(x.shape[0]):
        if total.sum() > 3:
            break
        total = total + hy.abs(x[i])
    return total


@program(rows)
def for_with_if(x):
    total = hy.zeros(4)
    for i in range(x.shape[0]):
        if x[i, 0] > 0:
            total = total + x[i]
        elif x[i, 1] > 0:
            total = total - 1
    return total


@program(rows)
def for_appends(x):
    found = []
    h = hy.zeros(4)
    for i in range(x.shape[0]):
        h = hy.tanh(h + x[i])
        found.append(h)
    return hy.stack(found)


@program(rows)
def for_rows_appends(x):
    found = []
    h = hy.zeros(4)
    for one in x:
        h = hy.tanh(h + one)
        found.append(h)
    return hy.stack(found, axis=1), h


@program(rows)
def comprehension_stacked(x):
    return hy.stack([x[i] * 2 for i in range(x.shape[0])])


@program(rows)
def comprehension_rows(x):
    return hy.stack([one.sum() for one in x])


@program(batch)
def steps_of_a_recurrence(x):
    h = hy.zeros((x.shape[0], 4))
    outs = []
    for step in range(x.shape[1]):
        h = hy.tanh(x[:, step] + h * 0.5)
        outs.append(h)
    return hy.stack(outs, axis=1), h


@program(rows)
def while_index(x):
    i = 0
    total = hy.zeros(4)
    while i < x.shape[0]:
        total = hy.tanh(total + x[i])
        i += 1
    return total


@program(rows)
def while_halves(x):
    n = x.shape[0]
    total = x.sum(axis=0)
    k = 1
    while k < n:
        total = total * 2
        k = k * 2
    return total


@program(rows)
def for_writes(x):
    out = hy.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] * 2 + i
    return out


@program(rows)
def sum_of_generator(x):
    return sum(x[i] * i for i in range(x.shape[0]))


@program(row)
def for_pairs(x):
    total = hy.zeros(())
    for i in range(x.shape[0] - 1):
        total = total + hy.abs(x[i + 1] - x[i])
    return total


@program(rows)
def loop_with_gradient(x):
    def loss(x):
        h = hy.zeros(4)
        for i in range(x.shape[0]):
            h = hy.tanh(h + x[i])
        return h.sum()

    return hy.grad(loss)(x)


@program(rows)
def rows_with_gradient(x):
    def loss(x):
        h = hy.zeros(4)
        for one in x:
            h = hy.tanh(h * one + one)
        return h.sum()

    return hy.grad(loss)(x)


@program(rows)
def appends_with_gradient(x):
    def loss(x):
        h, found = hy.zeros(4), []
        for one in x:
            h = hy.tanh(h + one)
            found.append(h)
        return (hy.stack(found) ** 2).sum()

    return hy.grad(loss)(x)


# While ------------------------------------------------------------------------------------------


@program(rows)
def while_with_gradient(x):
    def loss(x):
        i, h = 0, hy.zeros(4)
        while i < x.shape[0]:
            h = hy.tanh(h + x[i])
            i += 1
        return h.sum()

    return hy.grad(loss)(x)


@program(rows)
def while_counts_down(x):
    left, total = x.shape[0], hy.zeros(4)
    while left > 0:
        left -= 1
        total = hy.tanh(total + x[left])
    return total, left


@program(rows)
def while_of_two_tests(x):
    i, total = 0, hy.zeros(4)
    while i < x.shape[0] and total.sum() < 2:
        total = total + hy.abs(x[i])
        i += 1
    return total, i


@program(rows)
def halves_by_shape(x):
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = x[:half] + x[half : 2 * half]
    return x


@program(rows)
def sizes_in_branches(x):
    n = x.shape[0]
    k = n
    if x.sum() > 0:
        k = n // 2
        scale = n / 2
    else:
        scale = 1.0
    return x * scale, k


@program(rows)
def sizes_that_loops_carry(x):
    n, scale, total = x.shape[0], 1 / x.shape[0], hy.zeros(4)
    for one in x:
        total = total + one * scale
        scale = scale * 0.5
        n = n + 1
    return total, n, scale


@program(rows)
def lists_that_loops_fill(x):
    found = []
    for one in x:
        found.append(one[None] * 2)
    first = [x[0]] + [one + 1 for one in x]
    return (
        hy.concat(found),
        hy.concat(found, dim=1),
        hy.concat(found, axis=None),
        hy.stack(first, dim=-1),
        len(found),
        found[-1],
    )


@program(rows)
def scan_of_trees(x):
    def body(state, one):
        total, count = state
        total = hy.tanh(total + one["a"])
        return (total, count + 1), {"total": total, "both": (one["b"], total * one["a"])}

    return hy.scan(body, (hy.zeros(4), hy.asarray(0)), {"a": x, "b": x * 2})


@program(rows)
def scan_without_outputs(x):
    return hy.scan(lambda total, one: (hy.tanh(total + one), None), hy.zeros(4), x)


@program(two)
def scan_of_scans(x, y):
    def outer(total, one):
        return hy.scan(lambda h, other: (h * 0.5 + other, h * one), total, y)

    return hy.scan(outer, hy.zeros(4), x)
