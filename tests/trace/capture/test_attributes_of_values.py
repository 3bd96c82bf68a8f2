"""Attributes of named tuples, and of the author's kinds of numbers, texts and containers."""

from __future__ import annotations

import collections
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.tree import describe as described
from hybrid.core.tree import flatten, unflatten
from hybrid.errors import CaptureError
from tests.trace.observed import Hybridize, Program, hybridized, require_same, seen, t


class Pair(collections.namedtuple("Pair", "a b")):
    pass


def pair(a: Any, b: Any, **attributes: Any) -> Pair:
    made = Pair(a, b)
    vars(made).update(attributes)
    return made


def test_a_tree_has_them() -> None:
    leaves, structure = flatten([pair(1, 2, extra=3), Pair(1, 2)])
    assert leaves == [1, 2, 3, 1, 2]
    assert described(structure) == "[Pair(*, *, *), Pair(*, *)]"
    first, second = unflatten(structure, leaves)
    assert type(first) is type(second) is Pair
    assert (vars(first), vars(second)) == ({"extra": 3}, {})
    assert flatten(pair(1, 2, extra=3))[1] == flatten(pair(4, 5, extra=6))[1]
    assert flatten(pair(1, 2, extra=3))[1] != flatten(pair(4, 5, other=6))[1]


def returned(hybridize: Hybridize) -> list[Any]:
    def make(x: Any) -> Any:
        made = Pair(x, x)
        made.extra = x * 2
        return made

    f = hybridize(make)
    return [seen(f(t(v))) for v in (1.0, 2.0)]


def stored(hybridize: Hybridize) -> list[Any]:
    state, found = SimpleNamespace(pair=None), []

    def put(x: Any) -> None:
        state.pair = Pair(x, x)
        state.pair.extra = x * 3

    f = hybridize(put)
    for value in (1.0, 2.0, 2.0):
        f(t(value))
        found.append(seen(state.pair))
    return found


def given(hybridize: Hybridize) -> list[Any]:
    f = hybridize(lambda p: p.a * p.scale)
    scales = (1.0, 2.0, 2.0, t(3.0), t(4.0))
    return [f(pair(t(1.0), t(2.0), scale=scale)) for scale in scales]


def handed_on(hybridize: Hybridize) -> list[Any]:
    f = hybridize(lambda p: p)
    return [seen(f(pair(t(v), t(2.0), scale=v))) for v in (1.0, 2.0)]


def from_outside(hybridize: Hybridize) -> list[Any]:
    held, found = pair(t(1.0), 2.0, extra=t(0.0)), []

    def add(x: Any) -> None:
        held.extra = held.extra + x * held.b

    f = hybridize(add)
    for value in (1.0, 2.0):
        f(t(value))
        found.append(seen(held))
    return found


def equal_ones(hybridize: Hybridize) -> list[Any]:
    state = SimpleNamespace(pair=pair(1.0, 2.0, k=1.0))
    f = hybridize(lambda x: x * state.pair.k)
    found = [f(t(1.0))]
    state.pair.k = 5.0
    found.append(f(t(1.0)))
    state.pair = pair(1.0, 2.0, k=9.0)
    return [*found, f(t(1.0))]


def written_on_another(hybridize: Hybridize) -> list[Any]:
    state, found = SimpleNamespace(pair=Pair(1.0, 2.0)), []

    def put(x: Any) -> None:
        state.pair.k = x

    f = hybridize(put)
    for value in (1.0, 2.0):
        f(t(value))
        found.append(seen(state.pair))
    state.pair = Pair(1.0, 2.0)
    f(t(3.0))
    return [*found, seen(state.pair)]


def in_a_branch(hybridize: Hybridize) -> list[Any]:
    def step(x: Any) -> Any:
        made = Pair(x, x)
        made.k = x
        if x > 1:
            made.k = x * 10
        return made

    f = hybridize(step)
    return [seen(f(t(v))) for v in (1.0, 2.0)]


def step_in_a_loop(x: Any) -> Any:
    made = Pair(x, x)
    made.k = x
    for row in hy.stack([x, x + 1]):
        last = made
        made = Pair(last.a + row, last.b)
        made.k = last.k * row
    return made


def in_a_loop(hybridize: Hybridize) -> list[Any]:
    f = hybridize(step_in_a_loop)
    return [seen(f(t(v))) for v in (1.0, 2.0)]


@pytest.mark.parametrize(
    "program",
    [
        returned,
        stored,
        given,
        handed_on,
        from_outside,
        equal_ones,
        written_on_another,
        in_a_branch,
        in_a_loop,
    ],
)
def test_named_tuples(program: Program) -> None:
    require_same(program)


