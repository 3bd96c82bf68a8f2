"""Variables that some paths leave unbound: reading one raises what Python raises, in its words."""

from __future__ import annotations

from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = [f32(1.0), f32(-1.0)]


@table.runs(*CALLS)
def of_the_function(s):
    if s > 0:
        v = s
    return v


@table.runs(*CALLS)
def in_a_function_within(s):
    if s > 0:
        v = s

    def inner():
        return v

    return inner()


@table.runs(*CALLS)
def in_a_lambda(s):
    if s > 0:
        v = s
    return (lambda: v)()


@table.runs(*CALLS)
def in_a_comprehension(s):
    if s > 0:
        v = s
    return [v * i for i in range(2)]


@table.runs(*CALLS)
def in_a_generator(s):
    if s > 0:
        v = s
    return sum(v * i for i in range(2))


@table.runs(*CALLS)
def changed_by_a_function_within(s):
    def inner():
        nonlocal v
        v += 1

    if s > 0:
        v = s * 1
    inner()
    return v


@table.runs(*CALLS)
def in_an_operand_that_is_not_always_evaluated(s):
    if s > 0:
        v = s
    return s < 0 and v > 0


@table.runs(*CALLS)
def deleted(s):
    if s > 0:
        v = s
    del v
    return s


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()
