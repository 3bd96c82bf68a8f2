"""DataLoader: batches of a dataset, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.data.collate import collate
from hybrid.data.dataset import Dataset, TensorDataset
from hybrid.eager import from_numpy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ops.indexing import take_slices
from hybrid.random import Generator, default_generator
from hybrid.tensor import Tensor

Batch = Callable[[int, int], Any]  # of the samples from start to stop in the order of the pass


class DataLoader:
    """Iterating gives batches: samples' tensors, numbers and arrays stacked along a new first axis.

    ``generator`` shuffles: a ``hybrid.random.Generator``, or a seed for one of the loader's own; by
    default the default generator.  Each pass draws a new order.  ``drop_last`` leaves out a last
    batch of fewer than ``batch_size`` samples.
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Any],
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        generator: Generator | int | None = None,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"batch_size is {batch_size!r}", fix="give an int >= 1")
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise ArgumentTypeError(
                f"a {type(dataset).__name__} is not a dataset",
                why="It needs __len__ and __getitem__.",
                fix="subclass hybrid.data.Dataset, or pass a list of samples",
            )
        if len(dataset) == 0:
            raise ArgumentError("the dataset is empty", fix="give one with samples")
        if generator is not None and not isinstance(generator, Generator):
            generator = Generator(generator)
        self.dataset, self.batch_size = dataset, batch_size
        self.shuffle, self.drop_last, self.generator = shuffle, drop_last, generator

    def __len__(self) -> int:
        """The number of batches."""
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        count, size = len(self.dataset), self.batch_size
        order = self._order(count)
        batch = self._slices(order) if type(self.dataset) is TensorDataset else self._samples(order)
        for start in range(0, len(self) * size, size):
            yield batch(start, min(start + size, count))

    def _order(self, count: int) -> np.ndarray | None:
        """The order of a pass over the dataset; None is as it comes."""
        if not self.shuffle:
            return None
        return (self.generator or default_generator()).permutation(count).numpy()

    def _slices(self, order: np.ndarray | None) -> Batch:
        """Batches of a TensorDataset: a gather per tensor, or its own bytes when unshuffled."""
        tensors = self.dataset.tensors
        if order is None:
            arrays = [t.numpy() for t in tensors]
            return lambda start, stop: tuple([from_numpy(a[start:stop]) for a in arrays])

        def gathered(start: int, stop: int) -> tuple[Tensor, ...]:
            chosen = from_numpy(order[start:stop])
            return tuple([take_slices(t, chosen, axis=0) for t in tensors])

        return gathered

    def _samples(self, order: np.ndarray | None) -> Batch:
        """Batches of any dataset, sample by sample."""
        dataset = self.dataset

        def collated(start: int, stop: int) -> Any:
            numbers = range(start, stop) if order is None else order[start:stop].tolist()
            return collate([dataset[number] for number in numbers])

        return collated
