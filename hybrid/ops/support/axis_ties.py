"""Which places along the axes of operands and results belong together: what ``op.couples`` gives.

A rule gets ``(operands, results, **attrs)``, types both, and returns ties.  A tie is a list of
axes, each with a number for every place along it: places of one number belong together, so that an
element can only be taken out of one of these axes together with those of its number in all the
others.  -1 is a place that has no counterpart.  Of ::

    y = concat(a, b)  # [2, 3] and [2, 2] -> [2, 5]

the ties are that of axis 0, ``a: 0 1, b: 0 1, y: 0 1``, and that of axis 1, ``a: 0 1 2, b: 3 4,
y: 0 1 2 3 4``.  An axis in several ties is the product of several others, as in a reshape; one in
no tie cannot lose an element: what the op computes depends on its size.  A tie without results is
an axis that is summed over.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.types import TensorType


class TiedAxis(NamedTuple):
    """An axis of operand ``place``, or of result ``~place``, and the number of each place."""

    place: int
    axis: int
    numbers: np.ndarray


Tie = list[TiedAxis]
Types = Sequence[TensorType]
Rule = Callable[..., list[Tie]]


def tied(place: int, axis: int, size: int, first: int = 0, step: int = 1) -> TiedAxis:
    """An axis whose places have the numbers from ``first`` on."""
    return TiedAxis(place, axis, first + step * np.arange(size))


def along(operands: Types, results: Types, pairs: Iterable[tuple[int, int]]) -> Tie:
    """The tie of the axes ``(place, axis)``, which run alongside each other."""
    types = {**dict(enumerate(operands)), **{~i: t for i, t in enumerate(results)}}
    return [tied(place, axis, types[place].shape[axis]) for place, axis in pairs]


def aligned(operands: Types, results: Types, **_: Any) -> list[Tie]:
    """Operands that broadcast to the results: axes are aligned from the last on."""
    return broadcast(operands, results, range(results[0].rank))


def broadcast(operands: Types, results: Types, axes: Iterable[int]) -> list[Tie]:
    """The ties of ``axes`` of the results, with the axes of operands that are as long.

    An operand with one element there gives it to all.
    """
    rank = results[0].rank
    ties = []
    for axis in axes:
        pairs = [(~i, axis) for i, result in enumerate(results) if axis < result.rank]
        for place, operand in enumerate(operands):
            own = axis - rank + operand.rank
            if own >= 0 and operand.shape[own] == results[0].shape[axis]:
                pairs.append((place, own))
        ties.append(along(operands, results, pairs))
    return ties


def all_but(excluded: Callable[..., Iterable[int]]) -> Rule:
    """The rule of an op whose operands and results share all axes but some of the first operand's.

    ``excluded`` tells them from its rank and the attributes; negative ones count from the end.
    """

    def rule(operands: Types, results: Types, **attrs: Any) -> list[Tie]:
        rank = operands[0].rank
        left_out = {axis % rank for axis in excluded(rank, **attrs)}
        ties = []
        for axis in range(rank):
            pairs = [(place, axis) for place, t in enumerate(operands) if t.rank == rank]
            pairs += [(~i, axis) for i, t in enumerate(results) if t.rank == rank]
            if axis not in left_out:
                ties.append(along(operands, results, pairs))
        return ties

    return rule


along_last = all_but(lambda rank, **_: (rank - 1,))
along_axis = all_but(lambda rank, *, axis, **_: (axis,) if isinstance(axis, int) else axis)
everywhere = all_but(lambda rank, **_: ())


def unmoved(operands: Types, results: Types, **_: Any) -> list[Tie]:
    """The result is the first operand; the others have no axis in it."""
    return [along(operands, results, [(0, i), (~0, i)]) for i in range(operands[0].rank)]


def reduced(sums: bool) -> Rule:
    """The rule of a reduction along ``axis``, which ``sums``: then elements of 0 may leave."""

    def rule(operands: Types, results: Types, *, axis: Any, keepdims: bool) -> list[Tie]:
        rank = operands[0].rank
        axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
        gone = {a % rank for a in axes}
        ties, behind = [], 0
        for own in range(rank):
            if own in gone:
                if sums:
                    ties.append(along(operands, results, [(0, own)]))
                behind += keepdims
            else:
                ties.append(along(operands, results, [(0, own), (~0, behind)]))
                behind += 1
        return ties

    return rule


def product(rows: tuple[int, int], columns: tuple[int, int]) -> Rule:
    """The rule of a matrix product: (kept, summed) axes of ``a``, and (summed, kept) ones of ``b``.

    Leading axes broadcast.
    """

    def rule(operands: Types, results: Types, **_: Any) -> list[Tie]:
        ranks = [t.rank for t in operands]
        rank = results[0].rank
        return [
            *broadcast(operands[:2], results, range(rank - 2)),
            along(operands, results, [(0, rows[0] + ranks[0]), (~0, rank - 2)]),
            along(operands, results, [(1, columns[1] + ranks[1]), (~0, rank - 1)]),
            along(operands, results, [(0, rows[1] + ranks[0]), (1, columns[0] + ranks[1])]),
        ]

    return rule


def reshaped(operands: Types, results: Types, **_: Any) -> list[Tie]:
    """A reshape: axes are cut into factors that both shapes have, a tie for each.

    The factors of an axis that cannot be cut so stay apart, and it can lose nothing.
    """
    old, new = operands[0].shape, results[0].shape
    if 0 in old:
        return []
    ties = []
    for of_old, of_new in _blocks(old, new):
        sizes = _factors([old[i] for i in of_old], [new[i] for i in of_new])
        for at, size in enumerate(sizes):
            inner = math.prod(sizes[at + 1 :])
            tie = []
            for place, shape, axes in ((0, old, of_old), (~0, new, of_new)):
                for axis, below in _within(shape, axes, inner, size):
                    numbers = np.arange(shape[axis]) // below % size
                    tie.append(TiedAxis(place, axis, numbers))
            ties.append(tie)
    return ties


def _blocks(old: Sequence[int], new: Sequence[int]) -> Iterable[tuple[list[int], list[int]]]:
    """Axes of both shapes that have equally many elements together; those of size 1 are left."""
    left = [i for i, n in enumerate(old) if n != 1]
    right = [i for i, n in enumerate(new) if n != 1]
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        size_a, size_b = old[a[0]], new[b[0]]
        while size_a != size_b:
            if size_a < size_b:
                a.append(left.pop(0))
                size_a *= old[a[-1]]
            else:
                b.append(right.pop(0))
                size_b *= new[b[-1]]
        yield a, b


def _factors(old: Sequence[int], new: Sequence[int]) -> list[int]:
    """The sizes between all bounds of both, if the bounds divide each other; else the whole."""
    bounds = sorted(
        {math.prod(sizes[at:]) for sizes in (old, new) for at in range(len(sizes) + 1)},
        reverse=True,
    )
    pairs = list(itertools.pairwise(bounds))
    return [] if any(a % b for a, b in pairs) else [a // b for a, b in pairs]


def _within(
    shape: Sequence[int], axes: Sequence[int], inner: int, size: int
) -> Iterable[tuple[int, int]]:
    """The one of ``axes`` that the factor ``size``, ``inner`` elements apart, lies in."""
    behind = 1
    for axis in reversed(axes):
        if behind <= inner and inner * size <= behind * shape[axis]:
            yield axis, inner // behind
        behind *= shape[axis]


def convolved(groups: int, x: int, w: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Numbers along ``x`` channels, those of a filter, ``w`` filters, and the filters' results.

    All groups lose the same places, so that they stay equal; with one channel a group, a group goes
    as a whole, with all its filters.
    """
    width, filters = x // groups, w // groups
    if groups > 1 and width == 1:
        of_filters = np.arange(w) // filters
        return np.arange(x), np.full(1, -1), of_filters, of_filters
    of_filters = np.arange(w) % filters
    return np.arange(x) % width, np.arange(width), of_filters, of_filters
