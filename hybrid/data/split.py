"""random_split: a dataset dealt out at random."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from hybrid.data.dataset import Subset
from hybrid.data.sampler import as_generator
from hybrid.errors import ArgumentError
from hybrid.random import Generator, default_generator


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | int | None = None
) -> list[Subset]:
    """``dataset`` dealt out at random into Subsets of ``lengths``, which no two share a sample of.

    ``lengths`` are counts that sum to the length of the dataset, or fractions that sum to 1: those
    are rounded down, and what is left goes to the first ones in turn.  The order is one
    permutation drawn from ``generator`` (or a seed; by default the default generator).
    """
    total = len(dataset)
    counts = _counts(list(lengths), total)
    order = (as_generator(generator) or default_generator()).permutation(total).tolist()
    subsets, start = [], 0
    for number, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"part {number} of the split has no samples", stacklevel=2)
        subsets.append(Subset(dataset, order[start : start + count]))
        start += count
    return subsets


def _counts(lengths: list[int | float], total: int) -> list[int]:
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) or n < 0 for n in lengths):
        raise ArgumentError(f"a split into {lengths}", fix="give counts or fractions >= 0")
    if all(isinstance(n, int) for n in lengths) and sum(lengths) == total:
        return lengths
    if not math.isclose(sum(lengths), 1) or any(n > 1 for n in lengths):
        raise ArgumentError(
            f"a split of {total} samples into {lengths}",
            why=f"They sum to {sum(lengths)}.",
            fix=f"give counts that sum to {total}, or fractions that sum to 1",
        )
    counts = [math.floor(total * n) for n in lengths]
    for left in range(total - sum(counts)):
        counts[left % len(counts)] += 1
    return counts
