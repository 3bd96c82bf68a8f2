"""Accumulation of cotangents of the items of a list that a loop has stacked.

A term is one of a single item, or of all of them (of the stack that they make up); of each item
they are added up in the order of their arrival.
"""

from __future__ import annotations

from hybrid import ops
from hybrid.autodiff.presence import (
    Ct,
    OptionalCt,
    added,
    disjoined,
    flag,
    marked,
    neutral,
    nothing,
)
from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import TensorType, tensor_type
from hybrid.eager.batched_value import is_known
from hybrid.eager.tensor import Tensor
from hybrid.ops.index.indexing import add_slices
from hybrid.ops.index.pick import pick, place

At = int | Tensor  # an item
MOST_ROWS = 64  # a term, for which a list is put together item by item


@dataclass(frozen=True, slots=True)
class ItemTerm:
    """One addition to the cotangent of an item, or of all items (None)."""

    turn: float
    ct: Ct
    at: At | None


@dataclass(slots=True)
class RowTerms:
    """The terms of a list, whose items are the rows of a stack of this ``type``."""

    type: TensorType
    terms: list[ItemTerm] = field(default_factory=list)
    since: dict[int, float] = field(default_factory=dict)  # the turn from which terms of it count

    @property
    def row(self) -> TensorType:
        return tensor_type(self.type.dtype, self.type.shape[1:])

    def add(self, turn: float, ct: Ct, at: At | None = None) -> None:
        """Add ``ct`` as a term of one item, or of all (None)."""
        if isinstance(at, Tensor) and is_known(at):
            at = int(at.item())
        self.terms.append(ItemTerm(turn, ct, at))

    def insert(self, turn: float, ct: Ct, at: At) -> None:
        """``ct`` has arrived at another name of an item."""
        self.add(turn, ct, at)
        self.terms.sort(key=lambda term: term.turn)

    def of(self, at: At) -> list[tuple[float, Ct]]:
        """The terms of one item, with their turns."""
        found = []
        for term in self.terms:
            if isinstance(at, int) and term.turn < self.since.get(at, -1):
                continue
            ct = self._part(term, at)
            if ct is not None:
                found.append((term.turn, ct))
        return found

    def _part(self, term: ItemTerm, at: At) -> Ct | None:
        if term.at is None:
            whole = self.masked(term) if isinstance(at, Tensor) else term.ct
            if not isinstance(whole, OptionalCt):
                return _row(whole, at)
            each = whole.present.type.rank
            present = _row(whole.present, at) if each else whole.present
            return OptionalCt(_row(whole.ct, at), present, whole.neutral)
        if isinstance(at, int) and isinstance(term.at, int):
            return term.ct if at == term.at else None
        if isinstance(term.at, int) and term.turn < self.since.get(term.at, -1):
            return None
        return marked(term.ct, ops.equal(at, term.at))

    def total(self, at: At) -> Ct | None:
        """The sum of all terms of one item."""
        found: Ct | None = None
        for _, ct in self.of(at):
            found = ct if found is None else added(found, ct)
        return found

    def put(
        self, turn: float, at: At | None, total: Ct | None, there: Tensor | None = None
    ) -> None:
        """``total`` holds all that has arrived at an item, or at the list; None: nothing.

        Where ``there`` does not hold, the item keeps what it has.
        """
        if at is None:
            self.terms, self.since = [], {}
        elif isinstance(at, int) and not any(isinstance(t.at, Tensor) for t in self.terms):
            self.since[at] = turn
        else:
            index = _scalar(at) if isinstance(at, int) else at
            found = self.whole()
            self.terms, self.since = [], {}
            if found is not None:
                row, gone = nothing(self.row), flag(False)
                if there is not None:
                    row = ops.where(there, row, pick(neutral(found), index))
                ct = place(neutral(found), index, row, axis=0)
                if isinstance(found, OptionalCt):
                    if there is not None:
                        gone = ops.where(there, gone, pick(found.present, index))
                    present = place(found.present, index, gone, axis=0)
                    self.terms.append(ItemTerm(turn, OptionalCt(ct, present, True), None))
                else:
                    self.terms.append(ItemTerm(turn, ct, None))
        if total is not None:
            self.terms.append(ItemTerm(turn, total, at))

    def take(self, other: RowTerms, *, shifted: bool) -> None:
        """The terms of another list of these items; if ``shifted``, of item i + 1 there for i here.

        What item 0 there has got goes elsewhere then.
        """
        for term in other.terms:
            at, ct = term.at, term.ct
            if isinstance(at, int) and term.turn < other.since.get(at, -1):
                continue
            if at is None:
                ct = other.masked(term)
            if shifted and at is not None:
                at = at - 1
                if isinstance(at, int) and at < 0:
                    continue
                ct = ct if isinstance(at, int) else marked(ct, ops.greater_equal(at, 0))
                at = at if isinstance(at, int) else ops.maximum(at, 0)
            elif shifted:
                ct = _shifted(ct, self.row)
            self.terms.append(ItemTerm(term.turn, ct, at))
        self.terms.sort(key=lambda term: term.turn)

    # All of them --------------------------------------------------------------------------------

    def whole(self) -> Ct | None:
        """The cotangent of the stack; where only some items have one, with a flag for each."""
        terms = [
            t for t in self.terms if not isinstance(t.at, int) or t.turn >= self.since.get(t.at, -1)
        ]
        if not terms:
            return None
        count = self.type.shape[0]
        if all(isinstance(t.at, int) for t in terms) and count <= MOST_ROWS * len(terms):
            return self._of_items()
        total: Tensor | None = None
        sure = any(t.at is None and isinstance(t.ct, Tensor) for t in terms)
        present: Tensor | None = None
        for term in terms:
            if term.at is None:
                ct = neutral(self.masked(term))
                total = ct if total is None else total + ct
            else:
                before = nothing(self.type) if total is None else total
                row = ops.expand_dims(neutral(term.ct), axis=0)
                total = add_slices(before, _index(term.at), row, axis=0)
            if not sure:
                here = term.ct.present if isinstance(term.ct, OptionalCt) else flag(True)
                if term.at is not None:
                    start = ops.full((count,), False, dtype="bool") if present is None else present
                    at = ops.reshape(_index(term.at), ())
                    old = pick(start, at, axis=0)
                    present = place(start, at, disjoined(old, here), axis=0)
                else:
                    here = here if here.type.rank else ops.broadcast_to(here, (count,))
                    present = here if present is None else disjoined(present, here)
        return total if sure else OptionalCt(total, present, True)

    def _of_items(self) -> Ct | None:
        count = self.type.shape[0]
        found = [self.total(at) for at in range(count)]
        if all(ct is None for ct in found):
            return None
        rows = [nothing(self.row) if ct is None else neutral(ct) for ct in found]
        total = ops.stack(rows)
        if all(isinstance(ct, Tensor) for ct in found):
            return total
        flags = [ct.present if isinstance(ct, OptionalCt) else flag(ct is not None) for ct in found]
        return OptionalCt(total, ops.stack(flags), True)

    def masked(self, term: ItemTerm) -> Ct:
        """A term of all items, without those that it does not count for."""
        gone = [at for at, turn in self.since.items() if term.turn < turn]
        if not gone:
            return term.ct
        ct = neutral(term.ct)
        for at in gone:
            ct = place(ct, _scalar(at), nothing(self.row), axis=0)
        return OptionalCt(ct, term.ct.present, True) if isinstance(term.ct, OptionalCt) else ct


def _shifted(ct: Ct, row: TensorType) -> Ct:
    """A cotangent of all items for those that come one before."""
    end = ops.expand_dims(nothing(row), axis=0)
    shifted = ops.concat([neutral(ct)[1:], end], axis=0)
    if not isinstance(ct, OptionalCt):
        return shifted
    present = ct.present
    if present.type.rank:
        present = ops.concat([present[1:], ops.full((1,), False, dtype="bool")], axis=0)
    return OptionalCt(shifted, present, True)


def _row(stack: Tensor, at: At) -> Tensor:
    return stack[at] if isinstance(at, int) else pick(stack, at, axis=0)


def _scalar(at: int) -> Tensor:
    return ops.full((), at, dtype="int64")


def _index(at: At) -> Tensor:
    return ops.reshape(_scalar(at) if isinstance(at, int) else at, (1,))
