"""Activations made of other ops: their definitions in NumPy, their ends, their random relatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, AxisError, DTypeError, ShapeError
from hybrid.nn import functional as F
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

INF = math.inf
X = np.concatenate([Draw(31)("float64", 40, low=-6, high=6), [-7.0, -0.3, 0.2, 4.4]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def elu(x, a):
    return np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))


CASES = {  # name: (function, its definition, values and slopes at -inf, -1e30, 1e30 and inf)
    "leaky_relu": (
        F.leaky_relu,
        lambda x: np.where(x > 0, x, 0.01 * x),
        ([-INF, -1e28, 1e30, INF], [0.01, 0.01, 1, 1]),
    ),
    "elu": (lambda x: F.elu(x, 2), lambda x: elu(x, 2), ([-2, -2, 1e30, INF], [0, 0, 1, 1])),
    "celu": (
        lambda x: F.celu(x, 2.0),
        lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)),
        ([-2, -2, 1e30, INF], [0, 0, 1, 1]),
    ),
    "selu": (
        F.selu,
        lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
        ([-1.758099341, -1.758099341, 1.0507009874e30, INF], [0, 0, 1.0507009874, 1.0507009874]),
    ),
    "prelu": (
        lambda x: F.prelu(x, np.array([0.25], np.float32)),
        lambda x: np.where(x > 0, x, 0.25 * x),
        ([-INF, -2.5e29, 1e30, INF], [0.25, 0.25, 1, 1]),
    ),
    "rrelu": (
        lambda x: F.rrelu(x, 0.25, 0.75),
        lambda x: np.where(x > 0, x, 0.5 * x),
        ([-INF, -5e29, 1e30, INF], [0.5, 0.5, 1, 1]),
    ),
    "threshold": (
        lambda x: F.threshold(x, 1.5, -3.0),
        lambda x: np.where(x > 1.5, x, -3.0),
        ([-3, -3, 1e30, INF], [0, 0, 1, 1]),
    ),
    "relu6": (F.relu6, lambda x: x.clip(0, 6), ([0, 0, 6, 6], [0, 0, 0, 0])),
    "hardtanh": (
        lambda x: F.hardtanh(x, -2, 0.5),
        lambda x: x.clip(-2, 0.5),
        ([-2, -2, 0.5, 0.5], [0, 0, 0, 0]),
    ),
    "hardsigmoid": (
        F.hardsigmoid,
        lambda x: (x / 6 + 0.5).clip(0, 1),
        ([0, 0, 1, 1], [0, 0, 0, 0]),
    ),
    "hardswish": (
        F.hardswish,
        lambda x: x * (x / 6 + 0.5).clip(0, 1),
        ([0, 0, 1e30, INF], [0, 0, 1, 1]),
    ),
    "hardshrink": (
        F.hardshrink,
        lambda x: np.where(abs(x) > 0.5, x, 0),
        ([-INF, -1e30, 1e30, INF], [1, 1, 1, 1]),
    ),
    "softshrink": (
        F.softshrink,
        lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
        ([-INF, -1e30, 1e30, INF], [1, 1, 1, 1]),
    ),
    "gelu": (F.gelu, None, ([0, 0, 1e30, INF], [0, 0, 1, 1])),
    "tanh gelu": (
        lambda x: F.gelu(x, approximate="tanh"),
        tanh_gelu,
        ([0, 0, 1e30, INF], [0, 0, 1, 1]),
    ),
    "silu": (F.silu, lambda x: x * sigmoid(x), ([0, 0, 1e30, INF], [0, 0, 1, 1])),
    "mish": (
        F.mish,
        lambda x: x * np.tanh(np.logaddexp(x, 0)),
        ([0, 0, 1e30, INF], [0, 0, 1, 1]),
    ),
    "softplus": (
        lambda x: F.softplus(x, 2.0),
        lambda x: np.logaddexp(2 * x, 0) / 2,
        ([0, 0, 1e30, INF], [0, 0, 1, 1]),
    ),
    "logsigmoid": (
        F.logsigmoid,
        lambda x: -np.logaddexp(-x, 0),
        ([-INF, -1e30, 0, 0], [1, 1, 0, 0]),
    ),
    "softsign": (F.softsign, lambda x: x / (1 + abs(x)), ([-1, -1, 1, 1], [0, 0, 0, 0])),
    "tanhshrink": (
        F.tanhshrink,
        lambda x: x - np.tanh(x),
        ([-INF, -1e30, 1e30, INF], [1, 1, 1, 1]),
    ),
}


@pytest.mark.parametrize(("function", "definition", "_ends"), CASES.values(), ids=CASES)
def test_activations_are_as_defined(function, definition, _ends) -> None:
    x = hy.asarray(X)
    if definition is not None:
        np.testing.assert_allclose(function(x).numpy(), definition(X), rtol=1e-8, atol=1e-12)
        narrow = X.astype(np.float32)
        found = function(hy.asarray(narrow))
        assert found.dtype is hy.float32
        np.testing.assert_allclose(found.numpy(), definition(narrow), rtol=1e-5, atol=1e-6)
    hy.check_grads(function, x, order=2, rtol=1e-4, atol=1e-6)
    slopes = hy.grad(lambda x: hy.sum(function(x) * x))
    assert same(slopes(x), hy.hybridize(slopes)(x))


@pytest.mark.parametrize("dtype", Draw.floats)
@pytest.mark.parametrize(("function", "_definition", "ends"), CASES.values(), ids=CASES)
def test_ends_of_activations(function, _definition, ends, dtype) -> None:
    x = hy.asarray([-INF, -1e30, 1e30, INF], dtype=dtype)
    values, slopes = ends
    np.testing.assert_allclose(function(x).numpy(), values, rtol=1e-6, atol=1e-8)
    found = hy.grad(lambda x: hy.sum(function(x)))(x)
    np.testing.assert_allclose(found.numpy(), slopes, rtol=1e-6, atol=1e-8)
    x = hy.asarray([-300.0, -90.0, -20.0, 0.0, 20.0, 90.0, 300.0], dtype=dtype)
    assert np.isfinite(hy.grad(lambda x: hy.sum(function(x)))(x).numpy()).all()
    nan = function(hy.asarray([math.nan], dtype=dtype)).numpy()
    assert np.isnan(nan).all()


def test_slopes_at_corners() -> None:
    def slopes(function, *at):
        return hy.grad(lambda x: hy.sum(function(x)))(hy.asarray(list(at))).tolist()

    assert slopes(F.relu6, 0.0, 6.0, 3.0) == [0.0, 0.0, 1.0]
    assert slopes(F.hardtanh, -1.0, 1.0, 0.0) == [0.0, 0.0, 1.0]
    assert slopes(F.hardswish, -3.0, 3.0) == [0.0, 1.0]
    assert slopes(F.hardshrink, 0.5, -0.5, 0.75) == [0.0, 0.0, 1.0]
    assert slopes(lambda x: F.elu(x, 2.0), 0.0) == [2.0]


def test_a_weight_for_each_channel() -> None:
    x, weight = Draw(1)("float64", 2, 3, 4), np.array([0.5, -1.0, 0.0])
    column = weight[:, None]
    np.testing.assert_allclose(F.prelu(x, weight).numpy(), np.where(x > 0, x, column * x))
    np.testing.assert_allclose(
        F.prelu(x[0, :, 0], weight).numpy(), np.where(x > 0, x, column * x)[0, :, 0]
    )
    assert F.prelu(-2.0, weight[:1]).tolist() == -1.0
    hy.check_grads(F.prelu, hy.asarray(x), hy.asarray(weight), order=2)


def test_halves_and_softmin() -> None:
    x = Draw(2)("float64", 4, 6)
    np.testing.assert_allclose(F.glu(x).numpy(), x[:, :3] * sigmoid(x[:, 3:]))
    np.testing.assert_allclose(F.glu(x, 0).numpy(), x[:2] * sigmoid(x[2:]))
    hy.check_grads(F.glu, hy.asarray(x), order=2)
    e = np.exp(-x)
    np.testing.assert_allclose(F.softmin(x, 0).numpy(), e / e.sum(0))
    np.testing.assert_allclose(F.normalize(x, 1.0, 0).numpy(), x / np.abs(x).sum(0, keepdims=True))


def test_random_slopes() -> None:
    x = hy.asarray(-np.ones(10_000))
    hy.random.seed(3)
    y = F.rrelu(x, 0.25, 0.75, training=True).numpy()
    assert y.min() >= -0.75 and y.max() <= -0.25 and abs(y.mean() + 0.5) < 0.01
    assert F.rrelu(-x, training=True).tolist() == (-x).tolist()
    hy.random.seed(3)
    assert same(hy.hybridize(lambda x: F.rrelu(x, 0.25, 0.75, True))(x), hy.asarray(y))


def test_gumbel_softmax_draws_classes() -> None:
    logits = hy.asarray(np.log([0.1, 0.6, 0.3]))
    wide = hy.broadcast_to(logits, (20_000, 3))
    hy.random.seed(4)
    hard = F.gumbel_softmax(wide, tau=0.5, hard=True).numpy()
    assert set(np.unique(hard)) == {0.0, 1.0} and (hard.sum(1) == 1).all()
    np.testing.assert_allclose(hard.mean(0), [0.1, 0.6, 0.3], atol=0.015)
    hy.random.seed(4)
    soft = F.gumbel_softmax(wide, tau=0.5)
    np.testing.assert_allclose(soft.numpy().sum(1), 1.0)
    np.testing.assert_array_equal(soft.numpy().argmax(1), hard.argmax(1))

    def slope(hard):
        hy.random.seed(4)
        return hy.grad(lambda x: hy.sum(F.gumbel_softmax(x, hard=hard)[:, 0]))(wide)

    assert same(slope(True), slope(False)) and slope(True).numpy().any()
    along = F.gumbel_softmax(hy.zeros((3, 5)), hard=True, axis=0)
    assert along.numpy().sum(0).tolist() == [1.0] * 5


X2 = np.ones((2, 3))
ERRORS = {
    "celu": (lambda: F.celu(X2, 0), ArgumentError, "celu got alpha 0"),
    "celu text": (lambda: F.celu(X2, "a"), ArgumentError, "celu got alpha 'a'"),
    "hardtanh": (lambda: F.hardtanh(X2, 1, 0), ArgumentError, "hardtanh got max_val 0"),
    "hardshrink": (lambda: F.hardshrink(X2, -1), ArgumentError, "hardshrink got lambd -1"),
    "softshrink": (lambda: F.softshrink(X2, math.nan), ArgumentError, "softshrink got lambd nan"),
    "threshold": (lambda: F.threshold(X2, None, 0), ArgumentError, "got threshold None"),
    "prelu": (lambda: F.prelu(X2, np.ones(2)), ShapeError, "each of the 3 channels"),
    "glu": (lambda: F.glu(X2), ShapeError, "glu cannot halve axis 1"),
    "glu axis": (lambda: F.glu(X2, 2), AxisError, "glu got axis 2"),
    "softplus": (lambda: F.softplus(X2, 0), ArgumentError, "softplus got beta 0"),
    "rrelu": (lambda: F.rrelu(X2, 0.5, 0.25), ArgumentError, "rrelu got slopes from 0.5"),
    "tau": (lambda: F.gumbel_softmax(X2, 0), ArgumentError, "gumbel_softmax got tau 0"),
    "gumbel": (lambda: F.gumbel_softmax(X2.astype(int)), DTypeError, "gumbel_softmax cannot take"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


def test_slopes_of_what_is_cut_off() -> None:
    """On a bound clip has slope 1 and hardtanh slope 0, as in PyTorch; crossed bounds give max."""
    x = hy.asarray(np.float32([-2, -1, 0, 1, 2, np.nan]))

    def slope(f):
        return hy.grad(lambda x: hy.sum(f(x)))(x).tolist()[:5]

    assert slope(lambda x: hy.clip(x, -1.0, 1.0)) == [0, 1, 1, 1, 0]
    assert slope(lambda x: hy.clip(x, min=-1.0)) == [0, 1, 1, 1, 1]
    assert slope(lambda x: hy.clip(x, max=1.0)) == [1, 1, 1, 1, 0]
    assert slope(hy.nn.functional.hardtanh) == [0, 0, 1, 0, 0]
    crossed = hy.clip(x, 1.0, -1.0).numpy()
    np.testing.assert_array_equal(crossed, np.float32([-1, -1, -1, -1, -1, np.nan]))
    assert slope(lambda x: hy.clip(x, 1.0, -1.0)) == [0, 0, 0, 0, 0]
    assert np.isnan(hy.clip(x, float("nan"), 1.0).numpy()).all()

    def bounds(low, high):
        return hy.sum(hy.clip(x[:5], low, high))

    for low, high in ((-1.0, 1.0), (1.0, -1.0)):
        low, high = hy.asarray(low), hy.asarray(high)
        eager = hy.grad(bounds, argnums=(0, 1))(low, high)
        assert [g.tolist() for g in hy.hybridize(hy.grad(bounds, argnums=(0, 1)))(low, high)] == [
            g.tolist() for g in eager
        ]
