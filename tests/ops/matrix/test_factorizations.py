"""Factorizations: backward errors and orthogonality as LAPACK's, and what ends without a result."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid import linalg
from hybrid.errors import LinearAlgebraError, OutOfMemoryError
from hybrid.ir import REGISTRY, Builder
from hybrid.memory import native
from hybrid.ops.support.sampling import samples, types_of
from hybrid.plan import make_plan
from tests.ops.matrix.spectra import DTYPES, bound, drawn, matrices, norm, unit

GENERAL = [(d, name, x) for d in DTYPES for name, x in matrices(d)]
SYMMETRIC = [(d, name, x) for d in DTYPES for name, x in matrices(d, symmetric=True)]
PARTS = [slice(None), slice(0, 1), slice(0, 7), slice(2, None)]  # of rows or columns


def turned(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def shapes(x: np.ndarray):
    """``x`` itself, and parts of it that are tall or wide."""
    yield x
    for part in PARTS[1:]:
        yield x[..., part]
        yield x[..., part, :]


def arrays(found: object) -> list[np.ndarray]:
    return [x.numpy().astype("float64") for x in found]


def assert_orthonormal(q: np.ndarray, allowed: float) -> None:
    """The columns of ``q``."""
    assert norm(turned(q) @ q - np.eye(q.shape[-1])) <= allowed


def named(cases):
    return pytest.mark.parametrize(
        ("dtype", "name", "x"), cases, ids=[f"{dtype} {name}" for dtype, name, _ in cases]
    )


@named(GENERAL)
def test_qr(dtype, name, x):
    for part in shapes(x):
        scaled, size = unit(part)
        for mode in ("reduced", "complete"):
            q, r = arrays(linalg.qr(part, mode=mode))
            assert_orthonormal(q, bound(part))
            assert norm(q @ (r / size) - scaled) <= bound(part) * max(norm(scaled), 1e-300)
            assert not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_column_of_r_keeps_its_digits(dtype):
    tiny, huge = (1e-300, 1e300) if dtype == "float64" else (1e-35, 1e35)
    x = drawn(9, 4).astype("float64")
    q, r = np.linalg.qr(x)
    scales = np.array([tiny, 1.0, huge, tiny])
    found = linalg.qr((x * scales).astype(dtype))
    np.testing.assert_allclose(found.R.numpy() / scales, r, 0, bound(x.astype(dtype)) * norm(r))
    np.testing.assert_allclose(found.Q.numpy(), q, 0, bound(x.astype(dtype)))


@named(SYMMETRIC)
def test_eigh(dtype, name, x):
    scaled, size = unit(x)
    values, vectors = arrays(linalg.eigh(x))
    largest = max(norm(scaled), 1e-300)
    assert_orthonormal(vectors, bound(x))
    rebuilt = vectors * (values / size)[..., None, :] @ turned(vectors)
    assert norm(rebuilt - scaled) <= bound(x) * largest
    want = np.linalg.eigvalsh(scaled)
    for found in (values, linalg.eigvalsh(x).numpy().astype("float64")):
        assert np.abs(found / size - want).max() <= bound(x) * largest
        assert (np.diff(found) >= 0).all()


@named(GENERAL)
def test_svd(dtype, name, x):
    for part in shapes(x):
        scaled, size = unit(part)
        largest, least = max(norm(scaled), 1e-300), min(part.shape[-2:])
        for full in (False, True):
            u, s, vh = arrays(linalg.svd(part, full_matrices=full))
            assert_orthonormal(u, bound(part))
            assert_orthonormal(turned(vh), bound(part))
            rebuilt = u[..., :least] * (s / size)[..., None, :] @ vh[..., :least, :]
            assert norm(rebuilt - scaled) <= bound(part) * largest
            assert (np.diff(s) <= 0).all() and (s >= 0).all()
        want = np.linalg.svd(scaled, compute_uv=False)
        values = linalg.svdvals(part).numpy().astype("float64") / size
        assert np.abs(values - want).max(initial=0) <= bound(part) * largest


@pytest.mark.parametrize("n", [2, 9, 40, 100])
def test_small_singular_values_of_a_bidiagonal_matrix_keep_their_digits(n):
    values = np.logspace(0, -60, n)
    x = np.diag(values) + np.diag(values[:-1] / 3, 1)
    inverse = np.linalg.inv(x / values[:, None]) / values  # whose largest one is the inverse of it
    least = 1 / np.linalg.norm(inverse, 2)
    np.testing.assert_allclose(linalg.svdvals(x)[-1].item(), least, 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 33, 64, 100, 257])
def test_cholesky(dtype, n):
    g = drawn(2, n, n)
    x = (g @ turned(g) + np.eye(n)).astype(dtype)
    found = linalg.cholesky(x).numpy().astype("float64")
    assert norm(found @ turned(found) - x) <= bound(x) * norm(x.astype("float64"))
    assert not np.triu(found, 1).any()
    asymmetric = (x + g - turned(g)).astype(dtype)
    found = linalg.cholesky(asymmetric).numpy().astype("float64")
    assert norm(found @ turned(found) - x) <= bound(x) * norm(x.astype("float64"))


@pytest.mark.parametrize("place", [(0, 0), (5, 5), (20, 20), (39, 39)])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_cholesky_refuses_what_is_not_positive_definite(place, value):
    x = np.tile(np.eye(40), (2, 3, 1, 1))
    x[(1, 2, *place)] = value
    text = r"cholesky cannot take f64\[2,3,40,40\], at \[1, 2\] of the stack"
    with pytest.raises(LinearAlgebraError, match=text) as caught:
        linalg.cholesky(x)
    assert "The matrix is not positive definite." in str(caught.value)
    assert "add a small multiple of the identity" in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 3), (3, 5), (40, 40), (40, 20)])
def test_what_is_not_finite_does_not_converge(shape, value):
    for place in [(0, 0), (-1, -1), (0, -1)]:
        x = drawn(2, *shape)
        x[(1, *place)] = value
        calls = [linalg.svd, linalg.svdvals, lambda x: linalg.svd(x, full_matrices=False)]
        if shape[0] == shape[1]:
            calls += [linalg.eigh, linalg.eigvalsh]
        for call in calls:
            with pytest.raises(LinearAlgebraError, match=r"at \[1\] of the stack") as caught:
                call(x)
            assert "did not converge" in str(caught.value)
            assert "isfinite" in str(caught.value)
        linalg.qr(x)  # hands them on, and ends


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: [linalg.cholesky(x @ x.mT + hy.eye(x.shape[-1], dtype=x.dtype))],
        lambda x: linalg.qr(x),
        lambda x: linalg.qr(x[..., :-1], mode="complete"),
        lambda x: linalg.eigh(x),
        lambda x: linalg.svd(x),
        lambda x: [linalg.svdvals(x), linalg.inv(x), linalg.det(x), linalg.pinv(x)],
        lambda x: [linalg.solve(x, x + 1)],
    ],
)
def test_neither_threads_nor_neighbours_change_a_bit(dtype, call):
    before = hy.num_threads()
    try:
        for shape in [(40, 9, 9), (2, 300, 300)]:
            x = hy.asarray(drawn(*shape, dtype=dtype))
            hy.set_num_threads(1)
            alone = call(x)
            hy.set_num_threads(3)
            for one, many in zip(alone, call(x), strict=True):
                assert one.numpy().tobytes() == many.numpy().tobytes()
            for one, many in zip(call(x[1]), alone, strict=True):
                assert one.numpy().tobytes() == many[1].numpy().tobytes()
    finally:
        hy.set_num_threads(before)


def test_signs_follow_a_rule():
    x = drawn(6, 12, 12)
    for vectors in (linalg.eigh(x).eigenvectors.mT, linalg.svd(x).Vh, linalg.svd(x[:, :7]).U.mT):
        for vector in vectors.numpy().reshape(-1, vectors.shape[-1]):
            large = np.abs(vector) >= np.abs(vector).max() / 2
            assert vector[large][0] > 0


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(
    ("call", "count"),
    [
        (linalg.cholesky, 1), (linalg.qr, 2), (linalg.eigh, 2), (linalg.eigvalsh, 1),
        (linalg.svd, 3), (linalg.svdvals, 1), (linalg.inv, 1), (linalg.det, 1),
        (linalg.slogdet, 2), (linalg.pinv, 1), (lambda x: linalg.solve(x, x), 1),
    ],
)  # fmt: skip
def test_no_memory_for_scratch(call, count, nth, learned_at_once):
    x = hy.asarray(drawn(60, 60) @ drawn(60, 60).T + np.eye(60) * 60)
    for _ in range(3):
        call(x)  # what is learned of these calls needs memory, too
    outcome: list[object] = []

    def run() -> None:  # a new thread has no scratch yet
        native.lib.hyb_fail_allocation(nth)
        try:
            call(x)
        except OutOfMemoryError as error:
            outcome.append(error)
        finally:
            native.lib.hyb_fail_allocation(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    assert nth > 1 or outcome
    call(x)


def test_an_error_is_caught_in_a_plan_as_in_eager_code():
    def tried(x):
        try:
            return linalg.cholesky(x)
        except LinearAlgebraError:
            return x * 0

    captured = hy.hybridize(tried)
    for x in (hy.eye(3), -hy.eye(3), hy.eye(3) * 4):
        assert captured(x).tolist() == tried(x).tolist()

    @hy.hybridize
    def elsewhere(x):
        try:
            return linalg.cholesky(x)
        except IndexError:
            return x * 0

    assert elsewhere(hy.eye(3)).tolist() == np.eye(3).tolist()
    with pytest.raises(LinearAlgebraError, match=r"cholesky cannot take f32\[3,3\]") as caught:
        elsewhere(-hy.eye(3))
    assert caught.value.at.text.strip() == "return linalg.cholesky(x)"


def test_no_op_on_matrices_calls_python():
    ops = [op for op in REGISTRY.values() if op.__module__.startswith("hybrid.ops.matrix")]
    assert {"cholesky", "solve", "pinv"} <= {op.name for op in ops}
    for op in ops:
        graph = Builder("one")
        operands, attrs = next(iter(samples(op, seed=0)))
        made = graph.apply(op, [graph.param(type) for type in types_of(operands)], attrs)
        assert not make_plan(graph.finish(made)).calls_python
