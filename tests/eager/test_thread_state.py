"""Interrupts at any line of a call that captures: what it leaves, and what comes of them."""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.core import timing as phases
from hybrid.eager.thread_state import STATE, ThreadState, ending
from hybrid.errors import LeakedValueError
from hybrid.ir.interpreter import ACTIVE
from hybrid.ir.record import mode
from tests.faults import KINDS, Injection, Line
from tests.staging.harness import describe

X = hy.ones(3)
TOTAL = hy.zeros(3)


class Net(hy.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = hy.nn.Linear(3, 3)
        for parameter in self.parameters():
            with hy.no_grad():
                parameter.assign(hy.ones(parameter.shape) * 0.1)
        self.count, self.table = hy.zeros(()), {"a": hy.ones(3)}

    @property
    def double(self) -> Any:
        return self.count * 2 if self.count > 0 else self.count


Program = tuple[Callable[..., Any], list[tuple[Any, ...]], Callable[[], Any]]


def control() -> Program:
    """Control flow, and writes to every kind of place."""
    global TOTAL
    net, cell, last, closure = Net(), hy.zeros(()), hy.zeros(3), [hy.zeros(3)]
    TOTAL = hy.zeros(3)

    def f(x, k):
        global TOTAL
        nonlocal last
        for i in range(3):
            if hy.sum(x) > i:
                x = hy.tanh(net.lin(x)) + k
            else:
                net.table["a"] = x
                x = x - 1
        while hy.sum(x) < 3:
            x = x + 1
        net.count = net.double + 1
        TOTAL = TOTAL + x
        last = x
        closure[0] = x * 2
        closure.append(x)
        cell.assign(hy.sum(x))
        return hy.sum(x)

    return (
        f,
        [(X, 1)],
        lambda: describe([net, TOTAL, last, closure, cell]),
    )


def training() -> Program:
    """A step: random numbers, backward, no_grad, an optimizer."""
    net = Net()
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    hy.random.seed(7)

    def f(x):
        optimizer.zero_grad()
        y = net.lin(x) + hy.random.uniform(size=(3,))
        loss = hy.sum(y * y)
        loss.backward()
        with hy.no_grad():
            twice = loss * 2
        optimizer.step()
        return loss + twice

    def state() -> Any:
        parameters = list(net.parameters())
        return describe([parameters, [p.grad for p in parameters], optimizer.state_dict()])

    return f, [(X,)], state


def numbers() -> Program:
    """A second call, whose number becomes an input; handlers, recursion, gradients inside."""
    kept = {"n": hy.zeros(())}

    def descend(n, v):
        if n <= 0:
            return v
        if hy.any(v > 100):
            return v * 2
        return descend(n - 1, v + 1)

    def f(x, k):
        try:
            for _ in range(2):
                if hy.sum(x) > k:
                    x = x * k
        except Exception:
            x = x * 0
        kept["n"] = hy.sum(x)
        slope = hy.grad(lambda v: hy.sum(hy.sin(v)))(x)
        return hy.sum(descend(2, x)) + hy.sum(slope), k

    return f, [(X, 1), (X, 2)], lambda: describe([kept])


PROGRAMS = [control, training, numbers]
CLASS = dict(vars(Net))


def other(x):
    return hy.where(hy.sum(x) > 0, x * 2, x)


def thread() -> Any:
    """All that must be as in a fresh process."""
    z = hy.asarray(2.0)
    z.requires_grad = True
    (z * z).backward()
    return (
        dict(ACTIVE), mode(), gc.isenabled(), sys.getswitchinterval(), STATE._is_owned(),
        list(phases._open), dict(vars(Net)) == CLASS, z.grad.item(),
    )  # fmt: skip


def begun(program: Callable[[], Program]) -> tuple[Any, Program]:
    function, calls, state = program()
    hybridized = hy.hybridize(function)
    for given in calls[:-1]:
        hybridized(*given)
    return hybridized, (function, calls, state)


@functools.cache
def lines(program: Callable[[], Program]) -> list[tuple[Line, int]]:
    """The lines that the last call runs once all that is made once is there, and how often."""
    for _ in range(2):
        hybridized, (_, calls, _) = begun(program)
        injection = Injection()
        injection.run(lambda h=hybridized, c=calls: h(*c[-1]))
    return sorted(injection.times.items(), key=lambda item: (item[0][0].co_filename, item[0][1]))


@functools.cache
def eagerly(program: Callable[[], Program]) -> tuple[Any, Any]:
    """What the last call gives, and what it leaves."""
    function, calls, state = program()
    results = [function(*given) for given in calls]
    return describe(results[-1]), state()


def check(program: Callable[[], Program], line: Line, time: int, kind: type[BaseException]) -> bool:
    """Interrupt the last call at a line; False if that has not run so often."""
    expected, after = eagerly(program)
    hybridized, (_, calls, state) = begun(program)
    before, fresh = state(), thread()
    injection = Injection(line, time, kind("injected"))
    try:
        injection.run(lambda: hybridized(*calls[-1]))
    except BaseException as error:
        assert error is injection.error, injection.place
        caught = error  # and its traceback is held as long as that
    else:
        assert not injection.place, f"{injection.place}: swallowed"
        return False
    assert thread() == fresh, injection.place
    try:
        now = state()
    except LeakedValueError as leak:
        raise AssertionError(f"{injection.place}: leaked") from leak
    if not injection.runs:  # a run writes one place after the other, as eager code does
        assert now in (before, after), injection.place
    if now == before:
        assert describe(hybridized(*calls[-1])) == expected, injection.place
        assert state() == after, injection.place
    del caught
    assert describe(hy.hybridize(other)(X)) == describe(other(X))
    assert thread() == fresh, injection.place
    return True


STRIDES = {control: 222, training: 74, numbers: 74}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_interrupts_at_some_lines(
    program: Callable[[], Program], kind: type[BaseException]
) -> None:
    """Some of the different lines, by turns of another kind and offset."""
    found, stride = lines(program), STRIDES[program]
    index, step = KINDS.index(kind), stride * len(KINDS)
    chosen = found[index * stride + 5 * index :: step]
    done = sum([check(program, line, 1, kind) for line, _ in chosen])
    assert done > 0.9 * (len(found) / step - 1)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_interrupts_at_all_lines(program: Callable[[], Program], kind: type[BaseException]) -> None:
    """All different lines; then any of their times, for as long as HYBRID_FUZZ_SECONDS says."""
    found = lines(program)
    for line, _ in found:
        check(program, line, 1, kind)
    draw, end = random.Random(), time.monotonic() + float(os.environ.get("HYBRID_FUZZ_SECONDS", 60))
    while time.monotonic() < end:
        line, times = draw.choice(found)
        check(program, line, draw.randint(1, times), kind)


def test_ending_undoes_again_what_was_interrupted() -> None:
    undone = []

    def undo() -> None:
        undone.append(len(undone))
        if len(undone) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ending(lambda: None, undo)
    assert undone == [0, 1]
    assert ending(lambda: 5, lambda: None) == 5


def test_the_state_of_a_thread_is_put_back() -> None:
    before = ThreadState.now()
    STATE.acquire()
    hy.no_grad().__enter__()
    hy.stream().__enter__()
    gc.disable()
    sys.setswitchinterval(0.5)
    assert ThreadState.now() != before
    before.put_back()
    assert ThreadState.now() == before
