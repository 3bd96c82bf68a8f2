"""Lists and objects that are bound anew, and changed where that has to be seen elsewhere.

Each path through the construct that binds them is captured by itself, which programs cannot do.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, ProgramError
from tests.staging.harness import f32, i64, same
from tests.staging.loops.test_rebound import Frozen, State

WHY = (
    "is a new list on one path and one that others can see on another, so who sees the change "
    "would depend on the run."
)


def refusal(function: Any, *args: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(*args)
    return shown(caught.value)


def shown(error: Any) -> str:
    assert error.at is not None and error.at.path == __file__
    return f"{error.what} [{error.at.text}] {error.why} [{error.fix}]"


def unexported(function: Any, *args: Any, same_bits: bool = True) -> str:
    """What is said where one graph has to hold all paths; it runs as eagerly otherwise."""
    calls = [args, tuple([-a if isinstance(a, hy.Tensor) and a.ndim == 0 else a for a in args])]
    if same_bits:
        same(function, calls=[*calls, *calls], plans=2)
    with pytest.raises(ProgramError) as caught:
        hy.export(function, os.devnull, *args)
    return shown(caught.value).removeprefix(f"{function.__name__} cannot be exported: ")


def test_a_list_that_others_see() -> None:
    def alias(x):
        o = SimpleNamespace(xs=[x])
        ys = o.xs
        if x > 0:
            o.xs = list(o.xs)
        o.xs.append(x)
        return ys, o.xs

    def other(x):
        xs = [x]
        ys = xs
        if x > 0:
            xs = list(xs)
        ys.append(x)
        return ys, xs

    fix = "bind a new list on every path, or change the old one in place on every path"
    for function, line in ((alias, "o.xs.append(x)"), (other, "ys.append(x)")):
        told = unexported(function, f32(1.0))
        assert told.startswith(
            "a list was changed that is one or another, depending on the value of a tensor "
            f"[{line}] What was bound at {__file__}:"
        )
        assert told.endswith(f" {WHY} [{fix}]")


def test_which_of_two_lists_it_is() -> None:
    def f(x):
        xs = ys = [x]
        if x > 0:
            xs = list(xs)
        return xs is ys

    assert unexported(f, f32(1.0)) == (
        "two objects (list) were compared by `is`, and which of several they are depends on the "
        "value of a tensor [return xs is ys] A plan keeps no objects of which a run decides which "
        "they are. [compare what they hold, or keep a flag beside them]"
    )


def test_a_list_among_the_arguments() -> None:
    def f(xs, x):
        if x > 0:
            xs = [*xs, x]
        xs.append(x)
        return xs

    assert "a list was changed" in unexported(f, [f32(1.0)], f32(1.0))


def test_a_list_that_others_see_in_a_loop() -> None:
    def before(x, n):
        xs = ys = [x]
        for _ in range(n):
            xs[0] = xs[0] + 1
            xs = list(xs)
        return xs, ys

    def handed_on(x, n):
        xs, ys = [x], [x]
        for _ in range(n):
            xs[0] = xs[0] + ys[0]
            xs = ys = list(xs)
        return xs, ys

    assert "a list was changed" in unexported(before, f32(1.0), i64(2))
    assert unexported(handed_on, f32(1.0), i64(2)) == (
        "ys is changed in a loop, and is a list that others hold in the next iteration "
        "[for _ in range(n):] All iterations are one piece of graph, in which a variable that is "
        "bound anew is an object of its own: who sees the change of a list would be lost. "
        "[let only one name hold the list, or bind the name to a copy in each iteration]"
    )


def by_count() -> Any:
    state = SimpleNamespace(xs=[f32(1.0), f32(2.0)])

    def run(x):
        xs, n = [x, x], 0
        while x > 0:
            n += 1
            if n > 2:
                break
            xs.reverse()
            xs = state.xs
        return x

    return run, state


def by_test() -> Any:
    state = SimpleNamespace(xs=[f32(1.0), f32(2.0)])

    def run(x):
        xs, n = [x, x], 0
        while x > n:
            n += 1
            xs.append(x)
            xs = state.xs
        return x

    return run, state


@pytest.mark.parametrize("make", [by_count, by_test])
def test_a_list_from_outside_that_the_next_iteration_changes(make: Any) -> None:
    same(make, calls=[f32(v) for v in (3.0, -3.0, 3.0, -3.0)], make=True)
    function, state = make()
    told = unexported(function, f32(3.0), same_bits=False)
    assert told.startswith(
        "xs is changed in a loop, and is a list that others hold in the next iteration "
    )
    assert told.endswith(
        "[let only one name hold the list, or bind the name to a copy in each iteration]"
    )
    assert [v.item() for v in state.xs] == [1.0, 2.0]


def test_a_list_of_two_kinds_that_a_path_leaves() -> None:
    """It is refused, though it is gone over before."""
    rows = [1.0]

    def function(x):
        weighted = [row * k for k, row in enumerate(rows)]
        if hy.sum(x) > 0:
            rows.append(x)
            rows.pop(0)
        return weighted

    told = refusal(function, f32([3.0, 1.0]))
    assert told.startswith("a list[0] is f32[2] where the condition holds, and 1.0 where it does")
    assert rows == [1.0]


def test_an_object_that_others_see() -> None:
    def f(x):
        s = t = State(x, 1)
        if x > 0:
            s = State(x * 2, 2)
        s.a = x * 3
        return s.a, t.a

    assert unexported(f, f32(1.0)).startswith("a State was changed that is one or another")


def test_an_object_whose_attributes_change_their_kind() -> None:
    def grows(x):
        s = State(Frozen(x, 1), 0)
        while s.a.a < 4:
            s = State(Frozen(s.a.a + 1, hy.stack([s.a.a, s.a.a])), s.b + 1)
        return s.a.a

    def appends(x):
        s = State(x, [], "s")
        while s.a < 4:
            s = State(s.a + 1, [*s.b, x], "s")
        return s.a

    line = grows.__code__.co_firstlineno + 2
    assert refusal(grows, f32(1.0)) == (
        f"s.a.b is f32[2] ({__file__}:{line}) with an iteration, and 1 without one "
        "[while s.a.a < 4:] Which of the two it is depends on the value of a tensor, and a graph "
        "needs one type and structure. [give s.a.b the same type, shape and structure on both "
        "paths]"
    )
    assert refusal(appends, f32(1.0)) == (
        "s is bound to another State in each iteration of this loop: s.b is a list of 1 before an "
        "iteration, and a list of 2 after it [while s.a < 4:] The loop depends on the value of a "
        "tensor, so all its iterations are one piece of graph, with one type and structure for "
        "each attribute. [set the attributes of one State in place, or give them their final kind "
        "before it]"
    )
