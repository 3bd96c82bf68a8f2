"""Samplers: the order of the samples in a pass, what makes a batch, and random splits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.data.datasets.dataset import Numbers, Subset
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.random import Generator, default_generator


class Sampler:
    """Subclasses give the numbers of samples through ``__iter__``, and mostly a ``__len__``.

    The base class takes a data source for the sake of subclasses that hand it on.
    """

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__()")


class OrderSampler(Sampler):
    """A sampler whose order is drawn at once when a pass begins."""

    generator: Generator | None = None

    def order(self, generator: Generator | None = None) -> Numbers:
        """The numbers of one pass; ``generator`` is drawn from in place of the sampler's own."""
        raise NotImplementedError(f"{type(self).__name__} does not define order()")

    def __iter__(self) -> Iterator[int]:
        order = self.order()
        return iter(order if isinstance(order, range) else order.tolist())


class SequentialSampler(OrderSampler):
    """All samples, in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def order(self, generator: Generator | None = None) -> range:
        return range(len(self.data_source))


class RandomOrderSampler(OrderSampler):
    """An order that is drawn: from ``generator`` (or a seed), by default the default generator."""

    def __init__(self, generator: Generator | int | None) -> None:
        self.generator = as_generator(generator)

    def source(self) -> Generator:
        """The generator that the next pass draws from."""
        return self.generator or default_generator()

    def order(self, generator: Generator | None = None) -> np.ndarray:
        return self.drawn(generator or self.source())

    def drawn(self, generator: Generator) -> np.ndarray:
        """The numbers that one pass draws from ``generator``."""
        raise NotImplementedError(f"{type(self).__name__} does not define drawn()")


class RandomSampler(RandomOrderSampler):
    """Samples in random order, ``num_samples`` of them (by default as many as there are).

    With ``replacement`` each is drawn from all of them; without, none comes twice before all have
    come once.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | int | None = None,
    ) -> None:
        super().__init__(generator)
        if not isinstance(replacement, bool):
            raise ArgumentTypeError(f"replacement is {replacement!r}", fix="give True or False")
        if num_samples is not None:
            require_count("num_samples", num_samples)
        self.data_source, self.replacement = data_source, replacement
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def drawn(self, generator: Generator) -> np.ndarray:
        total, wanted = len(self.data_source), self.num_samples
        if total == 0 and wanted:
            raise ArgumentError(f"{wanted} samples of an empty dataset", fix="give one with some")
        if self.replacement and total:
            return generator.integers(total, size=(wanted,)).numpy()
        rounds = max(-(-wanted // max(total, 1)), 1)
        orders = [generator.permutation(total).numpy() for _ in range(rounds)]
        return orders[0] if wanted == total else np.concatenate(orders)[:wanted]


class SubsetRandomSampler(RandomOrderSampler):
    """The samples with ``indices``, each once, in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | int | None = None) -> None:
        super().__init__(generator)
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def drawn(self, generator: Generator) -> np.ndarray:
        order = generator.permutation(len(self.indices)).numpy()
        return np.asarray(self.indices, np.int64)[order]


class WeightedRandomSampler(RandomOrderSampler):
    """``num_samples`` numbers drawn with probabilities in proportion to ``weights``."""

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | int | None = None,
    ) -> None:
        super().__init__(generator)
        require_count("num_samples", num_samples, least=1)
        if not isinstance(replacement, bool):
            raise ArgumentTypeError(f"replacement is {replacement!r}", fix="give True or False")
        self.weights = np.asarray(weights, np.float64)
        self.num_samples, self.replacement = num_samples, replacement
        if self.weights.ndim != 1 or not len(self.weights):
            raise ArgumentError(
                f"weights of shape {list(self.weights.shape)}", fix="give one for each sample"
            )

    def __len__(self) -> int:
        return self.num_samples

    def drawn(self, generator: Generator) -> np.ndarray:
        return generator.choice(
            len(self.weights), (self.num_samples,), self.replacement, self.weights
        ).numpy()


class BatchSampler(Sampler):
    """Lists of ``batch_size`` numbers of ``sampler`` (any iterable of them) at a time.

    ``drop_last`` leaves out a last list of fewer.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool = False) -> None:
        require_count("batch_size", batch_size, least=1)
        if not isinstance(drop_last, bool):
            raise ArgumentTypeError(f"drop_last is {drop_last!r}", fix="give True or False")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def used(self, order: Numbers) -> Numbers:
        """What of ``order`` comes into batches."""
        left = len(order) % self.batch_size if self.drop_last else 0
        return order[: len(order) - left]

    def stretches(self, order: Numbers) -> Iterator[Numbers]:
        """The batches of ``order``, as stretches of it."""
        order, size = self.used(order), self.batch_size
        return (order[start : start + size] for start in range(0, len(order), size))

    # Of what is given here, which is all unless processes share batches.

    @property
    def size_here(self) -> int:
        """How many samples a whole batch has."""
        return self.batch_size

    @property
    def rest_here(self) -> int | None:
        """How many samples a last, smaller batch has; None: there is none."""
        return None if self.drop_last else (len(self.sampler) % self.batch_size or None)

    def order_here(self, order: Numbers) -> Numbers:
        """What of ``order`` comes into batches, one behind the other."""
        return self.used(order)


class SharedBatches(BatchSampler):
    """Batches of which other processes have parts, too: ``share(n)`` of one of ``n`` is given here.

    There are as many as without the others, some of which may have no samples here.
    """

    def __init__(
        self,
        sampler: OrderSampler,
        batch_size: int,
        drop_last: bool,
        share: Callable[[int], tuple[int, int]],
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.share = share

    def __iter__(self) -> Iterator[Any]:
        return (list(batch) for batch in self.stretches(self.sampler.order()))

    def stretches(self, order: Numbers) -> Iterator[Numbers]:
        return (batch[slice(*self.share(len(batch)))] for batch in super().stretches(order))

    @property
    def size_here(self) -> int:
        first, end = self.share(self.batch_size)
        return end - first

    @property
    def rest_here(self) -> int | None:
        rest = super().rest_here
        if rest is None:
            return None
        first, end = self.share(rest)
        return end - first

    def order_here(self, order: Numbers) -> Numbers:
        parts = [np.asarray(part, np.int64) for part in self.stretches(order)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


EVEN_BATCHES = (BatchSampler, SharedBatches)  # those of one size, but for the last one


def as_generator(generator: Generator | int | None) -> Generator | None:
    """``generator``, or one for a seed."""
    if generator is None or isinstance(generator, Generator):
        return generator
    return Generator(generator)


def require_count(name: str, value: Any, least: int = 0) -> None:
    """Raise ArgumentError unless ``value`` is an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ArgumentError(f"{name} is {value!r}", fix=f"give an int >= {least}")


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | int | None = None
) -> list[Subset]:
    """``dataset`` dealt out at random into Subsets of ``lengths``, which no two share a sample of.

    ``lengths`` are counts that sum to the length of the dataset, or fractions that sum to 1: those
    are rounded down, and what is left goes to the first ones in turn.  The order is one
    permutation drawn from ``generator`` (or a seed; by default the default generator).
    """
    total = len(dataset)
    counts = _counts(list(lengths), total)
    order = (as_generator(generator) or default_generator()).permutation(total).tolist()
    subsets, start = [], 0
    for number, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"part {number} of the split has no samples", stacklevel=2)
        subsets.append(Subset(dataset, order[start : start + count]))
        start += count
    return subsets


def _counts(lengths: list[int | float], total: int) -> list[int]:
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) or n < 0 for n in lengths):
        raise ArgumentError(f"a split into {lengths}", fix="give counts or fractions >= 0")
    if all(isinstance(n, int) for n in lengths) and sum(lengths) == total:
        return lengths
    if not math.isclose(sum(lengths), 1) or any(n > 1 for n in lengths):
        raise ArgumentError(
            f"a split of {total} samples into {lengths}",
            why=f"They sum to {sum(lengths)}.",
            fix=f"give counts that sum to {total}, or fractions that sum to 1",
        )
    counts = [math.floor(total * n) for n in lengths]
    for left in range(total - sum(counts)):
        counts[left % len(counts)] += 1
    return counts
