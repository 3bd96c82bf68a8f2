"""VarLists: items of a list whose number only a run knows, as rows of stacked tensors.

A loop of unknown length appends to ``[a]``; after it the list is ``[a, VarList]``.  A list may hold
several of them, with other items before, between and behind: it is copied, joined and appended to
as any list is, while ``len``, subscripts and loops ask each VarList how many items it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.dataclass import dataclass, replace
from hybrid.core.open_numbers import is_same
from hybrid.core.tree import Structure, unflatten
from hybrid.core.types import tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location, PathError, author_location
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number, check
from hybrid.ops.flow.control import FLAG, applied, while_
from hybrid.ops.index.items import item_at
from hybrid.ops.index.pick import pick
from hybrid.trace.places.place import UnknownLengthItems

MOST = 2**53  # items: so many iterations are never made


class LostItems(CaptureError):
    """The exception for a list whose new items an exception in a loop would lose."""


@dataclass(frozen=True, slots=True)
class Column:
    """The stacked tensors of one leaf of every item: row i is of item i."""

    stack: Tensor
    kind: str = ""  # of a number

    def value(self, tensor: Tensor) -> Any:
        """The item for one row: a tensor, or a Number of the column's kind."""
        return Number(self.kind, tensor) if self.kind else tensor


@dataclass(frozen=True, slots=True)
class Gaps:
    """The rows that are no items: iterations that have appended nothing."""

    exist: Tensor  # whether there is one before an item
    filled: Tensor  # of each row, whether it is an item
    rows: Tensor  # how many there are in all


