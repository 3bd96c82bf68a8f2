"""repeat, masks without dimensions, and what complex libraries have."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ShapeError

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("repeats", [0, 2, [1, 0, 3], [2], np.int64(3), np.array(2, np.uint8)])
def test_as_numpy(repeats) -> None:
    given = hy.asarray(repeats) if isinstance(repeats, list) else repeats
    found = hy.repeat(hy.asarray(A), given, axis=0)
    np.testing.assert_array_equal(found.numpy(), np.repeat(A, repeats, axis=0))
    counts = [1, 0, 2, 1] * 3
    flat = hy.repeat(hy.asarray(A), hy.asarray(counts, dtype=hy.int8))
    np.testing.assert_array_equal(flat.numpy(), np.repeat(A, counts))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 31, 32, 33, 100])
def test_every_item_size_and_count(dtype, count) -> None:
    x = np.arange(7 * 9).reshape(7, 9).astype(dtype)
    for axis in (0, 1, None):
        found = hy.repeat(hy.asarray(x), count, axis=axis)
        np.testing.assert_array_equal(found.numpy(), np.repeat(x, count, axis=axis))
    strided = hy.repeat(hy.asarray(x)[::2, ::-2], count, axis=1)
    np.testing.assert_array_equal(strided.numpy(), np.repeat(x[::2, ::-2], count, axis=1))
    long = np.arange(50_000).astype(dtype)
    np.testing.assert_array_equal(hy.repeat(hy.asarray(long), count).numpy(), long.repeat(count))


def test_the_gradient_adds_up_the_copies() -> None:
    counts = hy.asarray([1, 0, 3])
    slope = hy.grad(lambda x: hy.sum(hy.repeat(x, counts) * 2))(hy.ones(3))
    assert slope.tolist() == [2.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hy.repeat(hy.ones(3), -1), ArgumentError, "the count -1"),
        (lambda: hy.repeat(hy.ones(3), hy.asarray([1, -1, 1])), ArgumentError, "the count -1"),
        (lambda: hy.repeat(hy.ones(3), hy.asarray([1, 1])), ShapeError, "has 3 elements"),
        (lambda: hy.repeat(hy.ones(3), hy.ones(3)), ArgumentError, "as counts"),
    ],
)
def test_bad_input(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("holds", [True, False])
def test_a_mask_without_dimensions_selects_all_or_nothing(holds) -> None:
    for a in (np.array(2.0, np.float32), A):
        found = hy.asarray(a)[hy.asarray(holds)]
        np.testing.assert_array_equal(found.numpy(), a[np.array(holds)])


def test_no_tensor_is_complex() -> None:
    x = hy.asarray(A)
    assert hy.real(x).tolist() == hy.conj(x).tolist() == A.tolist()


def test_whether_promotion_gets_there() -> None:
    assert hy.can_cast(hy.int8, hy.int64) and hy.can_cast(hy.uint8, hy.int16)
    assert not hy.can_cast(hy.uint64, hy.int8) and not hy.can_cast(hy.int8, hy.uint64)


def test_dlpack_has_the_parameters_of_the_standard() -> None:
    x = hy.asarray(A)
    np.testing.assert_array_equal(np.from_dlpack(x), A)
    with pytest.raises(ArgumentError, match="no stream 1"):
        x.__dlpack__(stream=1)


def test_masks_of_no_elements_select_nothing() -> None:
    x = hy.asarray(A)
    for shape, found in [((0, 4), (0,)), ((3, 0), (0,)), ((0,), (0, 4))]:
        assert x[hy.zeros(shape, dtype=hy.bool)].shape == found
    with pytest.raises(IndexError, match=r"a mask of shape \[2\] does not fit"):
        x[hy.ones((2,), dtype=hy.bool)]
