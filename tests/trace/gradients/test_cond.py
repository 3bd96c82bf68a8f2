"""Gradients through cond: the branch taken as if alone, the other one as if it were not there."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.ir import verify
from tests.trace.gradients.control import bits, f64, if_

X = f64([0.5, 1.5, 2.5])
W = f64([-1.0, 0.25, 3.0])


def two_results(p, x, w):
    def then(x, w):
        return ops.exp(x) * w, x * 2.0

    def otherwise(x, w):
        return ops.log(x), w

    a, b = if_(p, [x, w], then, otherwise)
    return ops.sum(a * b + x)


def written_out(p, x, w):
    a, b = (ops.exp(x) * w, x * 2.0) if p else (ops.log(x), w)
    return ops.sum(a * b + x)


def unit(x):
    """x over its norm; 0 where that is 0."""
    r = ops.sqrt(ops.sum(x * x))
    (y,) = if_(r > 0.0, [x, r], lambda x, r: x / r, lambda x, _r: x)
    return y


def uses_before_and_after(p, x):
    """What was there before the cond has many uses: sums go on where they stood."""
    y = ops.sin(x)
    (z,) = if_(p, [x, y], lambda x, y: x * y + y * y * x, lambda x, y: ops.exp(x) + y)
    return ops.sum(z * x + y * x * z)


def uses_written_out(p, x):
    y = ops.sin(x)
    z = x * y + y * y * x if p else ops.exp(x) + y
    return ops.sum(z * x + y * x * z)


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize(
    ("function", "plain", "args"),
    [(two_results, written_out, (X, W)), (uses_before_and_after, uses_written_out, (X,))],
    ids=["two results", "many uses"],
)
def test_bits_of_plain_python(pred, function, plain, args) -> None:
    p, wanted = hy.asarray(pred), tuple(range(1, 1 + len(args)))
    expected = bits(hy.value_and_grad(plain, wanted)(pred, *args))
    assert bits(hy.value_and_grad(function, wanted)(p, *args)) == expected
    captured = hy.hybridize(function, mode="trace")
    assert bits(hy.value_and_grad(captured, wanted)(p, *args)) == expected
    inside = hy.hybridize(hy.value_and_grad(function, wanted), mode="trace")
    assert bits(inside(p, *args)) == expected


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize("function", [two_results, uses_before_and_after])
def test_derivatives_of_both_orders(pred, function) -> None:
    args = (X, W) if function is two_results else (X,)
    for f in (function, hy.hybridize(function, mode="trace")):
        hy.check_grads(
            lambda *xs, f=f: f(hy.asarray(pred), *xs), *args, order=2, eps=1e-5, rtol=1e-4
        )


POLES = [
    ("log of a negative", lambda x: ops.log(x)),
    ("division by zero", lambda x: 1.0 / (x - x)),
    ("root of zero", lambda x: ops.sqrt(x - x)),
    ("overflow", lambda x: ops.exp(ops.exp(x * x * 1e4))),
]


@pytest.mark.parametrize(("name", "pole"), POLES, ids=[name for name, _ in POLES])
@pytest.mark.parametrize("captured", [False, True])
def test_the_branch_not_taken_gives_zeros(name, pole, captured) -> None:
    def f(p, x, y):
        (z,) = if_(p, [x, y], lambda x, y: pole(x) * y, lambda x, _y: x * 2.0)
        return ops.sum(z)

    x = f64([-1.0, -2.0])
    f = hy.hybridize(f, mode="trace") if captured else f
    gx, gy = hy.grad(f, (1, 2))(hy.asarray(False), x, x)
    assert gx.tolist() == [2.0, 2.0]
    assert gy.tolist() == [0.0, 0.0]
    assert hy.jvp(lambda x: f(hy.asarray(False), x, x), (x,), (x,))[1].item() == -6.0


@pytest.mark.parametrize("captured", [False, True])
def test_a_pole_before_the_cond_counts_only_if_it_is_used(captured) -> None:
    def f(x):
        return ops.sum(unit(x))

    def hessian_row(x):
        return ops.sum(hy.grad(f)(x) * f64([1.0, 2.0, 3.0]))

    f = hy.hybridize(f, mode="trace") if captured else f
    zero = f64(np.zeros(3))
    assert hy.grad(f)(zero).tolist() == [1.0, 1.0, 1.0]
    assert hy.grad(hessian_row)(zero).tolist() == [0.0, 0.0, 0.0]
    assert hy.jvp(f, (zero,), (X,))[1].item() == 4.5
    hy.check_grads(f, X, order=2, eps=1e-5, rtol=1e-4)


def test_signed_zeros_survive_a_branch_without_a_use() -> None:
    def f(p, x, y):
        (z,) = if_(p, [x, y], lambda x, y: x * y, lambda x, _y: x)
        return ops.sum(z + y * f64([-0.0, 0.0]))

    one = f64([1.0, 1.0])
    captured = hy.hybridize(f, mode="trace")
    grad = hy.grad(captured, 2)(hy.asarray(False), one, one)
    assert np.signbit(grad.numpy()).tolist() == [True, False]
    assert bits(grad) == bits(hy.grad(f, 2)(hy.asarray(False), one, one))


@pytest.mark.parametrize("pred", [True, False])
def test_cond_in_cond(pred) -> None:
    def inner(x, w):
        return if_(ops.sum(x) > 2.0, [x, w], lambda x, w: x * w, lambda x, w: ops.sin(x) + w)

    def f(p, x, w):
        (y,) = if_(p, [x, w], lambda x, w: inner(x * x, w), lambda x, w: inner(w, x))
        return ops.sum(y * y)

    def plain(x, w):
        a, b = (x * x, w) if pred else (w, x)
        y = a * b if ops.sum(a) > 2.0 else ops.sin(a) + b
        return ops.sum(y * y)

    captured = hy.hybridize(f, mode="trace")
    for args in ((X, W), (X * 0.1, W * 0.1), (W, X)):
        expected = bits(hy.value_and_grad(plain, (0, 1))(*args))
        for g in (f, captured):
            found = hy.value_and_grad(g, (1, 2))(hy.asarray(pred), *args)
            assert bits(found) == expected


def test_the_forward_node_gives_its_residuals_in_place() -> None:
    def f(p, x):
        (y,) = if_(p, [x], ops.exp, ops.tanh)
        return ops.sum(y)

    graph = hy.hybridize(hy.grad(f, 1), mode="trace").graph(hy.asarray(True), X)
    verify(graph)
    forward, backward = (node for node in graph.nodes if node.op.name == "cond")
    assert len(forward.results) == 1  # what the branches return is all that the way back reads
    assert [n.op.name for n in forward.regions[0].nodes] == ["exp"]
    assert [n.op.name for n in backward.regions[0].nodes] == ["multiply"]


def test_residuals_of_both_branches_share_a_result() -> None:
    def f(p, x, w):
        (y,) = if_(
            p, [x, w], lambda x, w: ops.exp(x) * w, lambda x, w: ops.tanh(w) * x * ops.cos(x)
        )
        return ops.sum(y)

    graph = hy.hybridize(hy.grad(f, (1, 2)), mode="trace").graph(hy.asarray(True), X, W)
    verify(graph)
    forward = next(node for node in graph.nodes if node.op.name == "cond")
    assert len(forward.results) == 3  # the value; exp or tanh; cos or zeros


def test_integers_and_values_without_a_gradient() -> None:
    def f(p, x, k):
        def then(x, k):
            return x * ops.astype(k, hy.float64), k + 1

        y, k = if_(p, [x, k], then, lambda x, k: (x, k))
        return ops.sum(y) * ops.astype(k, hy.float64)

    k = hy.asarray(3)
    for g in (f, hy.hybridize(f, mode="trace")):
        assert hy.grad(g, 1)(hy.asarray(True), X, k).tolist() == [12.0] * 3
        assert hy.grad(g, 1)(hy.asarray(False), X, k).tolist() == [3.0] * 3


def test_a_loss_that_is_no_cond_result() -> None:
    def f(x: Tensor) -> Tensor:
        if_(ops.sum(x) > 0.0, [x], ops.exp, ops.log)
        return ops.sum(x * x)

    assert hy.grad(f)(X).tolist() == (X * 2).tolist()
