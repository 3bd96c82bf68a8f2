"""Cached properties that are first read under conditions and in loops."""

# ruff: noqa: SIM108  the programs are about these forms

from __future__ import annotations

from functools import cached_property

from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]


class Lazy:
    """Counts how often its value is computed."""

    def __init__(self, x):
        self.x = x
        self.computed = 0

    @cached_property
    def value(self):
        self.computed += 1
        if self.x > 1:
            return self.x * 10
        return self.x - 1


@table.runs(*NUMBERS)
def cached_in_both_branches(x):
    a = Lazy(x)
    if x > 0:
        y = a.value
    else:
        y = a.value * 3
    return y, a.value, a.computed


@table.runs(*NUMBERS)
def cached_in_one_branch(x):
    a = Lazy(x)
    y = x
    if x > 0:
        y = a.value
        a.x = x * 100
    return y, a.value, a.value, a.computed


@table.runs(*STARTS)
def cached_in_a_loop(x):
    a = Lazy(x)
    while a.x < 60:
        a.x = a.x + a.value * a.value + 1
    return a.x, a.value, a.computed


@table.runs(*STARTS)
def cached_in_a_branch_of_a_loop(x):
    a = Lazy(x)
    total = x * 0
    for i in range(4):
        if x > i:
            total = total + a.value
        a.x = a.x + 1
    return total, a.value, a.computed


@table.runs(*NUMBERS)
def cached_set_and_deleted(x):
    a = Lazy(x)
    if x > 0:
        a.value = x * 7
    y = a.value
    del a.value
    a.x = x + 5
    return y, a.value, a.computed


@table.runs(*NUMBERS)
def cached_of_a_class_made_here(x):
    class Inner:
        @cached_property
        def value(self):
            return x * 2 if x > 1 else x

    a = Inner()
    if x > 0:
        y = a.value
    else:
        y = x
    return y, a.value


@table.makes(*NUMBERS)
def cached_of_an_outer_object():
    class Scale:
        def __init__(self, x):
            self.x = x

        @cached_property
        def double(self):
            return self.x * 2 if self.x > 1 else self.x

    a = Scale(f32(3.0))

    def run(x):
        y = a.double * x
        a.x = x
        return y

    return run, a


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
