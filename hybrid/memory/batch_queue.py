"""Batch queues: batches of rows that the C library makes, and plans take without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.memory.native import check, ffi, lib


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """The rows of which batches are made; they and the plans must outlive the queue."""

    buffer: Any
    rows: int
    nbytes: int  # of a row
    made_nbytes: int  # of what is made of one
    whole: Any = None  # the plan that makes it of the rows of a batch; None: it is they
    rest: Any = None  # the same, for a last batch of fewer


def open_queue(columns: Sequence[BatchColumn], order: Any, batch: int) -> int:
    """The number of a queue of batches of ``batch`` rows, in an ``order``: a buffer of int64s."""
    made = ffi.new("hyb_column[]", len(columns))
    for to, column in zip(made, columns, strict=True):
        to.rows, to.n_rows = ffi.cast("void *", column.buffer), column.rows
        to.nbytes, to.made_nbytes = column.nbytes, column.made_nbytes
        to.whole, to.rest = column.whole or ffi.NULL, column.rest or ffi.NULL
    numbers = ffi.from_buffer("int64_t[]", order)
    number = ffi.new("int64_t *")
    check(lib.hyb_queue_open(made, len(columns), numbers, len(numbers), batch, number))
    return number[0]


def refill(number: int, order: Any) -> None:
    """Let an exhausted queue go on with the batches of another order."""
    numbers = ffi.from_buffer("int64_t[]", order)
    check(lib.hyb_queue_refill(number, numbers, len(numbers)))


def take(number: int, buffers: Sequence[Any], nbytes: Sequence[int]) -> None:
    """Copy the next batch of a queue, which has one, into ``buffers``."""
    pointers = ffi.new("void *[]", [ffi.cast("void *", buffer) for buffer in buffers])
    check(lib.hyb_queue_next(number, pointers, list(nbytes), len(nbytes)))


taken, close = lib.hyb_queue_taken, lib.hyb_queue_close
