"""Loops in a ``try`` whose iterations always raise something.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: TRY301, RET506, RUF100  the programs are about these

import contextlib

from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = tuple([f32(v) for v in (2.5, -1.0, 0.5, 1.5, 7.0)])
ROWS = f32([0.5, -1.0, 2.0])


@table.runs(*NUMBERS)
def every_iteration_raises(x):
    try:
        while x > 0:
            x = x - 1
            raise ValueError
    except ValueError:
        x = x * 3
    return x


@table.runs(*NUMBERS)
def one_error_or_another(x):
    try:
        while x > 0:
            x = x - 1
            if x > 2:
                raise KeyError
            else:
                raise ValueError("v", x)
    except (ValueError, KeyError) as e:
        x = x * 3 + len(e.args)
    return x


@table.runs(*NUMBERS)
def with_what_the_iteration_has_made(x):
    def halved(x):
        while x > 0:
            x = x - 1
            raise ValueError(x * 0.5)
        return x * 4

    try:
        y = halved(x)
    except ValueError as e:
        y = e.args[0] * 3
    return y


@table.runs(*NUMBERS)
def from_a_finally(x):
    with contextlib.suppress(ValueError):
        while x > 0:
            x = x - 1
            try:
                x = x * 2
            finally:
                raise ValueError
    return x


@table.runs(*NUMBERS)
def in_an_inner_loop(x):
    try:
        while x > 0:
            x = x - 1
            while x > 1:
                x = x * 0.5
                raise ValueError
    except ValueError:
        x = x * 3
    return x


@table.runs(*[(x, ROWS) for x in NUMBERS])
def over_rows(x, rows):
    try:
        for row in rows:
            x = x - row
            if x > 1:
                raise ValueError
            else:
                raise ValueError(1)
    except ValueError as e:
        x = x * 3 + len(e.args)
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
