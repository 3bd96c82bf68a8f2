"""with around traced code, and errors that any code may raise."""

# ruff: noqa: B007, B012, B017, B904, SIM105, SIM107, SIM108, RUF100  the programs are about these

import contextlib

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


@table.runs(X, -X)
def with_no_grad(x):
    with hy.no_grad():
        if x[0] > 0:
            y = x * 2
        else:
            y = x * 3
    return y + x


class Recorder:
    """A context manager that keeps tensors."""

    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *error):
        self.log.append(error[0])
        return error[0] is KeyError


@table.runs(X, -X)
def with_ones_own(x):
    recorder = Recorder()
    with recorder as r:
        if x[0] > 0:
            x = x * 2
        r.log.append(x)
    return x, recorder.log


@table.runs(X)
def with_swallows(x):
    with Recorder() as r:
        x = x + 1
        raise KeyError
    return x, len(r.log)


@contextlib.contextmanager
def scaled(values, by):
    values[0] = values[0] * by
    try:
        yield values
    finally:
        values[0] = values[0] / by


@table.runs(X, -X)
def with_contextmanager(x):
    values = [x]
    with scaled(values, 4.0) as v:
        if x[0] > 0:
            v[0] = v[0] + 1
    return values[0]


@table.runs(X, -X)
def with_two(x):
    a, b = [x], [x * 2]
    with scaled(a, 2.0) as u, scaled(b, 3.0) as v:
        if x[0] > 0:
            u[0], v[0] = v[0], u[0]
    return a, b


@table.runs(X, -X)
def with_in_a_branch(x):
    values = [x]
    if x[0] > 0:
        with scaled(values, 4.0):
            values[0] = values[0] + 1
    else:
        values[0] = values[0] * 5
    return values


@table.runs(X, -X)
def with_in_a_loop(x):
    values = [x]
    for i in range(3):
        with scaled(values, 2.0):
            values[0] = values[0] + i
            if values[0][0] > 4:
                break
    return values


@table.runs(X, covered=False)
def suppress(x):
    with contextlib.suppress(KeyError):
        x = x + 1
        {}["missing"]
        x = x * 100
    return x


@table.runs((draw(3), i64(1)), (draw(3), i64(5)), covered=False)
def index_out_of_range_at_run_time(x, i):
    return x[i]


@table.runs(X, covered=False)
def wrong_shapes(x):
    if x[0] > 0:
        return x @ hy.ones((4, 2))
    return x


@table.runs(X, covered=False)
def attribute_missing(x):
    return x.nothing


@table.runs(X, covered=False)
def not_callable(x):
    three = 3
    return three(x)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
