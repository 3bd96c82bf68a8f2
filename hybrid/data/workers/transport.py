"""Batches on their way between processes: pickled, their arrays in memory that both have mapped.

Segments of memory have no names: they are gone with the last process that maps them, however it
ends.  The receiver's arrays lie in the segment itself; when the last of them has died, the sender
may fill it again.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.types import tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.memory import native

INLINE = 4096  # bytes up to which a message holds everything itself
ALIGN = 64
LENT = 16  # segments of one sender that the receiver's arrays may lie in; then they are copied


class _Pickler(pickle.Pickler):
    """Pickles tensors as their types and their bytes."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not Tensor or not obj.size or getattr(obj, "leaf", None) is not None:
            return NotImplemented
        data = pickle.PickleBuffer(native.view(obj.content, obj.nbytes))
        return _tensor, (obj.dtype, obj.shape, data)


def _tensor(dtype: Any, shape: tuple[int, ...], data: Any) -> Tensor:
    return make_tensor(tensor_type(dtype, shape), native.borrow(data))


def encode(value: Any) -> list[memoryview]:
    """``value`` pickled: the text, then the bytes of the arrays in it."""
    text, buffers = io.BytesIO(), []
    _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(value)
    return [text.getbuffer(), *[buffer.raw() for buffer in buffers]]


def decode(parts: Sequence[Any]) -> Any:
    """The value whose encoding is ``parts``; arrays and tensors in it lie in their memory."""
    return pickle.loads(parts[0], buffers=parts[1:])


def places_of(parts: Sequence[memoryview]) -> tuple[list[tuple[int, int]], int]:
    """Where in a segment the parts go, as (start, stop), and how many bytes there must be."""
    places, end = [], 0
    for part in parts:
        start = -(-end // ALIGN) * ALIGN
        end = start + part.nbytes
        places.append((start, end))
    return places, end


def open_memory(nbytes: int) -> int:
    """The descriptor of ``nbytes`` of memory without a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hybrid-loader", os.MFD_CLOEXEC)
    else:  # pragma: no cover - a Python built for an old C library
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.posix_fallocate(descriptor, 0, nbytes)  # a full memory is an error here, no signal later
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def fill(memory: mmap.mmap, parts: Sequence[memoryview], places: Sequence[tuple[int, int]]) -> None:
    """Copy the parts to their places."""
    whole = np.frombuffer(memory, np.uint8)
    for part, (start, stop) in zip(parts, places, strict=True):
        if stop > start:
            whole[start:stop] = np.frombuffer(part, np.uint8)


class Sender:
    """Sends values through a socket; it keeps the segments that the receiver has done with."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.segments: dict[int, mmap.mmap] = {}
        self.free: list[int] = []
        self.made = 0

    def pack(self, value: Any) -> tuple[Any, int | None]:
        """``value`` as something small to pickle, and the descriptor of a new segment, if any."""
        parts = encode(value)
        places, nbytes = places_of(parts)
        if nbytes <= INLINE:
            return (None, [bytes(part) for part in parts], ()), None
        number, dropped, descriptor = self._segment(nbytes)
        fill(self.segments[number], parts, places)
        return (number, places, dropped), descriptor

    def _segment(self, nbytes: int) -> tuple[int, list[int], int | None]:
        """A segment of ``nbytes`` at least, the small ones it is instead of, its descriptor."""
        for number in self.free:
            if len(self.segments[number]) >= nbytes:
                self.free.remove(number)
                return number, [], None
        dropped, self.free = self.free, []
        for number in dropped:
            del self.segments[number]
        size = -(-(nbytes + nbytes // 8) // mmap.PAGESIZE) * mmap.PAGESIZE
        descriptor = open_memory(size)
        self.made += 1
        self.segments[self.made] = mmap.mmap(descriptor, size)
        return self.made, dropped, descriptor


class Receiver:
    """Unpacks what a Sender has packed; ``done`` are the segments that it may fill again."""

    def __init__(self) -> None:
        self.segments: dict[int, mmap.mmap] = {}
        self.done: list[int] = []
        self.lent: set[int] = set()

    def unpack(self, packed: Any, descriptor: int | None) -> Any:
        number, places, dropped = packed
        if number is None:
            return decode(places)
        for old in dropped:
            del self.segments[old]
        if descriptor is not None:
            self.segments[number] = mmap.mmap(descriptor, 0)
        whole = np.frombuffer(self.segments[number], np.uint8)
        if len(self.lent) >= LENT:
            whole = whole.copy()
            self.done.append(number)
        else:
            self.lent.add(number)
            weakref.finalize(whole, _give_back, self.lent, self.done, number).atexit = False
        memory = memoryview(whole)
        return decode([memory[start:stop] for start, stop in places])

    def drain(self) -> list[int]:
        """The segments that are done with since this was last asked."""
        found = []
        while self.done:
            found.append(self.done.pop())
        return found


def _give_back(lent: set[int], done: list[int], number: int) -> None:
    lent.discard(number)
    done.append(number)
