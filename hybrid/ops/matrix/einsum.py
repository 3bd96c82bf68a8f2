"""einsum: sums of products given by the names of axes, done as matrix products, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hybrid.core.types import MAX_RANK
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ops.axes.reduction import reduce_sum, sum
from hybrid.ops.elementwise.arithmetic import multiply
from hybrid.ops.matrix.products import product
from hybrid.ops.shapes.shape import moveaxis, permute, region, reshape_to
from hybrid.ops.support.call_cache import remembered, remembered_of_list
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import as_tensor, listed, type_of

# Names for the axes of "...", the last axis first.
_ELLIPSIS = [chr(0x3B1 + i) for i in range(MAX_RANK)]


@remembered
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The elements ``x[..., i, i + offset]``, as the last axis."""
    x = as_tensor(x)
    if len(x.shape) < 2:
        raise ShapeError(
            f"diagonal cannot take {type_of(x)}",
            why="It needs at least two dimensions.",
            fix="add axes with expand_dims",
        )
    *lead, rows, columns = x.shape
    first = offset if offset >= 0 else -offset * columns
    count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    flat = reshape_to(x, shape=(*lead, rows * columns))
    return region(
        flat,
        start=(*(0 for _ in lead), first if count else 0),
        size=(*lead, count),
        step=(*(1 for _ in lead), columns + 1 if count > 1 else 1),
    )


@remembered
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def einsum(equation: str, /, *operands: Any) -> Any:
    """The sum of products that ``equation`` names, as ``"bik,bkj->bij"`` does.

    Each operand gives a letter per axis, and ``...`` stands for axes that broadcast.  Letters that
    are not in the result are summed over.  Without ``->`` the result has the letters that occur
    once, in alphabetical order.  Operands are taken pair by pair, from the left.
    """
    if not isinstance(equation, str):
        what = f"einsum got the equation {equation!r}"
        raise ArgumentTypeError(what, fix='give it as a text, such as "ij,jk->ik"')
    return _product_of(operands, equation)


@remembered_of_list
def _product_of(operands: Sequence[Any], equation: str) -> Any:
    tensors = common(*operands) if operands else []
    names, result = _parsed(equation, tensors)
    terms = [_prepared(x, axes) for x, axes in zip(tensors, names, strict=True)]
    x, axes = terms[0]
    for i, (y, others) in enumerate(terms[1:], 1):
        needed = set(result).union(*(later for _, later in terms[i + 1 :]))
        x, axes = _product(x, axes, y, others, needed)
    x, axes = _summed(x, axes, set(result))
    kept = [name for name in result if name in axes]
    if axes != kept:
        x = permute(x, axes=tuple(axes.index(name) for name in kept))
    sizes = dict(zip(kept, x.shape, strict=True))
    # What is missing is "..." of size 1 in every operand.
    return reshape_to(x, shape=tuple(sizes.get(name, 1) for name in result))


