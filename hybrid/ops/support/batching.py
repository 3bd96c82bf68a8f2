"""How families of ops run on many rows at once: what they give to ``op.batch``.

A rule gets ``(rows, batched, *operands, **attrs)``.  An operand that is ``batched`` has the rows as
its first axis, before the axes that ``attrs`` speak of; any other is the same in every row.  The
results have the rows first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.errors import ArgumentError, author_location
from hybrid.ir import Op, get_op
from hybrid.ops.support.derivatives import reshaped

Rule = Callable[..., Any]


def with_rows(x: Any, rows: int, batched: bool = False) -> Any:
    """``x`` with the rows as its first axis: repeated, unless it is ``batched``."""
    return x if batched else get_op("broadcast_to")(x, shape=(rows, *x.shape))


def raised(x: Any, rank: int) -> Any:
    """A batched ``x`` with rows of this rank: axes of one element behind that of the rows."""
    return reshaped(x, (x.shape[0], *(1,) * (rank + 1 - len(x.shape)), *x.shape[1:]))


def aligned(op: Op) -> Rule:
    """The rule of an op whose operands broadcast; attributes count no axes from the front."""

    def rule(_rows: int, batched: Sequence[bool], *operands: Any, **attrs: Any) -> Any:
        rank = max(len(x.shape) - b for x, b in zip(operands, batched, strict=True))
        wide = [raised(x, rank) if b else x for x, b in zip(operands, batched, strict=True)]
        return op(*wide, **attrs)

    return rule


def leading(op: Op) -> Rule:
    """The rule of an op that does the same along all leading axes, which operands share."""

    def rule(rows: int, batched: Sequence[bool], *operands: Any, **attrs: Any) -> Any:
        wide = [with_rows(x, rows, b) for x, b in zip(operands, batched, strict=True)]
        return op(*wide, **attrs)

    return rule


def along_axes(op: Op) -> Rule:
    """The rule of an op whose ``axis``, an int or several, is one of each operand's."""

    def rule(rows: int, batched: Sequence[bool], *operands: Any, axis: Any, **attrs: Any) -> Any:
        wide = [with_rows(x, rows, b) for x, b in zip(operands, batched, strict=True)]
        behind = axis + 1 if isinstance(axis, int) else tuple([a + 1 for a in axis])
        return op(*wide, axis=behind, **attrs)

    return rule


def along_one_axis(op: Op) -> Rule:
    """The rule of a reduction along one ``axis``, or over all elements if that is None."""

    def rule(
        rows: int, _batched: Any, x: Any, *, axis: int | None, keepdims: bool, **attrs: Any
    ) -> Any:
        if axis is not None:
            return op(x, axis=axis + 1, keepdims=keepdims, **attrs)
        flat = reshaped(x, (rows, math.prod(x.shape[1:])))
        found = op(flat, axis=1, keepdims=False, **attrs)
        return reshaped(found, (rows, *(1,) * (len(x.shape) - 1))) if keepdims else found

    return rule


def no_draws(_rows: int, _batched: Any, *_operands: Any, **_attrs: Any) -> Any:
    """The rule of random ops: they refuse."""
    raise ArgumentError(
        "random numbers were drawn inside vmap",
        at=author_location(),
        why="The function runs once for all rows, so each of them would get the same numbers.",
        fix="draw them outside, with an axis for the rows, and pass them as an argument mapped "
        "along it",
    )
