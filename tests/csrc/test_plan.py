"""Plans: the order of steps, arena, constants, poison and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import NativeFailure, Spec, X, chain, find, run


def test_steps_run_in_order() -> None:
    out = np.empty_like(X)
    plan = chain().create()
    for k in (1, 2, 3):  # the second run reuses the arena
        run(plan, out, X * np.float32(k))
        assert np.array_equal(out, X * np.float32(2 * k) + X)
    assert lib.hyb_plan_arena_nbytes(plan) == 64


def test_a_plan_outlives_its_spec() -> None:
    spec, keep = chain().native()
    plan = ffi.gc(lib.hyb_plan_create(spec), lib.hyb_plan_free)
    for part in keep:
        ffi.memmove(part, bytes(ffi.sizeof(part)), ffi.sizeof(part))
    out = np.empty_like(X)
    run(plan, out, X)
    assert np.array_equal(out, X * 3)


def test_an_empty_plan_runs() -> None:
    run(Spec().create())


def test_empty_values_may_live_in_an_empty_arena() -> None:
    empty = np.empty((0, 5), np.float32)
    spec, add = Spec(), find("add", "float32")
    out, inner = spec.external(0), spec.arena(0)
    spec.step([(inner, empty), (inner, empty)], [(inner, empty)], ops=[(add, [0, 1], [2])])
    spec.step([(inner, empty), (inner, empty)], [(out, empty)], ops=[(add, [0, 1], [2])])
    run(spec.create(), empty)


def test_dead_slots_are_poisoned() -> None:
    """A slot that is wrongly said to die before its last use shows as NaN, when asked for."""
    out = np.empty_like(X)
    run(chain(last=0).create(), out, X)
    assert np.array_equal(out, X * 3)
    run(chain(poison=True, last=0).create(), out, X)
    assert np.isnan(out).all()
    run(chain(poison=True, last=1).create(), out, X)
    assert np.array_equal(out, X * 3)


def test_a_failing_step_is_named() -> None:
    take = find("take", "float32")
    table, index, picked = (
        np.ones((1, 3, 1), np.float32),
        np.zeros(2, np.int64),
        np.ones((1, 2, 1), np.float32),
    )
    spec = Spec()
    slots = [spec.external(a.nbytes) for a in (table, index, picked)]
    inner = spec.arena(picked.nbytes)
    for out in (inner, inner, slots[2]):
        spec.step([(slots[0], table), (slots[1], index)], [(out, picked)], take)
    plan = spec.create()
    with pytest.raises(NativeFailure, match=r"^bad index at step 0: .*3"):
        run(plan, table, np.array([0, 3]), picked)
    run(plan, table, index, picked)
    spec.steps[0], spec.operands[0:3] = spec.steps[1], spec.operands[3:6]
    two = spec.external(index.nbytes)
    spec.operands[spec.steps[2]["first_operand"] + 1]["slot"] = two
    with pytest.raises(NativeFailure, match=r"^bad index at step 2: .*-4"):
        run(spec.create(), table, index, picked, np.array([0, -4]))


def test_an_arena_that_does_not_fit_fails_when_run() -> None:
    spec = chain()
    spec.counts["arena_nbytes"] = 1 << 62
    plan, out = spec.create(), np.empty_like(X)
    with pytest.raises(NativeFailure, match=r"^no memory at step -1: cannot allocate "):
        run(plan, out, X)