def _parsed(equation: str, tensors: list[Any]) -> tuple[list[list[str]], list[str]]:
    """The axes' names of every operand, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise ArgumentError(
            f"einsum {equation!r} names {len(terms)} operands and got {len(tensors)}",
            fix="separate the names of each operand by a comma",
        )
    dots = 0
    names = []
    for term, x in zip(terms, tensors, strict=True):
        letters = term.replace("...", "", 1)
        spread = len(x.shape) - len(letters)
        if not (letters == "" or (letters.isalpha() and letters.isascii())):
            raise ArgumentError(f"einsum cannot read {term!r}", fix="name axes by letters")
        if spread < 0 or (spread and "..." not in term) or spread > len(_ELLIPSIS):
            raise ShapeError(
                f"einsum {equation!r} names {len(letters)} axes of {type_of(x)}",
                fix="give a letter per axis, or ... for the others",
            )
        dots = max(dots, spread)
        before, _, after = term.partition("...")
        names.append([*before, *reversed(_ELLIPSIS[:spread]), *after])
    if arrow:
        before, spread_here, after = right.partition("...")
        result = [*before, *(reversed(_ELLIPSIS[:dots]) if spread_here else ()), *after]
    else:
        letters = left.replace("...", "").replace(",", "")
        once = sorted(name for name in set(letters) if letters.count(name) == 1)
        result = [*reversed(_ELLIPSIS[:dots]), *once]
    known = set().union(*names)
    if len(set(result)) != len(result) or not known.issuperset(result):
        raise ArgumentError(
            f"einsum {equation!r} has a wrong result",
            why="Each of its letters must occur once there, and in an operand.",
            fix="correct what follows the arrow",
        )
    _require_sizes(equation, tensors, names)
    return names, result


def _require_sizes(equation: str, tensors: list[Any], names: list[list[str]]) -> None:
    sizes: dict[str, int] = {}
    for x, axes in zip(tensors, names, strict=True):
        for name, n in zip(axes, x.shape, strict=True):
            if name in _ELLIPSIS and 1 in (n, sizes.get(name, 1)):
                sizes[name] = max(n, sizes.get(name, 1)) if n else 0
            elif sizes.setdefault(name, n) != n:
                raise ShapeError(
                    f"einsum {equation!r} cannot take {listed([type_of(t) for t in tensors])}",
                    why=f"Axis {name!r} has sizes {sizes[name]} and {n}.",
                    fix="give axes of one name one size",
                )


def _prepared(x: Any, axes: list[str]) -> tuple[Any, list[str]]:
    """One operand with a name used twice replaced by its diagonal, and single ``...`` axes gone."""
    while len(set(axes)) != len(axes):
        name = next(name for name in axes if axes.count(name) > 1)
        first = axes.index(name)
        second = axes.index(name, first + 1)
        x = diagonal(moveaxis(x, (first, second), (-2, -1)))
        axes = [a for i, a in enumerate(axes) if i not in (first, second)] + [name]
    single = [i for i, a in enumerate(axes) if a in _ELLIPSIS and x.shape[i] == 1]
    if single:
        kept = [i for i in range(len(axes)) if i not in single]
        x = reshaped(x, tuple(x.shape[i] for i in kept))
        axes = [axes[i] for i in kept]
    return x, axes


def _summed(x: Any, axes: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    """``x`` without the axes that nothing needs."""
    gone = tuple(i for i, name in enumerate(axes) if name not in needed)
    if gone:
        x = reduce_sum(x, axis=gone, keepdims=False)
    return x, [name for name in axes if name in needed]


def _product(
    x: Any, axes: list[str], y: Any, others: list[str], needed: set[str]
) -> tuple[Any, list[str]]:
    """The product of two operands, summed over what only they share."""
    x, axes = _summed(x, axes, needed.union(others))
    y, others = _summed(y, others, needed.union(axes))
    batch = [name for name in axes if name in others and name in needed]
    inner = [name for name in axes if name in others and name not in needed]
    rows = [name for name in axes if name not in others]
    columns = [name for name in others if name not in axes]
    sizes = dict(zip(axes, x.shape, strict=True)) | dict(zip(others, y.shape, strict=True))

    def grouped(t: Any, own: list[str], *groups: list[str]) -> Any:
        order = tuple(own.index(name) for group in groups for name in group)
        turned = t if order == tuple(range(len(order))) else permute(t, axes=order)
        return reshaped(turned, tuple(math.prod(sizes[n] for n in group) for group in groups))

    if inner:
        z = product(grouped(x, axes, batch, rows, inner), grouped(y, others, batch, inner, columns))
    else:  # nothing to sum: columns of size 1 times rows of size 1
        z = multiply(grouped(x, axes, batch, rows, []), grouped(y, others, batch, [], columns))
    names = [*batch, *rows, *columns]
    return reshaped(z, tuple(sizes[name] for name in names)), names
