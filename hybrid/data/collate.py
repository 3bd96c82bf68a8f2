"""Collating: samples of one structure become one batch of that structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.conversion import asarray
from hybrid.errors import ArgumentTypeError, ShapeError
from hybrid.tensor import Tensor
from hybrid.tree import describe, flatten, unflatten


def collate(samples: Sequence[Any]) -> Any:
    """``samples`` (trees of tensors, arrays and numbers) stacked: one tree of tensors."""
    rows, structure = [], None
    for sample in samples:
        leaves, found = flatten(sample)
        if not rows:
            structure = found
        elif found != structure:
            raise ArgumentTypeError(
                f"samples {describe(structure)} and {describe(found)} cannot be one batch",
                why="Samples must have one structure.",
                fix="let the dataset give the same tuple or dict for every sample",
            )
        rows.append(leaves)
    return unflatten(structure, [_stacked(column) for column in zip(*rows, strict=True)])


def _stacked(items: Sequence[Any]) -> Tensor:
    """Items of one shape along a new first axis; Python numbers get their default dtypes."""
    if all(type(item) in (bool, int, float) for item in items):
        return asarray(list(items))
    arrays = [_array(item) for item in items]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        first, second = list(dict.fromkeys(array.shape for array in arrays))[:2]
        raise ShapeError(
            f"samples of shapes {list(first)} and {list(second)} cannot be one batch",
            why="Items are stacked, so they must have one shape.",
            fix="pad or cut them in the dataset, or use batch_size=1",
        )
    return asarray(np.stack(arrays))


def _array(item: Any) -> np.ndarray:
    if isinstance(item, Tensor):
        return item.numpy()
    if isinstance(item, (np.ndarray, np.generic)) or type(item) in (bool, int, float):
        return np.asarray(item)
    raise ArgumentTypeError(
        f"a {type(item).__name__} in a sample cannot be batched",
        fix="let the dataset give tensors, arrays, numbers, and tuples and dicts of these",
    )
