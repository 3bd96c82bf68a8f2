"""Feed: what a ``for`` loop walks over, by index, so that one pass can stand for all iterations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from hybrid.classes import dataclass
from hybrid.convert.traced import is_grown
from hybrid.number import Number
from hybrid.progress import unwrapped
from hybrid.tensor import Tensor
from hybrid.tree import unflatten


class Feed(Protocol):
    """``length`` items; a Number when that is known only at run time."""

    length: int | Number
    python: bool  # whether the items are plain Python numbers

    def row(self, index: int | Number) -> Any:
        """The item at ``index``."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers of a Python range."""

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
    """The rows of a tensor."""

    tensor: Tensor
    python = False

    @property
    def length(self) -> int:
        return len(self.tensor)

    def row(self, index: int | Number) -> Any:
        return self.tensor[index]


def feed_of(iterable: Any) -> Feed | None:
    """How to walk over ``iterable`` by index; None when only Python can."""
    iterable = unwrapped(iterable)
    if type(iterable) is range:
        return Range(iterable)
    if isinstance(iterable, Tensor) and iterable.ndim:
        return Rows(iterable)
    if isinstance(iterable, TreeRows):
        return iterable
    if is_grown(iterable):
        from hybrid.convert.lists import list_feed

        return list_feed(iterable)
    return iterable.feed() if isinstance(iterable, Walk) else None


class Walk:
    """An iterable made while a function is captured, such as ``enumerate`` of a tensor."""

    length: Any  # a Number when that is known only at run time

    def feed(self) -> Feed | None:
        """How to walk over it by index; None when it has been begun by other means."""
        raise NotImplementedError


class TreeRows:
    """The rows of a tree of tensors, each a tree."""

    python = False

    def __init__(self, structure: Any, leaves: tuple[Tensor, ...]) -> None:
        self.structure, self.leaves = structure, leaves

    @property
    def length(self) -> int:
        return len(self.leaves[0])

    def row(self, index: int | Number) -> Any:
        rows = [Rows(leaf).row(index) for leaf in self.leaves]
        return unflatten(self.structure, rows)

    def __iter__(self) -> Iterator[Any]:
        for at in range(self.length):
            yield unflatten(self.structure, [leaf[at] for leaf in self.leaves])
