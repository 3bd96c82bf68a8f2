"""Programs that once went wrong, by what went wrong."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.control.harness import Program, Table, draw, f32

table = Table()
X = f32([0.5, -1.0, 2.0])


@table.runs((X, f32(1.0)), (X, f32(-1.0)), grad=False)
def a_list_bound_anew_on_one_path_and_changed_on_the_other(x, s):
    xs = [x * 3.0, x + 1.0]
    if s > 0:
        xs = [*xs[1:], x]
    else:
        xs.append(x)
        xs.pop(0)
    return sum(xs)


@table.runs(f32([3.0, 1.0, 2.0, 5.0]))
def an_attribute_counted_under_a_condition_in_a_loop(x):
    bag = SimpleNamespace(n=0)
    for v in x:
        if v > 1:
            bag.n += 1
    return bag.n


@table.runs(draw(5, 3), draw(5, 3, seed=1))
def the_index_of_the_largest(x):
    best, where = hy.sum(x[0]), 0
    for i in range(1, x.shape[0]):
        s = hy.sum(x[i])
        if s > best:
            best, where = s, i
    return best, where


@table.runs(X, -X)
def a_name_that_one_branch_binds_and_the_other_reads(x):
    if x[0] > 0:
        x = x + 1
    else:
        return x
    return x * 3


@table.runs(f32(1.0), f32(30.0))
def a_list_made_anew_in_each_iteration(x):
    while x < 50:
        best = []
        for _ in range(2):
            y = x + 1
            best.append(y)
        x = x + hy.sum(hy.stack(best))
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
