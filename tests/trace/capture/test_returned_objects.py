"""Objects that are returned: made anew at each call, with the attributes of that call."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, describe, f32, i64

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = 0


class Slotted:
    __slots__ = ("a", "unset")

    def __init__(self, a):
        self.a = a


class Refusing:
    """Neither its __init__ nor its __setattr__ is asked again."""

    def __init__(self, a):
        object.__setattr__(self, "a", a)

    def __setattr__(self, name, value):
        raise TypeError(name)


@table.runs(*NUMBERS)
def objects(x):
    return Frozen(x * 2, [x, {"k": Frozen(x + 1, 3)}]), SimpleNamespace(u=(x * 3, None), n=2)


@table.runs(*NUMBERS)
def object_with_hooks(x):
    return Refusing(x * 2), (Refusing([x]),)


@table.runs(*NUMBERS)
def object_of_a_loop(x):
    s = Frozen(x)
    while s.a < 5:
        s = Frozen(s.a + 1, s.b + 1)
    return s


@table.runs(*NUMBERS)
def object_of_either_branch(x):
    if x > 0:
        return Frozen(x, 1)
    return Frozen(x * 2, 2)


@table.runs(*NUMBERS)
def object_without_tensors(x):
    return SimpleNamespace(n=3, shape=x.shape, names=["a"]), x * 1


@table.runs(*NUMBERS)
def object_that_may_be_none(x):
    best, n = None, 0
    for i in range(3):
        if x > i:
            best = Frozen(x * i, i)
            n += 1
    return {"best": best if n is None else 0, "n": n}


@table.runs(*NUMBERS)
def object_of_a_class_made_here(x):
    @dataclass
    class Local:
        a: Any

        def scaled(self):
            return Local(self.a * 3)

    return [Local(x), Local(x).scaled()]


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_each_call_makes_its_own() -> None:
    @hy.hybridize
    def f(x):
        s = SimpleNamespace(v=x, doubled=x * 2, n=1)
        s.me, s.pair = s, [s, Slotted(s)]
        return s, s

    made = []
    for value in (1.0, 2.0, 3.0):
        x = f32(value)
        s, again = f(x)
        assert s is again is s.me is s.pair[0] is s.pair[1].a
        assert s.v is x and s.doubled.item() == 2 * value and s.n == 1
        assert not hasattr(s.pair[1], "unset")
        s.n = 5
        made.append(s)
    assert len({id(s) for s in made}) == 3
    assert [s.doubled.item() for s in made] == [2.0, 4.0, 6.0]
    assert len(f.plans) == 1


def test_an_argument_is_itself() -> None:
    def f(s, x):
        s.a = s.a + x
        return s, [Frozen(s.a, s)]

    hybridized = hy.hybridize(f)
    for start in (1.0, 10.0):
        s, t = SimpleNamespace(a=f32(start)), SimpleNamespace(a=f32(start))
        for value in (0.5, 2.0):
            found, [frozen] = hybridized(s, f32(value))
            f(t, f32(value))
            assert found is s and frozen.b is s and describe(s) == describe(t)
            assert describe(frozen.a) == describe(s.a)


def test_gradients_flow_to_attributes() -> None:
    def f(x):
        s = Frozen(x * x, [x * 3])
        if x > 1:
            s = Frozen(s.a * 2, s.b)
        return s

    for value in (0.5, 3.0):
        grads = []
        for function in (f, hy.hybridize(f)):
            x = f32(value)
            x.requires_grad = True
            s = function(x)
            (s.a + s.b[0]).backward()
            grads.append(describe(x.grad))
        assert grads[0] == grads[1]


def refusal(function: Any, *args: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(*args)
    return f"{caught.value.what} {caught.value.why} [{caught.value.fix}]"


def test_what_computes_later_is_refused() -> None:
    def generates(x):
        return SimpleNamespace(items=(v for v in (x, x * 2)))

    def closes_over(x):
        return Frozen(lambda: x + 1)

    def keeps_a_set(x):
        return SimpleNamespace(seen={"x": {x.shape: x}.items()})

    assert refusal(generates, f32(1.0)) == (
        "generates returned a generator It computes its values after the capture has ended, and "
        "only once. [return a tuple or a list of tensors]"
    )
    assert refusal(closes_over, f32(1.0)) == (
        "closes_over returned a function that holds a traced tensor (its variable x) Only "
        "tuples, lists, dicts and plain objects of tensors can be returned. [return the tensors "
        "in one of those]"
    )


def test_numbers_of_a_run() -> None:
    def f(x, n):
        s = Frozen(0, 0)
        for i in range(n):
            s = Frozen(i, s.b + i)
        return s

    hybridized = hy.hybridize(f)
    for n in (0, 1, 4):
        assert describe(hybridized(f32(1.0), i64(n))) == describe(f(f32(1.0), i64(n)))
