"""Comprehensions and generators: lists, dicts, sets, and what sum, any and all are given."""

# ruff: noqa: SIM108  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
ROWS = [draw(4, 3, seed=1), draw(4, 3, seed=2)]


@table.runs(X)
def list_of_tensors(x):
    return [x * k for k in range(3)]


@table.runs(X, -X)
def list_with_a_ternary(x):
    return [x[i] if x[i] > 0 else x[i] * 0 for i in range(3)]


@table.runs(*ROWS)
def list_over_rows(x):
    return [hy.sum(row) for row in x]


@table.runs(*ROWS)
def stacked(x):
    return hy.stack([hy.tanh(row) * 2 for row in x])


@table.runs(*ROWS)
def stacked_with_branches(x):
    return hy.stack([row if hy.sum(row) > 0 else -row for row in x])


@table.runs(X, -X)
def list_with_calls(x):
    def f(v):
        return v * 2 if v > 0 else v

    return [f(v) for v in x]


@table.runs((X, [1, 2, 3, 4]), plans=1)
def filtered_by_python(x, ks):
    return [x * k for k in ks if k % 2 == 0]


@table.runs(X)
def nested_for(x):
    return [x * i + j for i in range(2) for j in range(i + 1)]


@table.runs(X)
def nested_comprehensions(x):
    return [[x[i] * j for j in range(2)] for i in range(3)]


@table.runs(X, -X)
def dict_of_tensors(x):
    return {f"x{i}": x[i] if x[i] > 0 else x[i] - 1 for i in range(3)}


@table.runs(({"a": X, "b": -X},), plans=1)
def dict_from_a_dict(xs):
    return {k: hy.sum(v) if hy.sum(v) > 0 else hy.sum(v) * 2 for k, v in xs.items()}


@table.runs(X)
def set_of_python(x):
    return x * len({k % 2 for k in range(5)}), {k for k in "aab"}


@table.runs(X, -X)
def sum_of_a_generator(x):
    return sum(v * v for v in x)


@table.runs(X, -X)
def sum_with_a_ternary(x):
    return sum(v if v > 0 else 0.5 for v in x)


@table.runs(X, -X)
def sum_filtered_by_a_tensor(x):
    return sum(v for v in x if v > 0)


@table.runs(X, -X)
def sum_with_a_start(x):
    return sum((x[i] * i for i in range(3)), hy.ones(()))


@table.runs(X, -X, f32([1.0, 1.0, 1.0]))
def any_of_a_generator(x):
    return any(v < 0 for v in x), all(v > 0 for v in x)


@table.runs(X, -X, f32([1.0, 1.0, 1.0]))
def any_in_a_condition(x):
    if any(v > 2 for v in x):
        return x * 2
    if all(v == 1 for v in x):
        return x * 3
    return x


@table.runs(X, -X)
def any_stops_early(x):
    def asked(v):
        print("asked")
        return v > 0

    return any(asked(v) for v in x)


@table.runs(X, -X)
def max_of_a_generator(x):
    return max(v * 2 for v in x), min(x[i] for i in range(3))


@table.runs(X)
def tuple_of_a_generator(x):
    return tuple(x * k for k in range(2)), list(x[i] for i in range(2))


@table.runs(X)
def names_stay_inside(x):
    k = 5
    ys = [x * k for k in range(2)]
    return ys, k


@table.runs(X, -X)
def walrus_goes_outside(x):
    last = None
    ys = [(last := v * 2) for v in x]
    return ys, last


@table.runs(X, -X)
def closes_over_a_traced_name(x):
    s = hy.sum(x)
    if s > 0:
        s = s * 2
    return [v * s for v in x]


@table.runs(X)
def unpacking_targets(x):
    return [a * b for a, b in [(x, 2), (x + 1, x)]]


@table.runs(X)
def zipped(x):
    return [a + b for a, b in zip(x, [1.0, 2.0, 3.0], strict=True)]


@table.runs(X)
def enumerated(x):
    return [v * i for i, v in enumerate(x)]


@table.runs((X, i64(2)), (X, i64(0)))
def of_unknown_length(x, n):
    return [x * i for i in range(n)]


@table.runs((X, i64(2)), (X, i64(0)))
def sum_of_unknown_length(x, n):
    return sum(x[0] * i for i in range(n))


@table.runs(X, -X)
def filtered_by_a_tensor(x):
    return [v for v in x if v > 0]


@table.runs(X)
def in_a_loop(x):
    for i in range(3):
        x = hy.stack([v * i + 1 for v in x])
    return x


@table.runs(X, -X)
def in_a_branch(x):
    if x[0] > 0:
        ys = [v * 2 for v in x]
    else:
        ys = [v + 1 for v in x]
    return ys


@table.runs(X, -X)
def of_lambdas(x):
    fs = [lambda v, k=k: v * k if v > 0 else v for k in (1, 2)]
    return [f(x[0]) for f in fs]


@table.runs(X)
def generator_consumed_by_next(x):
    g = (x * k for k in (2, 3))
    first = next(g)
    return first, list(g), next(g, None)


@table.runs(X, -X)
def generator_function_consumed(x):
    def running(values):
        total = hy.zeros(())
        for v in values:
            total = total + v if v > 0 else total
            yield total

    return list(running(x))


@table.runs(X, -X)
def generator_with_return_and_from(x):
    def inner(v):
        yield v * 2
        return v + 1

    def outer(v):
        w = yield from inner(v)
        if w[0] > 1:
            w = w * 10
        yield w

    return list(outer(x))


@table.runs(X, covered=False)
def generator_with_send(x):
    def running():
        total = hy.zeros(3)
        while True:
            got = yield total
            if got is None:
                return
            total = total + got

    g = running()
    next(g)
    ys = [g.send(x), g.send(x * 2)]
    g.close()
    return ys


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
