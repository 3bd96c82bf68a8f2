"""How ranks compute an op together, each with parts of its operands: what ``op.shares`` gives.

A rule gets ``(cut, operands, results, **attrs)``, two of which are types, and returns ways.  A way
says where each operand has to be along one axis of a mesh, and where the results are then.  Of ::

    y = matmul(x, w)  # [8, 4] and [4, 6] -> [8, 6]

the ways of two ranks are: rows of ``x`` and ``y`` are split, ``w`` is whole; columns of ``w`` and
``y`` are split, ``x`` is whole; columns of ``x`` and rows of ``w`` are split, and what each rank
computes is a term of ``y``.  Most ways follow from which places belong together (``axis_ties.py``):
the op itself computes the part of its results from those of its operands.  Where ranks have to ask
each other meanwhile, as for the largest element of a row of which each has a part, the way has a
function that says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.layouts import PARTIAL, Placement, Split
from hybrid.core.types import TensorType
from hybrid.ops.support import axis_ties
from hybrid.ops.support.axis_ties import Tie, TiedAxis

Types = Sequence[TensorType]


class AxisCut(NamedTuple):
    """How axes are to be cut: for how many ranks, and as how many blocks (see ``Split``)."""

    ranks: int
    outer: int = 1

    def of(self, type: TensorType, axis: int) -> Split | None:
        """The split of ``axis`` into one part for each rank; None where it cannot be cut so."""
        split = Split(axis)
        return split if self.outer == 1 and split.fits(type.shape, self.ranks) else None


class SharedWay(NamedTuple):
    """Where operands and results are; ``compute`` is what a rank does, if not the op itself.

    ``compute(work, *operands, **attrs)`` returns the results, values both of a graph; see ``Work``
    of ``hybrid/passes/layouts/work.py``.  ``attrs(attrs, results)`` are those of the op for parts
    of types ``results``, where they depend on sizes.  ``alone``: ranks ask each other nothing when
    they ``compute`` it, so it can be done by parts of a batch one after the other, too.
    """

    operands: tuple[Placement, ...]
    results: tuple[Placement, ...]
    compute: Callable[..., Any] | None = None
    attrs: Callable[..., dict[str, Any]] | None = None
    alone: bool = False


Rule = Callable[..., list[SharedWay]]
Linear = Iterable[tuple[int, ...]]


def tied(
    ties: axis_ties.Rule,
    *,
    linear: Linear = (),
    sums: bool = False,
    attrs: Callable[..., dict[str, Any]] | None = None,
) -> Rule:
    """The rule of an op whose places belong together as ``ties`` says.

    It is ``linear`` in these sets of operands: of terms of them it makes terms of its results.
    ``sums``: so it does of parts along an axis of operands that the results have not got.
    """
    linear = tuple(linear)

    def rule(cut: AxisCut, operands: Types, results: Types, **given: Any) -> list[SharedWay]:
        found = [
            _way(tie, cut, operands, results, sums, attrs)
            for tie in ties(operands, results, **given)
        ]
        ways = [way for way in found if way is not None]
        return [*ways, *terms(linear, len(operands), len(results))]

    return rule


def terms(linear: Linear, operands: int, results: int) -> list[SharedWay]:
    """The ways of an op that is linear in these sets of its operands; the others are whole."""
    return [
        SharedWay(
            tuple([PARTIAL if at in places else None for at in range(operands)]),
            (PARTIAL,) * results,
        )
        for places in linear
    ]


def elementwise(linear: Linear = ()) -> Rule:
    """The rule of an op of operands that broadcast."""
    return tied(axis_ties.aligned, linear=linear)


every_element = elementwise()  # of elementwise ops that have no rule of their own


def _way(
    tie: Tie,
    cut: AxisCut,
    operands: Types,
    results: Types,
    sums: bool,
    attrs: Callable[..., dict[str, Any]] | None,
) -> SharedWay | None:
    """The way of ranks that have one part each of the axes of ``tie``; None if parts differ."""
    places = [axis.place for axis in tie]
    if not tie or len(set(places)) < len(places):
        return None
    made = {~place for place in places if place < 0}
    summed = not made
    if (summed and not sums) or (made and len(made) < len(results)):
        return None
    size = 1 + max([int(axis.numbers.max(initial=-1)) for axis in tie])
    if size % (cut.ranks * cut.outer):
        return None
    found: dict[int, Split] = {}
    for axis in tie:
        split = _split(axis, size, cut)
        if split is None:
            return None
        found[axis.place] = split
    return SharedWay(
        tuple([found.get(at) for at in range(len(operands))]),
        tuple([PARTIAL if summed else found[~at] for at in range(len(results))]),
        attrs=attrs,
    )


def _split(axis: TiedAxis, size: int, cut: AxisCut) -> Split | None:
    """How an axis is cut such that each rank has the places of its share of the ``size`` numbers.

    None where that is not one part of each of several equal blocks.
    """
    numbers = axis.numbers
    ranks, outer = cut
    if not len(numbers):
        return None
    owner = numbers * (ranks * outer) // size % ranks
    change = np.flatnonzero(np.diff(owner))
    inner = int(change[0]) + 1 if len(change) else len(owner)
    outer, rest = divmod(len(owner), inner * ranks)
    if rest or not outer or (numbers < 0).any():
        return None
    part = np.arange(len(owner)) // inner
    if (owner != part % ranks).any():
        return None
    return Split(axis.axis, outer)
