"""Buffers: who else may write to one, whether only a cell holds it, and contiguous parts.

A tensor's value does not change while it is held: what is kept of it may rely on that, except where
the bytes are not the library's alone.  Those of NumPy arrays and mapped files are borrowed; a
consumer of DLPack gets the address of a buffer, and whether it only reads is up to it.

A buffer that its cell alone refers to may be written in place.

What ``x[i]``, ``x[i, j]`` and ``x[a:b]`` select lies in a row.  Where it begins follows from the
key at once, so reading it takes no plan, whatever the index.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any, Protocol

from hybrid.core.types import TensorType
from hybrid.memory import native


class Keeper(Protocol):
    """The protocol of objects that keep results computed from buffers."""

    def forget(self) -> None:
        """Ask again, of each buffer, whether it is only the library's."""


LOCK = threading.RLock()  # held to ask, to keep what follows, and to lend
_exported: dict[int, weakref.ref[Any]] = {}  # by id, which is theirs as long as they live
_keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()


def watch(keeper: Keeper) -> None:
    """Register ``keeper``, which forgets whenever a buffer is exported, as long as it lives."""
    with LOCK:
        _keepers.add(keeper)


def export(data: Any) -> None:
    """Mark ``data`` as a buffer that others may write to from now on."""
    with LOCK:
        key = id(data)
        if key not in _exported:
            _exported[key] = weakref.ref(data, lambda _: _exported.pop(key, None))
            for keeper in list(_keepers):
                keeper.forget()


def is_own(data: Any) -> bool:
    """Whether nobody else can write to ``data``."""
    return native.owns(data) and id(data) not in _exported


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
