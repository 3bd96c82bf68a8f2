"""The iterables ``range``, ``enumerate``, ``zip`` and ``reversed`` of traced values.

Each is a ``StagedIterable``: a ``for`` that is staged goes over it by index.  Anything else that
iterates gets the items one by one, as long as their number is known.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.open_numbers import OpenInt, is_open, size_of
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.number import Number, as_number, choose, host_number, is_plain
from hybrid.staging.sessions.views import own_method
from hybrid.staging.values.feed import Feed, StagedIterable
from hybrid.trace.regions.continuation import require


def index_of(x: Any) -> Any:
    """The result of ``operator.index(x)``, traced; raises what Python raises."""
    if isinstance(x, Tensor) and x.dtype.is_integer and not x.ndim:
        return current().number_of(x)
    if type(x) is OpenInt:
        return x
    method = own_method(x, "__index__")
    x = x if method is None else method()
    if type(x) is not Number:
        return operator.index(x)
    if x.kind == "float":
        raise TypeError("'float' object cannot be interpreted as an integer")
    return +x


def _tensor(x: Any) -> Tensor:
    return as_number(x).whole()


class TracedRange(StagedIterable):
    """A ``range`` with a bound or step that is traced, or made of the sizes of open axes."""

    python = True

    def __init__(self, start: Any, stop: Any, step: Any = 1) -> None:
        self.start, self.stop, self.step = start, stop, step
        self.length = _range_length(start, stop, step)

    def feed(self) -> Feed:
        return self

    @property
    def is_open(self) -> bool:
        """Whether nothing is traced."""
        return not any(type(n) is Number for n in (self.start, self.stop, self.step))

    @property
    def plain(self) -> range:
        """The range of Python's, which fixes sizes."""
        return range(self.start, self.stop, self.step)

    def row(self, index: Any) -> Any:
        """The number at ``index``, which must lie in [0, length)."""
        if self.is_open:
            found = index * self.step + self.start
            if type(found) is Number:  # it lies between start and stop
                ends = (self.start, self.stop - 1) if self.step > 0 else (self.stop + 1, self.start)
                found.bounds = size_of(ends[0]), size_of(ends[1])
            return found
        bounds = [(n.low, n.high) for n in map(as_number, (self.start, self.stop))]
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        if type(self.step) is int and self.step > 0:
            low, high = bounds[0][0], bounds[1][1] - 1
        elif type(self.step) is int:
            low, high = bounds[1][0] + 1, bounds[0][1]
        # It lies between start and stop, so nothing overflows.
        offset = _tensor(index)
        if not (type(self.step) is int and self.step == 1):
            offset = ops.multiply(offset, _tensor(self.step))
        if not (type(self.start) is int and self.start == 0):
            offset = ops.add(_tensor(self.start), offset)
        return Number("int", offset, low, high)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if self.is_open:
                return self.plain[index]
            self._need_value("a slice of a range")
        index = index_of(index)
        at = choose(index < 0, index + self.length, index)
        inside = (at >= 0) & (at < self.length)
        if type(inside) is Number:
            require(inside, IndexError("range object index out of range"))
        elif not inside:
            raise IndexError("range object index out of range")
        return self.row(at)

    def contains(self, value: Any) -> Any:
        """``value in self``, traced; False for what is not a whole number."""
        if not is_plain(value):
            return False
        if self.is_open and type(value) is not Number:
            value = int(value) if value == int(value) else None
            if value is None:
                return False
            after = value - self.start  # in the direction of the steps, if it is there
            within = value < self.stop if self.step > 0 else value > self.stop
            return within and after * self.step >= 0 and after % self.step == 0
        numbers = (value, self.start, self.stop, self.step)
        return host_number(_is_in_range, "bool", *numbers)

    def _need_value(self, what: str) -> NoReturn:
        traced = next(n for n in (self.stop, self.start, self.step) if type(n) is Number)
        traced.need_value(what)

    def __iter__(self) -> Iterator[Any]:
        if self.is_open:
            return iter(self.plain)
        self._need_value("going over a range item by item")

    def __len__(self) -> int:
        if self.is_open:
            return len(self.plain)
        self._need_value("len() of a range")

    def __contains__(self, value: Any) -> bool:
        if self.is_open:
            return value in self.plain
        self._need_value("a membership test")

    def __eq__(self, other: object) -> bool:
        return self.is_open and self.plain == (other.plain if type(other) is TracedRange else other)

    def __hash__(self) -> int:
        return hash(self.plain) if self.is_open else object.__hash__(self)

    def __repr__(self) -> str:
        return repr(self.plain) if self.is_open else object.__repr__(self)


