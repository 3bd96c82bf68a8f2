"""Activations, as modules and as functions, against their definitions."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError
from hybrid.nn import functional as F

X = np.random.RandomState(0).randn(3, 7).astype(np.float32)
erf = np.vectorize(math.erf)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


CASES = [
    (nn.ReLU(), F.relu, lambda x: np.maximum(x, 0)),
    (nn.GELU(), F.gelu, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    (
        nn.GELU("tanh"),
        lambda x: F.gelu(x, "tanh"),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.SiLU(), F.silu, lambda x: x / (1 + np.exp(-x))),
    (nn.Sigmoid(), F.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (nn.Tanh(), F.tanh, np.tanh),
    (nn.Softmax(), F.softmax, lambda x: softmax(x, -1)),
    (nn.Softmax(axis=0), lambda x: F.softmax(x, 0), lambda x: softmax(x, 0)),
    (nn.LogSoftmax(), F.log_softmax, lambda x: np.log(softmax(x, -1))),
]


@pytest.mark.parametrize(
    ("module", "function", "definition"), CASES, ids=[repr(c[0]) for c in CASES]
)
def test_activation(module, function, definition):
    x = hy.asarray(X)
    found = module(x).numpy()
    np.testing.assert_allclose(found, definition(X.astype(np.float64)), rtol=1e-5, atol=1e-6)
    assert found.tobytes() == function(x).numpy().tobytes()


def test_reprs_and_errors():
    assert repr(nn.Softmax(0)) == "Softmax(dim=0)"
    assert repr(nn.GELU("tanh")) == "GELU(approximate='tanh')"
    for make in (nn.GELU, lambda a: F.gelu(hy.asarray(X), a)):
        with pytest.raises(ArgumentError) as caught:
            make("fast")
        assert str(caught.value) == ('approximate=\'fast\' is unknown\nFix: use "none" or "tanh".')
