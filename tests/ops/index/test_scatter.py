"""Gathering, scattering and selections of a bounded size, against NumPy."""

from __future__ import annotations

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
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

SHAPES = [((4,), (3,), 0), ((4, 3), (2, 3), 0), ((4, 3), (4, 6), 1), ((3, 4, 2), (2, 5, 1), 1)]


def places(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    found = list(np.indices(indices.shape))
    found[axis] = indices
    return tuple(found)


@pytest.mark.parametrize("dtype", Draw.all)
@pytest.mark.parametrize(("shape", "size", "axis"), SHAPES)
def test_gather_and_scatter_as_numpy(dtype, shape, size, axis) -> None:
    draw = Draw(1)
    x, updates = draw(dtype, *shape), draw(dtype, *size)
    indices = draw("int64", *size, low=-shape[axis], high=shape[axis] - 1)
    at = places(indices, axis)
    np.testing.assert_array_equal(hy.gather(x, indices, axis).numpy(), x[at])
    np.testing.assert_array_equal(hy.gather(x, indices, axis - len(shape)).numpy(), x[at])
    want = x.copy()
    for place in np.ndindex(size):
        want[tuple(a[place] for a in at)] = updates[place]
    np.testing.assert_array_equal(hy.scatter(x, indices, updates, axis).numpy(), want)
    larger = np.concatenate([updates, updates], axis)
    np.testing.assert_array_equal(hy.scatter(x, indices, larger, axis).numpy(), want)
    if dtype != "bool":
        want = x.copy()
        np.add.at(want, at, updates)
        found = hy.scatter_add(x, indices, updates, axis=axis).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-6)
    want = x.copy()
    want[at] = 1
    one = True if dtype == "bool" else 1
    np.testing.assert_array_equal(hy.scatter(x, indices, one, axis).numpy(), want)
    np.testing.assert_array_equal(
        hy.scatter(x, indices, np.asarray(one, dtype), axis).numpy(), want
    )
    flat = indices.reshape(-1)
    np.testing.assert_array_equal(
        hy.index_select(x, flat, axis).numpy(), x.take(flat % shape[axis], axis)
    )


@pytest.mark.parametrize("function", [hy.scatter, lambda *a: hy.scatter_add(*a[:3], axis=a[3])])
def test_derivatives(function) -> None:
    x, updates = hy.asarray(Draw(2)("float64", 3, 4)), hy.asarray(Draw(3)("float64", 2, 5))
    indices = hy.asarray(np.array([[0, 1, 0, -1, 2], [3, 3, -4, 1, 3]]))
    hy.check_grads(lambda x, u: function(x, indices, u, 1) ** 2, x, updates, order=2, rtol=1e-4)
    hy.check_grads(lambda x: hy.gather(x, indices, 1) ** 2, x, order=2, rtol=1e-4)

    def step(x, u):
        return hy.grad(lambda x, u: hy.sum(function(x, indices, u, 1) ** 3), argnums=(0, 1))(x, u)

    eager, planned = step(x, updates), hy.hybridize(step)(x, updates)
    assert all(same(a, b) for a, b in zip(eager, planned, strict=True))


def test_a_loop_scatters_in_place() -> None:
    def fill(x, indices):
        for i in range(50):
            x = hy.scatter(x, indices, x + i, 1)
        return x

    x, indices = hy.zeros((3, 4)), hy.asarray(Draw(4)("int64", 3, 4, low=0, high=3))
    assert same(fill(x, indices), hy.hybridize(fill)(x, indices))


def test_masked_fill() -> None:
    x, mask = hy.asarray(Draw(5)("float32", 3, 4)), Draw(6)("bool", 4)
    want = np.where(mask, np.float32(7), x.numpy())
    for value in (7, 7.0, hy.asarray(7.0)):
        found = hy.masked_fill(x, mask, value)
        assert found.dtype is hy.float32
        np.testing.assert_array_equal(found.numpy(), want)
    slope = hy.grad(lambda x: hy.sum(hy.masked_fill(x, mask, -hy.inf)[:, ~mask]))(x)
    np.testing.assert_array_equal(slope.numpy(), np.broadcast_to(~mask, (3, 4)))


# Of a bounded size -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", Draw.all)
@pytest.mark.parametrize("shape", [(0,), (1,), (30,), (4, 5), (2, 0, 3), (2, 3, 4)])
def test_nonzero_of_a_size(dtype, shape) -> None:
    x = hy.asarray(np.round(Draw(7)(dtype, *shape)).astype(dtype))
    exact = [places.numpy() for places in hy.nonzero(x)]
    count = len(exact[0])
    for size in (0, 1, count, count + 5):
        for fill in (0, -7):
            found = hy.nonzero(x, size=size, fill_value=fill)
            planned = hy.hybridize(lambda x, s=size, f=fill: hy.nonzero(x, size=s, fill_value=f))(x)
            for a, b, want in zip(found, planned, exact, strict=True):
                assert same(a, b) and a.dtype is hy.int64
                padded = np.concatenate([want, np.full(size, fill)])[:size]
                if size > count:
                    padded = np.concatenate([want, np.full(size - count, fill)])
                np.testing.assert_array_equal(a.numpy(), padded)


