"""SGD against PyTorch's algorithm, written out in NumPy, step by step."""

import itertools

import numpy as np
import pytest

import hybrid as hy
from hybrid.nn import Parameter
from hybrid.optim import SGD

DRAW = np.random.RandomState(0)
START = DRAW.randn(3, 4)
GRADS = DRAW.randn(5, 3, 4)


def expected(dtype, lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, sign=1):
    """The parameter and the momentum buffer after each step."""
    p, buffer = START.astype(dtype), None
    for g in GRADS.astype(dtype):
        d = sign * g + weight_decay * p
        if momentum:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
        yield p, buffer


CASES = [
    dict(momentum=momentum, dampening=dampening, weight_decay=decay, nesterov=nesterov)
    for momentum, dampening, decay, nesterov in itertools.product(
        (0.0, 0.9), (0.0, 0.3), (0.0, 0.01), (False, True)
    )
    if not nesterov or (momentum and not dampening)
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", CASES, ids=str)
def test_steps(settings, dtype):
    p = Parameter(START.astype(dtype))
    optimizer = SGD([p], lr=0.1, **settings)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for g, (wanted, buffer) in zip(GRADS, expected(dtype, **settings), strict=True):
        p.grad = hy.asarray(g.astype(dtype))
        optimizer.step()
        np.testing.assert_allclose(p.numpy(), wanted, rtol=rtol, atol=rtol)
        if buffer is not None:
            kept = optimizer.state_dict()["state"][0]["momentum_buffer"]
            np.testing.assert_allclose(kept.numpy(), buffer, rtol=rtol, atol=rtol)


def test_maximize():
    p = Parameter(START)
    optimizer = SGD([p], lr=0.1, maximize=True, weight_decay=0.01)
    for g, (wanted, _) in zip(GRADS, expected("float64", weight_decay=0.01, sign=-1), strict=True):
        p.grad = hy.asarray(g)
        optimizer.step()
        np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-12)


def test_dampening_knows_each_parameters_first_step():
    early, late = Parameter([0.0]), Parameter([0.0])
    optimizer = SGD([early, late], lr=1.0, momentum=0.5, dampening=0.5)
    for number in range(3):
        early.grad = hy.asarray([1.0])
        if number:
            late.grad = hy.asarray([1.0])
        optimizer.step()
    # buffers: 1, 1/2 + 1/2, 1/2 + 1/2
    assert (early.item(), late.item()) == (-3.0, -2.0)


def test_parameters_without_a_gradient_stay():
    p, q = Parameter([1.0]), Parameter([1.0])
    p.grad = hy.asarray([1.0])
    SGD([p, q], lr=0.5, weight_decay=0.1, momentum=0.9).step()
    assert p.item() < 1.0 and q.item() == 1.0
