"""hybrid.debug: where the first NaN is made, eagerly, in graphs and on the way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError, CaptureError, NonFiniteError

X = hy.asarray([[1.0, 2.0], [3.0, -4.0]])
WAYS: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "hybridized": hy.hybridize}


def line_of(function: Any, text: str) -> int:
    """The line of ``function`` that has a text in it."""
    lines = Path(__file__).read_text().split("\n")
    begin = function.__code__.co_firstlineno
    return next(n for n in range(begin, len(lines)) if text in lines[n - 1])


def loss(x: Any) -> Any:
    y = hy.exp(x)
    return hy.sum(hy.log(y - 5.0))


@pytest.mark.parametrize("way", WAYS)
def test_the_op_and_the_line(way: str) -> None:
    function = WAYS[way](loss)
    for _ in range(2):
        with pytest.raises(NonFiniteError) as caught, hy.debug(nans=True):
            function(X)
        line = line_of(loss, "hy.log")
        low, high = np.exp(np.float32(-4)) - np.float32(5), np.exp(np.float32(3)) - np.float32(5)
        assert str(caught.value) == (
            f"log gave NaN in 2 of 4 elements, the first at [0, 0] ({__file__}:{line})\n"
            f"    {line} | return hy.sum(hy.log(y - 5.0))\n"
            f"Its operands: f32[2,2] from {low} to {high}.\n"
            "Fix: keep what it is given above 0: hybrid.log(hybrid.clip(x, 1e-12)), or use "
            "log_softmax."
        )
        assert isinstance(caught.value, FloatingPointError)
    assert np.isnan(function(X).item())  # outside of the block nothing is looked at


def distance(w: Any) -> Any:
    return hy.sqrt(hy.sum(w * w))


@pytest.mark.parametrize("way", WAYS)
def test_on_the_way_back_it_is_the_line_of_the_op(way: str) -> None:
    w = nn.Parameter(hy.zeros(3))

    def step() -> None:
        (distance(w) * 0.0).backward()

    function = WAYS[way](step)
    with pytest.raises(NonFiniteError) as caught, hy.debug():
        function()
    error = caught.value
    assert error.what == "the gradient of sqrt gave NaN in its one element"
    assert error.at is not None and error.at.line == line_of(distance, "hy.sqrt")
    asked = f"{__file__}:{line_of(step, 'backward()')}"
    assert error.why == (
        "Its operands: f32[] 0.0; f32[] 0.0.\n"
        f"The gradient was asked for at {asked}; there divide made it."
    )
    assert error.fix == "add a small number: hybrid.sqrt(x + 1e-12); at 0 the slope is infinite"
    with hy.debug():  # the advice
        hy.grad(lambda w: hy.sqrt(hy.sum(w * w) + 1e-12) * 0.0)(hy.zeros(3))


def grown(x: Any) -> Any:
    big = hy.exp(x * 100)
    return big - big


def test_the_first_inf_is_told() -> None:
    with pytest.raises(NonFiniteError) as caught, hy.debug():
        grown(X)
    assert caught.value.what == "subtract gave NaN in 3 of 4 elements, the first at [0, 0]"
    first = f"The first inf came from exp, {__file__}:{line_of(grown, 'hy.exp')}."
    assert caught.value.why.endswith(first)
    with pytest.raises(NonFiniteError) as caught, hy.debug(infs=True):
        grown(X)
    assert caught.value.what == "exp gave inf in 3 of 4 elements, the first at [0, 0]"
    with hy.debug(nans=False):
        grown(X)


def test_what_was_given_is_no_op_s_fault() -> None:
    """Neither NaN and inf of operands nor infinities that the author writes."""
    with hy.debug(infs=True):
        nan = hy.asarray([np.nan, 1.0])
        assert np.isnan(hy.sum(nan * 2.0).item())
        mask = hy.full((2, 2), -np.inf)
        assert hy.softmax(hy.where(X > 0, X, mask), axis=-1)[1, 1].item() == 0.0


def test_the_layer_is_named() -> None:
    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return hy.sqrt(x)

    net = nn.Sequential(nn.Identity(), Root())
    with pytest.raises(NonFiniteError, match=r"\nIn 1: Root\(\) got f32\[2,2\]\n"), hy.debug():
        net(X)


@pytest.mark.parametrize("way", WAYS)
def test_training_has_the_same_bits_inside(way: str) -> None:
    def trained(inside: bool) -> list[bytes]:
        hy.random.seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 1))
        optimizer = hy.optim.Adam(net.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            found = ((net(x) - y) ** 2).mean()
            found.backward()
            optimizer.step()
            return found

        function = WAYS[way](step)
        for i in range(4):
            if inside and i % 2:
                with hy.debug():
                    function(hy.ones((4, 3)), hy.zeros((4, 1)))
            else:
                function(hy.ones((4, 3)), hy.zeros((4, 1)))
        return [p.numpy().tobytes() for p in net.parameters()]

    assert trained(False) == trained(True)


def test_a_step_that_makes_them() -> None:
    w = nn.Parameter(hy.ones(2))
    optimizer = hy.optim.SGD([w], lr=1e30)
    w.grad = hy.full(2, 1e30)
    with pytest.raises(NonFiniteError, match="gave inf"), hy.debug(infs=True):
        optimizer.step()


def test_loops_and_branches() -> None:
    def root(x: Any) -> Any:
        while hy.sum(x) > 0:
            x = x - 1.0
            x = hy.sqrt(x) if hy.max(x) > 0 else x
        return x

    with pytest.raises(NonFiniteError, match="sqrt gave NaN in 1 of 4"), hy.debug():
        hy.hybridize(root)(X)


def test_halves_and_empty_tensors() -> None:
    with hy.debug():
        hy.log(hy.ones(3, dtype=hy.bfloat16)) + hy.sum(hy.zeros(0))
    with pytest.raises(NonFiniteError, match="log gave NaN"), hy.debug():
        hy.log(-hy.ones(3, dtype=hy.float16))


def test_what_is_refused() -> None:
    wrong: Any = 1
    with pytest.raises(ArgumentError, match="debug got nans=1"):
        hy.debug(nans=wrong)

    def inside(x: Any) -> Any:
        with hy.debug():
            return x * 2

    with pytest.raises(CaptureError, match="asked for inside a hybridized function") as caught:
        hy.hybridize(inside)(X)
    assert caught.value.fix == "write it around the call"
    with hy.debug():
        hy.hybridize(lambda x: x * 2)(X)  # the advice
    assert inside(X).shape == (2, 2)
