"""Lists that grow in loops of unknown length: eager and hybridized, values and gradients."""

# ruff: noqa: SIM108  the programs are about these forms

from __future__ import annotations

import hybrid as hy
from tests.staging.harness import ITEMS_APART, Program, Table, draw, f32, i64

table = Table(options={"identity": ITEMS_APART})
X = f32([1.0, -2.0, 3.0])
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]


@table.runs(*STARTS)
def numbers(x):
    ys = []
    n = 0
    while x < 100:
        ys.append(n)
        n += 2
        x = x * 2
    return ys, len(ys)


@table.runs(*STARTS)
def floats(x):
    ys = [0.25]
    t = 0.1
    while x < 100:
        t = t * 1.5
        ys.append(t)
        x = x * 2
    return ys


@table.runs(*STARTS)
def tuples(x):
    ys = []
    while x < 100:
        ys.append((x, {"a": x * 2, "n": [len(ys)]}))
        x = x * 2
    return ys


@table.runs(*STARTS)
def constants(x):
    ys = []
    w = x + 1
    while x < 100:
        ys.append((None, "a", 3, w))
        x = x * 2
    return ys


@table.runs(*STARTS)
def two_per_iteration(x):
    ys = [x * 3]
    while x < 100:
        ys.append(x)
        x = x * 2
        ys.append(x * 0.5)
    t = x * 0
    for y in ys:
        t = t * 0.5 + y
    return ys, ys[-1], t, len(ys)


@table.runs(*STARTS)
def two_lists(x):
    a, b = [], [x * 1]
    while x < 100:
        a.append(x * 1)
        b.append(x * x)
        x = x * 2
    return a, b


@table.runs(*STARTS)
def break_before_append(x):
    ys = []
    while x < 1000:
        x = x * 2
        if x > 150:
            break
        ys.append(x)
    return ys, len(ys), x


@table.runs(*STARTS)
def continue_before_append(x):
    ys = []
    n = 0
    while x < 1000:
        x = x * 2
        n += 1
        if n % 2 == 0:
            continue
        ys.append(x)
    t = x * 0
    for y in ys:
        t = t * 0.5 + y
    return ys, len(ys), t


@table.runs(*STARTS)
def filtered(x):
    ys = []
    while x < 1000:
        x = x * 2
        if hy.sin(x) > 0:
            ys.append(x)
    t = x * 0
    for i, y in enumerate(ys):
        t = t * 0.5 + y + i
    last = x
    if ys:
        last = ys[-1]
    return ys, len(ys), t, last


@table.runs(*[draw(6, 3, seed=s) for s in (1, 2, 3)])
def filtered_rows(x):
    ys = []
    for row in x:
        if hy.sum(row) > 0:
            ys.append(row)
    t = x[0] * 0
    for y in ys:
        t = t + y
    return ys, t, len(ys)


@table.runs(*[(X, n) for n in COUNTS])
def traced_range(x, n):
    ys = []
    for i in range(n):
        ys.append(x * i)
    t = hy.zeros(3)
    for y in ys:
        t = t * 0.5 + y
    return ys, t


@table.runs(*[(X, n) for n in COUNTS])
def traced_range_and_break(x, n):
    ys = []
    for _ in range(n):
        x = x * 2
        ys.append(x)
        if hy.max(x) > 20:
            break
    return ys, len(ys)


@table.runs(*STARTS)
def last_in_the_body(x):
    ys = [x]
    while ys[-1] < 100:
        ys.append(ys[-1] * 2)
    return ys


@table.runs(*STARTS)
def last_in_the_body_empty_first(x):
    ys = []
    while x < 100:
        if ys:
            x = x + ys[-1]
        else:
            x = x + 1
        ys.append(x * 0.5)
    return ys, x


@table.runs(*STARTS)
def length_in_the_body(x):
    ys = []
    while x < 100:
        ys.append(x * len(ys))
        x = x * 2 + len(ys)
    return ys, x


@table.runs(*STARTS)
def peeled(x):
    ys = []
    previous = None
    while x < 100:
        if previous is not None:
            ys.append(x - previous)
        previous = x
        x = x * 2
    return ys, len(ys)


@table.runs(*STARTS)
def appended_after(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    ys.append(x)
    ys += [x * 3, x * 4]
    return ys, ys[-1], ys[-3], len(ys)


@table.runs(*STARTS)
def second_loop(x):
    ys = [x * 1]
    y = x * 1
    while x < 100:
        ys.append(x)
        x = x * 2
    while y < 300:
        ys.append(y)
        y = y * 3
    t = x * 0
    for z in ys:
        t = t * 0.5 + z
    return ys, t, len(ys)


@table.runs(*STARTS)
def nested_own_list(x):
    total = x * 0
    while x < 100:
        ys = []
        y = x
        while y < 120:
            ys.append(y)
            y = y * 3
        total = total + ys[-1] + len(ys)
        x = x * 2
    return total


@table.runs(*STARTS)
def nested_list_after(x):
    ys = [x]
    while x < 100:
        ys = []
        y = x
        while y < 120:
            ys.append(y)
            y = y * 3
        x = x * 2
    return ys


@table.runs(*STARTS)
def nested_static(x):
    ys = []
    while x < 100:
        for i in range(3):
            ys.append(x + i)
        x = x * 2
    return ys, ys[-1]


@table.runs(*STARTS)
def in_a_branch(x):
    ys = [x]
    if x > 1:
        while x < 100:
            ys.append(x)
            x = x * 2
    else:
        ys.append(x * 9)
    t = x * 0
    for y in ys:
        t = t * 0.5 + y
    return ys, t, len(ys)


@table.runs(*STARTS)
def passed_on(x):
    def collect(xs, v):
        while v < 100:
            xs.append(v)
            v = v * 2
        return v

    def total(xs):
        t = hy.zeros(())
        for v in xs:
            t = t + v
        return t

    ys = []
    v = collect(ys, x)
    return ys, total(ys), v


@table.runs(*STARTS, plans=3)
def an_operand(x):
    ys = []
    if x > 7:
        ys.append(x)
    zs = [x * 2]
    if x > 20:
        zs.append(x)
    return x + ys if len(ys) else x, zs * x, x - zs


@table.runs(*STARTS)
def a_sum_of_at_least_one(x):
    y = None
    if x > 7:
        y = sum([hy.stack([x, x]), x * 2])
    return sum([w for w in [y, hy.stack([x, x])] if w is not None], x)


@table.runs(*STARTS)
def returned_in_the_loop(x):
    ys = []
    while x < 150:
        ys.append(x)
        if x > 60:
            return ys, len(ys)
        x = x * 2
    return ys, 0


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
