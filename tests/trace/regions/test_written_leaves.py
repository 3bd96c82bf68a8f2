"""Names that stand for a leaf on some paths, and are then assigned or changed in place.

The leaf goes on to require its own gradient; the name has that history on those paths alone.
"""

# ruff: noqa: SIM108, RUF100  the programs are about these

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import GradientError


def chosen_and_assigned(x, y, s):
    v = x
    if s > 0:
        v = x * 3
    v.assign(y)
    return v


def chosen_of_two(x, y, s):
    v = x if s > 0 else y
    v.assign(hy.stop_gradient(x) * 2)
    return v * y


def bound_in_a_loop_that_runs(x, y, s):
    found = {"a": x, "b": s}
    for _ in range(3):
        v = found.pop("a")
        found["a"] = v
    v.assign(y * 2)
    return v


def in_a_loop_that_may_not_run(x, y, s):
    v = x
    while s > 1:
        v, s = x * 3, s * 0
    v.assign(y)
    return v


def swapped_behind_a_loop(x, y, s):
    v, w = y, x
    while hy.sum(y) > hy.sum(v):
        w = x * 3
    v, w = w, v
    v.assign(y)
    return v


def changed_under_no_grad(x, y, s):
    v = x if s > 0 else x * 2
    with hy.no_grad():
        v += 1.0
    return v * y


def changed_in_place(x, y, s):
    v = x
    for _ in range(2):
        if s > 1:
            pass
        elif s > 0:
            v = x * 2
        break
    v += 0.5
    return v


PROGRAMS: list[Callable[..., Any]] = [
    chosen_and_assigned, chosen_of_two, bound_in_a_loop_that_runs, in_a_loop_that_may_not_run,
    swapped_behind_a_loop,
    changed_under_no_grad, changed_in_place,
]  # fmt: skip


def observed(function: Callable[..., Any], s: float) -> Any:
    x, y = hy.asarray([1.0, 2.0]), hy.asarray([3.0, 4.0])
    x.requires_grad = y.requires_grad = True
    try:
        result = function(x, y, hy.asarray(s))
    except GradientError as error:
        return error.what, x.tolist()
    hy.sum(result * hy.asarray([2.0, 3.0])).backward()
    grads = [None if t.grad is None else t.grad.tolist() for t in (x, y)]
    return result.tolist(), x.tolist(), y.tolist(), grads, result is x, result is y


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_by_the_path_taken(program: Callable[..., Any]) -> None:
    fast = hy.hybridize(program)
    for s in (0.5, -0.5, 1.5, 0.5, -0.5):
        assert observed(fast, s) == observed(program, s), s
