"""Contiguous parts of a tensor: what ``x[i]``, ``x[i, j]`` and ``x[a:b]`` select.

Where they begin follows from the key at once, so reading them takes no plan, whatever the index.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import TensorType

MAX_BYTES = 1 << 20  # of a part; larger ones are copied by several threads


def part_at(whole: TensorType, key: Any) -> tuple[int, TensorType] | None:
    """The first byte of ``x[key]``, and its type; None if ``key`` is not ints and one last slice.

    None, too, for what is out of range, for empty and for large parts: the general way has them.
    """
    shape = whole.shape
    keys = key if key.__class__ is tuple else (key,)
    rank = len(keys)
    if not 0 < rank <= len(shape):
        return None
    at, size, left = 0, whole.size, shape[rank:]
    for item, n in zip(keys, shape, strict=False):
        if item.__class__ is int:
            if not -n <= item < n:
                return None
            size //= n
            at += size * (item if item >= 0 else item + n)
            rank -= 1
        elif item.__class__ is slice and rank == 1:
            bounds = item.start, item.stop, item.step
            if any([bound is not None and bound.__class__ is not int for bound in bounds]):
                return None
            start, stop, step = item.indices(n)
            if step != 1 or not start < stop or not size:
                return None
            size //= n
            at += size * start
            size *= stop - start
            left = (stop - start, *left)
        else:
            return None
    nbytes = whole.dtype.itemsize
    if not 0 < size * nbytes <= MAX_BYTES:
        return None
    return at * nbytes, whole.with_shape(left)
