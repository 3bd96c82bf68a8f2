"""The array functions against NumPy: the same call on both sides."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.ops import cross_entropy

RANDOM = np.random.default_rng(5)
V = RANDOM.uniform(-2, 2, 5).astype(np.float32)
W = RANDOM.uniform(-2, 2, 5).astype(np.float32)
M = RANDOM.uniform(-2, 2, (3, 4)).astype(np.float32)
N = RANDOM.uniform(-2, 2, (4, 5)).astype(np.float32)
C = RANDOM.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
I = RANDOM.integers(-9, 9, (3, 4))  # noqa: E741  integers
P = RANDOM.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
B = RANDOM.random((3, 4)) < 0.5

CASES = [  # (the call on hybrid, the call on NumPy)
    # shapes
    (lambda: hy.reshape(hy.asarray(M), (2, -1)), lambda: M.reshape(2, -1)),
    (lambda: hy.permute_dims(hy.asarray(C), (-1, 0, 1)), lambda: C.transpose(2, 0, 1)),
    (lambda: hy.matrix_transpose(hy.asarray(C)), lambda: np.swapaxes(C, -1, -2)),
    (lambda: hy.moveaxis(hy.asarray(C), 0, -1), lambda: np.moveaxis(C, 0, -1)),
    (lambda: hy.moveaxis(hy.asarray(C), (0, 1), (-1, 0)), lambda: np.moveaxis(C, (0, 1), (-1, 0))),
    (lambda: hy.expand_dims(hy.asarray(M), 1), lambda: np.expand_dims(M, 1)),
    (lambda: hy.expand_dims(hy.asarray(M), -1), lambda: np.expand_dims(M, -1)),
    (lambda: hy.squeeze(hy.asarray(M[:, None]), 1), lambda: M),
    (lambda: hy.flatten(hy.asarray(C), 1), lambda: C.reshape(2, 12)),
    (lambda: hy.broadcast_to(hy.asarray(V), (2, 5)), lambda: np.broadcast_to(V, (2, 5))),
    (lambda: hy.flip(hy.asarray(M), axis=-1), lambda: np.flip(M, -1)),
    (lambda: hy.flip(hy.asarray(M)), lambda: np.flip(M)),
    # joining
    (lambda: hy.concat([hy.asarray(M), M], axis=-1), lambda: np.concatenate([M, M], -1)),
    (lambda: hy.concat([M, I], axis=None), lambda: np.concatenate([M, I.astype(np.float32)], None)),
    (lambda: hy.stack([V, W], axis=1), lambda: np.stack([V, W], 1)),
    (lambda: hy.split(hy.asarray(M), 2, axis=1)[0], lambda: M[:, :2]),
    (lambda: hy.split(hy.asarray(V), len(V) - 1)[1], lambda: V[-1:]),
    (lambda: hy.split(hy.asarray(V), [1, len(V) - 2, 1])[1], lambda: V[1:-1]),
    (lambda: hy.chunk(hy.asarray(V), 2)[1], lambda: V[3:]),
    (lambda: hy.unstack(hy.asarray(M), axis=1)[2], lambda: M[:, 2]),
    (lambda: hy.roll(hy.asarray(M), 5), lambda: np.roll(M, 5)),
    (lambda: hy.roll(hy.asarray(M), -1, axis=0), lambda: np.roll(M, -1, 0)),
    (lambda: hy.roll(hy.asarray(M), (1, 2), axis=(0, 1)), lambda: np.roll(M, (1, 2), (0, 1))),
    (lambda: hy.tile(hy.asarray(M), (2, 1, 3)), lambda: np.tile(M, (2, 1, 3))),
    (lambda: hy.tile(hy.asarray(M), 2), lambda: np.tile(M, 2)),
    (lambda: hy.repeat(hy.asarray(M), 2, axis=1), lambda: np.repeat(M, 2, 1)),
    (lambda: hy.repeat(hy.asarray(M), 3), lambda: np.repeat(M, 3)),
    (lambda: hy.meshgrid(V, W)[0], lambda: np.meshgrid(V, W)[0]),
    (lambda: hy.meshgrid(V, W, indexing="ij")[1], lambda: np.meshgrid(V, W, indexing="ij")[1]),
    # creation
    (lambda: hy.arange(5), lambda: np.arange(5)),
    (lambda: hy.arange(5, 1, -2), lambda: np.arange(5, 1, -2)),
    (lambda: hy.arange(0.0, 1.0, 0.25), lambda: np.arange(0, 1, 0.25, dtype=np.float32)),
    (lambda: hy.linspace(0, 1, 5), lambda: np.linspace(0, 1, 5, dtype=np.float32)),
    (lambda: hy.eye(3, 4, k=1), lambda: np.eye(3, 4, 1, dtype=np.float32)),
    (lambda: hy.full((2, 3), 7), lambda: np.full((2, 3), 7)),
    (lambda: hy.full((2, 3), -0.0), lambda: np.full((2, 3), -0.0, np.float32)),
    (lambda: hy.ones_like(hy.asarray(I)), lambda: np.ones_like(I)),
    (lambda: hy.tril(hy.asarray(C), k=-1), lambda: np.tril(C, -1)),
    (lambda: hy.tril(hy.asarray(B)), lambda: np.tril(B)),
    (lambda: hy.triu(hy.asarray(M), k=1), lambda: np.triu(M, 1)),
    # reductions and statistics
    (lambda: hy.sum(hy.asarray(M), axis=(0, -1)), lambda: M.sum()),
    (lambda: hy.sum(hy.asarray(B)), lambda: B.sum()),
    (lambda: hy.sum(hy.asarray(B), dtype=hy.float32), lambda: B.sum(dtype=np.float32)),
    (lambda: hy.prod(hy.asarray(I[:1]), axis=1), lambda: I[:1].prod(1)),
    (lambda: hy.mean(hy.asarray(I), axis=0), lambda: I.mean(0).astype(np.float32)),
    (lambda: hy.var(hy.asarray(M), axis=1), lambda: M.var(1)),
    (lambda: hy.std(hy.asarray(M), correction=1), lambda: M.std(ddof=1)),
    (lambda: hy.any(hy.asarray(I), axis=0), lambda: I.any(0)),
    (lambda: hy.all(hy.asarray(np.zeros((2, 0), bool)), axis=1), lambda: np.ones(2, bool)),
    (lambda: hy.argmax(hy.asarray(M)), lambda: M.argmax()),
    (lambda: hy.argmin(hy.asarray(M), axis=-1), lambda: M.argmin(-1)),
    (lambda: hy.count_nonzero(hy.asarray(B), axis=1), lambda: np.count_nonzero(B, 1)),
    (lambda: hy.logsumexp(hy.asarray(M) * 100, axis=1), lambda: np.logaddexp.reduce(M * 100, 1)),
    (lambda: ops.diff(M, axis=0), lambda: np.diff(M, axis=0)),
    (lambda: ops.diff(V, n=3), lambda: np.diff(V, n=3)),
    (lambda: ops.nonzero(hy.asarray(B))[1], lambda: np.nonzero(B)[1]),
    (lambda: ops.cdist(M, P), lambda: np.linalg.norm(M[:, None] - P[None], axis=-1)),
    # elementwise
    (lambda: hy.clip(hy.asarray(M), -1, 1), lambda: M.clip(-1, 1)),
    (lambda: hy.where(hy.asarray(B), M, 0), lambda: np.where(B, M, np.float32(0))),
    (lambda: hy.asarray(I) / 2, lambda: (I / 2).astype(np.float32)),
    (lambda: 2 ** hy.asarray(M), lambda: 2**M),
    (lambda: hy.logaddexp(hy.asarray(M), P), lambda: np.logaddexp(M, P)),
    (lambda: hy.log10(hy.asarray(P)), lambda: np.log10(P)),
    (lambda: hy.sinh(hy.asarray(M)), lambda: np.sinh(M)),
    (lambda: hy.cosh(hy.asarray(M)), lambda: np.cosh(M)),
    (lambda: hy.asin(hy.asarray(P)), lambda: np.arcsin(P)),
    (lambda: hy.acos(hy.asarray(P)), lambda: np.arccos(P)),
    (lambda: hy.atan(hy.asarray(M)), lambda: np.arctan(M)),
    (lambda: hy.asinh(hy.asarray(M)), lambda: np.arcsinh(M)),
    (lambda: hy.acosh(hy.asarray(P) + 1), lambda: np.arccosh(P + 1)),
    (lambda: hy.atanh(hy.asarray(P)), lambda: np.arctanh(P)),
    # products
    (lambda: hy.matmul(hy.asarray(M), N), lambda: M @ N),
    (lambda: hy.matmul(hy.asarray(M), M[0]), lambda: M @ M[0]),
    (lambda: hy.matmul(hy.asarray(M[:, 0]), M), lambda: M[:, 0] @ M),
    (lambda: hy.matmul(hy.asarray(V), W), lambda: V @ W),
    (lambda: hy.matmul(hy.asarray(C), N), lambda: C @ N),
    (lambda: hy.matmul(hy.asarray(C), C.swapaxes(1, 2)), lambda: C @ C.swapaxes(1, 2)),
    (lambda: hy.vecdot(hy.asarray(M), M), lambda: (M * M).sum(-1)),
    (
        lambda: hy.tensordot(hy.asarray(C), C, axes=((1, 2), (1, 2))),
        lambda: np.tensordot(C, C, ((1, 2), (1, 2))),
    ),
    (lambda: hy.tensordot(hy.asarray(M), N, axes=1), lambda: np.tensordot(M, N, 1)),
    # indexing
    (lambda: hy.take(hy.asarray(M), I[:2, :2] % 3, axis=0), lambda: M.take(I[:2, :2] % 3, 0)),
    (
        lambda: hy.take_along_axis(hy.asarray(M), M.argsort(0), axis=0),
        lambda: np.take_along_axis(M, M.argsort(0), 0),
    ),
]


@pytest.mark.parametrize(("ours", "numpys"), CASES, ids=range(len(CASES)))
def test_functions_agree_with_numpy(ours, numpys):
    got, want = ours(), np.asarray(numpys())
    assert got.shape == want.shape
    assert got.dtype.numpy == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got.numpy(), want, rtol=3e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(got.numpy(), want)


# Derivatives where the textbook's formula breaks ----------------------------------------------


def slope(function, at):
    return hy.grad(function)(hy.asarray(at)).numpy().tolist()


POINTS = [  # (name, function, where, derivative)
    ("relu at 0", lambda x: hy.sum(hy.relu(x)), [0.0, -1.0, 2.0], [0.0, 0.0, 1.0]),
    ("abs at 0", lambda x: hy.sum(hy.abs(x)), [0.0, -1.0, 2.0], [0.0, -1.0, 1.0]),
    ("maximum of equals", lambda x: hy.sum(hy.maximum(x, 1.0)), [1.0, 0.0, 2.0], [0.5, 0.0, 1.0]),
    ("minimum of equals", lambda x: hy.sum(hy.minimum(x, 1.0)), [1.0, 0.0, 2.0], [0.5, 1.0, 0.0]),
    ("max of equals", hy.max, [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    ("prod with a zero", hy.prod, [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
    ("prod with two zeros", hy.prod, [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
    ("square of 0", lambda x: hy.sum(x**2), [0.0, 3.0], [0.0, 6.0]),
    ("power 0 of 0", lambda x: hy.sum(x**0.0), [0.0, 3.0], [0.0, 0.0]),
    ("base 0", lambda x: hy.sum(hy.pow(0.0, x)), [2.0], [0.0]),
    ("norm of 0", lambda x: hy.vector_norm(x), [0.0, 0.0], [0.0, 0.0]),
    ("side not taken", lambda x: hy.where(x > 0, 2 * x, hy.nan).sum(), [-1.0, 1.0], [0.0, 2.0]),
    ("clip outside", lambda x: hy.sum(hy.clip(x, -1.0, 1.0)), [-2.0, 0.5, 2.0], [0.0, 1.0, 0.0]),
    ("logsumexp far apart", hy.logsumexp, [1000.0, 0.0], [1.0, 0.0]),
    ("an unused element", lambda x: x[1], [1.0, 2.0], [0.0, 1.0]),
    ("an element used twice", lambda x: x[1] + 2 * x[1], [1.0, 2.0], [0.0, 3.0]),
]


@pytest.mark.parametrize(("_name", "function", "at", "want"), POINTS, ids=[p[0] for p in POINTS])
def test_derivatives_at_special_points(_name, function, at, want):
    assert slope(function, at) == want


# Results are values of their own ----------------------------------------------------------------

NOTHING_TO_DO = {
    "positive": lambda x: +x,
    "clip": hy.clip,
    "astype": lambda x: hy.astype(x, hy.float32),
    "reshape": lambda x: hy.reshape(x, x.shape),
    "flatten": hy.flatten,
    "squeeze": hy.squeeze,
    "broadcast_to": lambda x: hy.broadcast_to(x, x.shape),
    "broadcast_arrays": lambda x: hy.broadcast_arrays(x, x)[0],
    "moveaxis": lambda x: hy.moveaxis(x, 0, 0),
    "roll": lambda x: hy.roll(x, 0, axis=0),
    "roll flat": lambda x: hy.roll(x, 0),
    "split": lambda x: hy.split(x, len(x))[0],
    "chunk": lambda x: hy.chunk(x, 1)[0],
    "concat": lambda x: hy.concat([x]),
    "tile": lambda x: hy.tile(x, 1),
    "repeat": lambda x: hy.repeat(x, 1),
    "meshgrid": lambda x: hy.meshgrid(x)[0],
    "pad": lambda x: ops.pad(x, 0),
    "diff": lambda x: ops.diff(x, n=0),
    "einsum": lambda x: ops.einsum("a->a", x),
    "sum": lambda x: hy.sum(x, axis=()),
    "index": lambda x: x[:],
    "dropout": lambda x: ops.dropout(x, 0.0, np.array([0, 0])),
    "stop_gradient": ops.stop_gradient,
}


@pytest.mark.parametrize("function", NOTHING_TO_DO.values(), ids=NOTHING_TO_DO)
def test_a_result_is_never_the_operands_own_cell(function):
    x = hy.asarray(V.copy())
    y = function(x)
    np.testing.assert_array_equal(y.numpy(), V)
    y += 1
    np.testing.assert_array_equal(x.numpy(), V)


# Losses -----------------------------------------------------------------------------------------

LOGITS = RANDOM.normal(size=(6, 4))
TARGETS = np.array([0, 3, 1, 1, 2, 0])
LOG_PROBABILITIES = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
PICKED = LOG_PROBABILITIES[np.arange(6), TARGETS]


def test_cross_entropy_of_classes():
    logits = hy.asarray(LOGITS)
    for reduction, want in [("mean", -PICKED.mean()), ("sum", -PICKED.sum()), ("none", -PICKED)]:
        got = cross_entropy(logits, TARGETS, reduction=reduction)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_cross_entropy_of_classes_along_axis_1():
    logits = hy.asarray(LOGITS.reshape(2, 3, 4).transpose(0, 2, 1))
    got = cross_entropy(logits, TARGETS.reshape(2, 3), reduction="none")
    np.testing.assert_allclose(got.numpy(), -PICKED.reshape(2, 3), rtol=1e-12)


def test_cross_entropy_ignores_an_index():
    targets = np.where(TARGETS == 1, -100, TARGETS)
    got = cross_entropy(hy.asarray(LOGITS), targets, ignore_index=-100)
    np.testing.assert_allclose(got.numpy(), -PICKED[TARGETS != 1].mean(), rtol=1e-12)


def test_cross_entropy_of_probabilities_and_smoothed_classes():
    smooth = 0.9 * np.eye(4)[TARGETS] + 0.1 / 4
    want = -(smooth * LOG_PROBABILITIES).sum(1).mean()
    of_probabilities = cross_entropy(hy.asarray(LOGITS), smooth)
    of_classes = cross_entropy(hy.asarray(LOGITS), TARGETS, label_smoothing=0.1)
    np.testing.assert_allclose(of_probabilities.numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(of_classes.numpy(), want, rtol=1e-12)


def test_other_losses():
    x, y = RANDOM.normal(size=(2, 7))
    p, t = 1 / (1 + np.exp(-x)), (y > 0).astype(np.float64)
    likelihood = t * np.log(p) + (1 - t) * np.log(1 - p)
    apart = np.abs(x - y)
    huber = np.where(apart <= 1, apart**2 / 2, apart - 0.5)
    for got, want in [
        (ops.mse_loss(x, y), ((x - y) ** 2).mean()),
        (ops.l1_loss(x, y), apart.mean()),
        (ops.huber_loss(x, y), huber.mean()),
        (ops.binary_cross_entropy(p, t), -likelihood.mean()),
        (ops.binary_cross_entropy_with_logits(x, t), -likelihood.mean()),
        (ops.nll_loss(LOG_PROBABILITIES, TARGETS), -PICKED.mean()),
        (ops.kl_div(LOG_PROBABILITIES, np.eye(4)[TARGETS], reduction="sum"), -PICKED.sum()),
    ]:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_one_hot():
    np.testing.assert_array_equal(
        ops.one_hot(TARGETS, 4).numpy(), np.eye(4, dtype=np.int64)[TARGETS]
    )
    got = ops.one_hot(TARGETS, 4, axis=0, dtype=hy.float32).numpy()
    np.testing.assert_array_equal(got, np.eye(4, dtype=np.float32)[TARGETS].T)


def test_dropout_keeps_the_mean_and_repeats():
    state = hy.asarray(np.array([3, 0]))
    x = np.ones(100_000, np.float32)
    dropped = ops.dropout(x, 0.25, state).numpy()
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(dropped.mean() - 1) < 0.01
    np.testing.assert_array_equal(dropped, ops.dropout(x, 0.25, state).numpy())
    assert not ops.dropout(x, 1.0, state).numpy().any()


def test_normal_draws_are_normal():
    state = hy.asarray(np.array([1, 7]))
    draws = ops.random_normal(state, shape=(200_000,), dtype=hy.float64).numpy()
    assert abs(draws.mean()) < 0.01 and abs(draws.std() - 1) < 0.01
    assert abs((draws**3).mean()) < 0.03 and abs((draws**4).mean() - 3) < 0.1
