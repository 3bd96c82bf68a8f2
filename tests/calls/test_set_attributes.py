"""Attributes that a function sets: what was there is a guard only where the code looks at it."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.calls.test_open_attributes import STEPS, Made, run, t, tokens
from tests.calls.test_open_families import captures
from tests.staging.harness import describe


def test_what_is_only_set_is_no_guard() -> None:
    def last() -> Made:
        state = SimpleNamespace(last=None)

        def step(x: Any) -> Any:
            state.last = x * 2
            return x.sum()

        return step, lambda: state.last

    hybridized = run(last, [(t(n),) for n in (5, 6, 7, 8, 5, 9, 6)])
    assert captures(hybridized) == 1
    assert len(hybridized.plans) == 2
    assert "SimpleNamespace.last" not in hybridized.plans[0].guards


def test_what_is_looked_at_is_a_guard() -> None:
    def counted() -> Made:
        state = SimpleNamespace(last=None)

        def step(x: Any) -> Any:
            first = state.last is None
            state.last = x * 2
            return x.sum() + (100 if first else 0)

        return step, lambda: state.last

    hybridized = run(counted, [(t(n),) for n in (5, 6, 7, 8, 5, 9, 6)])
    assert "SimpleNamespace.last" in hybridized.plans[0].guards
    assert captures(hybridized) == 2  # the first of the size before the last, which then makes none
    assert hybridized.plans[-1].outside == ()


def test_a_name_that_is_computed_is_looked_at() -> None:
    def named() -> Made:
        state = SimpleNamespace(last=hy.zeros((1,)))

        def step(x: Any) -> Any:
            rows = getattr(state, "la" + "st").shape[0]
            state.last = x * 2
            return x * rows

        return step, lambda: state.last

    run(named, [(t(n),) for n in (5, 6, 7, 8, 5, 9, 6)])


def test_a_place_that_one_path_sets() -> None:
    def sometimes() -> Made:
        state = SimpleNamespace(last=hy.zeros((3,)))

        def step(x: Any) -> Any:
            if x.sum() > 0:
                state.last = x * 2
            return x.sum()

        return step, lambda: state.last

    run(sometimes, [(t(n, seed=n),) for n in (3, 3, 3, 5, 6, 7, 8, 5, 9, 6)])


@pytest.mark.parametrize("before", [None, 2, hy.zeros((3,))], ids=["nothing", "number", "tensor"])
def test_a_place_that_one_path_sets_and_another_leaves(before: Any) -> None:
    def sometimes() -> Made:
        state = SimpleNamespace(last=before)

        def step(x: Any) -> Any:
            if x.sum() > 0:
                state.last = x[0] if type(before) is int else x * 2
            return x.sum()

        return step, lambda: state.last

    (eager, its), (step, own) = sometimes(), sometimes()
    step = hy.hybridize(step)
    for sign in (-1, 1, -1, 1):
        x = hy.abs(t(3)) * sign
        assert describe(step(x)) == describe(eager(x))
        assert describe(own()) == describe(its())


def test_caches_of_earlier_sizes_are_given_back() -> None:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    @hy.hybridize
    def step(x: Any) -> None:
        state.k = hy.concat([state.k, x], axis=0)

    alive = []
    for (x,) in tokens():
        step(x)
        alive.append(weakref.ref(state.k))
    gc.collect()
    assert [ref() is not None for ref in alive] == [False] * (STEPS - 1) + [True]