@pytest.mark.parametrize("dtype", Draw.all)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (30,), (4, 5), (2, 0, 3), (2, 3, 4)])
def test_argwhere(dtype, shape) -> None:
    x = hy.asarray(np.round(Draw(7)(dtype, *shape)).astype(dtype))
    exact = np.argwhere(x.numpy())
    count = len(exact)
    for size in (None, 0, 1, count, count + 5):
        found = hy.argwhere(x, size=size, fill_value=-7)
        planned = hy.hybridize(lambda x, s=size: hy.argwhere(x, size=s, fill_value=-7))(x)
        assert same(found, planned) and found.dtype is hy.int64
        missing = 0 if size is None else max(size - count, 0)
        rest = np.full((missing, len(shape)), -7)
        np.testing.assert_array_equal(found.numpy(), np.concatenate([exact[:size], rest]))
    assert same(x.argwhere(), hy.argwhere(x))


@pytest.mark.parametrize("dtype", Draw.all)
@pytest.mark.parametrize("shape", [(), (1,), (30,), (4, 5)])
def test_unique_values_of_a_size(dtype, shape) -> None:
    x = hy.asarray(np.round(Draw(8)(dtype, *shape)).astype(dtype))
    exact = hy.unique_values(x).numpy()
    for size in (0, 1, len(exact), len(exact) + 3):
        for fill in (None, True if dtype == "bool" else 1):
            found = hy.unique_values(x, size=size, fill_value=fill)
            planned = hy.hybridize(
                lambda x, s=size, f=fill: hy.unique_values(x, size=s, fill_value=f)
            )(x)
            assert same(found, planned) and found.dtype is x.dtype
            rest = exact[0] if fill is None else fill
            want = [*exact[:size], *[rest] * (size - len(exact))]
            assert found.tolist() == [v.item() if hasattr(v, "item") else v for v in want]


def test_unique_values_of_nothing() -> None:
    assert hy.unique_values(hy.zeros(0), size=2, fill_value=5).tolist() == [5.0, 5.0]
    assert hy.unique_values(hy.zeros(0), size=0).tolist() == []


X, I = np.ones((3, 4), np.float32), np.zeros((2, 2), np.int64)  # noqa: E741
ERRORS = {
    "rank": (lambda: hy.gather(X, I[0], 0), ShapeError, "gather cannot take i64"),
    "size": (lambda: hy.gather(X, np.zeros((4, 2), int), 1), ShapeError, "But for axis 1"),
    "axis": (lambda: hy.gather(X, I, 2), AxisError, "gather got axis 2"),
    "scalar": (lambda: hy.gather(1.0, 0, 0), AxisError, "gather got axis 0"),
    "dtype": (lambda: hy.gather(X, I + 0.5, 0), DTypeError, "gather got indices of dtype"),
    "index": (lambda: hy.gather(X, I + 3, 0), OutOfRangeError, "index 3 .* axis of size 3"),
    "below": (lambda: hy.scatter(X, I - 5, 1.0, 1), OutOfRangeError, "index -5 .* of size 4"),
    "updates": (lambda: hy.scatter(X, I, np.ones((2, 3, 1)), 1), ShapeError, "as updates"),
    "fewer": (lambda: hy.scatter_add(X, np.zeros((2, 3), int), X[:, :2]), ShapeError, "one update"),
    "scatter size": (lambda: hy.scatter(X, np.zeros((4, 2), int), 1, 1), ShapeError, "no larger"),
    "select": (lambda: hy.index_select(X, I, 0), ShapeError, "index_select cannot take"),
    "select axis": (lambda: hy.index_select(X, I[0], 2), AxisError, "index_select got axis 2"),
    "mask": (lambda: hy.masked_fill(X, X, 0.0), DTypeError, "masked_fill cannot take"),
    "mask shape": (lambda: hy.masked_fill(X, X[:2] > 0, 0.0), ShapeError, "where cannot take"),
    "value": (lambda: hy.masked_fill(I, I > 0, 0.5), DTypeError, "masked_fill cannot put 0.5"),
    "values": (lambda: hy.masked_fill(X, X > 0, X), ShapeError, "as value"),
    "count": (lambda: hy.nonzero(X, size=-1), ArgumentError, "nonzero got size -1"),
    "float count": (lambda: hy.nonzero(X, size=1.0), ArgumentTypeError, "nonzero got size 1.0"),
    "fill": (lambda: hy.nonzero(X, size=1, fill_value=0.5), ArgumentTypeError, "fill_value 0.5"),
    "rows": (lambda: hy.argwhere(X, size=-1), ArgumentError, "argwhere got size -1"),
    "no axes": (lambda: hy.nonzero(1.0, size=1), ShapeError, "nonzero cannot take"),
    "unique": (lambda: hy.unique_values(X, size=True), ArgumentTypeError, "got size True"),
    "nothing": (lambda: hy.unique_values(X[:0], size=1), ArgumentError, "of no elements got size"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()
