"""Variables that nested functions share, in branches that bind them before those functions do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, f32, same

table = Table()
CALLS = [(f32(a), f32(0.25), f32(b)) for a in (1.0, -1.0) for b in (1.0, -1.0)]


@table.runs(*CALLS)
def bound_in_a_branch_and_rebound(x, s, t):
    v, i = x, 1

    def reader():
        return v + i

    if t > 0:
        if x > 0:
            v = x * 2

        def rebind():
            nonlocal v, i
            v, i = s, 2

        rebind()
    return v, i, reader()


@table.runs(*CALLS, covered=False)
def unbound_before(x, s, t):
    if x > 5:

        def reader():
            return v

    if t > 0:
        if x > 0:
            v = x

        def rebind():
            nonlocal v
            v = s

        rebind()
        return v
    return x


@table.runs(*CALLS)
def in_a_loop(x, s, t):
    v = x

    def reader():
        return v

    for _ in range(3):
        if hy.sum(v) > 0:
            v = v * 2

        def rebind():
            nonlocal v
            v = v + s

        if t > 0:
            v = v - 1
            rebind()
    return v, reader()


@table.runs(*CALLS)
def both_branches(x, s, t):
    v = x

    def rebind(by):
        nonlocal v
        v = v + by

    if t > 0:
        v = x * 3
        rebind(s)
    else:
        v = x * 5
        rebind(-s)
    return v


@table.runs(*CALLS)
def behind_a_finally(x, s, t):
    v = w = x
    try:
        raise TypeError("low")
    except TypeError:

        def rebind():
            nonlocal w
            w = v + 0 if v is w else v * 2
            return w

        for _ in range(3):
            v = rebind() + v
    finally:
        w = (lambda z: z * v)(w)
    return v, w


@table.runs((f32([3.0, 1.0]), f32(1.0)), (f32([3.0, 1.0]), f32(-1.0)))
def bound_by_patterns(x, s):
    v, w, rest = x * 2, x, {}

    def inner():
        nonlocal v, w, rest
        match [x + 1, {"a": x * 3, "b": x}]:
            case [v, {"a": w, **rest}]:
                pass

    if s > 0:
        inner()
    return v, w, len(rest) if s.ndim else 0


@table.runs(*[(f32([a]), f32(2.5)) for a in (0.5, 0.25, 0.0)], covered=False)
def an_object_beside_a_path_that_raises(x, s):
    o = SimpleNamespace(v=x, s=s)

    def rebind():
        nonlocal o

    if x == 0.5:
        pass
    elif x:
        nowhere  # noqa: B018, F821  raises
    else:
        o = SimpleNamespace(v=x * 2, s=hy.min(x))
    return o.s


def changed_in_a_second_loop():
    state = SimpleNamespace(s=hy.zeros(()))
    state.s.requires_grad = True

    def program(x):
        xs, total = [x], hy.sum(x)
        for _ in range(2):
            while total > -1.25:

                def again():
                    nonlocal total, xs
                    total -= 0.5
                    xs.pop()
                    total = state.s  # no leaf may be changed in place: the next iteration raises

                again()
        return total

    return program, state


def kept_in_a_list_that_iterations_replace():
    state = SimpleNamespace(v=(), s=hy.zeros(()), xs=[])

    def program(x, s):
        while state.s:
            if s:
                state.xs = [x]
                state.xs[0], state.v = state.v, state.v

    return program, state


@pytest.mark.parametrize(
    ("make", "calls"),
    [
        (changed_in_a_second_loop, [f32(0.25), f32(-2.0)]),
        (kept_in_a_list_that_iterations_replace, [(f32(2.5), f32(2.5)), (f32(2.5), f32(0.0))]),
    ],
)
def test_what_iterations_make_is_not_from_outside(make, calls) -> None:
    same(make, calls=calls, make=True, may_refuse=True)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()
