"""Forward mode through control flow: tangents carried beside the values."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.ir import verify
from tests.trace.gradients.control import f64, if_, loop, loop_while

X = f64([0.5, -1.5, 2.5])
W = f64([-1.0, 0.25, 0.75])
V = f64([1.0, 2.0, -1.0])


def ways(function):
    return (function, hy.hybridize(function, mode="trace"))


def tangent(function, primals, directions):
    return hy.jvp(function, primals, directions)[1].numpy()


def test_escape_in_closed_form() -> None:
    def f(x, y):
        return loop_while(lambda x, y: x < y, lambda x, _y: x * x + 1.0, [x], [y])[1]

    for g in ways(f):
        found = hy.jvp(g, (f64(1.1), f64(8.0)), (f64(1.0), f64(5.0)))[1].item()
        np.testing.assert_allclose(found, 114.4339768, rtol=1e-8)


def test_slices_rows_and_carried_values() -> None:
    xs = f64(np.arange(12.0).reshape(4, 3) / 10)

    def f(x, xs):
        h, rows = loop(4, lambda _i, h, r: (ops.tanh(h * r) + h, h * r), [x], [], [xs], length=4)
        return h * ops.sum(rows, axis=0)

    def plain(x, xs):
        h, rows = x, []
        for i in range(4):
            rows.append(h * xs[i])
            h = ops.tanh(h * xs[i]) + h
        return h * ops.sum(ops.stack(rows), axis=0)

    for primals, directions in (((X, xs), (V, xs * 0.0)), ((X, xs), (V * 0.5, xs * 2.0))):
        expected = tangent(plain, primals, directions)
        for g in ways(f):
            np.testing.assert_allclose(tangent(g, primals, directions), expected, rtol=1e-13)


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    def f(x):
        def body(i, h, x):
            (y,) = if_(
                ops.sum(h) > 0.0, [h, x], lambda h, x: h * x, lambda h, x: ops.sin(h) + x * x
            )
            return y + ops.astype(i, hy.float64)

        return ops.sum(loop(4, body, [x], [x])[0])

    for g in ways(f):
        forward = hy.jvp(hy.grad(g), (X,), (V,))[1]
        reverse = hy.grad(lambda x, g=g: hy.jvp(g, (x,), (V,))[1])(X)
        along = hy.grad(lambda x, g=g: ops.sum(hy.grad(g)(x) * V))(X)
        np.testing.assert_allclose(forward.numpy(), reverse.numpy(), rtol=1e-12)
        np.testing.assert_allclose(forward.numpy(), along.numpy(), rtol=1e-12)


def test_nothing_is_stacked() -> None:
    def f(x):
        return ops.sum(loop(50, lambda _i, h: ops.sin(ops.exp(h * 0.1)), [x])[0])

    graph = hy.hybridize(lambda x: hy.jvp(f, (x,), (V,)), mode="trace").graph(X)
    verify(graph)
    loops = [node for node in graph.nodes if node.op.name == "for"]
    assert [len(node.results) for node in loops] == [1, 2]


def test_values_without_a_tangent_carry_none() -> None:
    def f(x, w):
        h, _, k = loop(
            3,
            lambda i, h, s, k, w: (h * w, s + w, k + i),
            [x, np.zeros(3), np.array(0)],
            [w],
        )
        return h * ops.astype(k, hy.float64)

    def along_x(x):
        return hy.jvp(lambda x: f(x, W), (x,), (V,))

    graph = hy.hybridize(along_x, mode="trace").graph(X)
    loops = [node for node in graph.nodes if node.op.name == "for"]
    assert [node.attributes["carried"] for node in loops] == [3, 4]


@pytest.mark.parametrize("taken", [True, False])
def test_a_constant_before_a_pole(taken) -> None:
    """The result of a branch without a tangent has none, whatever comes after."""

    def f(p, x):
        (y,) = if_(p, [x], lambda x: x * x, lambda x: x - x)
        (z,) = if_(p, [x], lambda x: x * 1.0, lambda _x: f64(np.zeros(3)))
        return ops.sqrt(z) + y

    x = f64([1.0, 4.0, 9.0])
    for g in ways(f):
        found = tangent(lambda x, g=g: g(hy.asarray(taken), x), (x,), (V,))
        expected = V.numpy() * (2 * x.numpy() + 0.5 / np.sqrt(x.numpy())) if taken else np.zeros(3)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_no_iteration_lets_the_tangent_through() -> None:
    def f(n, x):
        return loop(n, lambda _i, h: ops.log(h), [x])[0]

    for g in ways(f):
        assert hy.jvp(lambda x, g=g: g(hy.asarray(0), x), (X,), (V,))[1].tolist() == V.tolist()


def test_a_carried_value_gets_its_tangent_on_the_way() -> None:
    """s starts as a constant with an infinite slope, and is not to be multiplied by it."""

    def f(x):
        s, _ = loop(3, lambda _i, s, x: (ops.sqrt(s) + x, x * 2.0), [np.zeros(3), x])
        return s

    def plain(x):
        s = f64(np.zeros(3))
        for _ in range(3):
            s, x = ops.sqrt(s) + x, x * 2.0
        return s

    x = f64([1.0, 2.0, 3.0])
    expected = tangent(plain, (x,), (V,))
    assert np.isfinite(expected).all()
    for g in ways(f):
        np.testing.assert_allclose(tangent(g, (x,), (V,)), expected, rtol=1e-14)
        gradient = hy.grad(lambda x, g=g: ops.sum(g(x)))(x).numpy()
        np.testing.assert_allclose(gradient, hy.grad(lambda x: ops.sum(plain(x)))(x).numpy())


def test_while_counts_have_no_tangent() -> None:
    def f(x, w):
        n, y = loop_while(lambda x, _w: ops.sum(x) < 50.0, lambda x, w: x * w, [x], [w])
        return ops.sum(y) * ops.astype(n, hy.float64)

    x, w = f64([1.0, 2.0]), f64([2.0, 3.0])
    for g in ways(f):
        hy.check_grads(g, x, w)
