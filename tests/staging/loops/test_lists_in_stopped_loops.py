"""Lists that are longer on some paths of loops that stop on the value of a tensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hybrid as hy
from tests.staging.harness import Program, Table, f32, same

table = Table()
CALLS = [(f32(a), f32(b)) for a in (1.0, -1.0) for b in (1.0, -1.0)]


@table.runs(*CALLS)
def appended_where_it_goes_on(x, s):
    xs, ys = [x], []
    for _ in range(3):
        if x > 0:
            xs = [w for w in xs if s > 0]
            break
        ys.append(s)
    return xs, ys


@table.runs(*CALLS)
def filtered_and_left(x, s):
    xs = [x]
    for _ in range(3):
        if x > 0:
            xs = [w for w in xs if s > 0]
            break
    return xs


@table.runs(*CALLS)
def filtered_each_time(x, s):
    xs = [x]
    for _ in range(3):
        if x > 0:
            xs = [w for w in xs if s > 0]
    return xs


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()


def test_a_list_that_is_changed_and_then_replaced_on_one_path() -> None:
    """Each path is captured by itself."""

    def make() -> Any:
        st = SimpleNamespace(xs=[hy.ones(2)])
        st.first = st.xs

        def run(x, s):
            for _ in range(3):
                if s > 0:
                    st.xs[0] = x * 2
                    st.xs = [x]
            return st.xs[0]

        return run, st

    x = f32([1.0, 2.0])
    same(make, calls=[(x, f32(1.0)), (x, f32(-1.0)), (x, f32(2.0))], make=True)
