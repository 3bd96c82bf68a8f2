"""Lists of unknown length: their ``len``, subscripts, loops and truth during a capture.

::

    len(xs)     ->  a traced int              xs[i], xs[-1]   ->  a row, once i is in range
    xs[:]       ->  the list anew             for x in xs     ->  a loop node over the rows
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from hybrid import ops
from hybrid.convert.runtime import Site, hyb__
from hybrid.core.dataclass import dataclass
from hybrid.core.tree import LEAF
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, author_frame, author_location
from hybrid.ir.interpreter import current
from hybrid.number import Number, as_number, choose
from hybrid.staging.values.feed import Feed
from hybrid.staging.values.iterables import index_of, not_negative
from hybrid.trace.regions.continuation import require
from hybrid.trace.values.varlist import Column, Gaps, VarList, refuse, varlists_in

Items = Sequence[Any]  # some of them VarList


def length_of(items: Items) -> Any:
    """The result of ``len(items)``."""
    counts = [v.capacity if v.is_full else v.count for v in varlists_in(items)]
    plain = len(items) - len(counts)
    return functools.reduce(operator.add, [plain, *counts] if plain else counts)


def truth_of(items: Items) -> Any:
    """The result of ``bool(items)``."""
    if any(type(item) is not VarList for item in items):
        return True
    return length_of(items) > 0


class ListView:
    """The view of a list of unknown length for the subscripts and stars of converted code."""

    __slots__ = ("items",)

    def __init__(self, items: Items) -> None:
        self.items = items

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _slice(self.items, index)
        return item_at(self.items, index_of(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.items[self._fixed(index, "set")] = value  # type: ignore[index]

    def __delitem__(self, index: Any) -> None:
        del self.items[self._fixed(index, "deleted")]  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Any]:
        _refuse(self.items, "unpacked")

    def __eq__(self, other: Any) -> Any:
        if type(other) is ListView:
            _refuse(self.items, "compared")
        if type(other) is not type(self.items):
            return False
        return _refuse(self.items, "compared") if other else length_of(self.items) == 0

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return not equal if type(equal) is bool else length_of(self.items) != 0

    def _compare(self, _other: Any) -> NoReturn:
        _refuse(self.items, "compared")

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        truth = truth_of(self.items)
        return truth if type(truth) is bool else _refuse(self.items, "asked for its truth")

    def _fixed(self, index: Any, how: str) -> int:
        """The place of an item of which it is known where it is."""
        items = self.items
        if type(index) is int:
            if 0 <= index < _front(items):
                return index
            if -_front(items[::-1]) <= index < 0:
                return index
        _refuse(items, f"changed: an item is {how}")


def _front(items: Items) -> int:
    """How many items come before the first VarList."""
    for count, item in enumerate(items):
        if type(item) is VarList:
            return count
    return len(items)


def _refuse(items: Items, how: str) -> NoReturn:
    refuse(how, next(varlists_in(items)).at)


def _slice(items: Items, taken: slice) -> Any:
    front, back = _front(items), _front(items[::-1])
    start, stop, step = taken.start, taken.stop, taken.step
    begins = start is None or (type(start) is int and -back <= start <= front)
    ends = stop is None or (type(stop) is int and -back <= stop <= front)
    whole = step is None or (type(step) is int and step == 1)
    if not (whole and begins and ends):
        if not whole and type(step) is not int:
            _refuse(items, "sliced")
        if step == 0:
            raise ValueError("slice step cannot be zero")
        return hyb__.part_of(items, taken)
    return items[start:stop]


# One item ---------------------------------------------------------------------------------------


def item_at(items: Items, index: Any) -> Any:
    """The result of ``items[index]``; the plan raises IndexError."""
    front, back = _front(items), _front(items[::-1])
    if type(index) is int:
        if 0 <= index < front or -back <= index < 0:
            return items[index]
        if index == -back - 1:
            return _last(items[: len(items) - back])
    length = length_of(items)
    if type(index) is Number:
        at = _from_front(index, length)
    else:
        at = index if index >= 0 else index + length
    _require(at >= 0)
    _require(at < length)
    return _position(items, at)


def _from_front(index: Number, length: Any) -> Any:
    return index if index.low >= 0 else choose(index < 0, index + length, index)


def _require(inside: Any) -> None:
    if type(inside) is Number:
        require(inside, IndexError("list index out of range"))
    elif not inside:
        raise IndexError("list index out of range")


def _last(items: Items) -> Any:
    """The last of items that end with a VarList."""
    *before, varlist = items
    if before:
        return choose_between(varlist.count > 0, varlist.last_item, lambda: item_at(before, -1))
    _require(varlist.count > 0)
    return varlist.last_item()


def _position(items: Items, at: Any) -> Any:
    """The item at ``at``, an index from the front that is in range."""
    first, *rest = items
    count = first.count if type(first) is VarList else 1

    def here() -> Any:
        return first.item(as_number(at).whole()) if type(first) is VarList else first

    if not rest:
        return here()
    if len(rest) == 1 and _is_row(first, rest[0]):  # both are values, of which one is handed on
        row = rest[0].item(not_negative(as_number(at - count)).whole())
        return choose_between(at < count, here, lambda: row)
    return choose_between(at < count, here, lambda: _position(rest, at - count))


def _is_row(first: Any, rest: Any) -> bool:
    """Whether the item ``first`` is a tensor, as those that follow."""
    if not isinstance(first, Tensor) or type(rest) is not VarList or rest.gaps is not None:
        return False
    column = rest.columns[0] if rest.structure == LEAF else None
    return isinstance(column, Column) and not column.kind


def choose_between(
    test: Any, body: Callable[[], Any], orelse: Callable[[], Any], name: str = "an item of a list"
) -> Any:
    """The result of ``body() if test else orelse()``; messages call it ``name``."""
    if type(test) is not Number:
        return body() if test else orelse()
    location, function = here()
    site = Site(kind="item", location=location, function=function)
    return hyb__.Choice(site, name).between(test, body, orelse)


def here() -> tuple[Location, str]:
    """The place of the author's code that is running: line and function."""
    frame = author_frame(sys._getframe(1))
    function = "<module>" if frame is None else frame.f_code.co_name
    return author_location() or Location("<unknown>", 0), function


