"""What a loop leaves of the iteration before: values that names and places had at its beginning."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
ROWS = f32([[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]])
CALLS = [(f32([1.0, 2.0]), f32(0.25)), (f32([-1.0, 3.0]), f32(-0.5))]


def state():
    return SimpleNamespace(v=hy.ones(2), w=hy.ones(2) * 2, d={"a": hy.ones(2) * 3})


@table.runs(*CALLS)
def a_name(x, s):
    before = x
    w = x
    for _ in range(4):
        before = w
        w = w - s
    return before


@table.runs(*CALLS)
def a_name_that_only_the_body_binds(x, s):
    for _ in range(4):
        before = x
        x = x * s
    return before, x, before is x


@table.runs(*CALLS)
def once(x, s):
    before, w = s, x
    for _ in range(1):
        before = w
        w = w - s
    return before, w, before is x


@table.runs(*CALLS)
def two_iterations_before(x, s):
    first = second = w = x
    for _ in range(4):
        first = second
        second = w
        w = w - s
    return first, second, w, first is x, second is x


@table.runs((ROWS, f32(0.25)), (-ROWS, f32(3.0)))
def over_rows(x, s):
    before = w = s
    for row in x:
        before = w
        w = w - hy.sum(row)
    return before, w


@table.runs(*CALLS, identity=False)
def written_afterwards(x, s):
    before = w = x * 1
    other = before
    for _ in range(4):
        before = other = w
        w = w - s
    before += 1
    return before, other, w, x


@table.runs(*CALLS)
def changed_on_one_path(x, s):
    before = w = x
    for _ in range(4):
        before = w
        if hy.sum(w) > 2.2:
            w = w - s
    return before, w, before is w, before is x


@table.runs(*CALLS)
def handed_from_name_to_name(x, s):
    w, y = x, x * 2
    for _ in range(3):
        before = w
        w = y
        y = y + s
    return before, w, y


@table.runs(*CALLS)
def until_a_test(x, s):
    before = w = x
    while hy.sum(w) > -9.0:
        before = w
        w = w - 1
    return before, w


@table.makes(*CALLS)
def an_attribute():
    st = state()

    def run(x, s):
        for _ in range(4):
            before = st.v
            st.v = st.v - s
        return before

    return run, st


@table.makes(*CALLS)
def an_item():
    st = state()

    def run(x, s):
        before = x
        for _ in range(4):
            before = st.d["a"]
            st.d.update(a=x - s)
        return before

    return run, st


@table.makes(*CALLS)
def attributes_that_change_places():
    st = state()

    def run(x, s):
        for _ in range(3):
            before = st.v
            st.v = st.w
            st.w = before * s
        return before, st.v is before

    return run, st


@table.makes(*CALLS)
def into_another_attribute():
    st = state()

    def run(x, s):
        for _ in range(4):
            st.w = st.v
            st.v = st.v - s
        return st.w

    return run, st


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()