VALUES = {
    "text": (str, "ab"), "int": (int, 5), "float": (float, 2.5), "list": (list, [1, 2]),
    "dict": (dict, {"a": 1}), "tuple": (tuple, (1, 2)), "set": (set, [1]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), VALUES.values(), ids=VALUES)
def test_attributes_that_are_read_and_written(kind: Any, value: Any) -> None:
    made = type("Made", (kind,), {})

    def program(hybridize: Hybridize) -> list[Any]:
        held = made(value)
        state, found = SimpleNamespace(held=held), []
        held.k, held.total = 1.0, t(0.0)

        def add(x: Any) -> None:
            state.held.total = state.held.total + x

        f, g = hybridize(lambda x: x * state.held.k), hybridize(lambda held, x: x * held.k)
        h = hybridize(add)
        for factor in (1.0, 2.0, 2.0):
            held.k = factor
            h(t(factor))
            found += [f(t(1.0)), g(held, t(1.0)), held.total]
        state.held = made(value)
        state.held.k, state.held.total = 5.0, t(0.0)
        h(t(1.0))
        return [*found, f(t(1.0)), g(state.held, t(1.0)), state.held.total, held.total]

    require_same(program)


@pytest.mark.parametrize(("kind", "value"), VALUES.values(), ids=VALUES)
def test_each_call_returns_another(kind: Any, value: Any) -> None:
    made = type("Made", (kind,), {})

    def program(hybridize: Hybridize) -> list[Any]:
        def make(x: Any) -> Any:
            result = made(value)
            result.extra = 3.0
            return x, result

        f, found = hybridize(make), []
        for v in (1.0, 2.0, 3.0):
            result = f(t(v))[1]
            found.append([type(result).__name__, result == made(value), dict(vars(result))])
            result.extra = 77.0
        return found

    require_same(program)


FRESH = {
    "set": (lambda: {1, 2}, lambda s: s.add(9)),
    "deque": (lambda: collections.deque([[1]]), lambda d: d[0].append(9)),
    "bytearray": (lambda: bytearray(b"a"), lambda b: b.append(9)),
    "defaultdict": (lambda: collections.defaultdict(list, k=[]), lambda d: d["k"].append(9)),
    "Counter": (lambda: collections.Counter("k"), lambda c: c.update("k")),
    "array": (lambda: np.zeros(2), lambda a: a.fill(9)),
}


@pytest.mark.parametrize(("make", "change"), FRESH.values(), ids=FRESH)
def test_containers_that_each_call_makes(make: Any, change: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        f, found = hybridize(lambda x: (x, make())), []
        for v in (1.0, 2.0, 3.0):
            result = f(t(v))[1]
            found.append(repr(result))
            change(result)
        return found

    require_same(program)


def test_what_is_set_on_an_argument_is_refused() -> None:
    class Holder:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    def setting(make: Any) -> Program:
        def step(p: Any) -> Any:
            p.out = p.a * 2
            return p.b

        def program(hybridize: Hybridize) -> list[Any]:
            f, found = hybridize(step), []
            for value in (1.0, 2.0):
                given = make(t(value), t(2.0))
                found += [f(given), given.out]
            return found

        return program

    with pytest.raises(CaptureError) as caught:
        hybridized(setting(Pair))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("an attribute (out) is set on an argument, a Pair (/")
    assert lines[2:] == [
        "Named tuples among the arguments are made anew for each call: what is set on them would "
        "be lost.",
        "Fix: return the value, or pass an object of a class that is no tuple.",
    ]
    require_same(setting(Holder))


def either(x: Any) -> Any:
    if x > 1:
        made = Pair(x, x)
        made.k = x * 10
    else:
        made = Pair(x, x)
        made.k = x
    return made.a * 1.0


Fields = collections.namedtuple("Fields", "a b k")


def either_of_fields(x: Any) -> Any:
    made = Fields(x, x, x * 10) if x > 1 else Fields(x, x, x)
    return made.k + made.a


def test_choices_between_them_are_refused() -> None:
    with pytest.raises(CaptureError) as caught:
        hybridized(lambda hybridize: [hybridize(either)(t(1.0))])
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(
        "a Pair with an attribute of its own (k) is another one on each path or in each iteration ("
    )
    assert lines[2:] == [
        "Of tuples the items are followed through branches and loops, and not what is set on them.",
        "Fix: make k a field of Pair, or keep it in a variable of its own.",
    ]
    require_same(lambda hybridize: [hybridize(either_of_fields)(t(v)) for v in (1.0, 2.0)])