# All items, one after the other -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListFeed:
    """The feed of a list of unknown length."""

    items: tuple[Any, ...]
    length: Any
    capacity: int  # that ``length`` does not exceed
    python = False

    def row(self, index: Any) -> Any:
        """The item at ``index``."""
        first = self.items[0]
        if (
            len(self.items) > 1
            or type(first) is not VarList
            or first.gaps is not None
            or type(index) is int
        ):
            return _position(self.items, index)
        if any(isinstance(column, Column) for column in first.columns):
            return _position(self.items, index)
        return first.built([None] * len(first.columns))


def list_feed(items: Items) -> Feed:
    """The feed of a list, by index."""
    for varlist in varlists_in(items):
        varlist.require_readable()
        varlist.limit()
    capacity = sum(item.capacity if type(item) is VarList else 1 for item in items)
    return ListFeed(tuple(items), length_of(items), capacity)


# Items that are there or not -------------------------------------------------------------------


def compacted(items: list[Any]) -> list[Any]:
    """``items``, each of them optional, as rows that know of gaps; any other list as it is."""
    first = items[0] if items else None
    if type(first) is not VarList or len(items) == 1:
        return items
    if not all(type(item) is VarList and item.is_like(first) for item in items):
        return items
    if first.capacity != 1 or first.gaps is not None or first.last:
        return items
    columns = []
    for parts in zip(*[item.columns for item in items], strict=True):
        column = parts[0]
        if isinstance(column, Column):
            column = Column(ops.concat([part.stack for part in parts]), column.kind)
        columns.append(column)
    filled = ops.stack([item.count.tensor for item in items]) > 0
    count = Number("int", ops.sum(ops.astype(filled, "int64")), 0, len(items))
    in_front = ops.arange(len(items)) < count.tensor
    gaps = Gaps(ops.any(filled != in_front), filled, ops.full((), len(items), dtype="int64"))
    made = VarList(
        count=count,
        columns=tuple(columns),
        structure=first.structure,
        capacity=len(items),
        at=first.at,
        owner=current(),
        last=(),
        gaps=gaps,
        fits=True,
    )
    return [made]


def optional(item: Any, value: Callable[[Any], Any], absent: Any) -> Any:
    """``value`` of an item; ``absent`` where the item is not there."""
    if type(item) is not VarList:
        return value(item)
    return choose_between(item.count > 0, lambda: value(item.last_item()), lambda: absent)
