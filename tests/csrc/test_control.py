"""Blocks in C: branches, loops, rows, values that move, calls of the host, interruption."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.control_specs import (
    FLAG,
    LINE,
    ROWS,
    asking,
    choice,
    doubling,
    endless,
    nested,
    running_sums,
    side_by_side,
)
from tests.csrc.specs import NativeFailure, Spec, X, find, last_error, live_bytes, run

SPECS = (doubling, running_sums, choice, asking, nested, side_by_side)


@pytest.fixture(autouse=True)
def no_injection() -> Iterator[None]:
    yield
    lib.hyb_fail_allocation(0)


@pytest.mark.parametrize("bound", [0, 17, 33, 1e6])
@pytest.mark.parametrize("poison", [0, 1])
def test_a_while_takes_turns(bound: float, poison: int) -> None:
    spec = doubling()
    spec.counts["poison"] = poison
    plan, trips = spec.create(), np.zeros((), np.int64)
    for start in (1.0, 3.0):  # the second run finds the places as the first one left them
        x, wanted, n = LINE * np.float32(start), LINE * np.float32(start), 0
        while n == 0 or wanted.sum() < bound:
            wanted, n = wanted + wanted, n + 1
        out = np.empty_like(LINE)
        run(plan, out, trips, x, np.array(True), np.array(bound, np.float32))
        assert np.array_equal(out, wanted) and trips == n


def test_a_while_may_not_run_at_all() -> None:
    plan, out, trips = doubling().create(), np.empty_like(LINE), np.ones((), np.int64)
    run(plan, out, trips, LINE, np.array(True), np.array(100, np.float32))  # an odd number of turns
    run(plan, out, trips, LINE * 5, np.array(False), np.array(100, np.float32))
    assert np.array_equal(out, LINE * 5) and trips == 0


@pytest.mark.parametrize("count", [-3, 0, 1, 2, ROWS, ROWS + 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_for_over_rows(count: int, reverse: bool) -> None:
    plan = running_sums(reverse).create()
    x = np.arange(ROWS * 16, dtype=np.float32).reshape(ROWS, 16)
    y, out, last = np.full_like(x, 7), np.empty_like(LINE), np.full((), -1, np.int64)
    run(plan, out, y, LINE, x, np.array(count), last)
    n = min(max(count, 0), ROWS)
    order = list(range(n))[::-1] if reverse else list(range(n))
    now, wanted = LINE, np.full_like(x, 7)
    for i in order:
        now = wanted[i] = now + x[i]
    assert np.array_equal(out, now) and np.array_equal(y, wanted)
    assert last == (order[-1] if order else -1)


def test_one_of_two_blocks_runs() -> None:
    plan, out = choice().create(), np.empty_like(X)
    run(plan, out, np.array(True), X)
    assert np.array_equal(out, X + X)
    run(plan, out, np.array(False), X)
    assert np.array_equal(out, X * X)


def test_rows_of_rows() -> None:
    x = np.random.default_rng(0).random((3, 2, 16), np.float32)
    y = np.zeros((3, 16), np.float32)
    run(nested().create(), y, x, np.array(2), np.array(5))
    assert np.array_equal(y[:2], x[:2, 0] + x[:2, 1]) and not y[2].any()


# The host ---------------------------------------------------------------------------------------


class Host:
    """A host function that writes to the outputs of ``asking`` and stops after ``trips`` calls."""

    def __init__(self, trips: int, status: int = lib.HYB_OK) -> None:
        self.calls: list[int] = []

        def call(_context: Any, number: int, data: Any) -> int:
            self.calls.append(number)
            x = np.frombuffer(ffi.buffer(data[0], X.nbytes), np.float32)
            np.frombuffer(ffi.buffer(data[1], X.nbytes), np.float32)[:] = x * len(self.calls)
            np.frombuffer(ffi.buffer(data[2], 1), bool)[:] = len(self.calls) < trips
            return status if len(self.calls) == trips else lib.HYB_OK

        self.function = ffi.callback("hyb_host_fn", call)


@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_the_host_is_called_in_order_and_writes_rows(trips: int) -> None:
    plan, host = asking().create(), Host(trips)
    lib.hyb_plan_set_host(plan, host.function, ffi.NULL)
    rows, found = np.full((2, 8), 9, np.float32), np.zeros((), np.int64)
    run(plan, rows, found, X, np.array(True))
    assert host.calls == [7] * trips and found == trips
    for i in range(2):  # what goes beyond the rows goes nowhere
        assert np.array_equal(rows[i], X * (i + 1) if i < trips else np.full(8, 9))


def test_what_the_host_returns_ends_the_run() -> None:
    plan, host = asking().create(), Host(2, lib.HYB_HOST_FAILED)
    lib.hyb_plan_set_host(plan, host.function, ffi.NULL)
    with pytest.raises(NativeFailure, match=r"^host failed at step 1: "):
        run(plan, np.empty((2, 8), np.float32), np.zeros((), np.int64), X, np.array(True))
    assert len(host.calls) == 2


def test_a_plan_without_its_host_fails() -> None:
    with pytest.raises(NativeFailure, match=r"^bad argument at step 1: the plan has no host"):
        run(
            asking().create(), np.empty((2, 8), np.float32), np.zeros((), np.int64), X,
            np.array(True),
        )  # fmt: skip


# Failures ---------------------------------------------------------------------------------------


def test_a_step_in_a_block_is_named() -> None:
    table, index = np.ones((1, 3, 1), np.float32), np.array([0, 3])
    picked = np.ones((1, 2, 1), np.float32)
    spec = Spec()
    p, a, i, o = (spec.external(m.nbytes) for m in (FLAG, table, index, picked))
    spec.block(1)
    spec.control(lib.HYB_STEP_COND, [(p, FLAG)], otherwise=2)
    for _ in range(2):
        spec.block(1)
        spec.step([(a, table), (i, index)], [(o, picked)], find("take", "float32"))
    plan = spec.create()
    with pytest.raises(NativeFailure, match=r"^bad index at step 1: "):
        run(plan, np.array(True), table, index, picked)
    with pytest.raises(NativeFailure, match=r"^bad index at step 2: "):
        run(plan, np.array(False), table, index, picked)


def test_a_loop_asks_whether_to_go_on() -> None:
    asked: list[float] = []

    def poll() -> int:
        asked.append(time.monotonic())
        return lib.HYB_INTERRUPTED if len(asked) == 4 else lib.HYB_OK

    function = ffi.callback("hyb_poll_fn", poll)
    lib.hyb_set_poll(function)
    try:
        with pytest.raises(NativeFailure, match=r"^interrupted at step 0: the run was interrupted"):
            run(endless().create(), np.array(True), X.copy())
    finally:
        lib.hyb_set_poll(lib.hybrid_poll)
    gaps = np.diff(asked)
    assert (gaps > 0.015).all() and gaps.min() < 0.5


@pytest.mark.usefixtures("heeded_interrupt")
def test_a_signal_interrupts_a_loop() -> None:
    plan, started = endless().create(), time.monotonic()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(NativeFailure, match=r"^interrupted at step 0"):
        run(plan, np.array(True), X.copy())
    timer.join()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("make", SPECS)
def test_failed_allocations_are_survived(make: Any) -> None:
    spec, before = make(), live_bytes()
    plan = None
    for nth in range(1, 1000):
        lib.hyb_fail_allocation(nth)
        try:
            plan = spec.create()
        except NativeFailure as failure:
            assert str(failure).startswith("cannot allocate "), failure
            assert live_bytes() == before
        lib.hyb_fail_allocation(0)
        if plan:
            break
    assert plan and nth > 1
    if make is not choice and make is not nested:  # which need no arena
        lib.hyb_fail_allocation(1)
        sizes = [s["nbytes"] for s in spec.slots if s["kind"] == lib.HYB_SLOT_EXTERNAL]
        with pytest.raises(NativeFailure, match=r"^no memory at step -1: cannot allocate "):
            run(plan, *(np.zeros(n, np.uint8) for n in sizes))
    del plan
    assert live_bytes() == before


@pytest.mark.parametrize("make", [doubling, running_sums])
def test_a_loop_allocates_nothing(make: Any) -> None:
    plan = make().create()
    sizes = [s["nbytes"] for s in make().slots if s["kind"] == lib.HYB_SLOT_EXTERNAL]
    externals = [np.zeros(n, np.uint8) for n in sizes]
    run(plan, *externals)
    before = lib.hyb_memory().allocations
    for external in externals:
        external[:] = 1  # so that the loops run
    run(plan, *externals)
    assert lib.hyb_memory().allocations == before


def test_threads_run_one_loop() -> None:
    plan, wrong = doubling().create(), []

    def work(start: float) -> None:
        for _ in range(200):
            out, trips = np.empty_like(LINE), np.zeros((), np.int64)
            x = LINE * np.float32(start)
            run(plan, out, trips, x, np.array(True), np.array(1e4, np.float32))
            if not np.array_equal(out, x * np.float32(2.0) ** int(trips)):
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(s,), daemon=True) for s in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and last_error() is not None
