"""Functions with an op that lacks a derivative: they run as eagerly, and backward() says so."""

from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import GradientError


def all_columns(x: hy.Tensor) -> hy.Tensor:
    return hy.linalg.qr(x, mode="complete").Q.sum() + x.sum()


def in_a_loop(x: hy.Tensor) -> hy.Tensor:
    total = x.sum()
    while total < 100.0:
        total = total + 10.0 + 0.0 * hy.linalg.qr(x, mode="complete").Q.sum()
    return total


def in_a_branch(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        return hy.linalg.qr(x, mode="complete").Q.sum() + x.sum()
    return x.sum()


@pytest.mark.parametrize("function", [all_columns, in_a_loop, in_a_branch])
def test_backward_alone_is_refused(function: Callable[[hy.Tensor], hy.Tensor]) -> None:
    made = hy.hybridize(function)
    texts = []
    for call in (function, made, made):
        x = hy.asarray(np.random.RandomState(0).rand(4, 2))
        x.requires_grad = True
        y = call(x)
        assert y.requires_grad
        with hy.no_grad():
            assert y.numpy().tobytes() == function(x).numpy().tobytes()
        with pytest.raises(GradientError) as caught:
            y.backward()
        assert x.grad is None
        texts.append(str(caught.value))
    assert len(set(texts)) == 1 and "qr of all columns has no gradient" in texts[0]
    assert len(made.plans) == 1


def test_gradients_inside_a_captured_function_are_refused_there() -> None:
    @hy.hybridize
    def slope(x: hy.Tensor) -> hy.Tensor:
        return hy.grad(all_columns)(x)

    with pytest.raises(GradientError, match="qr of all columns has no gradient"):
        slope(hy.asarray(np.random.RandomState(0).rand(4, 2)))
