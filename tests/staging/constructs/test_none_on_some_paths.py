"""Results that are None on the paths that the values of tensors take, and something on others."""

# ruff: noqa: SIM108  the programs are about these forms

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, f32, i64, same

table = Table()
X = f32([1.0, -2.0, 3.0])
SIGNS = [(X, f32(s)) for s in (2.0, 0.5, -0.5, -2.0)]


@table.runs(X, -X, hy.abs(X), X * 0)
def the_first_that_is_negative(xs):
    for x in xs:
        if x < 0:
            return x
    return None


@table.runs(X, -X, hy.abs(X))
def without_a_last_return(xs):
    for i, x in enumerate(xs):
        if x < 0:
            return i, x * 2


@table.runs(*SIGNS)
def a_pair(x, s):
    if s > 0:
        return x, x * 2


@table.runs(*SIGNS)
def bound_on_both_paths(x, s):
    if s > 0:
        y = None
    else:
        y = [x, {"a": x + 1, "b": (s, 3)}]
    return y, s


@table.runs(*SIGNS)
def a_tensor_that_goes_out_as_well(x, s):
    y = x * 2
    z = y if s > 0 else None
    best = None
    for k in range(2):
        if s > k:
            best = y
    return z, y, best, {"y": y}


@table.runs(*SIGNS)
def a_number(x, s):
    if s > 1:
        return 2
    if s > 0:
        return True
    return None


@table.runs(*SIGNS)
def items_of_a_result(x, s):
    found = {"first": None, "second": None}
    if s > 0:
        found["first"] = x
    elif s < -1:
        found["second"] = x * s
    return found, [found["first"], None]


@table.runs(*SIGNS)
def an_item_within(x, s):
    r = None
    if s > 0:
        r = x, None
        if s > 1:
            r = x, x
    return r


@table.runs(*SIGNS)
def an_object(x, s):
    if s > 0:
        return SimpleNamespace(x=x, s=s * 2)
    return None


@table.runs(*SIGNS)
def asked_for_where_it_is_used(x, s):
    y = the_first_that_is_negative(x * s)
    y = y if y is not None else s
    z = a_pair(x, -s)
    return y * 2 if z is None else y + hy.sum(z[0])


@table.runs((X, i64(0)), (X, i64(2)), (-X, i64(3)))
def found_in_a_loop(xs, n):
    best = None
    for i in range(n):
        if xs[i] > 0 and (best is None or xs[i] > best):
            best = xs[i]
    return best


@table.runs(*SIGNS)
def the_same_tensor_or_none(x, s):
    y = x * 2
    return y, (y if s > 0 else None)


@table.runs(*SIGNS)
def of_a_module(x, s):
    class Gate(nn.Module):
        def forward(self, x, s):
            if s > 0:
                return x * s

    gated = Gate()(x, s)
    if gated is None:
        return hy.max(x)
    return hy.sum(gated)


@table.runs(*SIGNS)
def an_attribute_that_one_path_adds(x, s):
    p = SimpleNamespace(x=x)
    if s > 0:
        p.extra = [x, x * 2]
    return p


def kept_in_an_attribute():
    state = SimpleNamespace(last=None)

    def program(x, s):
        if s > 0:
            state.last = [x, x * s]
        return s

    return program, state


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()


def test_what_an_attribute_holds() -> None:
    same(kept_in_an_attribute, calls=SIGNS, make=True, grad=False)


def test_a_hybridized_module() -> None:
    class Gate(nn.Module):
        def forward(self, x):
            if hy.sum(x) > 0:
                return x * 2

    gate = Gate()
    eager = [gate(X), gate(-X)]
    gate.hybridize()
    found = [gate(X), gate(-X)]
    assert eager[1] is None is found[1]
    assert (found[0] == eager[0]).all() and len(gate.plans) == 1


def test_results_that_wait() -> None:
    """Queued calls: whether there is a result is known when it is there."""
    find = hy.hybridize(the_first_that_is_negative)
    with hy.stream():
        assert find(hy.abs(X)) is None
        assert find(X).item() == -2.0
