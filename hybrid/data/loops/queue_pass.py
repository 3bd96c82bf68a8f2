"""Queued: passes whose batches the C library makes, ahead of time where they are large."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.core.exceptions import is_interrupt
from hybrid.core.types import TensorType, tensor_type
from hybrid.data.datasets.dataset import TensorDataset, columns_of
from hybrid.data.passes import Pass, Position, order_sampler
from hybrid.data.transforms import Transform, plan_of
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import DatasetError
from hybrid.memory import batch_queue as queues
from hybrid.memory import native
from hybrid.plan import Plan
from hybrid.random import Generator

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader


class QueuedPass(Pass):
    """A pass over rows of tensors.  Plans may take batches from the queue without a word.

    It goes on with the queue ``known``, of which all is taken, where that has such batches.
    """

    def __init__(
        self, loader: DataLoader, resumed: Position | None, known: BatchQueue | None = None
    ) -> None:
        self.known = known
        super().__init__(loader, resumed)

    def _begun(self, generator: Generator | None, skips: int) -> Iterator[Any]:
        sampler, batches = order_sampler(self.loader), self.loader.batch_sampler
        order, size = batches.order_here(sampler.order(generator)), batches.size_here
        order = np.ascontiguousarray(order[skips * size :], np.int64)
        found = columns_of(self.loader.dataset, order)
        if found is None:
            return self.read(batches.stretches(order), skips)  # which tells what is wrong with it
        dataset, order = found
        if self.known is not None and self.known.goes_on(dataset, order, size):
            return self.known
        self.known = BatchQueue(dataset, order, size)
        return self.known

    @property
    def queue(self) -> int:
        return self.batches.number if isinstance(self.batches, BatchQueue) else 0

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

    def _failed(self, error: BaseException) -> None:
        """A queue knows what was taken of it, so it goes on behind an interrupt."""
        if not is_interrupt(error):
            super()._failed(error)

    def _look(self) -> None:
        """Count what plans have taken."""
        if isinstance(self.batches, BatchQueue):
            self.position.batches = self.skipped + self.batches.taken


class _Field:
    """What becomes of the rows of one tensor, whose value is held as it is now."""

    def __init__(self, tensor: Tensor, transform: Transform | None) -> None:
        self.tensor, self.transform = tensor, transform
        self.data = native.filled(tensor.content)
        self.plans: dict[int, Plan] = {}  # by the number of rows; a queue runs them

    def kind(self, rows: int) -> TensorType:
        """The type of a batch of so many."""
        kind = tensor_type(self.tensor.dtype, (rows, *self.tensor.shape[1:]))
        if self.transform is None:
            return kind
        plan = self.plans[rows] = plan_of(self.transform, kind)
        return plan.output_types[0]

    def column(self, size: int, rest: int) -> queues.BatchColumn:
        """For batches of ``size`` and a last one of ``rest``."""
        made = self.kind(size).nbytes // size
        if rest:
            self.kind(rest)
        plans = {rows: plan.handle for rows, plan in self.plans.items()}
        row = tensor_type(self.tensor.dtype, self.tensor.shape[1:])
        return queues.BatchColumn(
            buffer=self.data,
            rows=len(self.tensor),
            nbytes=row.nbytes,
            made_nbytes=made,
            whole=plans.get(size),
            rest=plans.get(rest),
        )

    def is_of(self, tensor: Tensor) -> bool:
        """Whether these are the rows of ``tensor``, still."""
        return tensor is self.tensor and native.filled(tensor.content) is self.data


class BatchQueue:
    """The batches of a queue, which is closed with this."""

    def __init__(self, dataset: TensorDataset, order: np.ndarray, size: int) -> None:
        self.dataset, self.count, self.size = dataset, len(order), size
        fields = zip(dataset.tensors, dataset.transforms, strict=True)
        self.fields = [_Field(*field) for field in fields]  # the queue reads their data
        columns = [field.column(size, self.count % size) for field in self.fields]
        self.number = queues.open_queue(columns, order, size)
        # Closed at the end of the process, too, before modules and the data of the fields are gone.
        weakref.finalize(self, queues.close, self.number)

    def goes_on(self, dataset: TensorDataset, order: np.ndarray, size: int) -> bool:
        """Whether it has the batches of another pass from now on."""
        same = dataset is self.dataset and size == self.size
        rest = len(order) % size
        fits = rest in (0, self.count % size) or not any(dataset.transforms)
        if not (same and fits and all(map(_Field.is_of, self.fields, dataset.tensors))):
            return False
        if self.taken * self.size < self.count:  # an interrupt has ended what began the last pass
            return False
        self.count = len(order)
        queues.refill(self.number, order)
        return True

    @property
    def taken(self) -> int:
        """How many batches of the pass were taken."""
        found = queues.taken(self.number)
        if found < 0:
            raise DatasetError(
                "the queue of this pass has stayed behind in a fork",
                why="A child has none of the threads of its parent, nor what they were doing.",
                fix="begin a pass, or a walk, in the child",
            )
        return found

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        rows = min(self.count - self.taken * self.size, self.size)
        if rows <= 0:
            raise StopIteration
        types = [field.kind(rows) for field in self.fields]
        buffers = [native.allocate(kind.nbytes) for kind in types]
        queues.take(self.number, buffers, [kind.nbytes for kind in types])
        return tuple([make_tensor(*made) for made in zip(types, buffers, strict=True)])
