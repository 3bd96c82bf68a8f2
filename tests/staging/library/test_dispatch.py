"""``functools.singledispatch``: what the class of an argument selects is the author's code."""

from __future__ import annotations

import functools

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = (f32([1.0, 2.0]), f32([-3.0, 1.0]))
SCALE = 2.0


@functools.singledispatch
def scaled(value):
    return "of another class"


@scaled.register
def _(value: int):
    return value + 1


@scaled.register
def _(value: hy.Tensor):
    if value.sum() > 0:
        return value * SCALE
    return -value


class Scaler:
    def __init__(self, by):
        self.by = by

    @functools.singledispatchmethod
    def scaled(self, value):
        return value * 3

    @scaled.register
    def _(self, value: hy.Tensor):
        if value.sum() > 0:
            value = value * self.by
        return value


@table.runs(*CALLS, plans=1)
def a_function(x):
    return scaled(x) + scaled(3), scaled("text")


@table.runs(*CALLS, plans=1)
def a_number_of_the_run(x):
    return scaled(int(x.sum())), scaled(x)


@table.makes(*CALLS, plans=1)
def a_method():
    scaler = Scaler(2.0)
    return lambda x: scaler.scaled(x) + scaler.scaled(2)


@table.each()
def test_programs(program: Program) -> None:
    program.check()


def test_the_function_itself_is_hybridized() -> None:
    function = hy.hybridize(scaled)
    for x in CALLS:
        assert function(x).tolist() == scaled(x).tolist()


def test_what_is_registered_or_changed_later_is_noticed() -> None:
    @functools.singledispatch
    def changed(value):
        return value * factor[0]

    factor = [1.0]
    function = hy.hybridize(lambda x: changed(x))
    x = f32([1.0])
    assert function(x).tolist() == [1.0]
    factor[0] = 2.0
    assert function(x).tolist() == [2.0]
    changed.register(hy.Tensor, lambda value: value * 5)
    assert function(x).tolist() == [5.0]


def test_the_globals_of_what_is_registered_are_guarded(monkeypatch) -> None:
    function = hy.hybridize(a_function)
    assert function(CALLS[0])[0].tolist() == [6.0, 8.0]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert function(CALLS[0])[0].tolist() == [7.0, 10.0]
