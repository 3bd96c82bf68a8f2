"""hybrid.linalg: values beside NumPy's, gradients, and what is refused."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid import linalg
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError, ShapeError
from hybrid.errors import LinearAlgebraError as LinAlg
from hybrid.ops.matrix.factorizations import eigh_reference, svd_full_reference, svd_reference
from tests.helpers import same

RANDOM = np.random.default_rng(7)


def drawn(*shape: int, dtype: str = "float64") -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def definite(*shape: int, dtype: str = "float64") -> np.ndarray:
    x = drawn(*shape, dtype=dtype)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1], dtype=dtype)


STACK, TALL, WIDE = drawn(2, 3, 4, 4), drawn(5, 3), drawn(3, 5)
# References of ours are NumPy's with signs, and further columns, by the rules of hybrid.linalg.
FUNCTIONS = [
    ("cholesky", lambda x: linalg.cholesky(x), np.linalg.cholesky, definite(2, 4, 4)),
    ("inv", linalg.inv, np.linalg.inv, STACK),
    ("det", linalg.det, np.linalg.det, STACK),
    ("slogdet", linalg.slogdet, np.linalg.slogdet, STACK),
    ("eigvalsh", linalg.eigvalsh, np.linalg.eigvalsh, definite(4, 4)),
    ("eigh", linalg.eigh, eigh_reference, definite(4, 4)),
    ("svdvals", linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), TALL),
    ("svd", linalg.svd, svd_full_reference, TALL),
    ("svd thin", lambda x: linalg.svd(x, full_matrices=False), svd_reference, WIDE),
    ("qr", linalg.qr, np.linalg.qr, TALL),
    ("qr wide", linalg.qr, np.linalg.qr, WIDE),
    ("qr complete", lambda x: linalg.qr(x, mode="complete"), lambda x: np.linalg.qr(x, "complete"),
     TALL),
    ("pinv", linalg.pinv, np.linalg.pinv, TALL),
    ("matrix_rank", linalg.matrix_rank, np.linalg.matrix_rank, drawn(4, 2) @ drawn(2, 4)),
    ("matrix_rank of nothing", linalg.matrix_rank,  # which older ones raise for
     lambda x: np.zeros(x.shape[:-2], np.int64), np.zeros((2, 0, 3))),
    ("matrix_rank of zeros", linalg.matrix_rank, np.linalg.matrix_rank, np.zeros((3, 3))),
    *[(f"matrix_power {n}", lambda x, n=n: linalg.matrix_power(x, n),
       lambda x, n=n: np.linalg.matrix_power(x, n), STACK) for n in (-3, -1, 0, 1, 2, 5, 10)],
    *[(f"matrix_norm {ord}", lambda x, o=ord: linalg.matrix_norm(x, ord=o, keepdims=True),
       lambda x, o=ord: np.linalg.norm(x, o, (-2, -1), True), STACK)
      for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)],
    *[(f"vector_norm {ord}", lambda x, o=ord: linalg.vector_norm(x, ord=o, axis=(0, -1)),
       lambda x, o=ord: np.linalg.vector_norm(x, ord=o, axis=(0, -1)), STACK)
      for ord in (0, 1, 2, 3, 0.5, -1, -2.5, math.inf, -math.inf)],
]  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_are_those_of_numpy_in_either_mode(case, dtype):
    _, function, reference, x = case
    x = x.astype(dtype)
    eager = function(hy.asarray(x))
    captured = hy.hybridize(function)(hy.asarray(x))
    want = reference(x)
    many = isinstance(want, tuple)
    for got, other, expected in zip(
        eager if many else [eager], captured if many else [captured],
        want if many else [want], strict=True,
    ):  # fmt: skip
        assert same(got, other)
        expected = np.asarray(expected)
        assert got.shape == expected.shape
        tolerance = 1e-10 if dtype == "float64" else 2e-3
        np.testing.assert_allclose(got.numpy(), expected, tolerance, tolerance)


def test_named_results_keep_their_names_in_a_graph():
    found = hy.hybridize(linalg.svd)(hy.asarray(TALL))
    assert found._fields == ("U", "S", "Vh") and found.Vh.shape == (3, 3)
    assert linalg.eigh(definite(3, 3)).eigenvalues.shape == (3,)
    assert linalg.slogdet(definite(3, 3)).logabsdet.shape == ()
    assert linalg.qr(TALL).Q.shape == (5, 3)


def test_solve_takes_a_vector_or_matrices():
    a, b = drawn(2, 3, 3), drawn(3)
    y = linalg.solve(a, b)
    np.testing.assert_allclose(np.matmul(a, y.numpy()[..., None])[..., 0], np.stack([b, b]))
    b = drawn(4, 1, 3, 2)
    np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a, b))


def test_cross_follows_numpy():
    a, b = drawn(4, 3), drawn(3)
    np.testing.assert_array_equal(linalg.cross(a, b).numpy(), np.linalg.cross(a, b))
    a, b = drawn(3, 2), drawn(3, 2)
    np.testing.assert_array_equal(linalg.cross(a, b, axis=0).numpy(), np.cross(a, b, axis=0))


def test_upper_is_the_lower_one_transposed():
    x = definite(3, 3)
    assert same(linalg.cholesky(x, upper=True), linalg.cholesky(x).mT)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: linalg.cholesky(x, upper=True), (definite(4, 4),)),
        (linalg.solve, (definite(3, 3), drawn(3))),
        (linalg.qr, (drawn(2, 5, 3),)),
        (linalg.qr, (drawn(3, 5),)),
        (lambda x: linalg.svd(x, full_matrices=False).S, (drawn(5, 3),)),
        (lambda x: linalg.matrix_norm(x, ord="nuc"), (drawn(4, 3),)),
        (lambda x: linalg.matrix_norm(x, ord=2), (drawn(4, 3),)),
        (linalg.matrix_norm, (drawn(4, 3),)),
        (lambda x: linalg.vector_norm(x, ord=3, axis=-1), (drawn(4, 3),)),
        (lambda x: linalg.matrix_power(x, -2), (definite(3, 3),)),
        (linalg.cross, (drawn(2, 3), drawn(3))),
        (linalg.det, (drawn(2, 3, 3),)),
    ],
)
def test_gradients(function, args):
    hy.check_grads(function, *args, order=2, rtol=1e-3, atol=1e-4)
    hy.check_grads(hy.hybridize(function), *args)


def test_the_determinant_of_a_singular_matrix_has_a_gradient():
    x = hy.asarray([[1.0, 2.0], [2.0, 4.0]], dtype=hy.float64)
    cofactors = [[4.0, -2.0], [-2.0, 1.0]]
    np.testing.assert_allclose(hy.grad(linalg.det)(x).numpy(), cofactors, atol=1e-12)


def test_a_norm_at_zero_has_the_gradient_zero():
    assert hy.grad(linalg.vector_norm)(hy.zeros(3)).tolist() == [0, 0, 0]


def test_equal_eigenvalues_leave_gradients_of_the_others_finite():
    gradient = hy.grad(lambda x: hy.sum(linalg.eigh(x)[0] * hy.asarray([1.0, 2.0, 3.0])))
    assert np.isfinite(gradient(hy.eye(3)).numpy()).all()


@pytest.mark.parametrize("function", [
    lambda x: linalg.qr(x, mode="complete")[0],
    lambda x: linalg.svd(x)[0],
])  # fmt: skip
def test_what_has_no_gradient_says_so(function):
    for f in (function, hy.hybridize(function)):
        with pytest.raises(GradientError, match="has no gradient"):
            hy.grad(lambda x, f=f: hy.sum(f(x)))(hy.asarray(TALL))


def test_a_step_of_a_loop():
    def iterate(x):
        for _ in range(3):
            x = linalg.inv(x + 1.0)
        return x

    x = hy.asarray(definite(3, 3))
    assert same(hy.hybridize(iterate)(x), iterate(x))
    total = lambda x: hy.sum(iterate(x) ** 2)  # noqa: E731
    assert same(hy.grad(hy.hybridize(total))(x), hy.grad(total)(x))


SINGULAR = np.stack([np.eye(2), np.ones((2, 2))])


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: linalg.inv(SINGULAR), LinAlg, r"inv cannot take f64\[2,2,2\], at \[1\] of the stack"),
    (lambda: linalg.solve(SINGULAR, np.ones(2)), LinAlg, r"solve cannot take .*, at \[1\]"),
    (lambda: linalg.cholesky(-np.eye(2)), LinAlg, "not positive definite"),
    (lambda: linalg.svd(np.full((2, 2), np.nan)), LinAlg, "isfinite"),
    (lambda: linalg.inv(TALL), ShapeError, "must be of one size"),
    (lambda: linalg.det(np.ones(3)), ShapeError, "Matrices have two dimensions"),
    (lambda: linalg.det(np.ones((2, 2), int)), DTypeError, "floating"),
    (lambda: linalg.solve(STACK, TALL), ShapeError, "4 equations and 5 right-hand sides"),
    (lambda: linalg.solve(np.eye(2), np.eye(2, dtype="f4")[None].repeat(3, 0).repeat(2, 2)[0, :1]),
     ShapeError, "2 equations and 1"),
    (lambda: linalg.qr(TALL, mode="raw"), ArgumentError, 'use "reduced" or "complete"'),
    (lambda: linalg.matrix_norm(TALL, ord=3), ArgumentError, "matrix_norm of order 3"),
    (lambda: linalg.vector_norm(TALL, ord="fro"), ArgumentError, "vector_norm got ord 'fro'"),
    (lambda: linalg.matrix_power(TALL, 2), ShapeError, "must be of one size"),
    (lambda: linalg.matrix_power(np.eye(2), 0.5), ArgumentTypeError, "give an int"),
    (lambda: linalg.cross(np.ones(2), np.ones(2)), ShapeError, "three elements"),
    (lambda: linalg.cross(np.ones(3), np.ones(1)), ShapeError, "three elements"),
    (lambda: linalg.vecdot(np.ones(3), np.ones(1)), ShapeError, "as many elements"),
    (lambda: linalg.pinv(STACK, rtol=np.ones(5)), ShapeError, "pinv"),
    (lambda: linalg.pinv(STACK, rtol=np.ones((7, 1, 1))), ShapeError, "one tolerance"),
])  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_graph_tells_the_line_of_a_singular_matrix():
    @hy.hybridize
    def solved(a, b):
        return linalg.solve(a, b)  # here

    with pytest.raises(LinAlg) as caught:
        solved(hy.ones((2, 2)), hy.ones(2))
    assert caught.value.at.text.strip().endswith("# here")
    assert isinstance(caught.value, np.linalg.LinAlgError)


@pytest.mark.parametrize("function", [linalg.cholesky, linalg.eigvalsh])
def test_infinities_give_an_error_of_ours_or_a_result_and_no_warning(function):
    try:
        found = function(np.full((3, 3), np.inf))
    except LinAlg:
        return
    assert not np.isfinite(found.numpy()).all()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "bfloat16", "float32"])
def test_vecdot_of_every_kind_of_number(dtype) -> None:
    a, b = (hy.astype(hy.asarray([values, values]), dtype) for values in ([1, 2, 3], [4, 5, 6]))
    for x, y in ((a, b), (a[0], b[0]), (hy.conj(a), b)):
        found, captured = hy.vecdot(x, y), hy.hybridize(hy.vecdot)(x, y)
        assert found.dtype.name == captured.dtype.name == dtype
        assert found.tolist() == captured.tolist() == ([32] * 2 if x.ndim > 1 else 32)
    with pytest.raises(DTypeError, match=r"vecdot cannot take bool\[3\]"):
        hy.vecdot(a[0] > 1, b[0] > 1)
