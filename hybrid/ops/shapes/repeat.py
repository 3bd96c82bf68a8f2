"""Elements several times in a row."""

from __future__ import annotations

import math
from typing import Any

from hybrid.core.open_numbers import as_size
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.index.indexing import take
from hybrid.ops.index.value_sizes import repeated_places
from hybrid.ops.shapes.shape import flatten, reshape_to
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import widened
from hybrid.ops.support.operand_checks import as_tensor, normalize_axis, type_of


@remembered
def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Any:
    """``x`` with each element ``repeats`` times in a row along ``axis`` (None: flattened).

    ``repeats`` is an int, or an integer tensor with one count for each element along the axis; the
    size of the result then depends on values.
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = normalize_axis("repeat", axis, len(x.shape))
    if isinstance(repeats, bool) or not hasattr(repeats, "__index__") or len(_shape(repeats)):
        return _each(x, as_tensor(repeats), axis)
    count = _require_count(as_size(repeats))
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = widened(reshape_to(x, shape=(*before, 1, *after)), (*before, count, *after))
    return reshape_to(wide, shape=(*before[:-1], before[-1] * count, *after))


def _shape(value: Any) -> tuple[int, ...]:
    return getattr(value, "shape", ())


def _require_count(count: int) -> int:
    if count < 0:
        raise ArgumentError(f"repeat got the count {count}", fix="give counts of 0 or more")
    return count


def _each(x: Any, counts: Any, axis: int) -> Any:
    """``x`` with a count for each element along ``axis``; one count alone is for all."""
    size = x.shape[axis]
    if not counts.dtype.is_integer:
        raise ArgumentError(f"repeat got {type_of(counts)} as counts", fix="give integers")
    if counts.shape not in ((size,), (1,), ()):
        raise ShapeError(
            f"repeat cannot take {type_of(counts)} as counts",
            why=f"Axis {axis} of {type_of(x)} has {size} elements.",
            fix="give a count for each of them, or one for all",
        )
    counts = widened(reshape_to(counts, shape=(math.prod(counts.shape),)), (size,))
    return take(x, repeated_places(counts), axis=axis)


repeat_interleave = repeat
