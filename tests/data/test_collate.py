"""Collating: one structure in, the same structure of stacked tensors out."""

from typing import NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.data.collate import collate
from hybrid.errors import ArgumentTypeError, ShapeError


class Pair(NamedTuple):
    x: object
    y: object


@pytest.mark.parametrize(
    ("samples", "type_", "values"),
    [
        ([1, 2], "i64[2]", [1, 2]),
        ([1.0, 2], "f32[2]", [1.0, 2.0]),
        ([True, False], "bool[2]", [True, False]),
        ([np.float64(1), np.float64(2)], "f64[2]", [1.0, 2.0]),
        ([np.ones(2, np.int32)] * 2, "i32[2,2]", [[1, 1], [1, 1]]),
        ([hy.asarray([1.0]), hy.asarray([2.0])], "f32[2,1]", [[1.0], [2.0]]),
    ],
)
def test_leaves(samples, type_, values):
    batch = collate(samples)
    assert (str(batch.type), batch.tolist()) == (type_, values)


def test_structures():
    batch = collate([(1.0, {"a": [2]}), (3.0, {"a": [4]})])
    assert type(batch) is tuple and type(batch[1]) is dict and type(batch[1]["a"]) is list
    assert batch[0].tolist() == [1.0, 3.0] and batch[1]["a"][0].tolist() == [2, 4]
    pair = collate([Pair(1, None), Pair(2, None)])
    assert type(pair) is Pair and pair.x.tolist() == [1, 2] and pair.y is None


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        (
            [np.ones(2), np.ones(2), np.ones(3)],
            ShapeError,
            "samples of shapes [2] and [3] cannot be one batch\n"
            "Items are stacked, so they must have one shape.\n"
            "Fix: pad or cut them in the dataset, or use batch_size=1.",
        ),
        (
            [(1, 2), (1,)],
            ArgumentTypeError,
            "samples (*, *) and (*,) cannot be one batch\n"
            "Samples must have one structure.\n"
            "Fix: let the dataset give the same tuple or dict for every sample.",
        ),
        (
            ["a", "b"],
            ArgumentTypeError,
            "a str in a sample cannot be batched\nFix: let the dataset give tensors, arrays, "
            "numbers, and tuples and dicts of these.",
        ),
    ],
)
def test_errors(samples, error, message):
    with pytest.raises(error) as caught:
        collate(samples)
    assert str(caught.value) == message
