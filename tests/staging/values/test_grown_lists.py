"""Lists of unknown length after the loop: what is done with them, eager and hybridized."""

# ruff: noqa: B905, E711, RUF005, SIM300  the programs are about these forms

from __future__ import annotations

import hybrid as hy
from tests.staging.harness import ITEMS_APART, Program, Table, draw, f32, i64

table = Table(options={"identity": ITEMS_APART})
X = f32([1.0, -2.0, 3.0])
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def indexed(x):
    ys = [x * 5]
    while x < 100:
        ys.append(x)
        x = x * 2
    n = len(ys)
    return ys[0], ys[n - 1], ys[-n], ys[n // 2]


@table.runs(*STARTS)
def out_of_range(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys[2]


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def last_of_none(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys[-1]


@table.runs(*STARTS)
def printed(x):
    ys = [x * 1]
    while x < 100:
        ys.append(x)
        x = x * 2
    zs = ys[1:]
    print(ys, len(ys))
    print(f"{zs} and", zs)
    return ys


@table.runs(*STARTS)
def looped_with_break(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    t = x * 0
    for y in ys:
        if y > 20:
            break
        t = t + y
    else:
        t = t - 1
    return t


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def copies(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    zs = ys + ys
    ws = list(ys)
    ws.append(x)
    vs = ys.copy()
    vs.extend(ws)
    return ys, zs, ws, tuple(vs)


@table.runs(*STARTS)
def truth(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    if not ys:
        x = x + 1
    r = 1 if ys else 2
    return x, r, bool(ys)


@table.runs(*STARTS)
def summed(x):
    ys = [x]
    while x < 100:
        ys.append(x)
        x = x * 2
    return sum(ys), sum(ys, x)


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def rebound(x):
    ys = []
    zs = [x * 1]
    while x < 100:
        ys = [*ys, x]
        zs = zs + [zs[-1] * 2]
        x = x * 2
    return ys, zs, (*ys, x)


@table.runs(*STARTS)
def augmented(x):
    ys = []
    while x < 100:
        ys += [x, x + 1]
        x = x * 2
    return ys


@table.runs(*STARTS)
def same_tensor_written_later(x):
    h = x * 2
    ys = []
    while x < 100:
        ys.append(h)
        h += 1
        x = x * 2
    return ys, h


@table.runs(*STARTS)
def rows_of_matrices(x):
    ys = []
    m = hy.ones((2, 3)) * x
    while hy.sum(m) < 100:
        m = m * 2
        ys.append((m, m[0] > 2, hy.astype(m, hy.float64), hy.astype(m, hy.int32)))
    a = m * 0
    b, c = hy.astype(a, hy.float64), hy.astype(a, hy.int32)
    flags = hy.zeros(3)
    for p, q, r, s in ys:
        a = a * 0.5 + p
        flags, b, c = flags + q, b + r, c + s
    return ys, a, flags, b, c


@table.runs(*STARTS)
def appended_in_one_branch(x):
    ys = [x * 1]
    if x > 1:
        ys.append(x * 2)
    if x > 10:
        ys.append(x * 3)
        ys.append((x * 4) * 1)
    t = x * 0
    for y in ys:
        t = t * 0.5 + y
    return ys, t, len(ys), ys[-1], ys[0]


@table.runs(*STARTS)
def lists_that_differ(x):
    ys = [x * 1, x * 2] if x > 1 else [x * 3]
    zs = [x * 4, x * 5, x * 6]
    if x > 10:
        zs.pop()
    else:
        zs.insert(0, x * 7)
    return ys, len(ys), zs, len(zs)


@table.runs(*STARTS)
def emptied_in_one_branch(x):
    ys = []
    while x < 100:
        ys.append(x * 1)
        x = x * 2
    if hy.sin(x) > 0:
        ys.clear()
        ys.append(x)
    return ys


class Log:
    def __init__(self):
        self.rows = []


@table.runs(*STARTS)
def in_an_object(x):
    log = Log()
    while x < 100:
        log.rows.append(x)
        x = x * 2
    return log.rows, len(log.rows)


@table.runs(*STARTS)
def in_a_dict(x):
    d = {"a": [], "b": [x]}
    while x < 100:
        d["a"].append(x)
        d["b"].append(x + 1)
        x = x * 2
    return d


@table.runs(*[draw(8, 3, seed=s) for s in (1, 2, 3)])
def early_stop_over_rows(x):
    kept = []
    for row in x:
        if hy.sum(row) < -1.5:
            break
        kept.append(hy.tanh(row))
    return kept, len(kept)


@table.runs(*STARTS)
def zipped(x):
    a, b = [], []
    while x < 100:
        a.append(x)
        b.append(x * x)
        x = x * 2
    t = x * 0
    for p, q in zip(a, b):
        t = t + p * q
    for p in reversed(a):
        t = t * 0.5 + p
    return t


@table.runs(*STARTS)
def zipped_with_what_is_known(x):
    xs = []
    while x < 100:
        xs.append(x)
        x = x * 2
    scaled = [a * k for a, k in zip(xs, [1, 2.5, True])]
    joined = [a + b for b, (i, a) in zip((x, x + 1), enumerate([y * 2 for y in xs]))]
    counted = [a * i + b for i, (a, b) in enumerate(zip(xs, [x]))]
    return scaled, joined, counted, [a for a, _ in zip(xs, [])], list(zip((), xs))


@table.runs(*STARTS)
def zipped_strictly_with_what_is_known(x):
    xs = []
    while x < 100:
        xs.append(x)
        x = x * 2
    return [a + b for a, b in zip(xs, [1, 2, 3], strict=True)]


@table.runs(*STARTS)
def flagged_while(x):
    ys = []
    done = x > 100
    while not done:
        x = x * 2
        done = x > 100
        if not done:
            ys.append(x)
    return ys


def doubled(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys


@table.runs(*STARTS)
def compared_with_nothing(x):
    ys = doubled(x)
    y = x if ys == [] else x * 2
    return y, [] == ys, ys != [], ys == (), ys != "a", ys == None, [x] == [x]


@table.runs(*STARTS)
def sliced_in_any_way(x):
    ys = doubled(x)
    n = len(ys)
    return [len(part) for part in (ys[1:], ys[:2], ys[-2:], ys[:-1], ys[n:], ys[: n - 1], ys[9:])]


@table.runs(*STARTS)
def slices(x):
    ys = doubled(x)
    return ys[1:3], ys[-2:]


@table.runs(*STARTS)
def sliced_backwards(x):
    ys = [x * 3, *doubled(x)]
    return ys[::-1], ys[-2:0:-2], ys[len(ys) // 2 :: 2]


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def lists_of_iterators(x):
    ys = doubled(x)
    return list(enumerate(ys, 1)), tuple(reversed(ys))


# An item of a list whose length only a run knows is no tensor that there was before.
@table.runs(*STARTS, identity=False)
def extremes_and_truths(x):
    ys = doubled(x)
    return max(ys, default=x), min([*ys, x]), any(y > 50 for y in ys), all(y > 1 for y in ys)


@table.runs(*COUNTS)
def lists_of_ranges(n):
    k = int(n)
    numbers = list(range(k)), tuple(range(k, 0, -1)), [i * 2 for i in range(k, 10, 3)]
    numbers = [*numbers, [*range(k)]]
    return numbers, sum(range(k)), max(range(k + 1)), len(range(k)), list(enumerate(range(k)))


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
