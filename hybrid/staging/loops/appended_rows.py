"""Lists that a loop of unknown length appends to: rows, their number, and gaps between them.

The loop returns a row for each item that an iteration may append, and carries what else is wanted:
how many there are, which is the last, whether some iteration has appended nothing.  ::

    while x < 100:            %n, %x, ..., %rows = while ... {length=2**20} { ... }
        xs.append(x)   ==>    xs = [VarList of %n rows]
        x = x * 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from hybrid import ops
from hybrid.autodiff.presence import chosen
from hybrid.core.tree import Structure, flatten, unflatten
from hybrid.core.types import tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, Location
from hybrid.ir import Value
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.staging.loops.carry import Carry, Mismatch, Zeros
from hybrid.staging.loops.growth import appended, is_row, row_tensor
from hybrid.trace.places.place import same_items
from hybrid.trace.regions.merge import describe, is_number, kind_of, number_tensor, same_constant
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.varlist import MOST, Column, Gaps, VarList

COUNT, LAST, MISSED, GAP = "the length", "the last item", "a gap", "a gap before an item"


class AppendedRows:
    """The items that an iteration appends to a list, as rows; each may be optional."""

    def __init__(self, before: Sequence[Any], items: Sequence[Any], at: Location) -> None:
        self.before, self.items, self.at = before, items, at
        self.flags: list[Tensor | None] = []  # of each item: whether it is there, when traced
        self.columns: list[Any] = []  # per leaf the kind of its rows, or the object they share
        self.structure: Structure = None
        self.is_stacked: list[bool] = []
        self.parts: dict[str, Carry] = {}

    @property
    def carries(self) -> tuple[Carry, ...]:
        """The values that the loop carries for the list."""
        return tuple(self.parts.values())

    @property
    def has_gaps(self) -> bool:
        """Whether an iteration may append less than another."""
        return any(flag is not None for flag in self.flags)

    # In the body ------------------------------------------------------------------------------

    def settle(self, region: Region, parent: Tracer, parts: Mapping[str, Carry]) -> None:
        """The body is traced: compute the rows, and what is carried; ``parts`` are already."""
        with interpreting(region):
            trees = [self._tree(item, region) for item in self.items]
            found = [flatten(tree) for tree in trees]
            self.structure = found[0][1]
            if any(structure != self.structure for _, structure in found):
                self._refuse_mixture(trees)
            table = [leaves for leaves, _ in found]
            self._rows = [self._column(list(column), region) for column in zip(*table, strict=True)]
            self.parts = dict(parts)
            self._part(LAST, Zeros(trees[-1]), region, parent)
            if self.has_gaps:
                self._part(COUNT, 0, region, parent)
                self._part(MISSED, False, region, parent)
                self._part(GAP, False, region, parent)
            self._leave(trees, table, region)

    def _part(self, name: str, initial: Any, region: Region, parent: Tracer) -> None:
        if name not in self.parts:
            carry = self.parts[name] = Carry(label=f"{name} of a list", initial=initial)
            carry.enter(region, parent)

    def _tree(self, item: Any, region: Region) -> Any:
        """One item, there or not."""
        if type(item) is not VarList:
            self.flags.append(None)
            return item
        if item.capacity != 1 or item.gaps is not None:
            self._refuse_inner(item)
        self.flags.append(region.traced(ops.greater(item.count.tensor, 0)))
        leaves = [
            c.value(ops.reshape(c.stack, c.stack.shape[1:])) if isinstance(c, Column) else c
            for c in item.columns
        ]
        return unflatten(item.structure, leaves)

    def _column(self, leaves: list[Any], region: Region) -> Tensor | None:
        """The row of one leaf of all items; None for what they share."""
        rows = [is_row(leaf, region) for leaf in leaves]
        self.is_stacked.append(any(rows))
        if not any(rows):
            if any(x is not leaves[0] and not same_constant(x, leaves[0]) for x in leaves):
                self._refuse_mixture(leaves)
            self.columns.append(leaves[0])
            return None
        numbers = not isinstance(leaves[0], Tensor)
        kinds = {_kind(leaf) for leaf in leaves}
        if len(kinds) > 1 or None in kinds:
            self._refuse_mixture(leaves)
        tensors = [row_tensor(leaf, region) for leaf in leaves]
        if any(t.type is not tensors[0].type for t in tensors):
            self._refuse_mixture(leaves)
        self.columns.append(kind_of(leaves[0]) if numbers else "")
        return tensors[0] if len(tensors) == 1 else region.traced(ops.stack(tensors))

    def _leave(self, trees: list[Any], table: list[list[Any]], region: Region) -> None:
        """What the next iteration finds."""
        last = self.parts[LAST]
        leaves, _ = flatten(last.inside)
        count: Any = self.parts[COUNT].inside if COUNT in self.parts else 0
        missed, gap = (
            self.parts[name].inside.tensor if name in self.parts else None for name in (MISSED, GAP)
        )
        for flag, found in zip(self.flags, table, strict=True):
            if flag is None:
                leaves = found
                count = count + 1
                gap = missed if gap is None else ops.logical_or(gap, missed)
                continue
            leaves = [
                self._chosen(flag, new, old, region) for new, old in zip(found, leaves, strict=True)
            ]
            count = count + Number("bool", flag)
            gap = ops.logical_or(gap, ops.logical_and(missed, flag))
            missed = ops.logical_or(missed, ops.logical_not(flag))
        try:
            last.leave(unflatten(self.structure, leaves), region)
        except Mismatch:
            self._refuse_mixture([last.inside, trees[-1]])
        last.unchanged = False
        finals = {COUNT: count}
        if self.has_gaps:
            finals |= {MISSED: Number("bool", missed), GAP: Number("bool", gap)}
        for name, final in finals.items():
            if name in self.parts:
                self.parts[name].leave(final, region)

    def _chosen(self, flag: Tensor, new: Any, old: Any, region: Region) -> Any:
        if not is_row(new, region) and not is_row(old, region):
            return new
        kind = _kind(new)
        pair = [region.traced(t) for t in (row_tensor(new, region), row_tensor(old, region))]
        found = chosen(flag, *pair)
        return Number(kind, found) if kind else found

    def rows(self, region: Region) -> list[Tensor]:
        """The rows that an iteration returns."""
        found = [row for row in self._rows if row is not None]
        if self.has_gaps:
            with interpreting(region):
                flags = [
                    region.traced(number_tensor(True, "bool")) if flag is None else flag
                    for flag in self.flags
                ]
                found.append(flags[0] if len(flags) == 1 else region.traced(ops.stack(flags)))
        return found

    # After the loop ---------------------------------------------------------------------------

    def apply(
        self,
        parent: Tracer,
        stacks: Sequence[Tensor],
        trips: Tensor,
        after: Mapping[int, Any],
        fits: bool,
        is_full: bool = False,
    ) -> list[Any]:
        """The list with what the iterations, ``trips`` of them, have appended."""
        per = len(self.items)
        if per > 1:
            stacks = [ops.reshape(s, (s.shape[0] * per, *s.shape[2:])) for s in stacks]
        rest = iter(stacks)
        columns = tuple(
            [
                Column(next(rest), column) if stacked else column
                for column, stacked in zip(self.columns, self.is_stacked, strict=True)
            ]
        )
        carried = {name: after[id(carry)] for name, carry in self.parts.items()}
        rows = trips if per == 1 else ops.multiply(trips, per)
        count, gaps = rows, None
        if self.has_gaps:
            count = carried[COUNT].tensor
            gaps = Gaps(carried[GAP].tensor, next(rest), rows)
        last = [
            getattr(leaf, "tensor", leaf) if stacked else None
            for leaf, stacked in zip(flatten(carried[LAST])[0], self.is_stacked, strict=True)
        ]
        varlist = VarList(
            count=Number("int", count, 0, MOST),
            columns=columns,
            structure=self.structure,
            capacity=stacks[0].shape[0] if stacks else 0,
            at=self.at,
            owner=parent,
            last=tuple(last),
            gaps=gaps,
            fits=fits,
            is_full=is_full and gaps is None and bool(stacks),
        )
        return [*self.before, varlist]

    # What it cannot do ------------------------------------------------------------------------

    def _refuse_mixture(self, items: Sequence[Any]) -> NoReturn:
        first = items[0]
        other = next((x for x in items if describe(x) != describe(first)), items[-1])
        raise CaptureError(
            f"a loop appends {describe(first)} and {describe(other)} to one list",
            at=self.at,
            why="How many iterations there are depends on the value of a tensor, so the items "
            "become rows of tensors, all of one type and structure.",
            fix="append one tuple in each iteration, or use a list for each kind of item",
        )

    def _refuse_inner(self, item: VarList) -> NoReturn:
        raise CaptureError(
            "a loop inside a loop appends to a list, and both make as many iterations as tensors "
            "tell them to",
            at=item.at,
            why="Each iteration of the outer loop would append another number of items.",
            fix="append to a list of the inner loop's own and join or sum that up, or write the "
            "items into a tensor of fixed size (rows[i] = value) and count them",
        )


def _kind(leaf: Any) -> str | None:
    """Of a number its kind, of a tensor nothing; None for any other value."""
    if isinstance(leaf, Tensor):
        return ""
    return kind_of(leaf) if is_number(leaf) else None


def refuse_resize(label: str, at: Location) -> NoReturn:
    """Raise CaptureError: an iteration changes a list's length other than by append."""
    raise CaptureError(
        f"{label} changes its length in a loop, and not by append alone",
        at=at,
        why="How many iterations there are depends on the value of a tensor, so all its length "
        "can do is grow at the end.",
        fix="append only, and change the list after the loop; or let it keep its length "
        "(xs.append(v) and xs.pop(0))",
    )


