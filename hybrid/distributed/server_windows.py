"""The memory of a parameter server that all ranks reach by themselves: a window of MPI.

Each rank serves one slice of the weights, and has a window of its own: flags, gradients by slot and
rank, weights by slot.  Others put and get while it computes, so nobody has to answer.  Flags are
int64 numbers that are written as a whole (MPI's accumulate operations are atomic) and read from
memory, where ``Sync`` makes them seen; what they speak of is written before them, and has arrived
(``Flush``) when they are.

::

    versions[ranks] | clocks[ranks] | over[ranks] | gradients[slots, ranks] | weights[slots]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.distributed.world import MPI
from hybrid.errors import ArgumentError, OutOfMemoryError

SHARED = "/dev/shm"
_WORD = 8  # bytes of a flag
VERSIONS, CLOCKS, OVER = range(3)


def window_nbytes(ranks: int, slots: int, gradient_nbytes: int, weight_nbytes: int) -> int:
    """The bytes of the window of one rank."""
    return 3 * ranks * _WORD + slots * (ranks * gradient_nbytes + weight_nbytes)


def require_room(nbytes: int) -> None:
    """Raise OutOfMemoryError where windows do not fit into the memory that processes share.

    MPI has them there, and whoever writes beyond what there is, is killed.
    """
    try:
        found = os.statvfs(SHARED)
    except OSError:
        return
    room = found.f_bavail * found.f_frsize
    if nbytes > room:
        raise OutOfMemoryError(
            f"the windows of a parameter server have {nbytes} bytes, and {SHARED} has {room}",
            why="Each of staleness + 1 slots has a gradient of every rank, and weights.",
            fix="give a smaller staleness, or the machine more shared memory "
            "(docker run --shm-size)",
        )


class ServerWindow:
    """The windows of all ranks of ``group``; made by all of them together."""

    def __init__(self, group: Any, slots: int, gradient_nbytes: int, weight_nbytes: int) -> None:
        """Each of the ``slots`` has a gradient of every rank and one set of weights."""
        self.rank, self.ranks, self.slots = group.Get_rank(), group.Get_size(), slots
        self.gradient_nbytes, self.weight_nbytes = gradient_nbytes, weight_nbytes
        self._gradients = 3 * self.ranks * _WORD
        self._weights = self._gradients + slots * self.ranks * gradient_nbytes
        self._group = group
        nbytes = window_nbytes(self.ranks, slots, gradient_nbytes, weight_nbytes)
        self._window = MPI.Win.Allocate(nbytes, 1, comm=group)
        if self._window.Get_attr(MPI.WIN_MODEL) != MPI.WIN_UNIFIED:
            raise ArgumentError(
                "this MPI library keeps two copies of the memory of a window",
                why="A server reads what others have put while it computes.",
                fix="use MPICH or Open MPI on machines with coherent memory",
            )
        self._memory = np.frombuffer(self._window.tomemory(), np.uint8)
        self._memory[:] = 0
        self._flags = self._memory[: self._gradients].view(np.int64).reshape(3, self.ranks)
        self._window.Lock_all(MPI.MODE_NOCHECK)
        self._window.Sync()

    # Flags ------------------------------------------------------------------------------------

    def flags(self) -> np.ndarray:
        """Those of this rank's window: i64 [3, ranks], by VERSIONS, CLOCKS and OVER."""
        self._group.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)  # lets MPI see to what comes from afar
        self._window.Sync()
        return self._flags.copy()  # whole words: they are aligned

    def tell(self, what: int, whose: int, value: int, targets: Any = None) -> None:
        """Write a flag about rank ``whose`` into the windows of ``targets``, which are all."""
        word = np.array([value], np.int64)
        at = (what * self.ranks + whose) * _WORD
        for target in range(self.ranks) if targets is None else targets:
            self._window.Accumulate(
                [word, MPI.INT64_T], target, target=[at, 1, MPI.INT64_T], op=MPI.REPLACE
            )
        self._window.Flush_all()

    # Gradients and weights ----------------------------------------------------------------------

    def put_gradient(self, slot: int, lines: np.ndarray) -> None:
        """Give each rank its line of ``lines``, u8 [ranks, gradient_nbytes]."""
        at = self._gradients + (slot * self.ranks + self.rank) * self.gradient_nbytes
        for target, line in enumerate(lines):
            self._window.Put([line, MPI.BYTE], target, target=[at, self.gradient_nbytes, MPI.BYTE])
        self._window.Flush_all()

    def gradients(self, slot: int) -> np.ndarray:
        """What all ranks have put into a slot here: u8 [ranks, gradient_nbytes]."""
        self._window.Sync()
        size = self.ranks * self.gradient_nbytes
        at = self._gradients + slot * size
        return self._memory[at : at + size].reshape(self.ranks, self.gradient_nbytes)

    def set_weights(self, slot: int, pieces: Sequence[np.ndarray]) -> None:
        """Let ``pieces``, u8, be the weights that this rank serves in a slot."""
        at = self._weights + slot * self.weight_nbytes
        for piece in pieces:
            self._memory[at : at + piece.size] = piece
            at += piece.size
        self._window.Sync()

    def weights(self, slot: int) -> np.ndarray:
        """What all ranks serve in a slot: u8 [ranks, weight_nbytes]."""
        found = np.empty((self.ranks, self.weight_nbytes), np.uint8)
        at = self._weights + slot * self.weight_nbytes
        for source, line in enumerate(found):
            self._window.Get([line, MPI.BYTE], source, target=[at, self.weight_nbytes, MPI.BYTE])
        self._window.Flush_all()
        return found

    def close(self) -> None:
        """Give the windows back; all ranks do so together."""
        self._memory = self._flags = np.empty(0, np.uint8)
        self._window.Unlock_all()
        self._window.Free()
