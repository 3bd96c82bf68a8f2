"""Errors that end a capture and hold what the function has computed: the values eager gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import describe, f32

VALUES: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda x: x * 2,
    "argument": lambda x: x,
    "number": lambda x: float(hy.sum(x)),
    "list": lambda x: [x, x + 1],
    "tuple and dict": lambda x: (x, {"a": [x * 2]}),
    "text": lambda x: f"low: {x * 2} of {hy.sum(x):.3f}",
    "joined": lambda x: "low: " + str(x * 2),
    "plain": lambda x: "low",
}


class Low(Exception):
    def __init__(self, value, level):
        super().__init__("low", value)
        self.value, self.level = value, level


def observed(function: Callable[..., Any], x: hy.Tensor) -> Any:
    with pytest.raises((ValueError, Low)) as caught:
        function(x)
    error = caught.value
    return describe(error.args), describe(vars(error)), str(error)


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_what_an_error_holds(make: Callable[[Any], Any]) -> None:
    def function(x):
        raise ValueError(make(x))

    fast = hy.hybridize(function)
    for x in (f32([1.0, -2.5]), f32([0.5, 4.0])):
        assert observed(fast, x) == observed(function, x)


def test_what_an_error_of_another_class_holds() -> None:
    def function(x):
        y = hy.sin(x)
        error = Low(y, [hy.sum(y)])
        raise error

    fast = hy.hybridize(function)
    for x in (f32([1.0, -2.5]), f32([0.5, 4.0])):
        assert observed(fast, x) == observed(function, x)


def test_whether_it_requires_gradients() -> None:
    def function(x):
        raise ValueError(f"{x} {x * 2} {x.detach()}")

    x = f32([1.0, 2.0])
    x.requires_grad = True
    assert observed(hy.hybridize(function), x) == observed(function, x)


def test_what_was_stored_before() -> None:
    state = {"v": f32([0.0])}

    def function(x):
        state["v"] = x * 3
        raise ValueError(state["v"])

    with pytest.raises(ValueError, match="3") as caught:
        hy.hybridize(function)(f32([1.0]))
    assert caught.value.args[0].tolist() == state["v"].tolist() == [3.0]
