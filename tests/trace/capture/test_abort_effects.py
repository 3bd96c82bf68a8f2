"""What a function has written before it raises has the histories that eager code gives it.

Among them are those that lead only to a variable of the call's own: what ``hy.grad`` takes the
gradient by, or a tensor that the author makes require one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy

PROGRAMS: list[Callable[[hy.Tensor, Any], Any]] = []


def program(function: Callable[[hy.Tensor, Any], Any]) -> Callable[[hy.Tensor, Any], Any]:
    PROGRAMS.append(function)
    return function


@program
def raised_by_python(x, state):
    def loss(x):
        state.v = x * 1.0
        raise ValueError("always")

    return hy.grad(loss)(x)


@program
def raised_by_the_run(x, state):
    def loss(x):
        state.v = x * 1.0
        if x.sum() > 0:
            raise ValueError("by the run")
        return x.sum()

    return hy.grad(loss)(x)


@program
def unbound(x, state):
    def loss(x):
        state.v = x * 1.0
        if x.sum() < 0:
            y = x
        return y.sum()

    return hy.grad(loss)(x)


@program
def behind_the_gradient(x, state):
    def loss(x):
        state.v = x * 1.0
        return x.sum()

    state.w = hy.grad(loss)(x)
    if x.sum() > 0:
        raise ValueError("behind it")
    return state.w


@program
def of_a_branch_that_a_run_takes(x, state):
    def loss(x):
        v = hy.zeros(3)
        if x.sum() > 1:
            v = x * 1.0
        state.v = v * 2
        if x.sum() > 0:
            raise ValueError("there")
        return x.sum()

    return hy.grad(loss)(x)


@program
def of_a_branch_that_a_run_does_not_take(x, state):
    def loss(x):
        v = hy.zeros(3)
        if x.sum() > 100:
            v = x * 1.0
        state.v = v * 2
        if x.sum() > 0:
            raise ValueError("not there")
        return x.sum()

    return hy.grad(loss)(x)


@program
def carried_by_a_loop(x, state):
    def loss(x):
        v, i = hy.zeros(3), hy.asarray(0)
        while i < x.sum():
            state.v = v
            if i == 2:
                raise ValueError("in the third iteration")
            v = v + x
            i = i + 1
        return v.sum()

    return hy.grad(loss)(x)


@program
def first_iteration_of_a_loop(x, state):
    def loss(x):
        v, i = hy.zeros(3), hy.asarray(0)
        while i < x.sum():
            state.v = v
            if i == 0:
                raise ValueError("in the first iteration")
            v = v + x
            i = i + 1
        return v.sum()

    return hy.grad(loss)(x)


@program
def gradients_in_a_loop(x, state):
    i = hy.asarray(0)

    def loss(y):
        state.v = y * i
        if i == 2:
            raise ValueError("in the third gradient")
        return (y * y).sum()

    while i < 9:
        x = hy.grad(loss)(x)
        i = i + 1
    return x


@program
def gradient_of_a_gradient(x, state):
    def loss(x):
        state.v = x * 1.0
        state.w = hy.grad(lambda y: (y * y * x).sum())(x)
        if x.sum() > 0:
            raise ValueError("behind it")
        return state.w.sum()

    return hy.grad(loss)(x)


@program
def without_recording(x, state):
    def loss(x):
        with hy.no_grad():
            state.v = x * 1.0
        state.w = x * 3
        if x.sum() > 0:
            raise ValueError("there")
        return x.sum()

    return hy.grad(loss)(x)


@program
def by_one_of_two_arguments(x, state):
    def loss(x, y):
        state.v, state.w = x * 1.0, y * 2
        if x.sum() > 0:
            raise ValueError("there")
        return x.sum()

    return hy.value_and_grad(loss, argnums=1)(x, x)


@program
def pulled_back(x, state):
    def loss(x):
        state.v = x * 1.0
        if x.sum() > 0:
            raise ValueError("there")
        return x.sum()

    return hy.vjp(loss, x)[0]


@program
def pushed_forward(x, state):
    def loss(x):
        state.v = x * 1.0
        if x.sum() > 0:
            raise ValueError("there")
        return x.sum()

    return hy.jvp(loss, (x,), (hy.ones(3),))[1]


@program
def by_a_variable_of_the_function(x, state):
    w = x.detach()
    w.requires_grad = True
    state.v = w * 2
    if x.sum() > 0:
        raise ValueError("there")
    return x


@program
def a_variable_of_the_function(x, state):
    w = x.detach()
    w.requires_grad = True
    state.v = w
    if x.sum() > 0:
        raise ValueError("there")
    return x


@program
def a_variable_made_without_recording(x, state):
    with hy.no_grad():
        w = x.detach()
        w.requires_grad = True
        state.v, state.w = w, w * 2
        if x.sum() > 0:
            raise ValueError("there")
    return x


@program
def held_by_the_exception(x, state):
    def loss(x):
        if x.sum() > 0:
            raise ValueError(x * 2)
        return x.sum()

    return hy.grad(loss)(x)


def outcome(function: Callable[..., Any], state: Any, requires_grad: bool) -> list[Any]:
    """What two calls leave: values, what requires gradients, and what these are."""
    seen: list[Any] = []
    for _ in range(2):
        x = hy.asarray([1.0, 2.0, 3.0], dtype=hy.float32)
        x.requires_grad = requires_grad
        with pytest.raises((ValueError, UnboundLocalError)) as caught:
            function(x, state)
        seen += [a.requires_grad for a in caught.value.args if isinstance(a, hy.Tensor)]
        for value in (state.v, state.w):
            seen += [value.tolist(), value.requires_grad]
            if value.requires_grad:
                value.sum().backward(retain_graph=True)
            seen += [None if t.grad is None else t.grad.tolist() for t in (x, value)]
    return seen


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_what_is_written_before_it_raises_requires_gradients_as_eagerly(
    function: Callable[..., Any], requires_grad: bool
) -> None:
    eager, captured = (SimpleNamespace(v=hy.ones(3), w=hy.ones(3)) for _ in range(2))
    expected = outcome(function, eager, requires_grad)
    assert outcome(hy.hybridize(function), captured, requires_grad) == expected
