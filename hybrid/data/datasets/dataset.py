"""Datasets: samples by number (Dataset) or one after the other (IterableDataset)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.data.transforms import RowFunction, Transform, transformed, transforms_of
from hybrid.eager.execution import from_numpy
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir.interpreter import ACTIVE
from hybrid.memory.native import MAX_COLUMNS
from hybrid.ops.index.indexing import take_slices

Numbers = np.ndarray | range  # those of the samples of a batch: int64, or a stretch of them
BatchReader = Callable[[Numbers], Any]


class Dataset:
    """Subclasses give a sample for each number from 0 on, and say how many there are.

    One that has a quicker way to several samples defines ``__getitems__(numbers)``, which gives
    the list of them; loaders call it with the numbers of a batch.
    """

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__()")

    def __add__(self, other: Dataset) -> ConcatDataset:
        """The samples of this dataset, then those of ``other``."""
        return ConcatDataset([self, other])

    def batch_reader(self) -> BatchReader | None:
        """What gives a whole batch, collated, for the numbers of its samples; None: nothing does.

        What it gives is what ``default_collate`` makes of the samples.
        """
        return None


class IterableDataset(Dataset):
    """Subclasses give samples through ``__iter__``, for as long as they have some.

    With several workers each of them goes over a copy of the dataset: ``get_worker_info()`` tells
    ``__iter__`` which part of the samples to give.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__()")

    def __getitem__(self, index: int) -> Any:
        raise ArgumentTypeError(
            f"sample {index!r} of a {type(self).__name__} was asked for",
            why="The samples of an IterableDataset have no numbers.",
            fix="iterate over it",
        )

    def __len__(self) -> int:
        # TypeError is what len() of a thing without length raises, and list() then goes without.
        raise ArgumentTypeError(f"a {type(self).__name__} does not know how many samples it has")

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        """The samples of this dataset, then those of ``other``."""
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Samples are the slices of some tensors along their first axes, as tuples.

    ``transforms`` has for each tensor None, ``Cast``, ``Normalize``, another ``Transform``, or any
    function: it gets the rows of a batch, ``[n, ...]``, and gives as many.
    """

    def __init__(
        self, *tensors: Any, transforms: Sequence[RowFunction | None] | None = None
    ) -> None:
        if not tensors:
            raise ArgumentError("a TensorDataset of nothing", fix="give at least one tensor")
        self.tensors: tuple[Tensor, ...] = tuple(asarray(t).detach() for t in tensors)
        described = ", ".join(str(t.type) for t in self.tensors)
        if any(t.ndim == 0 for t in self.tensors):
            raise ShapeError(
                f"a TensorDataset of {described}", why="Each tensor needs an axis of samples."
            )
        if len({t.shape[0] for t in self.tensors}) > 1:
            raise ShapeError(
                f"a TensorDataset of {described}",
                why="The first axes, which count the samples, must be of one length.",
                fix="cut the tensors to one length",
            )
        self.transforms = transforms_of(self.tensors, transforms)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        columns = zip(self.tensors, self.transforms, strict=True)
        return tuple([_made_row(transform, row_of(t, index)) for t, transform in columns])

    def batch_reader(self) -> BatchReader:
        readers = list(zip(self.transforms, map(rows_of, self.tensors), strict=True))
        return lambda numbers: tuple([transformed(made, read(numbers)) for made, read in readers])


class StackDataset(Dataset):
    """Samples of several datasets of one length side by side: as tuples, or as dicts by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError(
                f"a StackDataset of {'nothing' if not args else 'both kinds of arguments'}",
                fix="give datasets by position, for tuples, or by name, for dicts",
            )
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        lengths = [len(dataset) for dataset in self._all()]
        if len(set(lengths)) > 1:
            raise ShapeError(
                f"a StackDataset of datasets with {', '.join(map(str, lengths))} samples",
                why="Each sample has a part from each of them.",
                fix="give datasets of one length, or Subsets of them",
            )

    def _all(self) -> Sequence[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _put(self, parts: Sequence[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, parts, strict=True))
        return tuple(parts)

    def __len__(self) -> int:
        return len(self._all()[0])

    def __getitem__(self, index: int) -> Any:
        return self._put([dataset[index] for dataset in self._all()])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        columns = [samples_of(dataset, indices) for dataset in self._all()]
        return [self._put(row) for row in zip(*columns, strict=True)]

    def batch_reader(self) -> BatchReader | None:
        readers = [reader_of(dataset) for dataset in self._all()]
        if None in readers:
            return None
        return lambda numbers: self._put([read(numbers) for read in readers])


class ConcatDataset(Dataset):
    """The samples of some datasets, those of one after those of the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("a ConcatDataset of nothing", fix="give at least one dataset")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise ArgumentTypeError(
                    f"a ConcatDataset of a {type(dataset).__name__}",
                    why="The samples of an IterableDataset have no numbers.",
                    fix="use ChainDataset",
                )
        self.cumulative_sizes: list[int] = np.cumsum([len(d) for d in self.datasets]).tolist()

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        at = int(np.searchsorted(self.cumulative_sizes, number, side="right"))
        return self.datasets[at][number - (self.cumulative_sizes[at - 1] if at else 0)]


class ChainDataset(IterableDataset):
    """The samples of some IterableDatasets, those of one after those of the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise ArgumentTypeError(
                    f"a ChainDataset of a {type(dataset).__name__}",
                    why="It goes over IterableDatasets.",
                    fix="use ConcatDataset for datasets whose samples have numbers",
                )

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset):
    """The samples of ``dataset`` that ``indices`` name, in that order."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, list):
            return self.__getitems__(index)
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return samples_of(self.dataset, [self.indices[index] for index in indices])

    def batch_reader(self) -> BatchReader | None:
        read = reader_of(self.dataset)
        if read is None:
            return None
        return lambda numbers: read(np.array([self.indices[n] for n in numbers], np.int64))


def samples_of(dataset: Any, numbers: Sequence[int]) -> list[Any]:
    """The samples with ``numbers``, at once where the dataset can give several."""
    if _newest(type(dataset), "__getitems__"):
        samples = dataset.__getitems__(list(numbers))
        if len(samples) != len(numbers):
            raise ArgumentError(
                f"{type(dataset).__name__}.__getitems__ gave {len(samples)} samples for "
                f"{len(numbers)} numbers",
                fix="give one for each, in order",
            )
        return samples
    return [dataset[number] for number in numbers]


def reader_of(dataset: Any) -> BatchReader | None:
    """What gives whole batches of ``dataset``; None where samples are to be collated."""
    if isinstance(dataset, Tensor) or type(dataset) is np.ndarray:
        return rows_of(asarray(dataset).detach()) if dataset.ndim else None
    if isinstance(dataset, Dataset) and _newest(type(dataset), "batch_reader"):
        return dataset.batch_reader()
    return None


def is_columns(dataset: Any) -> bool:
    """Whether samples are rows of tensors, or what Transforms make of those; or some of such.

    There are not more tensors than a queue has columns.
    """
    kind, methods = type(dataset), ("__getitem__", "__len__", "batch_reader")
    if kind is Subset:
        return is_columns(dataset.dataset)
    return (
        isinstance(dataset, TensorDataset)
        and all([getattr(kind, name) is getattr(TensorDataset, name) for name in methods])
        and not hasattr(kind, "__getitems__")
        and len(dataset.tensors) <= MAX_COLUMNS
        and all([t is None or isinstance(t, Transform) for t in dataset.transforms])
    )


def columns_of(dataset: Any, numbers: np.ndarray) -> tuple[TensorDataset, np.ndarray] | None:
    """The rows that the samples with these ``numbers`` are, for what ``is_columns``.

    None where one of them is no number from 0 on of a sample that there is.
    """
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(dataset):
        return None
    if type(dataset) is not Subset:
        return dataset, numbers
    indices = np.asarray(dataset.indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        return None
    return columns_of(dataset.dataset, indices.astype(np.int64)[numbers])


def rows_of(tensor: Tensor) -> BatchReader:
    """What gives slices of ``tensor`` along its first axis: its own bytes for a stretch of them,
    gathered by one call for others.
    """
    array = tensor.numpy() if tensor.dtype.numpy is not None else None

    def read(numbers: Numbers) -> Tensor:
        if array is not None and isinstance(numbers, range) and numbers.step == 1:
            return from_numpy(array[numbers.start : numbers.stop])
        return take_slices(tensor, from_numpy(np.asarray(numbers, np.int64)), axis=0)

    return read


def row_of(tensor: Tensor, index: Any) -> Tensor:
    """``tensor[index]``; for a number it shares the bytes, as values do not change."""
    plain = type(index) is int and tensor.dtype.numpy is not None and not ACTIVE
    if not plain or not -tensor.shape[0] <= index < tensor.shape[0]:
        return tensor[index]
    return from_numpy(np.asarray(tensor.numpy()[index]))


def _made_row(transform: RowFunction | None, row: Tensor) -> Tensor:
    return row if transform is None else transformed(transform, row[None])[0]


def _newest(kind: type, method: str) -> bool:
    """Whether ``method`` speaks for the samples: no subclass has another ``__getitem__`` since."""
    for base in kind.__mro__:
        if method in vars(base):
            return True
        if "__getitem__" in vars(base):
            return False
    return False
