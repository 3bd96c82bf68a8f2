"""Whether a result requires a gradient, where paths and loops hand on what has a history."""

from __future__ import annotations

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = [(f32([1.0, 2.0]), f32(1.0)), (f32([0.5, -2.0]), f32(-1.0))]


@table.runs(*CALLS)
def under_no_grad_in_a_branch(x, s):
    w = v = x * 1.0
    with hy.no_grad():
        if s > 0:
            v = w * 2
    return v, w


@table.runs(*CALLS)
def under_no_grad_in_a_loop(x, s):
    v = x * 1.0
    with hy.no_grad():
        for _ in range(3):
            if s > 0:
                continue
            v = x * 2
    return v


@table.runs(*CALLS)
def under_no_grad_until_a_test(x, s):
    v = x * 1.0
    with hy.no_grad():
        while hy.sum(v) > 1 and s > 0:
            v = v / 2
    return v


@table.runs(*CALLS)
def constants_in_a_loop(x, s):
    d = x
    for _ in range(3):
        d = hy.ones(2) * 2
    return d


@table.runs(*CALLS)
def detached_in_a_loop(x, s):
    d = x
    for _ in range(3):
        d = (x * 2).detach()
    return d


@table.runs(*CALLS)
def gradients_in_a_loop(x, s):
    d = x
    for _ in range(3):
        d = hy.grad(lambda v: hy.sum(v * 2))(x)
    return d


@table.runs(*CALLS)
def shown_under_no_grad(x, s):
    z = x * 2
    with hy.no_grad():
        print(x, s * 2, f"{x}, {z}", [z])
        print(z + 1)
    return z


@table.runs(*CALLS)
def shown_behind_a_branch(x, s):
    v = x.detach()
    if s > 0:
        v = x * 2
    print(v, f"{v}", [v])
    return v * 2


@table.runs(*CALLS)
def shown_behind_a_loop(x, s):
    v = x.detach()
    for _ in range(3):
        if s > 0:
            v = x * 2
    print(v)
    return v


W = f32([1.0, 3.0])
W.requires_grad = True


@table.runs(*CALLS)
def detached_in_an_iteration_that_comes_before(x, s):
    v, total = x.detach(), hy.zeros(2)
    for _ in range(3):
        total = total + v.detach()
        v = W * s
    return total, v


@table.runs(*CALLS)
def under_no_grad_before_there_is_a_history(x, s):
    v, total = x.detach(), hy.zeros(2)
    for _ in range(3):
        with hy.no_grad():
            total = total + v * 2
        v = W * s
    return total, v


@table.runs(*CALLS)
def a_loop_under_no_grad_that_enables_gradients(x, s):
    v, total = x.detach(), hy.zeros(2)
    with hy.no_grad():
        for _ in range(3):
            if s > 0:
                total = total + v * 2
            with hy.enable_grad():
                v = W * s
    return total, v


@table.runs(*CALLS)
def a_leaf_handed_on_under_no_grad(x, s):
    v, total = x.detach(), hy.zeros(2)
    with hy.no_grad():
        while s > -3:
            total = total + v * 2
            v = W
            s = s - 1
    return total


@table.runs(*CALLS)
def written_in_place_in_a_loop_that_may_have_no_iteration(x, s):
    v = x * 2.0
    while s > 0:
        with hy.no_grad():
            v += 2.0
        s = s - 1
    return v, v * x


def test_nothing_is_cut_where_nothing_gets_a_history() -> None:
    @hy.hybridize
    def program(x):
        for _ in range(5):
            x = hy.tanh(x) * 2
        return x

    x = hy.asarray([1.0, 2.0])
    with hy.no_grad():
        assert "stop_gradient" not in str(program.graph(x))


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()
