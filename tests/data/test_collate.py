"""Collating: one structure in, the same structure of stacked tensors out."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import default_collate as collate
from hybrid.data import default_convert
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError


class Pair(NamedTuple):
    x: object
    y: object


@dataclass
class Point:
    x: Any
    name: str
    norm: float = field(init=False, default=0.0)


@pytest.mark.parametrize(
    ("samples", "type_", "values"),
    [
        ([1, 2], "i64[2]", [1, 2]),
        ([1.0, 2], "f32[2]", [1.0, 2.0]),
        ([True, False], "bool[2]", [True, False]),
        ([np.float64(1), np.float64(2)], "f64[2]", [1.0, 2.0]),
        ([np.ones(2, np.int32)] * 2, "i32[2,2]", [[1, 1], [1, 1]]),
        ([hy.asarray([1.0]), hy.asarray([2.0])], "f32[2,1]", [[1.0], [2.0]]),
        ([hy.ones((2,), dtype=hy.bfloat16)] * 2, "bf16[2,2]", [[1.0, 1.0], [1.0, 1.0]]),
        ([hy.asarray([1.0]), np.array([2.0])], "f64[2,1]", [[1.0], [2.0]]),
        ([hy.asarray(1), 2], "i64[2]", [1, 2]),
        ([np.zeros((0, 2), np.uint8)] * 3, "u8[3,0,2]", [[], [], []]),
    ],
)
def test_leaves(samples, type_, values):
    batch = collate(samples)
    assert (str(batch.type), batch.tolist()) == (type_, values)


def test_structures():
    batch = collate([(1.0, {"a": [2]}), (3.0, {"a": [4]})])
    assert type(batch) is tuple and type(batch[1]) is dict and type(batch[1]["a"]) is list
    assert batch[0].tolist() == [1.0, 3.0] and batch[1]["a"][0].tolist() == [2, 4]
    pair = collate([Pair(1, "a"), Pair(2, "b")])
    assert type(pair) is Pair and pair.x.tolist() == [1, 2] and pair.y == ["a", "b"]


def test_strings_stay_strings():
    assert collate(["a", "b"]) == ["a", "b"] and collate([b"a", b"b"]) == [b"a", b"b"]
    assert collate([np.str_("a"), "b"]) == ["a", "b"]
    assert collate([("a", {"n": "x"}), ("b", {"n": "y"})]) == (["a", "b"], {"n": ["x", "y"]})


def test_mappings():
    batch = collate([{"a": 1, "b": 2}, {"b": 4, "a": 3}])
    assert list(batch) == ["a", "b"] and batch["a"].tolist() == [1, 3]
    assert type(collate([OrderedDict(a=1)])) is OrderedDict
    counts = collate([defaultdict(int, a=1), defaultdict(int, a=2)])
    assert type(counts) is defaultdict and counts.default_factory is int
    assert collate([MappingProxyType({"a": 1})])["a"].tolist() == [1]


def test_dataclasses():
    batch = collate([Point(1.0, "p"), Point(2.0, "q")])
    assert type(batch) is Point and batch.x.tolist() == [1.0, 2.0] and batch.name == ["p", "q"]


def test_samples_are_converted_alone():
    sample = default_convert({"a": np.ones(2), "b": ["x", np.float32(3), None], "c": 1})
    assert type(sample["a"]) is hy.Tensor and sample["b"][0] == "x" and sample["c"] == 1
    assert sample["b"][1].item() == 3 and sample["b"][2] is None
    text = np.array(["x"])
    assert default_convert(text) is text


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
            [{"x": [0, np.ones(2)]}, {"x": [0, np.ones((2, 1))]}],
            ShapeError,
            "samples of shapes [2] and [2, 1] at ['x'][1] of a sample cannot be one batch\n"
            "Items are stacked, so they must have one shape.\n"
            "Fix: pad or cut them in the dataset, or use batch_size=1.",
        ),
        (
            [{"x": 1}, {"y": 1}],
            ArgumentTypeError,
            "samples {'x': *} and {'y': *} cannot be one batch\n"
            "Samples must have one structure.\n"
            "Fix: let the dataset give the same tuple or dict for every sample.",
        ),
        (
            [(1, "a"), (1, 2)],
            ArgumentTypeError,
            "samples a str and a int at [1] of a sample cannot be one batch\n"
            "Samples must have one structure.\n"
            "Fix: let the dataset give the same tuple or dict for every sample.",
        ),
        (
            [1, None],
            ArgumentTypeError,
            "None cannot be batched\nThere is nothing to stack.\n"
            "Fix: leave such samples out of the dataset, or pass a collate_fn that does.",
        ),
        (
            [Pair(1, None), Pair(2, None)],
            ArgumentTypeError,
            "None at [1] of a sample cannot be batched\nThere is nothing to stack.\n"
            "Fix: leave such samples out of the dataset, or pass a collate_fn that does.",
        ),
        (
            [(object(),), (object(),)],
            ArgumentTypeError,
            "a object at [0] of a sample cannot be batched\nFix: let the dataset give tensors, "
            "arrays, numbers, and tuples and dicts of these, or pass a collate_fn.",
        ),
        ([], ArgumentError, "a batch of no samples\nFix: give one sample at least."),
    ],
)
def test_errors(samples, error, message):
    with pytest.raises(error) as caught:
        collate(samples)
    assert str(caught.value) == message
