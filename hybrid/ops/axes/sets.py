"""Sets of elements, and the places of those that are not zero.

How many there are depends on values, so graphs have them with a ``size`` alone.
Elements are in ascending order, each NaN is one of its own, and -0 is 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.types import TensorType, bool_, int64, tensor_type
from hybrid.errors import (
    ArgumentError,
    ShapeError,
)
from hybrid.ir import interpreter, op
from hybrid.ops.axes.cumulative import cumulative_sum
from hybrid.ops.axes.sorting import argsort, sort
from hybrid.ops.elementwise.bit_logic import logical_and
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.index.getitem import getitem, true_places
from hybrid.ops.index.indexing import put_slices, take
from hybrid.ops.index.scatter import scatter_add
from hybrid.ops.shapes.concatenation import concat, part, stack
from hybrid.ops.shapes.creation import arange, full, ones, zeros, zeros_like
from hybrid.ops.shapes.shape import broadcast_to, flatten, reshape
from hybrid.ops.support.dtypes import converted
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    require_numeric,
    require_rank,
    type_of,
)


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Any
    inverse_indices: Any


# Ops ---------------------------------------------------------------------------------------------


@op(differentiable=False)
def distinct(x: TensorType) -> tuple[TensorType, TensorType]:
    """Each element of ``x`` [n], which is in order, once; then how many there are.

    There is room for n of them; what is left over is 0.
    """
    require_numeric("distinct", x=x)
    require_rank("distinct", "x", x, 1)
    return x, tensor_type(int64, ())


@distinct.reference
def distinct_reference(x):
    values, _, count = tally_reference(x)
    return values, count


@op(differentiable=False)
def tally(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    """Each element of ``x`` [n], which is in order, once; how often it occurs; how many there are.

    There is room for n of them; what is left over is 0.
    """
    values, count = distinct.rule(x)
    return values, x.with_dtype(int64), count


@tally.reference
def tally_reference(x):
    first = np.ones(len(x), bool)
    first[1:] = x[1:] != x[:-1]
    (begins,) = np.nonzero(first)
    values, counts = np.zeros_like(x), np.zeros(len(x), np.int64)
    values[: len(begins)] = x[begins]
    counts[: len(begins)] = np.diff(begins, append=len(x))
    return values, counts, np.asarray(len(begins), np.int64)


@distinct.lowering
def distinct_lowering(emit, x, *results):
    emit.kernel("distinct", [emit.dense(x)], results)


@tally.lowering
def tally_lowering(emit, x, *results):
    emit.kernel("tally", [emit.dense(x)], results)


@distinct.samples
@tally.samples
def set_samples(draw):
    for dtype in draw.numbers:
        for size in (0, 1, 2, 40):
            x = np.sort(draw(dtype, size, low=-9, high=9))
            yield (x,), {}
            yield (np.sort(np.repeat(x, 3)),), {}
    for dtype in draw.floats:
        yield (
            (np.array([-np.inf, -0.0, 0.0, 0.0, 1, np.nan, np.nan]).astype(draw(dtype, 1).dtype),),
            {},
        )


# Of a size that depends on values -----------------------------------------------------------------


def _unique(x: Any) -> tuple[Any, Any, Any, Any, Any]:
    """``x`` flat, its order, where its groups of equals begin in that, and which each is in."""
    x = as_tensor(x)
    flat = _flat(x)
    order = argsort(flat)
    first = _firsts(take(flat, order, axis=0))
    (begins,) = map(as_tensor, true_places(first))
    return x, flat, order, begins, first


def _flat(x: Any) -> Any:
    return flatten(x) if len(x.shape) else reshape(x, (1,))


def _is_plain(x: Any) -> bool:
    """Whether no gradient flows from ``x``, and nobody looks at what is done with it."""
    return not interpreter.ACTIVE and x.record is None and x.dtype is not bool_


def _first(x: Any, count: Any) -> Any:
    """As many of ``x`` [n] as ``count`` says."""
    return part(x, 0, 0, int(count.item()))


def _firsts(ranked: Any) -> Any:
    """Which of the elements, in order, are unlike the one before."""
    if ranked.shape[0] < 2:
        return full(ranked.shape, True, dtype=bool_)
    return concat([ones((1,), dtype=bool_), ranked[1:] != ranked[:-1]])


def _counts(flat: Any, begins: Any) -> Any:
    ends = concat([begins[1:], full((min(1, begins.shape[0]),), flat.shape[0], dtype=int64)])
    return ends - begins


def _inverse(x: Any, order: Any, first: Any) -> Any:
    groups = cumulative_sum(converted(first, int64)) - 1
    return reshape(scatter_add(zeros_like(groups), order, groups), x.shape)


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements of ``x``, the first index of each in ``x`` flattened, for every
    element of ``x`` which it is, and how often each occurs."""
    x, flat, order, begins, first = _unique(x)
    indices = take(order, begins, axis=0)
    values = take(flat, indices, axis=0)
    return UniqueAll(values, indices, _inverse(x, order, first), _counts(flat, begins))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements of ``x``, and how often each occurs."""
    x = as_tensor(x)
    if _is_plain(x):
        values, counts, count = tally(sort(_flat(x)))
        return UniqueCounts(_first(values, count), _first(counts, count))
    _, flat, order, begins, _ = _unique(x)
    values = take(flat, take(order, begins, axis=0), axis=0)
    return UniqueCounts(values, _counts(flat, begins))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements of ``x``, and for every element of ``x`` which of them it is."""
    x, flat, order, begins, first = _unique(x)
    values = take(flat, take(order, begins, axis=0), axis=0)
    return UniqueInverse(values, _inverse(x, order, first))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements of ``x``.

    With a ``size``, which graphs need: the first ``size`` of them, and ``fill_value`` (by default
    the first of them) in place of those that there are not.
    """
    if size is not None:
        return _bounded_values(
            as_tensor(x), as_int("unique_values", "size", size, least=0), fill_value
        )
    x = as_tensor(x)
    ranked = sort(_flat(x))
    if _is_plain(x):
        return _first(*distinct(ranked))
    return getitem(ranked, _firsts(ranked))


# Of a given size ---------------------------------------------------------------------------------


def _packed(chosen: Any, values: Any, size: int, filled: Any) -> Any:
    """The ``values`` where ``chosen``, in order: the first ``size``, over ``filled`` [size]."""
    rank = cumulative_sum(converted(chosen, int64), axis=0) - 1
    places = where(logical_and(chosen, rank < size), rank, size)  # the rest goes to one more
    more = concat([filled, zeros((1,), dtype=filled.dtype)])
    return part(put_slices(more, places, values), 0, 0, size)


def _bounded_values(x: Any, size: int, fill_value: Any) -> Any:
    flat = reshape(x, (math.prod(x.shape),))
    count = flat.shape[0]
    if fill_value is None and count == 0 and size:
        raise ArgumentError(
            f"unique_values of no elements got size {size}",
            why="There is none to fill it with.",
            fix="give a fill_value",
        )
    ranked = sort(flat)
    first = _firsts(ranked)
    if fill_value is None:
        filled = broadcast_to(part(ranked, 0, 0, min(count, 1)), (size,))
    else:
        filled = full((size,), fill_value, dtype=flat.dtype)
    return _packed(first, ranked, size, filled)


def argwhere(x: Any, /, *, size: int | None = None, fill_value: int = 0) -> Any:
    """The indices of the elements that are not zero, a row each: int64 [count, ndim].

    Their number depends on values.  With a ``size`` it is of the first ``size`` of them, and has
    rows of ``fill_value`` in place of those that there are not.
    """
    x = as_tensor(x)
    given = x if x.shape else reshape(x, (1,))
    found = stack(_nonzero("argwhere", given, size, fill_value), axis=1)
    return found if x.shape else found[:, :0]


def nonzero(x: Any, /, *, size: int | None = None, fill_value: int = 0) -> tuple[Any, ...]:
    """Per axis the indices of the elements that are not zero; their number depends on values.

    With a ``size``, which graphs need: of the first ``size`` of them, and ``fill_value`` in place
    of those that there are not.
    """
    return _nonzero("nonzero", as_tensor(x), size, fill_value)


def _nonzero(name: str, x: Any, size: int | None, fill_value: int) -> tuple[Any, ...]:
    """What ``nonzero`` gives, for the function of this name."""
    held = x if x.dtype is bool_ else converted(x, bool_)
    if not held.shape:
        raise ShapeError(
            f"nonzero cannot take {type_of(held)}",
            why="A tensor without dimensions has no indices.",
            fix="give it an axis with reshape(x, (1,))",
        )
    if size is None:
        return tuple([as_tensor(places) for places in true_places(held)])
    size = as_int(name, "size", size, least=0)
    fill_value = as_int(name, "fill_value", fill_value)
    flat = flatten(held)
    places = _packed(flat, arange(flat.shape[0]), size, full((size,), -1, dtype=int64))
    found, found_any = [], places >= 0
    for axis, n in enumerate(held.shape):
        step = max(math.prod(held.shape[axis + 1 :]), 1)
        found.append(where(found_any, places // step % max(n, 1), fill_value))
    return tuple(found)
