"""``math.prod``: of tensors a tensor, of numbers a number, whatever it goes over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda x: math.prod([x[0], x[1], 2]),
    "one tensor": lambda x: math.prod([x[0]]),
    "a start": lambda x: math.prod([x[0], x[1]], start=2.0),
    "a tensor to start with": lambda x: math.prod([2, 3], start=x),
    "rows": lambda x: math.prod(x),
    "a generator": lambda x: math.prod(v * 2 for v in x),
    "tensors and numbers": lambda x: math.prod((x[0], x[1].item(), 3)),
    "numbers": lambda x: math.prod([x[0].item(), x[1].item()]),
    "numbers and a start": lambda x: math.prod([x[0].item(), 3], start=2),
    "numbers by a function": lambda x: math.prod(map(float, x)),
    "a shape": lambda x: x * math.prod(x.shape),
    "a set": lambda x: x * math.prod({1, 2, 3}),
    "keys": lambda x: x * math.prod({2: 0, 3: 1}),
    "nothing": lambda x: x * math.prod([]),
    "a generator of plain numbers": lambda x: x * math.prod(i for i in (2, 5)),
}


def told(value: Any) -> Any:
    return (str(value.dtype), value.tolist()) if isinstance(value, hy.Tensor) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_same(name: str) -> None:
    program = PROGRAMS[name]
    captured = hy.hybridize(program, ledger=False)
    for values in ([1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]):
        x = hy.asarray(values)
        assert told(captured(x)) == told(program(x))
        assert type(captured(x)) is type(program(x))


@pytest.mark.parametrize("given", [5, ["a"], [None]])
def test_what_has_no_product(given: Any) -> None:
    texts = []
    for prepared in (lambda f: f, hy.hybridize):
        with pytest.raises(TypeError) as caught:
            prepared(lambda x: x * math.prod(given))(hy.ones(2))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_gradients_of_a_product() -> None:
    def loss(x: Any) -> Any:
        return math.prod([x[0], x[1], x[1]])

    x = hy.asarray([2.0, 3.0])
    captured = hy.hybridize(lambda x: hy.grad(loss)(x))
    assert captured(x).tolist() == hy.grad(loss)(x).tolist() == [9.0, 12.0]
