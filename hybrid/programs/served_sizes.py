"""Sizes at which a function may do another thing: where its captures and plans are looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hybrid.calls.dynamic_axes import Dim
from hybrid.core.size_conditions import Condition
from hybrid.core.size_functions import SizeSymbol
from hybrid.core.sizes import OpenSizes

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
    found = {dim.low, dim.low + 1, dim.low + 2, example, dim.high - 1, dim.high, 0, 1, 2}
    power = 1
    while power <= dim.high:
        found |= {power - 1, power, power + 1} if factor == 2 else {power}
        power *= factor
    return sorted([size for size in found if dim.low <= size <= dim.high])


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
    axes = [sorted([s for s in edges[dim.name] if dim.low <= s <= dim.high]) for dim in dims]
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
