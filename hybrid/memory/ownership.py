"""Ownership of buffers: which memory is borrowed from others, or exported to them.

A tensor's value does not change while it is held: what is kept of it may rely on that, except where
the bytes are not the library's alone.  Those of NumPy arrays and mapped files are borrowed; a
consumer of DLPack gets the address of a buffer, and whether it only reads is up to it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Protocol

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
