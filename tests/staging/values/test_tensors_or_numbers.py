"""Values that are a tensor on some paths and a Python number on others: each stays what it is."""

from __future__ import annotations

import math

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, DTypeError
from tests.staging.harness import Program, Table, f32

table = Table()
X = [1.0, 2.0]
CALLS = [(f32(X), f32(s)) for s in (1.0, -1.0, -3.0, 2.0)]


@table.runs(*CALLS)
def number_then_tensor(x, s):
    m = 1.5
    if s > 0:
        m = x.sum()
    print(m, f"{m:.2f} {m!r}")
    return m, m * 2, m + x, -m, m + m, m < 2, 3 - m


@table.runs(*CALLS)
def no_iteration(x, s):
    m = 0
    while s > 0:
        m = m + x.sum()
        s = s - 1
    return m, m / 3


@table.runs(*CALLS)
def number_in_an_iteration(x, s):
    m = x[0]
    while s > 0:
        if s > 1:
            m = 7
        s = s - 1
    return m


@table.runs(*CALLS)
def numbers_of_two_kinds_in_iterations(x, s):
    m = x[0]
    for v in x:
        if v > s:
            m = 3
        elif v + s > 0:
            m = 0.5
    return m, m * 2


@table.runs(*CALLS)
def best_so_far(x, s):
    best = 0.0
    for v in x * s:
        if v > best:
            best = v
        if v > 3:
            best = -1
    return best


@table.runs(*CALLS)
def extremes(x, s):
    return min(x[0] * s, 0.1), max(x[1], s, 1), min(s, 0.1) * x, min(s, -0.1) + 0.1


@table.runs(*CALLS)
def in_place_writes_to_the_tensor(x, s):
    a = x.sum()
    m = a if s > 0 else 2
    m += 1
    return a, m


@table.runs(*CALLS)
def in_place_with_names_of_one_number(x, s):
    m = 1.0
    n = m
    if s > 0:
        m = x[0]
        n = x[1]
    m += 1
    n *= 2
    return m, n, x


@table.runs(*CALLS)
def division_by_the_number(x, s):
    m = 0
    if s > 0:
        m = x.sum()
    return 1 / m


@table.runs(*CALLS)
def method_of_tensors(x, s):
    m = 0.25
    if s > 0:
        m = x.sum()
    return m.detach()


@table.runs(*CALLS)
def conversions(x, s):
    m = 0.25 if s > 0 else x[0]
    return isinstance(m, float), isinstance(m, hy.Tensor), float(m), math.sqrt(m), abs(m), int(m)


@table.runs(*CALLS)
def two_names(x, s):
    a = b = 1.0
    if s > 0:
        a = b = x[0]
    return a is b, a, b


@table.runs(*CALLS)
def in_containers(x, s):
    d = {"a": 1 if s > 0 else x[1]}
    return d, [d["a"]], (d["a"] == 1)


@table.runs(*CALLS)
def kinds_and_a_return(x, s):
    m = 1 if s > 0 else x[1]
    m = 0.5 if s < -1 else m
    if s == 2:
        return 0, False, m
    return m, m > 0.7, m if m else 3


@table.runs(*CALLS)
def truth(x, s):
    m = True
    if s > 0:
        m = x[0] > 0
    return m, not m, m and 3


@table.runs(*CALLS)
def operators(x, s):
    v = min(x[0] * s, 0.5)
    xs = [v, x[1]]
    return sum(xs), max(xs), v**2, 2**v, v // 1, round(v), v % 3


@table.runs(*CALLS)
def unrolled(x, s):
    total = 0
    for i in range(4):
        if x[i % 2] > s:
            total += x[0]
    return total


def in_the_state(x, s, state):
    state.best = min(state.best, s)
    state.worst = 0.5 if s > 1 else s
    return state.best * 2


def test_in_the_state() -> None:
    states = [hy.nn.Module(), hy.nn.Module()]
    for state in states:
        state.best, state.worst = 0.75, hy.asarray(0.0)
    fast = hy.hybridize(in_the_state)
    for x, s in CALLS:
        results = [f(x, s, state) for f, state in zip((in_the_state, fast), states, strict=True)]
        for name in ("best", "worst"):
            a, b = (getattr(state, name) for state in states)
            assert type(a) is type(b) and repr(a) == repr(b), name
        assert repr(results[0]) == repr(results[1])


def test_asked_for_its_type() -> None:
    @hy.hybridize
    def program(x, s):
        return type(0.5 if s > 0 else x)

    with pytest.raises(CaptureError, match="a tensor or a float is asked for its type"):
        program(hy.asarray(1.0), hy.asarray(1.0))


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()


OPS = {
    "tanh": lambda v, x: hy.tanh(v),
    "exp, then a product": lambda v, x: hy.exp(v) * x,
    "product": lambda v, x: v * x,
    "product of a function": lambda v, x: hy.multiply(x, v),
    "maximum": lambda v, x: hy.maximum(v, x),
    "stack": lambda v, x: hy.stack([v, v]),
    "where": lambda v, x: hy.where(x > 0, v, x),
    "sum": lambda v, x: hy.sum(v),
    "method": lambda v, x: x.clip(0, v),
}


@pytest.mark.parametrize("number", [0.1, 3, True])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    "dtype", [hy.float16, hy.bfloat16, hy.float32, hy.float64, hy.int32], ids=str
)
def test_numbers_are_weak_and_whole(dtype, op, number) -> None:
    """A number is no tensor of the other path's dtype: neither rounded to it nor promoted by it."""

    def program(tensor, s, x):
        return OPS[op](number if s > 0 else tensor, x)

    def outcome(function, *args):
        try:
            return repr(function(*args))
        except DTypeError as error:
            return str(error).splitlines()[0]

    for beside in (hy.float32, dtype):
        args = [(f32(1).astype(dtype), f32(s), f32(X).astype(beside)) for s in (1.0, -1.0)]
        expected = [outcome(program, *given) for given in args]
        if len({text.rpartition("dtype=")[2] for text in expected}) > 1:
            continue  # paths that leave other dtypes promote them, as an expression does
        fast = hy.hybridize(program)
        assert [outcome(fast, *given) for given in args] == expected
