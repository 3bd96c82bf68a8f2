"""Losses against their definitions, with gradients."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, OutOfRangeError, ShapeError
from hybrid.nn import CrossEntropyLoss, MSELoss

DRAW = np.random.RandomState(0)
LOGITS = DRAW.randn(6, 4).astype(np.float32)
TARGETS = np.array([0, 3, 1, 1, 2, 0])
REDUCE = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize("reduction", REDUCE)
def test_cross_entropy(reduction):
    expected = REDUCE[reduction](-log_softmax(LOGITS)[np.arange(6), TARGETS])
    found = CrossEntropyLoss(reduction=reduction)(hy.asarray(LOGITS), hy.asarray(TARGETS))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_cross_entropy_gradient():
    logits = hy.asarray(LOGITS)
    logits.requires_grad = True
    CrossEntropyLoss()(logits, hy.asarray(TARGETS)).backward()
    expected = (np.exp(log_softmax(LOGITS)) - np.eye(4)[TARGETS]) / 6
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_cross_entropy_options():
    logs = log_softmax(LOGITS)
    chosen = -logs[np.arange(6), TARGETS]
    logits, targets = hy.asarray(LOGITS), hy.asarray(TARGETS)
    ignoring = CrossEntropyLoss(ignore_index=1)(logits, targets)
    np.testing.assert_allclose(ignoring.numpy(), chosen[TARGETS != 1].mean(), rtol=1e-5)
    smoothed = CrossEntropyLoss(label_smoothing=0.1)(logits, targets)
    expected = (0.9 * chosen - 0.1 * logs.mean(1)).mean()
    np.testing.assert_allclose(smoothed.numpy(), expected, rtol=1e-5)


def test_cross_entropy_errors():
    loss = CrossEntropyLoss()
    with pytest.raises(OutOfRangeError):
        loss(hy.asarray(LOGITS), hy.asarray(TARGETS + 1))
    with pytest.raises(ShapeError, match="the shape of the logits without axis 1"):
        loss(hy.asarray(LOGITS), hy.asarray(TARGETS[:5]))
    with pytest.raises(ArgumentError, match="a probability of 2"):
        CrossEntropyLoss(label_smoothing=2)


@pytest.mark.parametrize("reduction", REDUCE)
def test_mse(reduction):
    a, b = DRAW.randn(2, 5, 3).astype(np.float32)
    prediction = hy.asarray(a)
    prediction.requires_grad = True
    loss = MSELoss(reduction)(prediction, hy.asarray(b))
    np.testing.assert_allclose(loss.numpy(), REDUCE[reduction]((a - b) ** 2), rtol=1e-5)
    hy.sum(loss).backward()
    scale = 1 / a.size if reduction == "mean" else 1
    np.testing.assert_allclose(prediction.grad.numpy(), 2 * (a - b) * scale, rtol=1e-5)


def test_mse_does_not_broadcast():
    with pytest.raises(ShapeError, match="Predictions and targets must have one shape"):
        MSELoss()(hy.zeros((4, 1)), hy.zeros((4,)))


@pytest.mark.parametrize("kind", [MSELoss, CrossEntropyLoss])
def test_reduction_is_checked(kind):
    with pytest.raises(ArgumentError) as caught:
        kind(reduction="average")
    assert str(caught.value) == (
        'reduction=\'average\' is unknown\nFix: use "mean" or "sum" or "none".'
    )


def test_reprs():
    assert repr(MSELoss(reduction="sum")) == "MSELoss(reduction='sum')"
    assert repr(CrossEntropyLoss()) == (
        "CrossEntropyLoss(ignore_index=-100, reduction='mean', label_smoothing=0.0)"
    )
