"""Queues: batches of rows that the C library makes, which plans take without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.native import check, ffi, lib


def open_queue(columns: Sequence[tuple[Any, int, int]], order: Any, batch: int) -> int:
    """The number of a queue of batches of ``batch`` rows, in an order that is a buffer of int64s.

    ``columns`` are (buffer, rows, bytes of a row); the buffers must outlive the queue.
    """
    made = ffi.new("hyb_column[]", [(ffi.cast("void *", b), n, size) for b, n, size in columns])
    numbers = ffi.from_buffer("int64_t[]", order)
    number = ffi.new("int64_t *")
    check(lib.hyb_queue_open(made, len(columns), numbers, len(numbers), batch, number))
    return number[0]


def take(number: int, buffers: Sequence[Any], nbytes: Sequence[int]) -> None:
    """Put the next batch of a queue, which has one, into ``buffers``."""
    pointers = ffi.new("void *[]", [ffi.cast("void *", buffer) for buffer in buffers])
    check(lib.hyb_queue_next(number, pointers, list(nbytes), len(nbytes)))


taken, close = lib.hyb_queue_taken, lib.hyb_queue_close
