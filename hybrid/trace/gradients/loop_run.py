"""The run of a derived loop: its operands, and the total cotangents from its results."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid import ops
from hybrid.autodiff.presence import (
    Ct,
    OptionalCt,
    added,
    chosen_ct,
    disjoined,
    flag,
    neutral,
    nothing,
    optional_ct,
)
from hybrid.autodiff.tape import Pull
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.ops.flow.control import applied, for_
from hybrid.ops.index.pick import pick
from hybrid.ops.support.derivatives import onto_zeros
from hybrid.trace.gradients.loop_body import DerivedLoop, Item
from hybrid.trace.gradients.region_vjp import places_of, tensors_of


@dataclass(frozen=True, slots=True)
class BackwardRun:
    """The operands of the loop back, as tensors."""

    derived: DerivedLoop
    start: tuple[Tensor, ...]  # what it carries at first
    stacks: tuple[Tensor, ...]
    row_cts: tuple[Tensor, ...]
    slices: tuple[Tensor, ...]
    invariants: tuple[Tensor, ...]  # operands and flags

    def go(self, count: Tensor, length: int, reverse: bool) -> list[Tensor]:
        """The final carried values of the loop back, and the cotangents of slices."""
        rows = (*self.stacks, *self.row_cts, *self.slices)
        return applied(
            for_,
            (count, *self.start, *rows, *self.invariants),
            (self.derived.backward,),
            carried=len(self.start),
            length=length,
            reverse=reverse,
            sliced=len(rows),
            apart=self.derived.apart,
            follows=self.derived.follows,
            begins=self.derived.begins,
        )


def backward_run(
    derived: DerivedLoop,
    pull: Pull,
    cts: Sequence[Ct | None],
    operands: Sequence[Tensor],
    outcome: Sequence[Tensor] | None,
    first: Tensor,
    count: Tensor,
    reverse: bool = False,
) -> BackwardRun:
    """The operands of the loop back over ``count`` iterations.

    ``outcome`` holds the results of the forward loop, residuals included, if it gave them;
    ``first`` is the index of its first iteration, and ``reverse`` how it went.
    """
    begin = [given(item, pull, cts, derived) for item in derived.items]
    for i, item in enumerate(derived.items):
        if item.into != i and begin[i] is not None:
            begin[item.into] = _sum(begin[item.into], begin[i])
            begin[i] = None
    row_cts = {i: neutral(cts[i]) for i in derived.row_cts}
    masks = {i: cts[i].present for i in derived.masks}
    for row, i in derived.shifted:
        if row in derived.wholes:
            begin[i] = _sum(begin[i], _last(cts[row], count))
            continue
        begin[i] = _sum(begin[i], row_cts[row][0 if reverse else -1])
        none = nothing(tensor_type(cts[row].type.dtype, cts[row].type.shape[1:]))
        row_cts[row] = _shifted(row_cts[row], none, reverse)
        if row in masks:
            masks[row] = _shifted(masks[row], flag(False), reverse)
    start = [
        nothing(item.type) if ct is None else neutral(ct)
        for item, ct in zip(derived.items, begin, strict=True)
    ]
    start += [
        begin[i].present if isinstance(begin[i], OptionalCt) else flag(begin[i] is not None)
        for i in derived.flags
    ]
    invariants = [operands[i] for i in derived.invariants]
    invariants += [cts[i].present for i in derived.row_flags]
    before = _arrived_rows(derived, pull, count, reverse)
    invariants += [before[i].present for i in derived.before_flags]
    bases = [pull.arrived[1 + i] for i in derived.bases]
    invariants += [t for ct in (*bases, *[cts[i] for i in derived.wholes]) for t in tensors_of(ct)]
    invariants += [pull.edges[i][2] for i in derived.edges]
    return BackwardRun(
        derived=derived,
        start=tuple(start),
        stacks=() if outcome is None else tuple([outcome[i] for i in derived.stacks]),
        row_cts=(*row_cts.values(), *masks.values(), *map(neutral, before.values())),
        slices=tuple([operands[i] for i in derived.slices]),
        invariants=(*invariants, first) if derived.asks_first else tuple(invariants),
    )


def given(item: Item, pull: Pull, cts: Sequence[Ct | None], derived: DerivedLoop) -> Ct | None:
    """The cotangent with which the carried ``item`` starts."""
    if item.of == "ct":
        return cts[item.at]
    if item.of == "late":
        return None
    arrived, count = (*pull.arrived[1:], *pull.further), len(pull.arrived) - 1
    return arrived[item.at if item.at < count else derived.absent[item.at - count]]


def _sum(a: Ct | None, b: Ct | None) -> Ct | None:
    return b if a is None else a if b is None else added(a, b)


def _arrived_rows(derived: DerivedLoop, pull: Pull, count: Tensor, reverse: bool) -> dict[int, Ct]:
    """What had arrived at slices; of rows that are one value it is with the one met first."""
    rows = {at: ct for at in derived.before if (ct := pull.arrived[1 + at]) is not None}
    for one, other in reversed(derived.late):
        if (ct := rows.get(other)) is None:
            continue
        stack, none = neutral(ct), nothing(tensor_type(ct.type.dtype, ct.type.shape[1:]))
        rows[one] = _sum(rows.get(one), _like(ct, _shifted(stack, none, reverse)))
        rows[other] = _like(ct, _alone(stack, 0 if reverse else count - 1, ct.type))
    return {at: rows[at] for at in derived.before}


def _alone(value: Tensor, at: Tensor | int, type: TensorType) -> Tensor:
    """A stack whose row ``at`` is ``value``, or that row of it, and the others neutral."""
    here = ops.equal(ops.arange(type.shape[0]), at)
    here = ops.reshape(here, (*here.shape, *[1] * (type.rank - 1)))
    return ops.where(here, value, nothing(tensor_type(type.dtype, ())))


def _like(ct: Ct, made: Tensor) -> Ct:
    """``made`` of ``ct``, present where that is."""
    return OptionalCt(made, ct.present, True) if isinstance(ct, OptionalCt) else made


def _shifted(stack: Tensor, none: Tensor, reverse: bool) -> Tensor:
    """Each row where that of the next iteration was; the first iteration gets ``none``."""
    row = ops.expand_dims(none, axis=0)
    return ops.concat([stack[1:], row] if reverse else [row, stack[:-1]], axis=0)


def _last(stack: Ct, count: Tensor) -> Ct:
    """The row of the last of ``count`` iterations, if there was any."""
    at, present = ops.maximum(count - 1, 0), ops.greater(count, 0)
    if isinstance(stack, OptionalCt):
        present = ops.logical_and(present, pick(stack.present, at))
    row = pick(neutral(stack), at)
    return OptionalCt(ops.where(present, row, nothing(row.type)), present, True)


def totals_of(
    derived: DerivedLoop,
    pull: Pull,
    cts: Sequence[Ct | None],
    operands: Sequence[Tensor],
    found: Sequence[Tensor],
    ran: Tensor | bool,
    first: Tensor,
) -> list[Ct | None]:
    """The total cotangent of each operand, from the results ``found`` of the loop back.

    ``ran`` tells whether it ran at all; ``first`` is the index of the forward loop's first
    iteration, which is the last one here.
    """
    places = (*places_of(operands, pull.flow[1:]), *derived.absent)
    totals: dict[int, Ct | None] = dict(enumerate((*pull.arrived[1:], *pull.further)))
    items = list(zip(derived.items, found, strict=False))
    flags = found[len(items) :]

    def settled(item: Item, ct: Tensor) -> Ct | None:
        if not item.optional or (item.made and ran is True):
            return ct
        if item.flag >= 0:
            return optional_ct(ct, flags[item.flag], True)
        before = given(item, pull, cts, derived)
        if before is None:
            return optional_ct(ct, ran, True)
        return before if ran is False else optional_ct(ct, disjoined(before.present, ran), True)

    for item, ct in items:
        if item.of == "sum":
            totals[places[item.at]] = settled(item, ct)
        elif item.of == "late" and (last := settled(item, ct)) is not None:
            stack = _alone(neutral(last), first, operands[item.at].type)
            totals[places[item.at]] = _like(last, stack)
    stacks = flags[len(derived.flags) :]
    marks = dict(zip(derived.marked, stacks[len(derived.sliced) :], strict=True))
    for at, stack in zip(derived.sliced, stacks, strict=False):
        ct = stack if at < derived.parts else onto_zeros(stack)  # as slices of a tensor are
        there = ops.any(marks[at]) if at in marks else ran
        before = None if at in derived.before else totals[places[at]]
        totals[places[at]] = _sum(before, optional_ct(ct, there, False))
    into = {item.into for i, (item, _) in enumerate(items) if item.into != i}
    for i, (item, ct) in enumerate(items):
        place = places[item.at]
        if item.of != "ct" or place < 0:
            continue
        before = totals[place]
        ct = settled(item, ct)
        if not (item.merged or item.based or item.into != i or i in into):
            totals[place] = _sum(before, ct)
            continue
        after = before if item.merged else ct if item.based else _sum(before, ct)
        totals[place] = chosen_ct(ran, after, _sum(before, given(item, pull, cts, derived)))
    count = len(operands)
    return [
        None,
        *[totals[at] if at == i else None for i, at in enumerate(places[:count])],
        *[totals[count + i] for i in range(len(pull.further))],
    ]
