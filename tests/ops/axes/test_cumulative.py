"""Running sums and products, recurrences, and sets of elements."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, AxisError
from hybrid.ops.axes.cumulative import recurrence
from hybrid.ops.support.sampling import Draw


@pytest.mark.parametrize("dtype", [*Draw.numbers, "bool"])
@pytest.mark.parametrize("shape", [(0,), (1,), (50,), (3, 7), (2, 5, 3)])
def test_as_numpy(dtype, shape) -> None:
    a = Draw(1)(dtype, *shape)
    wide = "uint64" if dtype.startswith("u") else "int64"
    to = dtype if dtype.startswith("float") else wide
    for axis in range(-len(shape), len(shape)):
        for name, run in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
            found = getattr(hy, name)(hy.asarray(a), axis=axis).numpy()
            assert found.dtype == np.dtype(to)
            if name == "cumulative_sum" and dtype.startswith("float"):
                wanted = np.cumsum(a, axis, dtype=np.longdouble).astype(to)
                np.testing.assert_allclose(found, wanted, rtol=np.finfo(to).eps, atol=0)
            else:
                np.testing.assert_array_equal(found, run(a, axis, dtype=to))


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-7), ("float64", 3e-16)])
@pytest.mark.parametrize("shape", [(300_000,), (100_000, 3), (3, 100_000)])
def test_running_sums_of_many_terms(dtype: str, within: float, shape: tuple[int, ...]) -> None:
    axis = int(np.argmax(shape))
    x = np.full(shape, 0.1, dtype)
    exact = np.arange(1, shape[axis] + 1, dtype=np.longdouble) * np.longdouble(x.flat[0])
    found = hy.cumulative_sum(hy.asarray(x), axis=axis).numpy()
    for row in np.moveaxis(found, axis, -1).reshape(-1, shape[axis]):
        np.testing.assert_allclose(row.astype(np.longdouble), exact, rtol=within)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_sums_at_the_ends(dtype: str) -> None:
    x = np.array([-0.0, -0.0, 1e30, 1.0, -1e30, np.inf, 1.0, -np.inf, 2.0], dtype)
    with np.errstate(invalid="ignore"):
        found = hy.cumulative_sum(hy.asarray(x)).numpy()
    assert np.signbit(found[:2]).all()
    want = [0, 0, x[2], x[2], 1 if dtype == "float64" else 0, np.inf, np.inf, np.nan, np.nan]
    np.testing.assert_array_equal(found, np.array(want, dtype))


def test_what_may_be_asked_for() -> None:
    x = hy.asarray([1, 2, 3])
    assert hy.cumulative_sum(x, include_initial=True).tolist() == [0, 1, 3, 6]
    assert hy.cumulative_prod(x, include_initial=True).tolist() == [1, 1, 2, 6]
    assert hy.cumulative_sum(x, dtype=hy.int8).dtype is hy.int8
    assert hy.cumsum(x, 0).tolist() == [1, 3, 6] and hy.cumprod(x, 0).tolist() == [1, 2, 6]


def test_the_gradient_of_a_product_of_zeros() -> None:
    for values in ([2.0, 3.0, 4.0], [1.0, 0.0, 2.0, 5.0], [0.0, 0.0, 2.0]):
        x = hy.asarray(values, dtype=hy.float64)
        hy.check_grads(lambda x: hy.sum(hy.cumulative_prod(x, axis=-1) * x), (x,), order=2)
    x = hy.asarray([1.0, 0.0, 2.0, 5.0])
    assert hy.grad(lambda x: hy.sum(hy.cumulative_prod(x)))(x).tolist() == [1.0, 13.0, 0.0, 0.0]


def test_a_recurrence() -> None:
    x, factor = hy.asarray([1.0, 2.0, 3.0]), hy.asarray([9.0, 0.5, -1.0])
    assert recurrence(x, factor, axis=0).tolist() == [1.0, 2.5, 0.5]


def test_hybridized_code_adds_up_the_same() -> None:
    def f(x):
        y = hy.cumulative_sum(x, axis=1)
        for row in x:
            y = hy.cumulative_prod(y * 0.5 + row, axis=0)
        return y

    x = hy.asarray(Draw(2)("float32", 3, 20))
    assert hy.hybridize(f)(x).numpy().tobytes() == f(x).numpy().tobytes()


@pytest.mark.parametrize("dtype", [*Draw.numbers, "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (60,), (5, 7)])
def test_sets(dtype, shape) -> None:
    a = Draw(4)(dtype, *shape, low=-4, high=4)
    if dtype.startswith("float"):
        a = np.asarray(np.round(a), dtype)
    x = hy.asarray(a)
    values, indices, inverse, counts = np.unique(
        a, return_index=True, return_inverse=True, return_counts=True
    )
    found = hy.unique_all(x)
    for given, expected in zip(
        found, (values, indices, inverse.reshape(shape), counts), strict=True
    ):
        np.testing.assert_array_equal(given.numpy(), expected)
    assert found.values.dtype is x.dtype and found.counts.dtype is hy.int64
    assert found.inverse_indices.shape == shape
    for other in (hy.unique_counts(x), hy.unique_inverse(x)):
        for name, part in other._asdict().items():
            np.testing.assert_array_equal(part.numpy(), getattr(found, name).numpy())
    np.testing.assert_array_equal(hy.unique_values(x).numpy(), values)


def test_every_nan_is_one_of_its_own() -> None:
    x = hy.asarray([float("nan"), 1.0, float("nan"), -0.0, 0.0])
    found = hy.unique_all(x)
    assert found.values.tolist()[:2] == [0.0, 1.0] and len(found.values.tolist()) == 4
    assert found.counts.tolist() == [2, 1, 1, 1] and found.indices.tolist() == [3, 1, 0, 2]


def test_hyperbolic_functions_at_their_ends() -> None:
    x = hy.asarray([float("inf"), -float("inf"), 1e30, -1e30, -0.0, 0.0, 1e-6, -0.3])
    want = np.arcsinh(x.numpy().astype(np.float64))
    np.testing.assert_allclose(hy.asinh(x).numpy(), want, rtol=3e-7)
    assert hy.sinh(x[:2]).tolist() == [float("inf"), -float("inf")]
    assert np.signbit(hy.asinh(x).numpy())[4] and np.signbit(hy.sinh(x).numpy())[4]
    near = hy.asarray([0.0, -0.0, 0.4, -0.6, 2.0, -3.0])
    for f, derivative in ((hy.asinh, lambda v: 1 / np.sqrt(1 + v * v)), (hy.sinh, np.cosh)):
        slope = hy.grad(lambda x, f=f: hy.sum(f(x)))(near).numpy()
        np.testing.assert_allclose(slope, derivative(near.numpy()), rtol=1e-6)


def test_what_is_infinite_is_divided() -> None:
    inf = float("inf")
    x, y = hy.asarray([inf, -inf, 1.0, -1.0, 1.0]), hy.asarray([2.0, 2.0, -inf, inf, inf])
    assert hy.floor_divide(x, y).tolist() == [inf, -inf, -0.0, -0.0, 0.0]
    assert np.signbit(hy.floor_divide(x, y).numpy()).tolist() == [False, True, True, True, False]


def test_differences_of_what_is_joined() -> None:
    x = hy.asarray([[1, 4, 9], [2, 3, 5]])
    found = hy.diff(x, prepend=hy.zeros((2, 1), dtype=hy.int64), append=x[:, :1])
    assert found.tolist() == [[1, 3, 5, -8], [2, 1, 2, -3]]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hy.cumulative_sum(hy.ones((2, 2))), ArgumentError, "got no axis for f32"),
        (lambda: hy.cumulative_prod(hy.ones(())), ArgumentError, "got no axis for f32"),
        (lambda: hy.cumulative_sum(hy.ones(2), axis=1), AxisError, "cumulative_sum got axis 1"),
    ],
)
def test_bad_input(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()
