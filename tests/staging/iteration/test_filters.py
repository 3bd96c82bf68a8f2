"""Comprehensions and generators of which only the run knows how many items they give."""

# ruff: noqa: B905  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
XS = [X, -X, -X * X, X * X]
COUNTS = [(X, i64(n)) for n in (0, 1, 2, 3)]


@table.runs(*XS)
def sum_with_a_start(x):
    return sum((v * v for v in x if v > 0), hy.ones(())), sum(1 for v in x if v > 0)


@table.runs(*XS)
def two_conditions(x):
    return [v for v in x if v > 0 if v < 2], [v * 2 for v in x if v > 0 and v < 2]


@table.runs(*XS)
def condition_after_a_python_one(x):
    return [x[i] for i in range(3) if i != 1 if x[i] > 0], [x[i] for i in range(3) if i != 1]


@table.runs(*XS)
def gone_over(x):
    ys = [v * 2 for v in x if v > 0]
    total = x[0] * 0
    for y in ys:
        total = total + y
    return total, len(ys), ys


@table.runs(*XS)
def counted(x):
    return len([v for v in x if v > 0]), len([1 for v in x if v > 0]), bool([v for v in x if v > 0])


@table.runs(*XS)
def any_and_all(x):
    lists = any([v > 2 for v in x if v > 0]), all([v > 2 for v in x if v > 0])
    return any(v > 2 for v in x if v > 0), all(v > 2 for v in x if v > 0), lists


@table.runs(*XS)
def any_stops_early(x):
    def asked(v):
        print("asked", v)
        return v < 0

    return any(asked(v) for v in x if v > -3)


@table.runs(*XS)
def max_of_none_raises(x):
    return max(v for v in x if v > 0)


@table.runs(*XS)
def max_and_min(x):
    first = max((v for v in x if v > 0), default=x[0]), min([v for v in x if v > 0], default=x[1])
    return first, max((v for v in x if v > -50), key=lambda v: -v)


@table.runs(*XS)
def list_of_a_generator(x):
    return list(v for v in x if v > 0), [*(v for v in x if v < 0), x]


@table.runs(*XS)
def tuple_of_a_generator(x):
    return tuple(v for v in x if v > 0)


@table.runs(*XS)
def first_and_last(x):
    ys = [v for v in x if v > 0]
    return ys[0], ys[-1], ys[len(ys) - 1]


@table.runs(*XS)
def two_loops(x):
    return [v * w for v in x for w in x if w > v]


@table.runs(*XS)
def nested(x):
    return [[v * w for w in x if w > 0] for v in x]


@table.runs(*XS)
def of_a_filtered_list(x):
    ys = [v for v in x if v > 0]
    return [y * 2 for y in ys], [y for y in ys if y > 2], any(y > 2 for y in ys), all(ys)


@table.runs(*XS)
def sum_over_a_filtered_list(x):
    ys = [v for v in x if v > 0]
    return sum(y * 3 for y in ys), max(y for y in [*ys, x[0]])


@table.runs(*XS)
def enumerated(x):
    return [v * i for i, v in enumerate(x) if v > 0], sum(i for i, v in enumerate(x) if v > 0)


@table.runs(*XS)
def zipped(x):
    return [a * b for a, b in zip(x, x + 1) if a > 0]


@table.runs(*XS)
def pairs(x):
    return [(v, v * 2) for v in x if v > 0]


@table.runs(*XS)
def numbers(x):
    return [v.item() for v in x if v > 0], max(v.item() for v in x if v > -10)


@table.runs(draw(4, 3, seed=1), draw(4, 3, seed=2))
def rows(x):
    return [hy.tanh(row) for row in x if hy.sum(row) > 0]


@table.runs(*XS)
def raises_for_one_kept(x):
    def checked(v):
        if v > 2:
            raise ValueError("large")
        return v

    return [checked(v) for v in x if v > 0]


@table.runs(*XS)
def raises_for_any_kept(x):
    def refused(v):
        raise ValueError("kept")

    return [refused(v) for v in x if v > 2]


@table.runs(*XS)
def prints_what_is_kept(x):
    return [print("kept", v) or v for v in x if v > 0]


@table.runs(*XS)
def in_a_branch(x):
    if x[0] > 0:
        return sum(v for v in x if v > 1) * 2.0
    return x[0]


@table.runs(*XS)
def in_a_loop(x):
    for _ in range(3):
        x = x + sum(v for v in x if v > 0) * 0.1
    return x


@table.runs(*COUNTS)
def list_of_unknown_length(x, n):
    return [x[i] for i in range(n) if x[i] > 0], [(i, x * i) for i in range(n)]


@table.runs(*COUNTS)
def decided_in_a_loop(x, n):
    def asked(v):
        print("asked", v)
        return v < 0

    found = any(asked(x[i]) for i in range(n)), all(asked(x[i]) for i in range(n) if x[i] > -5)
    return found, any(x[i] < 0 for i in range(n)), all(x[i] > 0 for i in range(n))


@table.runs(*COUNTS)
def extremes_in_a_loop(x, n):
    return max(x[i] for i in range(n + 1) if x[i] < 2), min([x[i] for i in range(n + 1)])


@table.runs(*COUNTS)
def extreme_of_none(x, n):
    return min((x[i] * i for i in range(n)), key=lambda v: v * v)


@table.runs(*COUNTS)
def filtered_further(x, n):
    return [y * 2 for y in [x[i] for i in range(n)] if y > 0]


@table.runs(*COUNTS)
def closes_over_a_variable(x, n):
    k = x[0] * 2
    if k > 0:
        k = k + 1
    return sum(x[i] * k for i in range(n))


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