@dataclass(eq=False, slots=True)
class VarList(UnknownLengthItems):
    """A run of ``count`` items of one structure inside a Python list."""

    count: Number
    columns: tuple[Any, ...]  # per leaf a Column, or the object that all items share
    structure: Structure
    capacity: int  # rows that the stacks have
    at: Location | None  # where the author lets it grow
    owner: Any  # the tracer whose values these are
    last: tuple[Tensor | None, ...] = ()  # per column that of the last item, if it is at hand
    gaps: Gaps | None = None
    fits: bool = False  # whether there are surely no more items than rows
    is_full: bool = False  # whether each row is an item: as many as there are, for each size
    readable: bool = True  # whether items but the last can be had already
    order: Tensor | None = None  # the rows that are items, where there are gaps

    def __post_init__(self) -> None:
        self.owner.indefinite_values.append(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        refuse("compared", self.at)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return current().text_of(self, "r") if current().traces else "<items of a list>"

    @property
    def type(self) -> str:
        """The type as a mark in a text calls it."""
        return "items"

    # Its tensors ------------------------------------------------------------------------------

    def tensors(self) -> list[Tensor]:
        """All tensors that it consists of."""
        gaps = () if self.gaps is None else (self.gaps.exist, self.gaps.filled, self.gaps.rows)
        stacks = [c.stack for c in self.columns if isinstance(c, Column)]
        return [self.count.tensor, *stacks, *[t for t in self.last if t is not None], *gaps]

    def with_tensors(self, tensors: Sequence[Tensor], owner: Any) -> VarList:
        """A VarList like this one of other tensors, which ``owner`` owns."""
        rest = iter(tensors)
        count = Number("int", next(rest), 0, self.count.high)
        columns = tuple(
            [replace(c, stack=next(rest)) if isinstance(c, Column) else c for c in self.columns]
        )
        last = tuple([None if t is None else next(rest) for t in self.last])
        gaps = None if self.gaps is None else Gaps(next(rest), next(rest), next(rest))
        return replace(
            self, count=count, columns=columns, last=last, gaps=gaps, owner=owner, order=None
        )

    def is_like(self, other: VarList) -> bool:
        """Whether the two differ in nothing but their tensors."""
        return (
            self.structure == other.structure
            and is_same(self.capacity, other.capacity)
            and self.is_full is other.is_full
            and [t.type for t in self.tensors()] == [t.type for t in other.tensors()]
            and all(
                (type(x) is Column and type(y) is Column and x.kind == y.kind) or x is y
                for x, y in zip(self.columns, other.columns, strict=True)
            )
        )

    # Items ------------------------------------------------------------------------------------

    def item(self, index: Tensor) -> Any:
        """The item at ``index``, an int64 scalar that is in range."""
        self.require_readable()
        self.limit()
        at = self._row(index)
        return self.built([item_at(c.stack, at) if isinstance(c, Column) else None
                           for c in self.columns])  # fmt: skip

    def last_item(self) -> Any:
        """The last item, of which there must be one."""
        if all(t is not None for t in self.last) and self.last:
            return self.built(list(self.last))
        return self.item((self.count - 1).tensor)

    def built(self, tensors: Sequence[Tensor | None]) -> Any:
        """An item, given the tensor of each column."""
        if _has_container(self.structure):
            raise CaptureError(
                "an item of a list that has grown in a loop is looked at, and it is a list or dict",
                at=author_location(),
                why=f"What the list {of_place(self.at)} holds are rows of tensors. Each look makes "
                "the item anew, and a change to that would be lost.",
                fix="append tuples",
            )
        leaves = []
        for column, tensor in zip(self.columns, tensors, strict=True):
            if isinstance(column, Column):
                protect(tensor)
                column = column.value(tensor)
            leaves.append(column)
        return unflatten(self.structure, leaves)

    def require_readable(self) -> None:
        """Raise where an item but the last is asked for in the loop that appends them."""
        if not self.readable:
            raise CaptureError(
                "an item of a list is looked at in the loop that appends to it",
                at=author_location(),
                why="How many iterations there are depends on the value of a tensor, so the list "
                "is only put together after the loop. In the loop its length is known, and its "
                "last item (xs[-1]).",
                fix="write the items into a tensor of fixed size (rows[i] = value) and read that, "
                "or keep what the next iterations need in variables",
            )

    def require_whole(self) -> None:
        """Raise where an exception, in the loop that appends the items, would have to keep them."""
        if not self.readable:
            raise LostItems(
                "a list that outlives the call grows in a loop, and something in the loop may "
                "raise an exception",
                at=author_location(),
                why=f"The list {of_place(self.at)} is put together after the loop; an exception in "
                "the loop would lose what is appended.",
                fix="append to a list of the function's own and keep that after the loop, or check "
                "after the loop",
            )

    def limit(self) -> None:
        """Stage the check that the stacks hold all items."""
        if self.fits or not any(isinstance(c, Column) for c in self.columns):
            return
        rows = self.count.tensor if self.gaps is None else self.gaps.rows
        require_room(rows, self.capacity, self.at)
        self.fits = current() is self.owner

    def row_order(self) -> Tensor | None:
        """The rows that are items, in their order; None where each of the first is one."""
        if self.gaps is None:
            return None
        self._put_in_order()
        return ops.where(self.gaps.exist, self.order, ops.arange(self.order.shape[0]))

    def _row(self, index: Tensor) -> Tensor:
        if self.gaps is None:
            return index
        self._put_in_order()
        return ops.where(self.gaps.exist, pick(self.order, index), index)

    def _put_in_order(self) -> None:
        if self.order is None:
            with interpreting(self.owner):
                self.order = self._order()

    def _order(self) -> Tensor:
        """A stack of the rows that are items; unspecified where there are no gaps."""
        whole = self.gaps.rows.type
        types = [whole, self.gaps.filled.type, whole]

        def is_gap(row: Tensor, filled: Tensor, rows: Tensor) -> Tensor:
            flag = pick(filled, ops.minimum(row, self.capacity - 1))
            return ops.logical_and(ops.less(row, rows), ops.logical_not(flag))

        def step(row: Tensor, filled: Tensor, rows: Tensor) -> Sequence[Tensor]:
            return is_gap(row + 1, filled, rows), row + 1

        skip = self.owner.closed("body", types, step)

        def following(row: Tensor, filled: Tensor, rows: Tensor) -> Tensor:
            go = is_gap(row, filled, rows)
            return applied(while_, (go, row, filled, rows), (skip,), carried=1, length=0)[1]

        def item(row: Tensor, filled: Tensor, rows: Tensor) -> Sequence[Tensor]:
            after = following(row + 1, filled, rows)
            return ops.less(after, rows), after, row

        body = current().closed("body", types, item)
        exist, filled, rows = self.gaps.exist, self.gaps.filled, self.gaps.rows
        first = following(ops.full((), 0, dtype=whole.dtype), filled, rows)
        go = ops.logical_and(exist, ops.less(first, rows))
        operands = (go, first, filled, rows)
        return applied(while_, operands, (body,), carried=1, length=self.capacity)[2]


def _has_container(structure: Structure) -> bool:
    if not isinstance(structure, tuple):
        return False
    kind, items = structure
    if kind is list or issubclass(kind, dict):
        return True
    return any(map(_has_container, items))


def require_room(rows: Tensor, capacity: int, at: Location | None) -> None:
    """Stage a check that no more than ``capacity`` rows are needed."""
    check(ops.less_equal(rows, capacity), partial(_too_long, capacity, at), (), ())


def _too_long(capacity: int, at: Location | None) -> NoReturn:
    raise CaptureError(
        f"a list grew beyond {capacity} items",
        at=at,
        why="How many iterations this loop makes depends on the value of a tensor. What such a "
        "loop appends goes to memory that is set aside before it begins.",
        fix="raise hybrid.config.RESIDUAL_NBYTES, of which lists may take a quarter, before the "
        "first call; or write the items into a tensor of fixed size (rows[i] = value)",
    )


def of_place(at: Location | None) -> str:
    """``that grows at FILE:LINE``."""
    return "that has grown" if at is None else f"that grows at {at}"


# What has been handed out -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowCopy:
    """A tensor given to the author for a row; a write to it would be lost."""

    tensor: Tensor
    value: Any
    at: Location | None


def protect(tensor: Tensor) -> None:
    """Register ``tensor``, an item, as one that must not be written to."""
    current().indefinite_values.append(RowCopy(tensor, tensor.content, author_location()))


def refuse_written(indefinite_values: Sequence[Any]) -> None:
    """Raise CaptureError if a row copy has been written to."""
    for entry in indefinite_values:
        if isinstance(entry, RowCopy) and entry.tensor.content is not entry.value:
            raise CaptureError(
                "an item of a list that has grown in a loop is changed in place",
                at=entry.at,
                why="The items are rows of one tensor, and the one looked at here is a copy.",
                fix="compute a new tensor from the item (y = y + 1), and collect those",
            )


@dataclass(frozen=True, slots=True)
class OptionalResult:
    """A traced value in whose place a Python object is returned where ``flag`` is false."""

    value: Any
    flag: Tensor
    other: Any


def optional_result(indefinite_values: Sequence[Any], tensor: Tensor) -> OptionalResult | None:
    """The OptionalResult of ``tensor``, if there is one."""
    for entry in indefinite_values:
        if isinstance(entry, OptionalResult) and entry.value is tensor.content:
            return entry
    return None


# Lists that hold it -----------------------------------------------------------------------------


def holds_varlist(value: Any) -> bool:
    """Whether ``value`` is a list or tuple with a VarList in it."""
    return type(value) in (list, tuple) and any(type(item) is VarList for item in value)


def refuse(how: str, at: Location | None) -> NoReturn:
    """Raise CaptureError: an operation needs the length of a list that only a run knows."""
    raise refusal(how, at)


def refusal(how: str, at: Location | None, kind: type[CaptureError] = CaptureError) -> Any:
    """The error of an operation that needs the length of a list that only a run knows."""
    return kind(
        f"a list is {how}, and its length is known only when the plan runs",
        at=author_location(),
        why="How many items it has depends on the value of a tensor"
        + (" where it grows." if at is None else f" where it grows ({at})."),
        fix="go over it with a for loop, take len(xs), xs[i] or xs[-1], or return it; or write the "
        "items into a tensor of fixed size (rows[i] = value) and count them",
    )


def refuse_varlist(value: Any, how: str) -> None:
    """Raise CaptureError if ``value`` is a list of unknown length."""
    if holds_varlist(value):
        refuse(how, next(item.at for item in value if type(item) is VarList))


def require_known_length(value: Any, how: str) -> None:
    """Have each length of a list captured by itself, for an operation that needs to know it."""
    if holds_varlist(value):
        at = next(item.at for item in value if type(item) is VarList)
        error = refusal(how, at, PathError)
        error.made_at = at
        raise error


# Stacks of nothing ------------------------------------------------------------------------------


def unwritten(tensor: Tensor) -> Tensor:
    """A tensor of the type of ``tensor`` with unspecified content."""
    type = tensor.type
    if type.nbytes <= _SMALL:
        return ops.zeros(type.shape, dtype=type.dtype)
    row = tensor_type(type.dtype, type.shape[1:])

    def empty(go: Tensor) -> Sequence[Tensor]:
        return go, go, ops.zeros(row.shape, dtype=row.dtype)

    # Rows that no iteration writes cost nothing, zeros would.
    never = ops.less(ops.full((), 1, dtype="int64"), 0)
    body = current().closed("body", [FLAG], empty)
    return applied(while_, (never, never), (body,), carried=1, length=type.shape[0])[2]


_SMALL = 1 << 16  # bytes that may as well be written


def varlists_in(items: Sequence[Any]) -> Iterator[VarList]:
    """The VarLists among ``items``."""
    return (item for item in items if type(item) is VarList)
