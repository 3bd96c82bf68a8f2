"""Sorting and searching, against NumPy, in every dtype."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from hybrid.ops.support.sampling import Draw

NAN = np.array([3.0, np.nan, -0.0, 0.0, -np.inf, np.nan, np.inf, 3.0], np.float32)


def drawn(dtype: str, *shape: int) -> np.ndarray:
    return Draw(3)(dtype, *shape, low=-9, high=9)


@pytest.mark.parametrize("dtype", [*Draw.numbers, "bool"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (100,), (5, 33), (3, 4, 5)])
def test_as_numpy_along_every_axis(dtype, shape) -> None:
    a = drawn(dtype, *shape)
    for axis in range(-len(shape), len(shape)):
        places = hy.argsort(hy.asarray(a), axis=axis).numpy()
        assert places.dtype == np.int64
        np.testing.assert_array_equal(places, np.argsort(a, axis=axis, kind="stable"))
        found = hy.sort(hy.asarray(a), axis=axis).numpy()
        assert found.dtype == a.dtype
        np.testing.assert_array_equal(found, np.sort(a, axis=axis))


@pytest.mark.parametrize("dtype", Draw.numbers)
def test_equals_keep_their_order_when_descending(dtype) -> None:
    a = drawn(dtype, 200)
    places = hy.argsort(hy.asarray(a), descending=True).numpy()
    expected = sorted(range(200), key=lambda i: (-a[i].item(), i))
    assert places.tolist() == expected
    np.testing.assert_array_equal(hy.sort(hy.asarray(a), descending=True).numpy(), a[expected])


def test_nan_is_greater_than_every_number() -> None:
    assert hy.argsort(hy.asarray(NAN)).tolist() == [4, 2, 3, 0, 7, 6, 1, 5]
    assert hy.argsort(hy.asarray(NAN), descending=True).tolist() == [1, 5, 6, 0, 7, 2, 3, 4]


def test_the_largest() -> None:
    a = drawn("float32", 4, 20)
    x = hy.asarray(a)
    for k in (0, 1, 5, 20):
        values, indices = hy.topk(x, k)
        assert values.shape == indices.shape == (4, k)
        np.testing.assert_array_equal(values.numpy(), -np.sort(-a, axis=1)[:, :k])
        np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), 1), values.numpy())
    smallest, _ = hy.topk(x, 2, axis=0, largest=False)
    np.testing.assert_array_equal(smallest.numpy(), np.sort(a, axis=0)[:2])


@pytest.mark.parametrize("dtype", Draw.numbers)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searching(dtype, side) -> None:
    a, values = np.sort(drawn(dtype, 30)), drawn(dtype, 4, 9)
    found = hy.searchsorted(hy.asarray(a), hy.asarray(values), side=side)
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(a, values, side))
    mixed = drawn(dtype, 30)
    sorter = np.argsort(mixed, kind="stable")
    found = hy.searchsorted(
        hy.asarray(mixed), hy.asarray(values), side=side, sorter=hy.asarray(sorter)
    )
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(mixed, values, side, sorter))


def test_searching_among_nan() -> None:
    x = hy.asarray([1.0, 2.0, float("nan"), float("nan")])
    values = hy.asarray([float("nan"), 5.0])
    assert hy.searchsorted(x, values).tolist() == [2, 2]
    assert hy.searchsorted(x, values, side="right").tolist() == [4, 2]


def test_gradients_go_to_where_the_elements_came_from() -> None:
    x = hy.asarray([3.0, 1.0, 2.0])
    weights = hy.asarray([1.0, 10.0, 100.0])
    for f in (
        lambda x: hy.sum(hy.sort(x) * weights * x),
        lambda x: hy.sum(hy.topk(x * x, 2)[0] * weights[:2]),
    ):
        hy.check_grads(f, (hy.astype(x, hy.float64),), order=2)
    assert hy.grad(lambda x: hy.sum(hy.sort(x) * weights))(x).tolist() == [100.0, 1.0, 10.0]


def test_hybridized_code_sorts_the_same() -> None:
    def f(x):
        y = x
        while hy.sum(y) < 10:
            y = hy.sort(y + hy.topk(x, 1)[0], descending=True)
        return y, hy.argsort(y), hy.searchsorted(hy.sort(x), y)

    x = hy.asarray(drawn("float32", 40))
    for found, expected in zip(hy.hybridize(f)(x), f(x), strict=True):
        assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_sign_bits_and_neighbours() -> None:
    x = hy.asarray([0.0, -0.0, 1.5, -np.inf, np.nan])
    assert hy.signbit(x).tolist()[:4] == [False, True, False, True]
    assert hy.copysign(x, -1.0).tolist()[:4] == [-0.0, -0.0, -1.5, -np.inf]
    assert bool(hy.all(hy.signbit(hy.copysign(x, -1.0))))
    one = hy.ones(2)
    assert hy.nextafter(one, hy.asarray([2.0, 1.0])).tolist() == [1 + 2**-23, 1.0]
    assert hy.grad(lambda x: hy.sum(hy.copysign(x, -one)))(one).tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hy.sort(hy.ones(())), AxisError, "sort got axis -1"),
        (lambda: hy.argsort(hy.ones(3), axis=1), AxisError, "argsort got axis 1"),
        (lambda: hy.topk(hy.ones(3), 4), ArgumentError, "topk got k 4"),
        (lambda: hy.topk(hy.ones(3), -1), ArgumentError, "topk got k -1"),
        (lambda: hy.topk(hy.ones(3), 1.0), ArgumentTypeError, "topk got k 1.0"),
        (lambda: hy.searchsorted(hy.ones((2, 2)), hy.ones(2)), ShapeError, "as x1"),
        (lambda: hy.searchsorted(hy.ones(2), hy.ones(2), side="up"), ArgumentError, "side='up'"),
        (
            lambda: hy.searchsorted(hy.ones(2, dtype=hy.bool), hy.ones(2, dtype=hy.bool)),
            DTypeError,
            "searchsorted",
        ),
    ],
)
def test_bad_input(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "int16"])
@pytest.mark.parametrize("kind", ["spread", "clustered", "few", "nearly one"])
def test_long_rows(dtype, kind) -> None:
    """Keys that differ in many digits, in low ones within groups, or hardly at all."""
    draw = np.random.default_rng(5)
    for size in (255, 256, 5_000, 40_000):
        x = {
            "spread": draw.standard_normal(size) * 1e6,
            "clustered": draw.integers(0, 9, size) * 1e7 + draw.random(size) * 100,
            "few": draw.integers(-2, 3, size) * 1.5,
            "nearly one": 1 + draw.integers(0, 300, size) * 2.0**-45,
        }[kind]
        if dtype[0] != "f":
            x = x * 2.0**30 if dtype == "int64" else x
            info = np.iinfo(dtype)
            x = np.clip(x, info.min // 2, info.max // 2)
        x = x.astype(dtype)
        np.testing.assert_array_equal(hy.sort(hy.asarray(x)).numpy(), np.sort(x))
        order = hy.argsort(hy.asarray(x)).numpy()
        np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
        back = hy.sort(hy.asarray(x), descending=True).numpy()
        np.testing.assert_array_equal(back, np.sort(x)[::-1])


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_the_place_of_the_first_of_equals_in_long_rows(dtype) -> None:
    size = 300_000
    for rows in (1, 3):
        x = np.zeros((rows, size), dtype)
        for places in ([0], [size - 1], [32767, 32768], [40_000, 250_000], [size - 40, 70_000]):
            x[:] = 0
            x[:, places] = 7
            assert hy.argmax(hy.asarray(x), axis=1).tolist() == [min(places)] * rows
            assert hy.argmin(hy.asarray(-x), axis=1).tolist() == [min(places)] * rows
            if dtype[0] == "f":
                x[0, 123_456] = np.nan
                assert hy.argmax(hy.asarray(x), axis=1).tolist()[0] == 123_456
