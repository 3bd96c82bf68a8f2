"""Queued: passes whose batches the C library makes, ahead of time where they are large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybrid import native, queues
from hybrid.data.passes import Pass, order_sampler
from hybrid.random import Generator
from hybrid.tensor import Tensor, make_tensor
from hybrid.types import tensor_type


class QueuedPass(Pass):
    """A pass over rows of tensors.  Plans may take batches from the queue without a word."""

    def _begun(self, generator: Generator | None, skips: int) -> Iterator[Any]:
        sampler, batches = order_sampler(self.loader), self.loader.batch_sampler
        order, size = batches.used(sampler.order(generator)), batches.batch_size
        order = np.ascontiguousarray(order[skips * size :], np.int64)
        tensors = self.loader.dataset.tensors
        if len(order) and not 0 <= order.min() <= order.max() < len(tensors[0]):
            return self.read(batches.stretches(order), skips)  # which tells what is wrong with it
        return _Queue(tensors, order, size)

    @property
    def queue(self) -> int:
        return self._batches.number if isinstance(self._batches, _Queue) else 0

    @property
    def given(self) -> int:
        self._look()
        return super().given

    def __next__(self) -> Any:
        self._look()
        return super().__next__()

    def leave(self) -> None:
        self._look()
        super().leave()

    def _look(self) -> None:
        """Count what plans have taken."""
        if isinstance(self._batches, _Queue):
            self.position.batches = self.skipped + self._batches.taken


class _Queue:
    """The batches of a queue, which is closed with this."""

    def __init__(self, tensors: tuple[Tensor, ...], order: np.ndarray, size: int) -> None:
        self.number = 0
        self.types = [t.type for t in tensors]
        self.held = [t.data for t in tensors]  # the queue reads it
        self.count, self.size = len(order), size
        rows = [(kind.shape[0], kind.nbytes // max(kind.shape[0], 1)) for kind in self.types]
        columns = [(data, *row) for data, row in zip(self.held, rows, strict=True)]
        self.number = queues.open_queue(columns, order, size)

    @property
    def taken(self) -> int:
        return queues.taken(self.number)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        rows = min(self.count - self.taken * self.size, self.size)
        if rows <= 0:
            raise StopIteration
        types = [tensor_type(kind.dtype, (rows, *kind.shape[1:])) for kind in self.types]
        buffers = [native.allocate(kind.nbytes) for kind in types]
        queues.take(self.number, buffers, [kind.nbytes for kind in types])
        return tuple([make_tensor(*made) for made in zip(types, buffers, strict=True)])

    def __del__(self) -> None:
        if self.number:
            queues.close(self.number)
