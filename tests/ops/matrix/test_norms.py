"""Norms, distances and similarities against NumPy, at zero vectors, and their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, AxisError, ShapeError
from hybrid.nn import functional as F
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

D = Draw(21)
A, B = D("float64", 3, 4), D("float64", 3, 4)
INF = math.inf
ORDERS = [0, 0.5, 1, 1.5, 2, 3, -1, INF, -INF]


@pytest.mark.parametrize("order", ORDERS)
def test_norms_as_numpy(order) -> None:
    x = A.copy()
    x[0, 1] = 0.0
    with np.errstate(divide="ignore"):
        want = np.linalg.norm(x, order, axis=1)
        flat = np.linalg.norm(x.reshape(-1), order)
    np.testing.assert_allclose(hy.norm(x, order, axis=1).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(hy.norm(x, order, 1, True).numpy(), want[:, None], rtol=1e-12)
    np.testing.assert_allclose(hy.norm(hy.asarray(x), order).numpy(), flat, rtol=1e-12)
    np.testing.assert_allclose(
        hy.vector_norm(hy.asarray(x), axis=1, ord=order).numpy(), want, rtol=1e-12
    )
    if order not in (0, INF, -INF):
        hy.check_grads(lambda x: hy.norm(x, order, axis=1), hy.asarray(A), order=2, rtol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_the_slope_at_zero_vectors(order) -> None:
    def slopes(x):
        return hy.grad(lambda x: hy.sum(hy.norm(x, order, axis=-1)))(x)

    x = hy.asarray([[0.0, 0.0], [3.0, 0.0]])
    found = slopes(x).numpy()
    assert np.isfinite(found).all() and not found[0].any()
    assert same(slopes(x), hy.hybridize(slopes)(x))


def test_similarities_and_distances() -> None:
    lengths = np.linalg.norm(A, axis=1) * np.linalg.norm(B, axis=1)
    want = (A * B).sum(1) / lengths
    np.testing.assert_allclose(F.cosine_similarity(A, B).numpy(), want)
    np.testing.assert_allclose(F.cosine_similarity(A.T, B.T, axis=0).numpy(), want)
    found = F.cosine_similarity(A[:, None], B[None], axis=-1).numpy()
    assert found.shape == (3, 3)
    np.testing.assert_allclose(np.diag(found), want)
    for p in (1, 2, 3, INF):
        apart = np.linalg.norm(A - B + 1e-6, p, axis=1)
        np.testing.assert_allclose(F.pairwise_distance(A, B, p).numpy(), apart)
        assert F.pairwise_distance(A, B[0], p, keepdims=True).shape == (3, 1)
        all_pairs = np.linalg.norm(A[:, None] - B[None, :2], p, axis=-1)
        np.testing.assert_allclose(hy.cdist(A, B[:2], p).numpy(), all_pairs)
    assert hy.cdist(np.array([[1, 2]]), np.array([[1, 3], [4, 6]])).tolist() == [[1.0, 5.0]]
    assert hy.cdist(hy.ones((2, 0, 4)), hy.ones((2, 3, 4))).shape == (2, 0, 3)


def test_derivatives() -> None:
    a, b = hy.asarray(A), hy.asarray(B)
    for function in (
        F.cosine_similarity,
        F.pairwise_distance,
        lambda a, b: F.pairwise_distance(a, b, 3.0),
        hy.cdist,
        lambda a, b: hy.cdist(a, b, 1.5),
    ):
        hy.check_grads(function, a, b, order=2, rtol=1e-4, atol=1e-6)
    slope = hy.grad(lambda a: hy.sum(hy.cdist(a, a)))(a).numpy()
    assert np.isfinite(slope).all()
    slope = hy.grad(lambda a: hy.sum(F.cosine_similarity(a, a)))(hy.zeros((2, 3)))
    assert slope.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hy.norm(A, "fro"), ArgumentError, "vector_norm got ord 'fro'"),
        (lambda: hy.norm(A, math.nan), ArgumentError, "vector_norm got ord nan"),
        (lambda: hy.norm(A, True), ArgumentError, "vector_norm got ord True"),
        (lambda: hy.norm(A, 2, axis=2), AxisError, "vector_norm got axis 2"),
        (lambda: F.cosine_similarity(A, B[:2]), ShapeError, "cosine_similarity cannot take"),
        (lambda: F.cosine_similarity(A[0], B[0]), AxisError, "cosine_similarity got axis 1"),
        (lambda: F.pairwise_distance(A, B[:2]), ShapeError, "pairwise_distance cannot take"),
        (lambda: F.pairwise_distance(1.0, 2.0), AxisError, "pairwise_distance got axis -1"),
        (lambda: hy.cdist(A[0], B), AxisError, "cdist got axis -2"),
        (lambda: hy.cdist(A, B[:, :2]), ShapeError, "cannot take"),
    ],
)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()
