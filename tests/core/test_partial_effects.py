"""What a call that raises leaves behind, and what it cannot: messages in full."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.core.exceptions import leave, taken
from hybrid.errors import CaptureError, GradientError, HybridError
from tests.staging.harness import f32


def message(caught: Any) -> str:
    """What an error says; FILE:LINE is a place in this file."""
    error: HybridError = caught.value
    text = re.sub(rf"{re.escape(__file__)}:\d+", "FILE:LINE", str(error))
    return re.sub(r"(?m)^ +\d+ \|", "    LINE |", text)


def test_an_error_carries_one_thing_once() -> None:
    error, put = KeyError("x"), dict
    assert taken(error) is None
    leave(error, put)
    leave(error, list)  # farther from where it was raised
    assert taken(error) is put
    assert taken(error) is None
    assert vars(error) == {}


def test_the_exception_is_the_authors_own() -> None:
    state = SimpleNamespace(h=hy.zeros(()))
    cause = KeyError("cause")

    @hy.hybridize
    def always(x):
        state.h = x
        raise ValueError("always", 3) from cause

    with pytest.raises(ValueError) as caught:
        always(f32(2.0))
    assert caught.value.args == ("always", 3)
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None
    assert vars(caught.value) == {}
    assert caught.traceback[-1].name == "always"
    assert state.h.item() == 2
    assert always.plans == []


def test_the_plan_of_a_call_that_raises_is_kept() -> None:
    state = SimpleNamespace(h=hy.zeros(()))

    @hy.hybridize
    def run(x):
        state.h = x * 2
        if x < 0:
            raise ValueError("negative")
        return state.h

    for value in (1.0, -1.0, 2.0, -2.0):
        try:
            run(f32(value))
        except ValueError as error:
            assert vars(error).keys() <= {"__notes__"}
        assert state.h.item() == 2 * value
    assert len(run.plans) == 1


def test_what_an_argument_and_a_slot_hold_where_a_step_fails() -> None:
    """What was written before it, and nothing of what comes behind it."""
    count, state = hy.zeros((3,)), SimpleNamespace(h=hy.zeros((3,)))
    x = f32([1.0, 2.0, 3.0])

    @hy.hybridize
    def run(x, i):
        count.assign(count + 1)
        state.h = x * 2
        y = x[i]
        count.assign(count + 10)
        return y

    index = [hy.asarray(i, dtype=hy.int64) for i in (0, 1, 7)]
    for i in (0, 1, 0):
        run(x, index[i])
    for n in (1, 2):
        with pytest.raises(IndexError):
            run(x + 5 * n, index[2])
        assert count.tolist() == [33.0 + n] * 3
        assert state.h.tolist() == [2.0 + 10 * n, 4.0 + 10 * n, 6.0 + 10 * n]


def test_what_was_written_has_its_history() -> None:
    w = f32(3.0)
    w.requires_grad = True
    state = SimpleNamespace(h=hy.zeros(()))

    @hy.hybridize
    def run(x):
        state.h = w * x
        if x < 0:
            raise ValueError("negative")
        return state.h * 2

    with pytest.raises(ValueError, match="negative"):
        run(f32(-1.0))
    assert state.h.item() == -3
    (state.h * 2).backward()
    assert w.grad.item() == -2


def test_the_history_is_lost_where_the_run_cannot_be_followed() -> None:
    w = f32(3.0)
    w.requires_grad = True
    state = SimpleNamespace(h=hy.zeros(()))
    calls = []

    def outside(a):
        calls.append(float(a))
        return a

    @hy.hybridize
    def run(x):
        x = x * hy.py_call(outside, x, result=x.type)
        state.h = w * x
        if x > 0:
            raise ValueError("positive")
        return state.h * 2

    with pytest.raises(ValueError, match="positive"):
        run(f32(-1.0))
    assert calls == [-1.0]
    assert state.h.item() == 3
    assert state.h.requires_grad
    with pytest.raises(GradientError) as caught:
        (state.h * 2).backward()
    assert message(caught) == (
        "the history of a value went with the call that wrote it and then raised\n"
        "What a run has written is computed once more for its history, but this one has called "
        "a Python function of the author's.\n"
        "Fix: compute the value again, or go on from value.detach()."
    )


def test_the_history_stays_where_python_raises() -> None:
    w = f32(3.0)
    w.requires_grad = True
    state = SimpleNamespace(h=hy.zeros(()))

    @hy.hybridize
    def run(x):
        state.h = w * x
        raise ValueError("always")

    with pytest.raises(ValueError, match="always"):
        run(f32(-2.0))
    state.h.backward()
    assert w.grad is not None
    assert w.grad.item() == -2


def test_a_list_that_grows_where_something_may_raise() -> None:
    seen: list[hy.Tensor] = []

    @hy.hybridize
    def run(xs):
        for x in xs:
            seen.append(x * 2)
            if x < 0:
                raise ValueError("negative")
        return xs

    with pytest.raises(CaptureError) as caught:
        run(hy.ones(100))
    assert seen == []
    with pytest.raises(ValueError, match="negative"):  # few enough to be handed over one by one
        run(f32([1.0, 2.0, -3.0, 4.0]))
    assert [x.item() for x in seen] == [2, 4, -6]
    assert message(caught) == (
        "a list that outlives the call grows in a loop, and something in the loop may raise an "
        "exception (FILE:LINE)\n"
        "    LINE | if x < 0:\n"
        "The list that grows at FILE:LINE is put together after the loop; an exception in the loop "
        "would lose what is appended.\n"
        "Fix: append to a list of the function's own and keep that after the loop, or check after "
        "the loop."
    )


def test_a_finally_clause_runs_when_a_plan_raises() -> None:
    found = []
    for wrap in (lambda f: f, hy.hybridize):
        count = hy.zeros(())

        def run(x, count=count):
            try:
                if x < 0:
                    raise ValueError("negative")
            finally:
                count.assign(count + 1)
            return x

        called = wrap(run)
        assert called(f32(1.0)).item() == 1
        with pytest.raises(ValueError, match="negative"):
            called(f32(-1.0))
        assert called(f32(2.0)).item() == 2
        found.append(count.item())
    assert found == [3, 3]


def test_an_except_clause_of_a_caller() -> None:
    def checked(x):
        if x < 0:
            raise ValueError("negative")
        return x * 2

    @hy.hybridize
    def run(x):
        try:
            return checked(x)
        except ValueError:
            return x

    assert [run(f32(value)).item() for value in (1.0, -1.0, 2.0, -2.0)] == [2, -1, 4, -2]


def test_a_call_that_falls_back_has_not_written_twice() -> None:
    count = hy.zeros(())
    grown = 0

    def run(x):
        count.assign(count + 1)
        hy.py_call(outgrown)
        return x

    def outgrown():
        nonlocal grown
        grown += 1
        if grown == 1:
            raise CaptureError("the plan has met its limits")

    with pytest.warns(UserWarning, match="the plan has met its limits"):
        hy.hybridize(run, fallback="eager")(f32(1.0))
    assert count.item() == 1
