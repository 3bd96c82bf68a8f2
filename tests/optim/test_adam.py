"""Adam and AdamW against their papers' algorithms, written out in NumPy, step by step."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.nn import Parameter
from hybrid.optim import Adam, AdamW

DRAW = np.random.RandomState(0)
START = DRAW.randn(3, 4)
GRADS = DRAW.randn(6, 3, 4)


def expected(lr, betas, eps, weight_decay, decoupled):
    p, m, v = START, np.zeros_like(START), np.zeros_like(START)
    for t, g in enumerate(GRADS, 1):
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p, m, v


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize(
    "settings",
    [
        dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0),
        dict(lr=3e-2, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1),
        dict(lr=1e-2, betas=(0.0, 0.0), eps=1e-8, weight_decay=0.0),
    ],
    ids=str,
)
def test_steps(kind, settings, dtype):
    p = Parameter(START.astype(dtype))
    optimizer = kind([p], **settings)
    rtol = 2e-5 if dtype == "float32" else 1e-11
    steps = expected(**settings, decoupled=kind is AdamW)
    for g, (wanted, m, v) in zip(GRADS, steps, strict=True):
        p.grad = hy.asarray(g.astype(dtype))
        optimizer.step()
        np.testing.assert_allclose(p.numpy(), wanted, rtol=rtol, atol=rtol)
        kept = optimizer.state_dict()["state"][0]
        np.testing.assert_allclose(kept["exp_avg"].numpy(), m, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(kept["exp_avg_sq"].numpy(), v, rtol=rtol, atol=rtol)


def test_default_weight_decay_is_that_of_each():
    p = Parameter([1.0])
    assert Adam([p]).param_groups[0].weight_decay == 0.0
    assert AdamW([p]).param_groups[0].weight_decay == 0.01


def test_steps_count_when_something_moves():
    p, q = Parameter([1.0]), Parameter([1.0])
    optimizer = Adam([p, q])
    optimizer.step()
    assert optimizer.state_dict()["param_groups"][0]["step"].item() == 0
    p.grad = hy.asarray([1.0])
    optimizer.step()
    assert optimizer.state_dict()["param_groups"][0]["step"].item() == 1
    assert q.item() == 1.0 and p.item() < 1.0


def test_dtypes_may_be_mixed():
    p, q = Parameter([1.0]), Parameter(np.array([1.0]))
    optimizer = Adam([p, q], lr=0.1)
    for _ in range(2):
        p.grad, q.grad = hy.asarray([1.0]), hy.asarray(np.array([1.0]))
        optimizer.step()
    assert (p.dtype, q.dtype) == (hy.float32, hy.float64)
    np.testing.assert_allclose([p.item(), q.item()], [0.8, 0.8], rtol=1e-6)
