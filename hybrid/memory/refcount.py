"""Reference counts of buffers that only a cell holds, which may be written in place."""

from __future__ import annotations

import sys


class _Holder:
    """Stands for a cell while the references to an unshared buffer are counted."""

    __slots__ = ("data",)


def _count_unshared() -> tuple[int, int]:
    """What ``getrefcount`` says, in a call such as those below, of what only its cell holds.

    First of a buffer that a cell, the state that made it and a local name refer to; then of the
    buffer of a gradient, which its tensor alone refers to.  It depends on how this Python passes
    arguments.  Without the GIL the counts say nothing: no buffer is then ever taken for unshared.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1, -1
    getrefcount = sys.getrefcount
    holder = _Holder()
    holder.data = object()
    made = [holder.data]
    data = holder.data
    unshared = getrefcount(data)
    made.clear()
    del data
    return unshared, getrefcount(holder.data)


UNSHARED, UNSHARED_DATA = _count_unshared()
