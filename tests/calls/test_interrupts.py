"""Ctrl-C while a hybridized function runs: KeyboardInterrupt soon, and the state as it was."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import describe, f32, i64

X = f32([1.0, 2.0, 3.0])
SOON = 0.2  # seconds


class State:
    def __init__(self) -> None:
        self.total, self.seen, self.cell = hy.zeros(3), [hy.zeros(3)], hy.zeros(())

    def content(self) -> Any:
        return describe([self.total, self.seen, self.cell])


def nothing(a):
    return a


def endless_while(state, x, n):
    while n > 0:
        x = hy.sin(x)
        state.total = state.total + x
    state.seen[0] = x
    return x


def nested_loops(state, x, n):
    while n > 0:
        for row in hy.ones((10, 3)):
            k = row
            while hy.sum(k) < 40:
                k = k + 1
            x = hy.tanh(x + k)
        state.seen[0] = x
    return x


def long_for(state, x, n):
    for _ in range(n):
        x = hy.sin(x) if x[0] > 0 else x + 1
        state.total = state.total + x
    return x


def for_with_calls(state, x, n):
    for _ in range(n):
        x = hy.py_call(nothing, x, result=x.type) * 0.5
        state.total = state.total + x
    return x


def cells(state, x, n):
    while n > 0:
        state.cell += 1
        x = x * 1.5
    return x


def growing(state, x, n):
    ys = []
    for _ in range(n):
        x = hy.sin(x)
        if len(ys) < 5:
            ys.append(x)
        state.total = x
    return x


def backward(state, x, n):
    def loss(v):
        for _ in range(n):
            v = hy.sin(v) * 1.5
        return hy.sum(v)

    state.total = hy.grad(loss)(x)
    return state.total


PROGRAMS = [endless_while, nested_loops, long_for, for_with_calls, cells]


def interrupted(call: Callable[[], Any]) -> float:
    """How long after Ctrl-C ``call`` ended with KeyboardInterrupt."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.1, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        timer.join()
        time.sleep(0.05)
    timer.join()
    return time.monotonic() - sent[0]


@pytest.mark.alone
@pytest.mark.usefixtures("heeded_interrupt")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_ctrl_c(program: Callable[..., Any]) -> None:
    state, eager = State(), State()
    hybridized = hy.hybridize(lambda x, n: program(state, x, n))
    few, many = i64(int(program not in [*PROGRAMS[:2], cells])), i64(1 << 60)
    for _ in range(2):
        assert describe(hybridized(X, few)) == describe(program(eager, X, few))
    before = state.content()
    for _ in range(2):
        assert interrupted(lambda: hybridized(X, many)) < SOON
        assert state.content() == before
    assert describe(hybridized(X, few)) == describe(program(eager, X, few))
    assert state.content() == eager.content() and len(hybridized.plans) <= 2


@pytest.mark.alone
@pytest.mark.usefixtures("heeded_interrupt")
def test_ctrl_c_while_other_threads_run() -> None:
    state, stop, ended = State(), threading.Event(), []
    hybridized = hy.hybridize(lambda x, n: long_for(State(), x, n))

    def work() -> None:
        x = X
        while not stop.is_set():
            x = hybridized(x, i64(2000))
        ended.append(describe(x))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    try:
        assert interrupted(lambda: hybridized(X, i64(1 << 60))) < 1  # they share two cores
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert len(ended) == 4
    assert state.content() == State().content()


@pytest.mark.alone
@pytest.mark.usefixtures("heeded_interrupt")
def test_ctrl_c_while_only_a_worker_runs() -> None:
    """The worker goes on; the main thread is what is interrupted."""
    hybridized = hy.hybridize(lambda x, n: long_for(State(), x, n))
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(hybridized(X, i64(300_000))), daemon=True)
    worker.start()
    assert interrupted(lambda: [time.sleep(0.01) for _ in range(1000)]) < SOON
    worker.join()
    assert describe(found[0]) == describe(hybridized(X, i64(300_000)))
