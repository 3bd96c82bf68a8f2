"""Feeds: the items of a ``for`` loop by index, so that one pass stands for all iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.open_numbers import OpenInt, size_of
from hybrid.core.size_functions import range_of
from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, CaptureError, author_location
from hybrid.number import Number


class Feed(Protocol):
    """A sequence of ``length`` items by index; the length is a Number if only a run knows it.

    It is an OpenInt if it depends on open axes alone.
    """

    length: int | Number
    python: bool  # whether the items are plain Python numbers

    def row(self, index: int | Number) -> Any:
        """The item at ``index``."""


@dataclass(frozen=True, slots=True)
class Range:
    """The feed of a Python range."""

    numbers: range
    python = True

    @property
    def length(self) -> int:
        return len(self.numbers)

    def row(self, index: int | Number) -> Any:
        if isinstance(index, Number):
            scaled = index if self.numbers.step == 1 else index * self.numbers.step
            return scaled if self.numbers.start == 0 else scaled + self.numbers.start
        return self.numbers[index]


@dataclass(frozen=True, slots=True)
class Rows:
    """The feed of the rows of a tensor."""

    tensor: Tensor
    python = False

    @property
    def length(self) -> int:
        return self.tensor.shape[0]

    def row(self, index: int | Number) -> Any:
        return self.tensor[index]


def is_known(length: Any) -> bool:
    """Whether the length of a feed is an int, be it one of open axes."""
    return type(length) in (int, OpenInt)


def most_of(length: Any) -> int:
    """An int that a known length does not exceed."""
    high = range_of(size_of(length))[1]
    return MOST if high is None else high


MOST = 2**53  # items: so many iterations are never made


class StagedIterable:
    """An iterable made while a function is captured, such as ``enumerate`` of a tensor."""

    length: Any  # a Number when that is known only at run time
    begun = False  # whether it is a pass over what comes from outside, which is to be finished

    def feed(self) -> Feed | None:
        """The feed of its items by index; None when it has been begun by other means."""
        raise NotImplementedError

    def finish(self, stopped: Tensor | bool) -> None:
        """The loop over it is over: where it was ``stopped``, no further item was asked for."""


def even_length(feed: Feed) -> Any:
    """The number of first items of ``feed`` that are of one kind."""
    length, parts = feed.length, supplied(feed)
    return min([length, *[p.even for p in parts]]) if parts and is_known(length) else length


def finish(feed: Any, stopped: Tensor | bool) -> None:
    """End the passes in ``feed``, whose loop is left, or ``stopped`` by the author."""
    parts = getattr(feed, "parts", ())
    lengths = [part.length for part in parts]
    known = all(map(is_known, lengths))
    shortest = lengths.index(min(lengths)) if parts and known else 0
    for at, part in enumerate(parts):  # zip() asks for an item of each up to that which has none
        finish(part, stopped if at <= shortest else True)
    if isinstance(feed, StagedIterable) and feed.begun:
        feed.finish(stopped)


def supplied(feed: Any) -> list[Any]:
    """The parts of ``feed`` whose items come from outside."""
    if isinstance(feed, StagedIterable) and feed.begun:
        return [feed]
    return [found for part in getattr(feed, "parts", ()) for found in supplied(part)]


def stream_of(feed: Any) -> Any:
    """The part of ``feed`` whose end is known when it comes, if there is one."""
    streams = [part for part in supplied(feed) if part.ends_itself]
    if streams and len(getattr(feed, "parts", ())) > 1:
        raise CaptureError(
            "zip() of a loader that does not know how many batches it gives",
            at=author_location(),
            why="Which of the parts ends first is known when each of them is asked.",
            fix="count with enumerate(), or give the dataset a __len__",
        )
    return streams[0] if streams else None


class TreeRows:
    """The feed of the rows of a tree of tensors, each a tree."""

    python = False

    def __init__(self, structure: Any, leaves: tuple[Tensor, ...]) -> None:
        self.structure, self.leaves = structure, leaves

    @property
    def length(self) -> int:
        return self.leaves[0].shape[0]

    def row(self, index: int | Number) -> Any:
        rows = [Rows(leaf).row(index) for leaf in self.leaves]
        return unflatten(self.structure, rows)

    def __iter__(self) -> Iterator[Any]:
        for at in range(self.length):
            yield unflatten(self.structure, [leaf[at] for leaf in self.leaves])


def stacked(trees: Sequence[Any]) -> Any:
    """A tree of stacks, one row for each of ``trees``, which have one structure."""
    flat = [flatten(tree) for tree in trees]
    structure = flat[0][1]
    if any(other != structure for _, other in flat):
        raise ArgumentTypeError("the iterations of scan returned trees of different structure")
    columns = zip(*[leaves for leaves, _ in flat], strict=True)
    return unflatten(structure, [ops.stack(list(column)) for column in columns])
