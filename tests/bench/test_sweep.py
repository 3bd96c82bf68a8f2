"""The sweep over all array functions: none is forgotten, and NumPy does the same beside it."""

import numpy as np
import pytest

from hybrid import linalg, ops
from hybrid.bench.sweep import LEFT_OUT, SweepArrays, beside, functions, ours, sweep
from hybrid.core.tree import flatten, tree_map
from hybrid.eager.frameworks.interop import asarray

ROWS = dict(functions())
UNLIKE = {"erf", "gelu", "empty", "empty_like"}  # NumPy has none, or gives no values
UNSIGNED = {"eigh", "svd", "qr"}  # vectors up to their sign


def test_every_function_has_a_row_or_is_left_out():
    public = set(ops.__all__) | {
        name for name, f in vars(linalg).items()
        if callable(f) and f.__module__ == linalg.__name__ and name[0] != "_" and name.islower()
    }  # fmt: skip
    left_out = set(LEFT_OUT.split())
    assert left_out.isdisjoint(ROWS)
    assert public - left_out - set(ROWS) == set()
    assert left_out <= public


@pytest.mark.parametrize("name", ROWS)
def test_numpy_does_the_same_beside_it(name):
    args, kwargs = ROWS[name](SweepArrays(100, "float64"))
    tensors = tree_map(lambda x: asarray(x) if isinstance(x, np.ndarray) else x, args)
    found, expected = ours(name)(*tensors, **kwargs), beside(name)(*args, **kwargs)
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    assert pairs
    for got, want in pairs:
        got, want = got.numpy(), np.asarray(want)
        assert got.shape == want.shape
        if name not in UNLIKE:
            if name in UNSIGNED:
                got, want = np.abs(got), np.abs(want)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def leaves(value):
    return [np.asarray(x) if isinstance(x, np.generic) else x for x in flatten(value)[0]]


def test_rows_are_measured():
    told = []
    rows = sweep("log1", sizes=(4, 9), repeat=1, advance=told.append)
    assert told == ["log10", "log1p"]
    assert [(row.name, row.size) for row in rows] == [
        ("log10", 4), ("log10", 9), ("log1p", 4), ("log1p", 9),
    ]  # fmt: skip
    assert all(row.ours.median > 0 and row.ratio > 0 for row in rows)
