"""Linear systems: residuals, determinants at the ends of the range, and singular matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid import linalg
from hybrid.errors import LinearAlgebraError
from hybrid.ops.matrix.linear_systems import solve_triangular
from tests.ops.matrix.spectra import DTYPES, SIZES, bound, drawn, matrices, norm

SQUARE = [(d, name, x) for d in DTYPES for name, x in matrices(d)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [*SIZES, 257])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_solutions_have_small_residuals(dtype, n, count):
    a, b = drawn(2, n, n, dtype=dtype), drawn(2, n, count, dtype=dtype)
    y = linalg.solve(a, b).numpy().astype("float64")
    residual = a.astype("float64") @ y - b
    assert norm(residual) <= bound(a) * (norm(a.astype("float64")) * norm(y) + norm(b))


@pytest.mark.parametrize(
    ("dtype", "name", "x"), SQUARE, ids=[f"{dtype} {name}" for dtype, name, _ in SQUARE]
)
def test_solutions_of_hard_systems_are_backward_stable(dtype, name, x):
    b = drawn(x.shape[-1], 2, dtype=dtype)
    try:
        y = linalg.solve(x, b).numpy().astype("float64")
    except LinearAlgebraError:
        assert np.linalg.matrix_rank(x).min() < x.shape[-1]
        return
    if np.isfinite(y).all() and np.abs(y).max() < 1e150:
        size = np.abs(x.astype("float64")).max()
        scaled, y = x.astype("float64") / size, y * size
        residual = scaled @ y - b
        assert norm(residual) <= bound(x, 16) * (norm(scaled) * norm(y) + norm(b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [*SIZES, 200])
def test_inverses(dtype, n):
    x = (drawn(2, n, n) + 2 * math.sqrt(n) * np.eye(n)).astype(dtype)
    found = linalg.inv(x).numpy().astype("float64")
    assert norm(found @ x - np.eye(n)) <= bound(x, 16)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (4, 3, 2)), ((4, 3, 3), (3, 2)), ((4, 1, 3, 3), (5, 3, 2)),
        ((1, 5, 3, 3), (4, 1, 3, 2)), ((0, 3, 3), (3, 2)), ((2, 0, 0), (2, 0, 3)),
        ((40, 1, 20, 20), (1, 3, 20, 1)),
    ],
)  # fmt: skip
def test_leading_axes_broadcast(a, b):
    a, b = drawn(*a), drawn(*b)
    found = linalg.solve(a, b)
    want = np.linalg.solve(a, b)
    assert found.shape == want.shape
    np.testing.assert_allclose(found.numpy(), want, 1e-8, 1e-8)
    captured = hy.hybridize(linalg.solve)(hy.asarray(a), hy.asarray(b))
    assert captured.numpy().tobytes() == found.numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [0, *SIZES, 200])
def test_triangular_systems(dtype, upper, n):
    """The other triangle is not looked at."""
    a = (drawn(2, n, n) + 2 * math.sqrt(n) * np.eye(n)).astype(dtype)
    half = np.triu(a) if upper else np.tril(a)
    other = np.where(half == a, a, np.nan).astype(dtype)
    for count in (1, 2, 9):
        b = drawn(2, n, count, dtype=dtype)
        y = solve_triangular(other, b, upper=upper).numpy()
        assert norm(half.astype("float64") @ y - b) <= bound(a) * norm(half) * norm(y)
        captured = hy.hybridize(lambda a, b: solve_triangular(a, b, upper=upper))
        assert captured(hy.asarray(other), hy.asarray(b)).numpy().tobytes() == y.tobytes()


@pytest.mark.parametrize("upper", [False, True])
def test_a_zero_on_the_diagonal_of_a_triangle_is_singular(upper):
    a = np.tile(np.eye(30), (3, 1, 1))
    a[2, 29, 29] = 0
    text = r"solve_triangular cannot take f64\[3,30,30\] and f64\[30,1\], at \[2\] of the stack"
    with pytest.raises(LinearAlgebraError, match=text):
        solve_triangular(a, np.ones((30, 1)), upper=upper)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (lambda x: linalg.inv(x), r"inv cannot take f64\[2,2,20,20\]"),
        (
            lambda x: linalg.solve(x, np.ones((20, 3))),
            r"solve cannot take f64\[2,2,20,20\] and f64\[20,3\]",
        ),
    ],
)
def test_a_singular_matrix_is_named(call, shown):
    x = np.tile(np.eye(20), (2, 2, 1, 1))
    x[1, 0, :, 7] = x[1, 0, 7, :] = 0
    with pytest.raises(LinearAlgebraError, match=shown + r", at \[1, 0\] of the stack") as caught:
        call(x)
    assert "The matrix is singular" in str(caught.value)
    assert "hybrid.linalg.pinv" in str(caught.value)
    with pytest.raises(LinearAlgebraError, match=r"cannot take f64\[20,20\]") as caught:
        call(x[1, 0])
    assert "stack" not in str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, *SIZES])
def test_determinants(dtype, n):
    x = drawn(3, n, n, dtype=dtype)
    sign, size = linalg.slogdet(x)
    want_sign, want_size = np.linalg.slogdet(x.astype("float64"))
    np.testing.assert_array_equal(sign.numpy(), want_sign)
    tolerance = 1e-11 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(size.numpy(), want_size, tolerance, tolerance)
    if n < 40:
        np.testing.assert_allclose(linalg.det(x).numpy(), np.linalg.det(x), tolerance)


def test_determinants_at_the_ends_of_the_range():
    x = np.diag([1e200, 1e200, 1e-200, 1e-200, 3.0])
    np.testing.assert_allclose(linalg.det(x).item(), 3.0, 1e-14)
    np.testing.assert_allclose(linalg.slogdet(x).logabsdet.item(), math.log(3), 1e-12)
    assert linalg.det(np.diag([1e200, -1e200])).item() == -math.inf
    assert linalg.det(np.diag([1e-200, 1e-200])).item() == 0
    assert linalg.det(np.zeros((3, 3))).item() == 0
    sign, size = linalg.slogdet(np.zeros((3, 3)))
    assert (sign.item(), size.item()) == (0, -math.inf)
    near = np.diag([1.0 + 1e-9])
    np.testing.assert_allclose(linalg.slogdet(near).logabsdet.item(), np.log1p(1e-9), 1e-6)
    assert math.isnan(linalg.det(np.full((2, 2), math.nan)).item())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (9, 9), (30, 12), (12, 30), (70, 40)])
def test_pseudo_inverses_meet_the_conditions_of_penrose(dtype, shape):
    m, n = shape
    rank = max(min(shape) // 2, 1)
    for x in (drawn(2, m, n, dtype=dtype), (drawn(2, m, rank) @ drawn(2, rank, n)).astype(dtype)):
        y = linalg.pinv(x).numpy().astype("float64")
        x = x.astype("float64")
        allowed = 200 * bound(x.astype(dtype)) * norm(x) * norm(y)
        assert norm(x @ y @ x - x) <= allowed * norm(x)
        assert norm(y @ x @ y - y) <= allowed * norm(y)
        for product in (x @ y, y @ x):
            assert norm(product - np.swapaxes(product, -1, -2)) <= allowed


def test_a_tolerance_for_each_matrix():
    x = np.tile(np.diag([1.0, 0.1, 0.01]), (2, 3, 1, 1))
    rtol = np.array([[0.5], [0.05]])
    found = linalg.pinv(x, rtol=rtol)
    want = np.linalg.pinv(x, rtol=rtol)
    np.testing.assert_allclose(found.numpy(), want, 1e-13)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_cofactors_are_the_determinant_times_the_inverse(n):
    x = drawn(3, n, n)
    gradient = hy.grad(lambda x: linalg.det(x).sum())(x).numpy()
    want = np.linalg.det(x)[:, None, None] * np.swapaxes(np.linalg.inv(x), -1, -2)
    np.testing.assert_allclose(gradient, want, 0, 1e-12 * np.abs(want).max())
