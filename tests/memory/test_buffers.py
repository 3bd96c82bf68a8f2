"""Parts that lie in a row: what NumPy selects, in memory of their own."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import tensor_type
from hybrid.ir import REGISTRY
from hybrid.memory.buffers import MAX_BYTES, part_at

A = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
KEYS = [
    0, -1, 3, (1, 2), (-4, -5, -6), (3, 4, 5), slice(None), slice(1, 3), slice(-2, None),
    (2, slice(1, -1)), (0, 0, slice(2, None, 1)), slice(0, 100), (slice(2, 3),),
    (-1, slice(-100, 2)),
]  # fmt: skip
OTHERS = [
    4, -5, (0, 5), (0, 0, 0, 0), True, slice(None, None, 2), slice(2, 1), (slice(1, 2), 0), None,
    ..., (), [0], np.int64(1), (0, None), slice(True, None), slice(None, np.int64(2)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_as_numpy(key, dtype) -> None:
    array = A.astype(dtype)
    x = hy.asarray(array)
    found = part_at(x.type, key)
    assert found is not None and found[1].shape == array[key].shape
    y = x[key]
    np.testing.assert_array_equal(y.numpy(), array[key])
    assert y.dtype == x.dtype
    y.assign(hy.zeros_like(y))
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(hy.hybridize(lambda x: x[key])(x).numpy(), array[key])


@pytest.mark.parametrize("key", OTHERS, ids=str)
def test_others_take_the_general_way(key) -> None:
    assert part_at(hy.asarray(A).type, key) is None


def test_sizes() -> None:
    assert part_at(tensor_type(hy.float32, (0, 3)), slice(None)) is None
    assert part_at(tensor_type(hy.float32, (3, 0)), 1) is None
    assert part_at(tensor_type(hy.float32, ()), 0) is None
    row = MAX_BYTES // 4
    assert part_at(tensor_type(hy.float32, (2, row)), 1) is not None
    assert part_at(tensor_type(hy.float32, (2, row + 1)), 1) is None
    assert hy.zeros((2, row + 1))[1].shape == (row + 1,)


def test_gradients_flow_from_parts() -> None:
    x = hy.asarray(A)
    slope = hy.grad(lambda x: hy.sum(x[1] * x[2:3]) + x[3, 4, 5] * x[-1, -1, -1])(x)
    wanted = np.zeros_like(A)
    wanted[1], wanted[2], wanted[3, 4, 5] = A[2], A[1], 2 * A[3, 4, 5]
    np.testing.assert_array_equal(slope.numpy(), wanted)


def test_many_rows_are_read_without_plans() -> None:
    x = hy.asarray(np.arange(5000.0))
    before = sum(len(op.launches) for op in REGISTRY.values())
    assert [float(x[i]) for i in range(0, 5000, 7)] == list(range(0, 5000, 7))
    assert sum(len(op.launches) for op in REGISTRY.values()) <= before + 1
