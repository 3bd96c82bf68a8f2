"""Linear, Dropout, Flatten, Identity against their definitions."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Dropout, Flatten, Identity, Linear, functional

DRAW = np.random.RandomState(0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 5, 4), (0, 4)])
def test_linear(shape, bias):
    layer = Linear(4, 3, bias)
    x = DRAW.randn(*shape).astype(np.float32)
    expected = x.astype(np.float64) @ layer.weight.numpy().T.astype(np.float64)
    if bias:
        expected = expected + layer.bias.numpy()
    found = layer(hy.asarray(x))
    assert found.shape == (*shape[:-1], 3)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_linear_gradients():
    layer = Linear(4, 3)
    x = DRAW.randn(5, 4).astype(np.float32)
    ct = DRAW.randn(5, 3).astype(np.float32)
    hy.sum(layer(hy.asarray(x)) * hy.asarray(ct)).backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), ct.T @ x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.bias.grad.numpy(), ct.sum(0), rtol=1e-5, atol=1e-6)


def test_linear_starts_evenly_within_its_bounds():
    hy.random.seed(0)
    layer = Linear(400, 300)
    bound = 1 / math.sqrt(400)
    for values in (layer.weight.numpy(), layer.bias.numpy()):
        assert np.abs(values).max() <= bound
        assert abs(values.mean()) < 0.1 * bound
        assert abs(values.std() - bound / math.sqrt(3)) < 0.05 * bound
    hy.random.seed(0)
    again = Linear(400, 300)
    assert again.weight.numpy().tobytes() == layer.weight.numpy().tobytes()


def test_linear_layout():
    layer = Linear(4, 3, dtype=hy.float64)
    assert (str(layer.weight.type), str(layer.bias.type)) == ("f64[3,4]", "f64[3]")
    assert Linear(4, 3, bias=False).bias is None
    assert Linear(0, 3)(hy.zeros((2, 0))).shape == (2, 3)


@pytest.mark.parametrize("sizes", [(-1, 3), (4, 2.0), (True, 3)])
def test_linear_sizes_are_checked(sizes):
    with pytest.raises(ArgumentError, match=r"_features is .*\nFix: give an int >= 0"):
        Linear(*sizes)


def test_dropout_in_training():
    hy.random.seed(0)
    x = hy.asarray(np.full((100, 100), 3.0, np.float32))
    y = Dropout(0.25)(x).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(3.0) * np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02


def test_dropout_limits():
    x = hy.asarray([1.0, 2.0])
    layer = Dropout(0.5).eval()
    assert layer(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(1.0)(x).tolist() == [0.0, 0.0]


def test_dropout_gradient_flows_where_the_value_did():
    x = hy.asarray(np.ones(50, np.float32))
    x.requires_grad = True
    y = Dropout(0.5)(x)
    hy.sum(y).backward()
    assert x.grad.tolist() == y.tolist()


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_probability_is_checked(p):
    with pytest.raises(ArgumentError, match=f"a probability of {p}\nFix: give a number from 0 to"):
        Dropout(p)


@pytest.mark.parametrize("p", ["half", True, None])
def test_dropout_probability_is_a_number(p):
    with pytest.raises(ArgumentTypeError, match=f"the probability {p!r} is not a number"):
        functional.dropout(hy.zeros((2,)), p)


def test_flatten():
    x = hy.zeros((2, 3, 4, 5))
    assert Flatten()(x).shape == (2, 60)
    assert Flatten(0)(x).shape == (120,)
    assert Flatten(1, 2)(x).shape == (2, 12, 5)


def test_identity():
    x = hy.zeros((2,))
    assert Identity()(x) is x


def test_reprs():
    assert repr(Linear(2, 3, bias=False)) == "Linear(in_features=2, out_features=3, bias=False)"
    assert repr(Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"
    assert repr(Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    assert repr(Identity()) == "Identity()"
