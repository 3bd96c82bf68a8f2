"""Variables that nested functions share, in branches that bind them before those functions do."""

from __future__ import annotations

import hybrid as hy
from tests.control.harness import Program, Table, f32

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


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()