def refuse_length(before: Any, after: Any, label: str, at: Location) -> None:
    """Raise CaptureError if an iteration has changed the length of a list."""
    if isinstance(before, list) and isinstance(after, list) and len(before) != len(after):
        refuse_resize(label, at)


class Inside:
    """A list inside the loop that appends to it: only its length and last item are known."""

    def __init__(self, item: Any, at: Location) -> None:
        self.sample, self.at = _sample(item), at

    def enter(self, before: Sequence[Any], region: Region, parent: Tracer) -> list[Any]:
        """The content of the list in the body: also the items of the iterations before."""
        count, last = (
            Carry(label=f"{COUNT} of a list", initial=0),
            Carry(label=f"{LAST} of a list", initial=Zeros(self.sample)),
        )
        number = count.enter(region, parent)
        leaves, structure = flatten(last.enter(region, parent))
        columns, tensors = [], []
        for leaf in leaves:
            is_value = isinstance(leaf, (Tensor, Number))
            tensors.append(getattr(leaf, "tensor", leaf) if is_value else None)
            columns.append(Column(tensors[-1], _kind(leaf)) if is_value else leaf)
        varlist = VarList(
            count=Number("int", number.tensor, 0, MOST),
            columns=tuple(columns),
            structure=structure,
            capacity=0,
            at=self.at,
            owner=region,
            last=tuple(tensors),
            gaps=None,
            fits=True,
            readable=False,
        )
        self.parts = {COUNT: count, LAST: last}
        self.before, self.content = before, [*before, varlist]
        return list(self.content)

    def leave(self, final: Any, region: Region, parent: Tracer) -> AppendedRows | None:
        """The rows that the body has appended; None if there are none."""
        items = appended(self.content, final)
        if items is None:
            if same_items(self.content, final):
                return None
            refuse_resize("a list", self.at)
        appended_rows = AppendedRows(self.before, items, self.at)
        appended_rows.settle(region, parent, self.parts)
        return appended_rows


def _sample(item: Any) -> Any:
    """A tree of the structure of an item."""
    if type(item) is not VarList:
        return item
    leaves = []
    for column in item.columns:
        if isinstance(column, Column):
            stack = column.stack.type
            row = tensor_type(stack.dtype, stack.shape[1:])
            column = column.value(make_tensor(row, Value(row)))
        leaves.append(column)
    return unflatten(item.structure, leaves)
