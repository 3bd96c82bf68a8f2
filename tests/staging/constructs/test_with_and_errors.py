"""Errors inside ``with``: what the author's ``__exit__`` does then, or why that is refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, same

table = Table()
X = f32([1.0, 2.0])
CALLS = [(X, f32(1.0)), (X, f32(-1.0))]


class Scope:
    def __init__(self, st, value):
        self.st, self.value = st, value

    def __enter__(self):
        self.before, self.st.v = self.st.v, self.value

    def __exit__(self, *error):
        self.st.v = self.before


class Shown:
    def __enter__(self):
        print("in")

    def __exit__(self, *error):
        print("out")


class Noted:
    def __enter__(self):
        self.over = False
        return self

    def __exit__(self, *error):
        self.over = True


@contextmanager
def scope_without_try(st, value):
    before, st.v = st.v, value
    yield
    st.v = before


def state():
    return SimpleNamespace(v=hy.zeros(2))


@table.makes(*CALLS)
def restored_where_nothing_is_raised():
    st = state()

    def run(x, s):
        with Scope(st, x), Shown():
            y = x * 2 + st.v
        if s > 0:
            raise ValueError("low")
        return y

    return run, st


@table.makes(*CALLS)
def a_generator_that_an_error_ends():
    st = state()

    def run(x, s):
        with scope_without_try(st, x):
            y = st.v * 2
            if s > 0:
                raise ValueError("low")
        return y

    return run, st


@table.runs(*CALLS)
def one_that_nobody_sees_afterwards(x, s):
    with Noted():
        if s > 0:
            raise ValueError("low")
        y = x * 2
    return y


def prints_and_writes(st, x, s):
    with Scope(st, x), Shown():
        y = st.v * 2
        if s > 0:
            raise ValueError("low")
    return y


@table.makes(*CALLS)
def restored_where_something_is_raised():
    st = state()
    return lambda x, s: prints_and_writes(st, x, s), st


def picked(x, s):
    return x[hy.where(s > 0, 9, 0)]  # where s > 0 the run finds that there is none


@table.makes(*CALLS)
def restored_where_the_run_finds_something():
    st = state()

    def run(x, s):
        with Scope(st, x), Shown():
            y = st.v * picked(x, s)
        return y

    return run, st


class Resource:
    """What ``contextlib.closing`` and callbacks of a stack close, by code that adds to a tensor."""

    def __init__(self):
        self.closed = hy.zeros(())

    def close(self, by=1.0):
        self.closed = self.closed + by


def closes(enter: Callable[[contextlib.ExitStack, Resource], Any]) -> Callable[..., Any]:
    """Return the maker of a function that raises inside a stack that ``enter`` has filled."""

    def make():
        resource = Resource()

        def run(x, s):
            y = x
            try:
                with contextlib.ExitStack() as stack:
                    enter(stack, resource)
                    if s > 0:
                        raise ValueError("low")
                    y = x * 2
            except ValueError:
                y = x * 3
            return y, resource.closed

        return run, resource

    return make


def push_that_suppresses(stack, resource):
    def leave(kind, error, trace):
        resource.close(2.0 if kind else 3.0)
        return True

    stack.push(leave)


class Closing:
    def __init__(self, resource):
        self.resource = resource

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.resource.close()


STACKS = {
    "callback": lambda stack, resource: stack.callback(lambda: resource.close()),
    "method": lambda stack, resource: stack.callback(resource.close, by=2.0),
    "builtin": lambda stack, resource: stack.callback(setattr, resource, "closed", hy.ones(())),
    "push": push_that_suppresses,
    "manager": lambda stack, resource: stack.enter_context(Closing(resource)),
    "closing": lambda stack, resource: stack.enter_context(contextlib.closing(resource)),
    "suppress": lambda stack, resource: (
        stack.callback(resource.close),
        stack.enter_context(contextlib.suppress(ValueError)),
    ),
}


@pytest.mark.parametrize("enter", STACKS.values(), ids=STACKS.keys())
def test_a_stack_ends_where_something_is_raised_too(enter: Callable[..., Any]) -> None:
    same(closes(enter), calls=CALLS, make=True)


@table.makes(*CALLS)
def closing_where_something_is_raised():
    resource = Resource()

    def run(x, s):
        with contextlib.closing(resource):
            if s > 0:
                raise ValueError("low")
            y = x * 2
        return y

    return run, resource


def test_a_stack_that_can_end_but_once_is_refused() -> None:
    lock, resource = threading.Lock(), Resource()

    def function(x, s):
        with contextlib.ExitStack() as stack:
            stack.enter_context(lock)
            stack.callback(resource.close)
            if s > 0:
                raise ValueError("low")
            return x * 2

    line = function.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X, f32(1.0))
    assert str(caught.value) == (
        "the end of a with (ExitStack) writes what is seen after the call when ValueError is "
        f"raised, too ({__file__}:{line})\n"
        f"    {line} | with contextlib.ExitStack() as stack:\n"
        "That is known only when the plan runs, and an exception ends the plan.\n"
        "Fix: do it after the with, or put the with around the call of the hybridized function."
    )
    assert resource.closed.item() == 0
    assert not lock.locked()


@table.each()
def test_same(program: Program) -> None:
    program.check()


def first_if_low(x, s):
    if s > 0:
        raise IndexError("high")
    return x[0]


def called(x, s):
    return hy.py_call(first_if_low, x, s, result=s.type)


def writes(st, x, s):
    with Scope(st, x):
        y = st.v * called(x, s)
    return y


def prints(st, x, s):
    with Shown():
        y = x * called(x, s)
    return y


def around_the_call(function: Callable[..., Any], enter: Callable[..., Any]) -> Any:
    def call(st, x, s):
        with enter(st, x):
            return function(st, x, s)

    return call


@pytest.mark.parametrize(("function", "does"), [(writes, "writes what"), (prints, "does this")])
def test_what_it_does_is_refused(function: Callable[..., Any], does: str) -> None:
    st = state()
    before = st.v
    with pytest.raises(CaptureError, match=f"the end of a with .* {does}") as caught:
        hy.hybridize(function)(st, X, f32(-1.0))
    assert "put the with around the call of the hybridized function" in str(caught.value)
    assert st.v is before


@pytest.mark.parametrize("s", [1.0, -1.0])
def test_the_advice_is_followed(s: float, capsys: pytest.CaptureFixture[str]) -> None:
    def body(st, x, s):
        return st.v * called(x, s)

    told = []
    for function in (writes, around_the_call(hy.hybridize(body), Scope)):
        st = state()
        before = st.v
        try:
            told.append(function(st, X, f32(s)).tolist())
        except IndexError as error:
            told.append(type(error))
        assert st.v is before
    assert told[0] == told[1]


def test_what_gives_a_capture_up_is_not_hidden_by_an_exit_that_fails() -> None:
    class Fails:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            if error is not None:
                raise RuntimeError("in __exit__")

    def function(x):
        with Fails():
            return {x.sum().item(): 1}

    with pytest.raises(CaptureError, match="a dict key"):
        hy.hybridize(function)(X)
