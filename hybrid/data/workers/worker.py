"""What a worker does, whatever it is: reads batches by a recipe, and says what went wrong."""

from __future__ import annotations

import itertools
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import tree_map
from hybrid.data.collate import default_collate, default_convert
from hybrid.data.datasets.dataset import reader_of, samples_of
from hybrid.errors import DatasetError
from hybrid.random import Generator, default_generator


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that this code runs in: its number among how many, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_local = threading.local()  # .info: the worker of this thread; .batch: what it reads, see below


def get_worker_info() -> WorkerInfo | None:
    """The worker that calls, for a dataset to know its part; None outside workers."""
    return getattr(_local, "info", None)


def set_worker_info(info: WorkerInfo | None) -> None:
    """Let ``info`` be what ``get_worker_info`` tells on this thread."""
    _local.info = info


def batch_generator() -> Generator:
    """A generator for code of a dataset to draw from: augmentation, say.

    Its draws follow from the loader's generator, the pass and the batch that is being read (of a
    stream: the worker, and its batch), so they do not depend on the workers, nor do threads share
    it.  Outside of a loader it is the default generator.
    """
    batch = getattr(_local, "batch", None)
    if batch is None:
        return default_generator()
    if batch.generator is None:
        mixed = np.random.SeedSequence([batch.seed, batch.at])
        batch.generator = Generator(int(mixed.generate_state(1, np.uint64)[0]))
    return batch.generator


class _Batch:
    """A batch that is being read: the seed of its pass, which one it is, and its generator."""

    __slots__ = ("at", "generator", "seed")

    def __init__(self, seed: int, at: int) -> None:
        self.seed, self.at = seed, at
        self.generator: Generator | None = None


@dataclass(frozen=True)
class Recipe:
    """How batches are made of a dataset; ``batch_size`` None: samples are given one by one."""

    dataset: Any
    batch_size: int | None
    collate: Callable[[Any], Any] | None  # None: the default one
    streams: bool  # whether the dataset is iterated over
    drop_last: bool
    init: Callable[[int], Any] | None  # called with the number of each worker that starts


@dataclass(frozen=True)
class Job:
    """A batch to make: of the samples with the numbers ``key``, or of the next ones of a stream."""

    number: int = 0
    key: Any = None
    at: int = 0  # which batch of the pass, those of an interrupted one before it counted
    skips: bool = False  # the batch is not wanted: a stream is to move on


class Ended:
    """What a stream gives in place of a batch when it has no more samples."""


ENDED = Ended()


class Halted(Exception):
    """The loader wants no more batches."""


class Reader:
    """Makes batches by a recipe; ``halted`` is asked between samples whether anybody wants them."""

    def __init__(self, recipe: Recipe, halted: Callable[[], bool] = lambda: False) -> None:
        self.recipe, self.halted = recipe, halted
        self.items: Iterator[Any] = iter(())
        self.seed = self.count = 0
        self.whole = None
        self.drew = False  # whether code of the dataset has asked for a generator
        self.keeps = False  # whether it keeps the samples of the last batch
        self.samples: Any = None
        batched = recipe.batch_size is not None
        if batched and recipe.collate is None and not recipe.streams:
            self.whole = reader_of(recipe.dataset)
        self.collate = recipe.collate or (default_collate if batched else default_convert)

    def begin(self, seed: int, worker: int = 0) -> None:
        """Start a pass."""
        self.seed, self.count = seed + worker if self.recipe.streams else seed, 0
        if self.recipe.streams:
            self.items = iter(self.recipe.dataset)

    def read(self, job: Job) -> Any:
        """The batch of ``job``, or ENDED."""
        before = getattr(_local, "batch", None)  # a dataset may go over a loader of its own
        _local.batch = _Batch(self.seed, self.count if self.recipe.streams else job.at)
        self.count += 1
        try:
            return self._following(job) if self.recipe.streams else self._numbered(job.key)
        except StopIteration as error:  # which would end the author's own loop without a word
            raise DatasetError(
                f"a {type(self.recipe.dataset).__name__} raised StopIteration for a sample",
                fix="raise another exception, or let an IterableDataset end by returning",
            ) from error
        finally:
            self.drew |= _local.batch.generator is not None
            _local.batch = before

    def _numbered(self, key: Any) -> Any:
        if self.whole is not None:
            if isinstance(key, (list, tuple)):  # of a sampler of the author's own
                key = np.asarray(key)
            if isinstance(key, range) or (key.dtype == np.int64 and key.ndim == 1):
                return self.whole(key)
            key = key.tolist()
        if self.recipe.batch_size is None:
            return self.collate(self.recipe.dataset[key])
        numbers = key.tolist() if isinstance(key, np.ndarray) else key
        if not len(numbers):  # other processes have the samples of this batch
            return tree_map(_none_of, self.collate([self.recipe.dataset[0]]))
        if hasattr(self.recipe.dataset, "__getitems__"):
            return self._collated(samples_of(self.recipe.dataset, numbers))
        samples = []
        for number in numbers:
            if self.halted():
                raise Halted
            samples.append(self.recipe.dataset[number])
        return self._collated(samples)

    def _collated(self, samples: Any) -> Any:
        if self.keeps:
            self.samples = samples
        return self.collate(samples)

    def _following(self, job: Job) -> Any:
        size = self.recipe.batch_size
        samples = []
        for sample in itertools.islice(self.items, 1 if size is None else size):
            if self.halted():
                raise Halted
            samples.append(sample)
        if not samples or (size is not None and self.recipe.drop_last and len(samples) < size):
            return ENDED
        if job.skips:
            return None
        return self.collate(samples[0]) if size is None else self._collated(samples)


def _none_of(leaf: Any) -> Any:
    """A batch without samples, of the kind of ``leaf``."""
    return leaf[:0] if getattr(leaf, "ndim", 0) else leaf


@dataclass(frozen=True)
class Reply:
    """What a worker answers: a batch, ENDED, or what was raised and the text of its traceback."""

    worker: int
    round: int  # of the pass that asked
    number: int  # of the job
    value: Any = None
    error: BaseException | None = None
    text: str = ""


class WorkerTraceback(Exception):
    """The text of the traceback of what a worker raised: the cause of what the loader raises."""

    def __str__(self) -> str:
        return self.args[0]


def answered(reply: Reply, name: str) -> Any:
    """The value of ``reply``; raises what the worker, called ``name``, has raised."""
    if reply.error is None:
        return reply.value
    raise reply.error from WorkerTraceback(f"\n\nIn {name}:\n\n{reply.text}")


def text_of(error: BaseException) -> str:
    """The traceback of ``error`` as Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
