"""Every integer dtype over its whole range, against NumPy, at lengths round the lanes."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.ops.support.sampling import Draw

SIZES = [0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000]
BINARY = [
    *("add", "subtract", "multiply", "maximum", "minimum"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
]
UNARY = ["negative", "abs", "sign", "square", "bitwise_invert", "logical_not"]
integers = pytest.mark.parametrize("dtype", Draw.integers)


def drawn(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Any numbers of the dtype; its ends and 0 are among them."""
    generator = np.random.default_rng(seed)
    ends = np.iinfo(dtype)
    values = generator.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)
    if values.size >= 4:
        values.flat[[0, -1]], values.flat[1] = (ends.min, ends.max), 0
    return values


def same(found: hy.Tensor, expected: np.ndarray) -> None:
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@integers
@pytest.mark.parametrize("size", SIZES)
def test_two_operands(dtype, size) -> None:
    a, b = drawn(dtype, size), drawn(dtype, size, seed=1)
    b[::3] = a[::3]
    with np.errstate(over="ignore"):
        for name in BINARY:
            expected = getattr(np, name)(a, b)
            same(getattr(hy, name)(hy.asarray(a), hy.asarray(b)), expected)
    chosen = np.random.default_rng(2).random(size) < 0.5
    same(hy.where(hy.asarray(chosen), hy.asarray(a), hy.asarray(b)), np.where(chosen, a, b))


@integers
@pytest.mark.parametrize("size", SIZES)
def test_one_operand(dtype, size) -> None:
    a = drawn(dtype, size)
    with np.errstate(over="ignore"):
        for name in UNARY:
            same(getattr(hy, name)(hy.asarray(a)), getattr(np, name)(a))


@integers
@pytest.mark.parametrize("size", SIZES)
def test_shifts(dtype, size) -> None:
    """Counts beyond the number of bits shift everything out."""
    a = drawn(dtype, size)
    counts = np.random.default_rng(1).integers(0, 70, size).astype(dtype)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        same(getattr(hy, name)(hy.asarray(a), hy.asarray(counts)), getattr(np, name)(a, counts))


@integers
@pytest.mark.parametrize("size", SIZES)
def test_division(dtype, size) -> None:
    a, b = drawn(dtype, size), drawn(dtype, size, seed=1)
    with np.errstate(divide="ignore", over="ignore"):
        for name in ("floor_divide", "remainder"):
            same(getattr(hy, name)(hy.asarray(a), hy.asarray(b)), getattr(np, name)(a, b))
    small = np.random.default_rng(2).integers(0, 9, size).astype(dtype)
    same(hy.pow(hy.asarray(a), hy.asarray(small)), np.power(a, small))


@integers
@pytest.mark.parametrize("to", ["bool", *Draw.integers])
def test_casts_between_integers_keep_the_low_bits(dtype, to) -> None:
    for size in SIZES:
        a = drawn(dtype, size)
        same(hy.astype(hy.asarray(a), getattr(hy, to)), a.astype(to))


@integers
@pytest.mark.parametrize("floating", Draw.floats)
def test_casts_from_floats_saturate(dtype, floating) -> None:
    ends = np.iinfo(dtype)
    a = np.array([0, 0.9, -0.9, 3.7, -3.7, 1e30, -1e30, np.inf, -np.inf, np.nan], floating)
    low, high = int(ends.min), int(ends.max)
    expected = [min(max(int(v), low), high) if np.isfinite(v) else 0 for v in a]
    expected[7:9] = [high, low]
    assert hy.astype(hy.asarray(a), getattr(hy, dtype)).tolist() == expected
    same(
        hy.astype(hy.asarray(drawn(dtype, 65)), getattr(hy, floating)),
        drawn(dtype, 65).astype(floating),
    )


@integers
def test_reductions(dtype) -> None:
    for shape in [(1,), (65,), (1000,), (5, 7), (70, 3)]:
        a = drawn(dtype, *shape)
        for axis in range(len(shape)):
            for name in ("max", "min", "argmax", "argmin"):
                expected = getattr(np, name)(a, axis=axis)
                same(getattr(hy, name)(hy.asarray(a), axis=axis), np.asarray(expected))
            for name in ("sum", "prod"):
                expected = getattr(np, name)(a, axis=axis, dtype=dtype)
                found = getattr(hy, name)(hy.asarray(a), axis=axis, dtype=getattr(hy, dtype))
                same(found, np.asarray(expected))


@integers
def test_sums_are_of_the_widest_dtype_unless_one_is_asked_for(dtype) -> None:
    wide = "uint64" if dtype.startswith("u") else "int64"
    a = drawn(dtype, 100)
    for name in ("sum", "prod"):
        same(getattr(hy, name)(hy.asarray(a)), getattr(np, name)(a, dtype=wide))


@integers
def test_moves_and_picks(dtype) -> None:
    a = drawn(dtype, 6, 9)
    x = hy.asarray(a)
    at = np.array([5, 0, -1, 3, 3])
    same(hy.permute_dims(x, (1, 0)), a.T)
    same(hy.flip(x), np.flip(a))
    same(hy.concat([x, x[:2]]), np.concatenate([a, a[:2]]))
    same(hy.take(x, hy.asarray(at), axis=0), a[at])
    same(x[1::2, ::-3], a[1::2, ::-3])
    along = np.argsort(a, axis=1)
    same(hy.take_along_axis(x, hy.asarray(along), axis=1), np.take_along_axis(a, along, axis=1))
    index = np.array([0, 2, 0, -1])
    expected = a.copy()
    np.add.at(expected, index, a[:4])
    same(hy.index_add(x, hy.asarray(index), x[:4], axis=0), expected)


@integers
def test_products_wrap(dtype) -> None:
    for m, k, n in [(1, 70, 1), (5, 7, 9), (3, 0, 2)]:
        a, b = drawn(dtype, m, k), drawn(dtype, k, n, seed=1)
        same(hy.asarray(a) @ hy.asarray(b), a @ b)
        same(hy.asarray(a) @ hy.asarray(b.T.copy()).mT, a @ b)


@integers
def test_hybridized_code_computes_the_same(dtype) -> None:
    def f(a, b):
        c = hy.where(a > b, a * b, a - b) ^ (b // 3)
        for row in b:
            if row[0] > 3:
                c = c + row
        return c, hy.sum(c, axis=0), c @ hy.permute_dims(b, (1, 0))

    a, b = hy.asarray(drawn(dtype, 4, 9)), hy.asarray(drawn(dtype, 4, 9, seed=1))
    for found, expected in zip(hy.hybridize(f)(a, b), f(a, b), strict=True):
        same(found, expected.numpy())
