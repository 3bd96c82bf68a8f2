"""A path not taken gives no history: requires_grad, and what backward reaches, are as eagerly."""

# ruff: noqa: SIM108, RUF100  the programs are about these

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import f32


def stored_on_one_path(st, x, s):
    if s > 5:
        st.v = x * 2
    return hy.sum(x * x) + hy.sum(st.v)


def only_of_the_path(st, x, s):
    v = st.v
    if s > 2:
        v = v + x
    return v


def nested(st, x, s):
    v = st.v * 1
    if s > 1:
        if s > 5:
            v = x * 3
        else:
            v = v + 1
    return v, v * 2


def in_a_loop(st, x, s):
    v = st.v * 1
    while s > 3:
        v, s = v + x, s - 1
    return v


def in_a_branch_of_a_loop(st, x, s):
    v = st.v * 1
    for i in range(4):
        if s > 2 + i:
            v = v * x
    return v


def overwritten_in_a_loop(st, x, s):
    v = x * 1
    while s > 3:
        v, s = st.v * 2, s - 1
    return v


def loop_with_a_detour(st, x, s):
    v, w = x * 1, st.v * 1
    while s > 3:
        v, w, s = w, v, s - 1
    return v, w


def assigned(st, x, s):
    if s > 3:
        st.v.assign(x * 2)
    return st.v + 1


def item_of_a_list(st, x, s):
    if s > 3:
        st.items[0] = x * 2
    return st.items[0]


def detached(st, x, s):
    y = x * 2
    if s > 3:
        y = y.detach()
    return y, y + 1


def unrecorded(st, x, s):
    y = st.v
    if s > 3:
        with hy.no_grad():
            y = x * 2
    elif s > 2:
        y = x * 3
    return y


def early(st, x, s):
    if s > 5:
        return x * 2
    if s > 3:
        return st.v
    return hy.zeros((2,)) + st.v


def beside_a_sure_one(st, x, s):
    y = st.v
    if s > 3:
        y = x * 2
    return y + x, y


def chosen_operand(st, x, s):
    y = x if s > 3 else st.v
    z = st.v if s > 5 else y
    return y * 2, hy.sum(z)


PROGRAMS: list[Callable[..., Any]] = [
    stored_on_one_path, only_of_the_path, nested, in_a_loop, in_a_branch_of_a_loop,
    overwritten_in_a_loop, loop_with_a_detour, assigned, item_of_a_list, detached, unrecorded,
    early, beside_a_sure_one, chosen_operand,
]  # fmt: skip


def steps(function: Callable[..., Any], keeps: bool) -> list[Any]:
    """What six calls give and leave, of one state, or of a new one each time."""
    found, st = [], None
    for s in (0.0, 4.0, 6.0, 2.5, 0.0, 3.5):
        if st is None or not keeps:
            st = SimpleNamespace(v=f32([5.0, 6.0]), items=[f32([7.0, 8.0])])
        x = f32([1.0, -2.0])
        x.requires_grad = True
        try:
            result = function(st, x, f32(s))
            results = result if isinstance(result, tuple) else (result,)
            every = [*results, st.v, *st.items]
            found.append([(t.requires_grad, t.tolist()) for t in every])
            with_history = [t for t in every if t.requires_grad]
            if with_history:
                sum(hy.sum(t * (n + 1.5)) for n, t in enumerate(with_history)).backward()
            found.append(None if x.grad is None else x.grad.tolist())
        except hy.errors.GradientError as error:
            found.append(str(error).splitlines()[0])
    return found


@pytest.mark.parametrize("keeps", [False, True], ids=["anew", "kept"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_histories_are_those_of_the_path(program: Callable[..., Any], keeps: bool) -> None:
    assert steps(hy.hybridize(program), keeps) == steps(program, keeps)


def test_histories_that_are_certain_cost_nothing() -> None:
    def f(x, s):
        for _ in range(3):
            if s > 0:
                x = x * 2
            else:
                x = x * 3
        while s > 1:
            x, s = x + 1, s - 1
        return hy.sum(x)

    x = f32([1.0, 2.0])
    x.requires_grad = True
    fast = hy.hybridize(f)
    assert fast(x, f32(2.5)).requires_grad
    ((planned,),) = fast._table.plans.values()
    assert planned.capture.gradient.presence_flags == (-1,)
