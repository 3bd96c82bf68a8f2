"""Sets of elements.  Their sizes depend on values, so graphs have none: eager code alone does.

Elements are in ascending order, each NaN is one of its own, and -0 is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hybrid.errors import CaptureError, author_location
from hybrid.ir import interpreter
from hybrid.ops.checks import as_tensor
from hybrid.ops.creation import full, ones, zeros_like
from hybrid.ops.cumulative import cumulative_sum
from hybrid.ops.dtypes import converted
from hybrid.ops.getitem import getitem, nonzero
from hybrid.ops.indexing import scatter_add, take
from hybrid.ops.joining import concat
from hybrid.ops.shape import flatten, reshape
from hybrid.ops.sorting import argsort, sort
from hybrid.types import bool_, int64


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


def _unique(name: str, x: Any) -> tuple[Any, Any, Any, Any, Any]:
    """``x`` flat, its order, where its groups of equals begin in that, and which each is in."""
    x = _at_hand(name, x)
    flat = flatten(x) if len(x.shape) else reshape(x, (1,))
    order = argsort(flat)
    first = _firsts(take(flat, order, axis=0))
    (begins,) = nonzero(first)
    return x, flat, order, begins, first


def _at_hand(name: str, x: Any) -> Any:
    x = as_tensor(x)
    if interpreter.current().traces:
        raise CaptureError(
            f"{name} of a traced tensor",
            at=author_location(),
            why="How many different elements there are depends on values, and shapes in a graph "
            "are fixed.",
            fix="call it outside the hybridized function and pass the result as an argument",
        )
    return x


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
    x, flat, order, begins, first = _unique("unique_all", x)
    indices = take(order, begins, axis=0)
    values = take(flat, indices, axis=0)
    return UniqueAll(values, indices, _inverse(x, order, first), _counts(flat, begins))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements of ``x``, and how often each occurs."""
    _, flat, order, begins, _ = _unique("unique_counts", x)
    values = take(flat, take(order, begins, axis=0), axis=0)
    return UniqueCounts(values, _counts(flat, begins))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements of ``x``, and for every element of ``x`` which of them it is."""
    x, flat, order, begins, first = _unique("unique_inverse", x)
    values = take(flat, take(order, begins, axis=0), axis=0)
    return UniqueInverse(values, _inverse(x, order, first))


def unique_values(x: Any, /) -> Any:
    """The different elements of ``x``."""
    x = _at_hand("unique_values", x)
    ranked = sort(flatten(x) if x.shape else reshape(x, (1,)))
    return getitem(ranked, _firsts(ranked))
