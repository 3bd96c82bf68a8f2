"""Loops over Python ranges with a break on a tensor, and lists that change their length."""

import hybrid as hy
from tests.staging.harness import ITEMS_APART, Program, Table, f32

table = Table()
STARTS = [f32(v) for v in (1.0, 4.0, 300.0)]
PAIRS = [f32(v) for v in ([1.0, 2.0], [0.0, 0.0], [3.0, -2.0])]


@table.runs(*STARTS)
def lengths_change(x):
    xs = [x]
    for i in range(8):
        xs = [xs[0] * 2 + i, xs[0]][: 1 + i % 2]
        if xs[-1] > 100:
            break
    return xs, xs[0], len(xs)


@table.runs(*STARTS, identity=ITEMS_APART)
def memory_grows(x):
    xs = []
    for _ in range(6):
        xs.append(x)
        x = x + sum(xs) * 0.1
        if x > 5:
            break
    return x, xs


@table.runs(*STARTS)
def lists_in_a_list(x):
    rows = [[], []]
    for i in range(5):
        rows[i % 2].append(x * i)
        if x * i > 6:
            break
    return rows


@table.runs(*STARTS, identity=ITEMS_APART)
def lists_in_a_dict(x):
    found = {"even": [], "odd": [x]}
    for i, v in enumerate([x, x * 2, x * 3, x * 4]):
        found["odd" if i % 2 else "even"].append(v)
        if hy.sum(v) > 6:
            break
    else:
        found["odd"].append(x)
    return found


@table.runs(*STARTS)
def none_at_first(x):
    before = None
    for _ in range(5):
        if before is not None:
            x = x + before
        before = x * 0.5
        if x > 20:
            break
    return x, before


@table.runs(*STARTS)
def looks_back(x):
    xs = [x]
    for i in range(6):
        if i >= 2:
            x = x + xs[-2] * xs[i - 1]
        xs.append(x * 0.5)
        if x > 50:
            break
    return xs[-1], len(xs)


@table.runs(*PAIRS)
def appended_behind_the_break(x):
    steps = []
    for _ in range(4):
        for s in steps:
            x = x + s
        if hy.sum(x) > 5:
            break
        steps.append(x)
    return x, len(steps)


@table.runs(*PAIRS, identity=ITEMS_APART)
def items_of_items_behind_the_break(x):
    steps = []
    for scale in (1.0, 2.0, 3.0):
        weights = [s * scale for s in steps]
        x = x + sum(weights)
        if hy.sum(x) > 5:
            break
        steps.append(x)
    return x, steps


@table.runs(*PAIRS)
def two_loops_of_bfgs(x):
    """Limited-memory BFGS on a parabola, with an early stop."""
    steps, changes = [], []
    g = 2 * x
    for _ in range(4):
        q, weights = g, []
        for s, y in reversed(list(zip(steps, changes, strict=True))):
            a = hy.sum(s * q) / hy.sum(y * s)
            weights.append(a)
            q = q - a * y
        for s, y, a in zip(steps, changes, reversed(weights), strict=True):
            q = q + s * (a - hy.sum(y * q) / hy.sum(y * s))
        after = x - 0.3 * q
        if hy.sum(4 * after * after) < 1e-9:
            break
        steps.append(after - x)
        changes.append(2 * after - g)
        x, g = after, 2 * after
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_an_iteration_finds_the_lists_of_the_one_before() -> None:
    """And not those of all iterations that may have been the last."""
    sizes = []
    for n in (5, 10, 20):

        @hy.hybridize
        def run(x, n=n):
            xs = []
            for _ in range(n):
                xs.append(x)
                x = x + xs[-1] * 0.1
                if x > 5:
                    break
            return x

        sizes.append(str(run.graph(f32(1.0))).count("cond "))
    assert sizes[2] - sizes[1] <= 2.5 * (sizes[1] - sizes[0]), sizes