def _range_length(start: Any, stop: Any, step: Any) -> Any:
    """``len(range(start, stop, step))``, traced."""
    if is_open(step):
        step = operator.index(step)
    if type(step) is not int:
        return not_negative(host_number(_length, "int", start, stop, step))
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    span = (stop - start) if step > 0 else (start - stop)
    if abs(step) != 1:
        span = (span + (abs(step) - 1)) // abs(step)
    return not_negative(span) if type(span) is Number else span if span > 0 else 0


def not_negative(n: Number) -> Number:
    """The result of ``max(n, 0)``."""
    if n.low >= 0:
        return n
    return Number("int", ops.maximum(n.tensor, 0), 0, max(n.high, 0))


def _length(start: int, stop: int, step: int) -> int:
    return len(range(start, stop, step))


def _is_in_range(value: Any, start: int, stop: int, step: int) -> bool:
    return value in range(start, stop, step)


# Iterators --------------------------------------------------------------------------------------


class Once(StagedIterable):
    """An iterator over the items of a feed."""

    def __init__(self, items: Feed) -> None:
        self._items = items
        self._at = 0
        self._taken = False

    @property
    def length(self) -> Any:
        """The number of items at first."""
        return self._items.length

    def feed(self) -> Feed | None:
        """The items, for one loop."""
        self._refuse_taken()
        if self._at:
            return None
        self._taken = True
        return self._items

    def _refuse_taken(self) -> None:
        if self._taken:
            raise CaptureError(
                "an iterator was used again after a loop had gone over it",
                at=author_location(),
                why="The loop became a node of the graph, and how far it goes is only known when "
                "the plan runs.",
                fix="make a new one with enumerate(), zip() or reversed()",
            )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._refuse_taken()
        length = self._items.length
        if type(length) is Number:
            length.need_value("going over it item by item")
        length = operator.index(length)
        if self._at >= length:
            raise StopIteration
        self._at += 1
        return self._items.row(self._at - 1)


@dataclass(frozen=True, slots=True)
class Enumerated:
    """The feed of ``enumerate(items, start)``."""

    items: Feed
    start: Any
    python = False

    @property
    def length(self) -> Any:
        return self.items.length

    @property
    def parts(self) -> Sequence[Feed]:
        return (self.items,)

    def row(self, index: Any) -> tuple[Any, Any]:
        number = index if type(self.start) is int and self.start == 0 else self.start + index
        return number, self.items.row(index)


@dataclass(frozen=True, slots=True)
class Zipped:
    """The feed of ``zip(*parts)``."""

    parts: Sequence[Feed]
    length: Any
    python = False

    def row(self, index: Any) -> tuple[Any, ...]:
        return tuple([part.row(index) for part in self.parts])


@dataclass(frozen=True, slots=True)
class Reversed:
    """The feed of ``reversed(items)``."""

    items: Feed

    @property
    def length(self) -> Any:
        return self.items.length

    @property
    def python(self) -> bool:
        return self.items.python

    def row(self, index: Any) -> Any:
        return self.items.row(self.length - 1 - index)


def shortest(lengths: Sequence[Any]) -> Any:
    """The smallest of ``lengths``, some of them traced."""
    found = lengths[0]
    for length in lengths[1:]:
        found = choose(operator.lt(length, found), length, found)
    return found


def uneven(number: int, length: int, first: int) -> ValueError:
    """The exception that Python raises when iterables of a strict zip differ in length."""
    others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
    kind = "shorter" if length < first else "longer"
    return ValueError(f"zip() argument {number} is {kind} than {others}")
