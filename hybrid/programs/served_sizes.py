"""Sizes at which a function may do another thing: where its captures and plans are looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hybrid.calls.dynamic_axes import Dim
from hybrid.core.size_conditions import Condition
from hybrid.core.size_functions import SizeSymbol
from hybrid.core.sizes import OpenSizes

TOP = 12  # bits of the sizes from which on one schedule is for all
_LARGEST = 1 << TOP, 1 << 14  # sizes that are looked at, and edges: literals are made at these
_ALL = 512  # sizes of one axis that are looked at one by one
_MOST = 4096  # combinations of sizes of several axes

Point = tuple[int, ...]


def candidates(dims: Sequence[Dim], example: Mapping[str, int]) -> list[Point]:
    """Sizes of axes, with ``example`` first: all, or the ends and what lies at powers of two."""
    if len(dims) == 1 and dims[0].high - dims[0].low < _ALL:
        axes = [range(dims[0].low, dims[0].high + 1)]
    else:
        axes = [_sparse(dim, example[dim.name], 2 if len(dims) == 1 else 16) for dim in dims]
    return [tuple(example.values()), *_combined(axes)]


def _sparse(dim: Dim, example: int, factor: int) -> list[int]:
    last = max(min(dim.high, _LARGEST[0]), dim.low, example)
    found = {dim.low, dim.low + 1, dim.low + 2, example, last - 1, last, 0, 1, 2}
    power = 1
    while power <= last:
        found |= {power - 1, power, power + 1} if factor == 2 else {power}
        power *= factor
    return sorted([size for size in found if dim.low <= size <= last])


def further(
    dims: Sequence[Dim], example: Mapping[str, int], asked: Iterable[OpenSizes]
) -> list[Point]:
    """Sizes around those at which a condition on one axis changes."""
    edges: dict[str, set[int]] = {dim.name: {example[dim.name]} for dim in dims}
    for sizes in asked:
        for condition in sizes.conditions.values():
            terms = condition.size.terms if isinstance(condition, Condition) else ()
            factors = {monomial: count for monomial, count in terms if monomial}
            for monomial, count in factors.items():
                if len(factors) == 1 and len(monomial) == 1 and type(monomial[0]) is SizeSymbol:
                    edge = -dict(terms).get((), 0) // count
                    edges[monomial[0].name] |= {edge - 1, edge, edge + 1, edge + 2}
    axes = []
    for dim in dims:
        last = min(dim.high, max(_LARGEST[1], example[dim.name]))
        axes.append(sorted([size for size in edges[dim.name] if dim.low <= size <= last]))
    return _combined(axes)


def _combined(axes: Sequence[Sequence[int]]) -> list[Point]:
    """All combinations; of very many a few that are spread over them, always the same."""
    count = 1
    for axis in axes:
        count *= len(axis)
    if count <= _MOST:
        return list(itertools.product(*axes))
    draw = np.random.default_rng(0)
    return [tuple([int(draw.choice(axis)) for axis in axes]) for _ in range(_MOST)]
