"""Losses against their definitions in NumPy, their derivatives, their ends and their errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
)
from hybrid.nn import functional as F
from hybrid.ops.layers.softmax import entropy_pull
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

D = Draw(11)
X, Y, Z = (D("float64", 4, 5) * 2 for _ in range(3))
P, T = (D("float64", 4, 5, low=0.05, high=0.95) for _ in range(2))
COUNTS = D("int64", 4, 5, low=0, high=6).astype(np.float64)
SIGNS = np.where(D("bool", 4, 5), 1.0, -1.0)
BITS = (SIGNS > 0).astype(np.float64)
W = D("float64", 5, low=0.2, high=2.0)


def softplus(x):
    return np.logaddexp(x, 0)


def norm(x, p):
    return (np.abs(x) ** p).sum(-1) ** (1 / p)


def triplet(a, b, c, margin, p, swap):
    near, far = norm(a - b + 1e-6, p), norm(a - c + 1e-6, p)
    far = np.minimum(far, norm(b - c + 1e-6, p)) if swap else far
    return np.maximum(0, margin + near - far)


def cosine(a, b):
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def huber(d):
    apart = np.abs(X - Y)
    return np.where(apart <= d, apart**2 / 2, d * (apart - d / 2))


def stirling(n):
    safe = np.maximum(n, 1)
    found = safe * np.log(safe) - safe + np.log(2 * np.pi * safe) / 2
    return np.where(n > 1, found, 0)


CASES = {  # name: (function, operands, keywords, the losses)
    "mse": (F.mse_loss, (X, Y), {}, (X - Y) ** 2),
    "l1": (F.l1_loss, (X, Y), {}, np.abs(X - Y)),
    "huber": (F.huber_loss, (X, Y), {"delta": 0.7}, huber(0.7)),
    "smooth l1": (F.smooth_l1_loss, (X, Y), {"beta": 0.5}, huber(0.5) / 0.5),
    "smooth l1 of 0": (F.smooth_l1_loss, (X, Y), {"beta": 0.0}, np.abs(X - Y)),
    "poisson": (F.poisson_nll_loss, (X, COUNTS), {}, np.exp(X) - COUNTS * X),
    "poisson rates": (
        F.poisson_nll_loss,
        (P, COUNTS),
        {"log_input": False, "full": True, "eps": 0.1},
        P - COUNTS * np.log(P + 0.1) + stirling(COUNTS),
    ),
    "gaussian": (
        F.gaussian_nll_loss,
        (X, Y, P),
        {"full": True},
        (np.log(2 * np.pi * P) + (X - Y) ** 2 / P) / 2,
    ),
    "gaussian of rows": (
        F.gaussian_nll_loss,
        (X, Y, P[:, 0]),
        {"eps": 0.5},
        (np.log(np.maximum(P[:, :1], 0.5)) + (X - Y) ** 2 / np.maximum(P[:, :1], 0.5)) / 2,
    ),
    "hinge": (
        F.hinge_embedding_loss,
        (X, SIGNS),
        {"margin": 0.5},
        np.where(SIGNS > 0, X, np.maximum(0, 0.5 - X)),
    ),
    "ranking": (
        F.margin_ranking_loss,
        (X, Y, SIGNS),
        {"margin": 0.25},
        np.maximum(0, 0.25 - SIGNS * (X - Y)),
    ),
    "cosine": (
        F.cosine_embedding_loss,
        (X, Y, SIGNS[:, 0]),
        {"margin": -0.5},
        np.where(SIGNS[:, 0] > 0, 1 - cosine(X, Y), np.maximum(0, cosine(X, Y) + 0.5)),
    ),
    "triplet": (F.triplet_margin_loss, (X, Y, Z), {}, triplet(X, Y, Z, 1, 2, False)),
    "triplet swapped": (
        F.triplet_margin_loss,
        (X, Y, Z),
        {"margin": 2.0, "p": 3, "swap": True},
        triplet(X, Y, Z, 2, 3, True),
    ),
    "soft margin": (F.soft_margin_loss, (X, SIGNS), {}, softplus(-SIGNS * X)),
    "bce": (F.binary_cross_entropy, (P, T), {}, -T * np.log(P) - (1 - T) * np.log(1 - P)),
    "weighted bce": (
        F.binary_cross_entropy,
        (P, T, W),
        {},
        (-T * np.log(P) - (1 - T) * np.log(1 - P)) * W,
    ),
    "bce logits": (F.binary_cross_entropy_with_logits, (X, T), {}, softplus(X) - T * X),
    "weighted bce logits": (
        F.binary_cross_entropy_with_logits,
        (X, T, P),
        {"pos_weight": W},
        (W * T * softplus(-X) + (1 - T) * softplus(X)) * P,
    ),
    "multilabel": (
        F.multilabel_soft_margin_loss,
        (X, BITS, W),
        {},
        (W * softplus(-SIGNS * X)).mean(-1),
    ),
    "kl": (F.kl_div, (X, T), {}, T * (np.log(T) - X)),
    "kl of logs": (F.kl_div, (X, Y), {"log_target": True}, np.exp(Y) * (Y - X)),
}


@pytest.mark.parametrize(("loss", "operands", "given", "want"), CASES.values(), ids=CASES)
def test_losses_are_as_defined(loss, operands, given, want) -> None:
    for reduction, to in (("none", want), ("mean", want.mean()), ("sum", want.sum())):
        found = loss(*map(hy.asarray, operands), **given, reduction=reduction)
        assert found.dtype is hy.float64
        np.testing.assert_allclose(found.numpy(), to, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loss(*operands, **given).numpy(), want.mean(), rtol=1e-9)
    narrow = [x.astype(np.float32) for x in operands]
    found = loss(*narrow, **given, reduction="none")
    assert found.dtype is hy.float32
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("loss", "operands", "given", "want"), CASES.values(), ids=CASES)
def test_derivatives_and_captures_of_losses(loss, operands, given, want) -> None:
    first, *others = map(hy.asarray, operands)
    hy.check_grads(lambda x: loss(x, *others, **given), first, order=2, rtol=1e-4, atol=1e-6)
    step = hy.value_and_grad(lambda x, *others: loss(x, *others, **given))
    for a, b in zip(step(first, *others), hy.hybridize(step)(first, *others), strict=True):
        assert same(a, b)


# Classes -----------------------------------------------------------------------------------------

LOGITS = D("float64", 4, 5, 3) * 2
CLASSES = D("int64", 4, 3, low=0, high=4)
SOFT = D("float64", 4, 5, 3, low=0.0, high=1.0)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def entropy(targets, weight, ignored, smoothing, how):
    logs, losses, shares = log_softmax(LOGITS), np.zeros((4, 3)), np.zeros((4, 3))
    weight = np.ones(5) if weight is None else weight
    for i, j in np.ndindex(4, 3):
        c = targets[i, j]
        if c != ignored:
            row = weight * logs[i, :, j]
            losses[i, j] = -(1 - smoothing) * row[c] - smoothing * row.mean()
            shares[i, j] = weight[c]
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / shares.sum()}[how]


@pytest.mark.parametrize("how", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weight", [None, W])
def test_cross_entropy(weight, smoothing, how) -> None:
    given = {"weight": weight, "reduction": how}
    for ignored in (-100, 2):
        targets = np.where(D("bool", 4, 3), CLASSES, ignored)
        want = entropy(targets, weight, ignored, smoothing, how)
        found = F.cross_entropy(
            LOGITS, targets, ignore_index=ignored, label_smoothing=smoothing, **given
        )
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-10)
        if not smoothing:
            found = F.nll_loss(log_softmax(LOGITS), targets, ignore_index=ignored, **given)
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-10)
        last = F.cross_entropy(
            LOGITS.swapaxes(1, 2),
            targets,
            ignore_index=ignored,
            label_smoothing=smoothing,
            axis=-1,
            **given,
        )
        np.testing.assert_allclose(last.numpy(), want, rtol=1e-10)
    target = (1 - smoothing) * SOFT + smoothing / 5
    column = 1.0 if weight is None else weight[:, None]
    losses = -(target * column * log_softmax(LOGITS)).sum(1)
    want = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[how]
    found = F.cross_entropy(LOGITS, SOFT, label_smoothing=smoothing, **given)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-10)


def test_cross_entropy_of_one_row() -> None:
    row = LOGITS[0, :, 0]
    want = -log_softmax(row[None])[0, 3]
    np.testing.assert_allclose(F.cross_entropy(row, 3).numpy(), want)
    np.testing.assert_allclose(F.nll_loss(row, np.array(3)).numpy(), -row[3])


def test_all_targets_ignored_and_no_rows() -> None:
    logits, ignored = hy.asarray(LOGITS[:, :, 0]), hy.asarray([-100] * 4)
    for loss in (F.cross_entropy, F.nll_loss):
        assert math.isnan(loss(logits, ignored).item())
        assert loss(logits, ignored, reduction="sum").item() == 0
        slope = hy.grad(lambda x, loss=loss: loss(x, ignored, reduction="sum"))(logits)
        assert not slope.numpy().any()
        assert loss(hy.zeros((0, 5)), hy.zeros(0, dtype=hy.int64), reduction="none").shape == (0,)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_derivatives_of_class_losses(loss) -> None:
    targets = np.where(CLASSES == 1, -100, CLASSES)
    logits, weight = hy.asarray(LOGITS), hy.asarray(W)
    given = {} if loss is F.nll_loss else {"label_smoothing": 0.1}

    def function(x, w):
        return loss(x, targets, w, **given)

    hy.check_grads(function, logits, weight, order=2, rtol=1e-4, atol=1e-6)
    step = hy.value_and_grad(function, argnums=(0, 1))
    (a, slopes), (b, others) = step(logits, weight), hy.hybridize(step)(logits, weight)
    assert same(a, b) and all(same(c, d) for c, d in zip(slopes, others, strict=True))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weight", [None, W])
def test_margins_between_classes(p, weight) -> None:
    targets = np.array([0, 4, 2, 2])
    want = np.zeros(4)
    for i, y in enumerate(targets):
        for j in range(5):
            if j != y:
                want[i] += max(0, 0.5 - X[i, y] + X[i, j]) ** p / 5
    want = want if weight is None else want * weight[targets]
    given = {"p": p, "margin": 0.5, "weight": weight}
    found = F.multi_margin_loss(X, targets, **given, reduction="none")
    np.testing.assert_allclose(found.numpy(), want)
    np.testing.assert_allclose(F.multi_margin_loss(X[1], 4, **given).numpy(), want[1])
    hy.check_grads(lambda x: F.multi_margin_loss(x, targets, **given), hy.asarray(X))


def test_margins_between_sets_of_classes() -> None:
    targets = np.array([[1, 3, -1, 0, 2], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0], [2, -1, -1, -1, -1]])
    want = np.zeros(4)
    for i, row in enumerate(([1, 3], [], [4, 3, 2, 1, 0], [2])):
        for j in row:
            for k in set(range(5)) - set(row):
                want[i] += max(0, 1 - X[i, j] + X[i, k]) / 5
    found = F.multilabel_margin_loss(X, targets, reduction="none")
    np.testing.assert_allclose(found.numpy(), want)
    np.testing.assert_allclose(F.multilabel_margin_loss(X[0], targets[0]).numpy(), want[0])
    hy.check_grads(lambda x: F.multilabel_margin_loss(x, targets), hy.asarray(X))


def test_batchmean() -> None:
    want = (T * (np.log(T) - X)).sum() / 4
    np.testing.assert_allclose(F.kl_div(X, T, reduction="batchmean").numpy(), want)


# Ends --------------------------------------------------------------------------------------------

INF = math.inf
ENDS = {  # (loss of x, at, values, slopes)
    "bce": (
        lambda x: F.binary_cross_entropy(x, hy.asarray([0.0, 1.0, 1.0, 0.0]), reduction="none"),
        [0.0, 0.0, 1.0, 1.0],
        [0.0, 100.0, 0.0, 100.0],
        [1.0, 0.0, -1.0, 0.0],
    ),
    "bce logits": (
        lambda x: F.binary_cross_entropy_with_logits(
            x, hy.asarray([1.0, 0.0, 1.0, 0.5]), reduction="none"
        ),
        [1e30, -1e30, -1e30, 0.0],
        [0.0, 0.0, 1e30, math.log(2)],
        [0.0, 0.0, -1.0, 0.0],
    ),
    "kl": (
        lambda x: F.kl_div(x, hy.asarray([0.0, 0.0]), reduction="none"),
        [-INF, 3.0],
        [0.0, 0.0],
        [0.0, 0.0],
    ),
    "kl of logs": (
        lambda x: F.kl_div(x, hy.asarray([-INF, 0.0]), reduction="none", log_target=True),
        [-INF, 3.0],
        [0.0, -3.0],
        [0.0, -1.0],
    ),
    "huber": (
        lambda x: F.huber_loss(x, hy.zeros(3), reduction="none"),
        [1e30, -1e30, 0.0],
        [1e30, 1e30, 0.0],
        [1.0, -1.0, 0.0],
    ),
    "soft margin": (
        lambda x: F.soft_margin_loss(x, hy.asarray([1.0, -1.0, -1.0]), reduction="none"),
        [1e30, -1e30, 1e30],
        [0.0, 0.0, 1e30],
        [0.0, 0.0, 1.0],
    ),
    "zero vectors": (
        lambda x: F.cosine_embedding_loss(
            hy.reshape(x, (1, 2)), hy.zeros((1, 2)), hy.ones(1), reduction="none"
        ),
        [0.0, 0.0],
        [1.0],
        [0.0, 0.0],
    ),
}


@pytest.mark.parametrize(("loss", "at", "values", "slopes"), ENDS.values(), ids=ENDS)
def test_ends(loss, at, values, slopes) -> None:
    x = hy.asarray(at)
    np.testing.assert_allclose(loss(x).numpy(), values, rtol=1e-6)
    np.testing.assert_allclose(hy.grad(lambda x: hy.sum(loss(x)))(x).numpy(), slopes, rtol=1e-6)


# Errors ------------------------------------------------------------------------------------------

L, C = LOGITS[:, :, 0], CLASSES[:, 0]
TARGETS = np.full((4, 5), 5)
ERRORS = {
    "shape": (lambda: F.l1_loss(X, Y[:2]), ShapeError, r"l1_loss cannot compare f64\[4,5\]"),
    "three": (lambda: F.margin_ranking_loss(X, Y, 1.0), ShapeError, "margin_ranking_loss cannot t"),
    "ints": (lambda: F.mse_loss(C, C), DTypeError, "mse_loss cannot take i64"),
    "reduction": (lambda: F.huber_loss(X, Y, reduction="avg"), ArgumentError, "no reduction 'avg'"),
    "batchmean": (lambda: F.mse_loss(X, Y, reduction="batchmean"), ArgumentError, "no reduction"),
    "no batch": (lambda: F.kl_div(0.0, 1.0, reduction="batchmean"), AxisError, "kl_div got axis 0"),
    "delta": (lambda: F.huber_loss(X, Y, delta=-1), ArgumentError, "huber_loss got delta -1"),
    "beta": (lambda: F.smooth_l1_loss(X, Y, beta="a"), ArgumentError, "got beta 'a'"),
    "margin": (lambda: F.triplet_margin_loss(X, Y, Z, margin=None), ArgumentError, "margin None"),
    "variance": (lambda: F.gaussian_nll_loss(X, Y, W[:2]), ShapeError, "cannot use a variance"),
    "weight": (lambda: F.binary_cross_entropy(P, T, W[:2]), ShapeError, "cannot use a weight"),
    "pos_weight": (
        lambda: F.binary_cross_entropy_with_logits(X, T, pos_weight=W[:2]),
        ShapeError,
        "cannot use a weight",
    ),
    "cosine": (lambda: F.cosine_embedding_loss(X, Y, SIGNS), ShapeError, "one target for each vec"),
    "class": (lambda: F.cross_entropy(L, C + 3), OutOfRangeError, "out of range for 5 classes"),
    "below": (lambda: F.cross_entropy(L, C - 5), OutOfRangeError, "target -. at position"),
    "nll class": (lambda: F.nll_loss(L, C + 3), OutOfRangeError, "out of range for 5 classes"),
    "nll below": (lambda: F.nll_loss(L, C - 5), OutOfRangeError, "target -. at position"),
    "classes": (lambda: F.nll_loss(L, C[:3]), ShapeError, "logits without axis 1"),
    "bools": (lambda: F.cross_entropy(L, C > 1), DTypeError, "indices of dtype bool"),
    "int logits": (lambda: F.cross_entropy(L.astype(int), C), DTypeError, "cross_entropy cannot"),
    "probabilities": (lambda: F.cross_entropy(L, P[:2]), ShapeError, "cross_entropy cannot comp"),
    "class weight": (lambda: F.cross_entropy(L, C, W[:2]), ShapeError, "as weight"),
    "smoothing": (lambda: F.cross_entropy(L, C, label_smoothing=1.5), ArgumentError, "smoothing 1"),
    "ignored": (lambda: F.cross_entropy(L, P, ignore_index=1), ArgumentError, "for probabilities"),
    "ignored float": (lambda: F.nll_loss(L, C, ignore_index=1.0), ArgumentTypeError, "index 1.0"),
    "power": (lambda: F.multi_margin_loss(L, C, p=3), ArgumentError, "multi_margin_loss got p 3"),
    "margin class": (lambda: F.multi_margin_loss(L, C + 3), OutOfRangeError, "for 5 classes"),
    "sets": (lambda: F.multilabel_margin_loss(L, C), ShapeError, "multilabel_margin_loss cannot"),
    "set class": (lambda: F.multilabel_margin_loss(X, TARGETS), OutOfRangeError, "index 5"),
    "scalar": (lambda: F.cross_entropy(1.0, 0), AxisError, "cross_entropy got axis"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (17, 33), (64, 100), (3, 5000), (0, 4)], ids=str)
def test_the_gradient_of_cross_entropy(dtype, size) -> None:
    """The bits of ``softmax * ct``, less ct at the target, in both modes."""
    rows, classes = size
    random = np.random.default_rng(rows)
    logits = hy.asarray((random.standard_normal(size) * 4).astype(dtype))
    targets = hy.asarray(random.integers(0, classes, rows))
    ct = hy.asarray(random.standard_normal(rows).astype(dtype))
    expected = (hy.softmax(logits, axis=1) * ct[:, None]).numpy().copy()
    expected[np.arange(rows), targets.numpy()] -= ct.numpy()

    def slopes(logits):
        return hy.grad(lambda x: (F.cross_entropy(x, targets, reduction="none") * ct).sum())(logits)

    for found in (slopes(logits), hy.hybridize(slopes)(logits)):
        assert found.numpy().tobytes() == expected.tobytes()


def test_slopes_of_cross_entropy_at_classes_that_are_not_there() -> None:
    logits, ct = hy.zeros((2, 3)), hy.ones(2)
    with pytest.raises(OutOfRangeError, match="target 3 at position 1 is out of range for 3"):
        entropy_pull(logits, hy.asarray([0, 3]), ct)
    with pytest.raises(ShapeError, match="cross_entropy_pull"):
        entropy_pull(logits, hy.asarray([0, 1]), hy.ones(3))
