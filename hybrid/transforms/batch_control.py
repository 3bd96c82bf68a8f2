"""Batching rules of control flow: rows that go different ways go them together.

A ``cond`` whose predicate differs from row to row runs both regions and selects; a ``while`` goes
on until all rows are done, and a ``for`` for the longest of its counts: rows that are done keep
what they have.  A row that is not on its way through a region stands there for one that is: with
values that the region is meant for, nothing raises, loops end, and slopes are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.core.types import int64, tensor_type, uint8
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Value
from hybrid.ops.flow.control import cond, for_, while_
from hybrid.ops.index.pick import pick
from hybrid.ops.support.batching import raised, with_rows
from hybrid.trace.regions.build import remembered
from hybrid.trace.regions.tracer import region_of
from hybrid.transforms.batch import (
    Flags,
    all_rows,
    applied,
    batched_region,
    replay_batched,
    row_type,
)


def _is_pure(*regions: Graph) -> bool:
    return all(node.pure for region in regions for node in region.nodes)


def _chosen(go: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` in the rows where ``go`` holds, else ``b``."""
    return ops.where(raised(go, len(a.shape) - 1), a, b)


def _standing_in(go: Tensor, values: Sequence[Tensor], batched: Sequence[bool]) -> list[Tensor]:
    """``values``, with those of a row where ``go`` holds in the rows where it does not."""
    first = ops.argmax(ops.astype(go, uint8))
    return [
        _chosen(go, t, ops.stop_gradient(pick(t, first, axis=0))) if b else t
        for t, b in zip(values, batched, strict=True)
    ]


# cond -------------------------------------------------------------------------------------------


@cond.batch
def cond_batch(
    rows: int,
    batched: Flags,
    pred: Tensor,
    *operands: Tensor,
    regions: tuple[Graph, Graph],
) -> Any:
    """Both regions, if the predicate differs from row to row."""
    flags = batched[1:]
    if not batched[0]:
        found = [batched_region(region, flags, rows)[1] for region in regions]
        wanted = tuple([a or b for a, b in zip(*found, strict=True)])
        sides = tuple([batched_region(region, flags, rows, wanted)[0] for region in regions])
        return applied(cond, (pred, *operands), {}, sides), wanted
    if not _is_pure(*regions):
        return NotImplemented
    first = _side(regions[0], pred, operands, flags, rows)
    second = _side(regions[1], ops.logical_not(pred), operands, flags, rows)
    chosen = [_chosen(pred, a, b) for a, b in zip(first, second, strict=True)]
    return chosen, (True,) * len(chosen)


def _side(
    region: Graph, go: Tensor, operands: Sequence[Tensor], batched: Flags, rows: int
) -> Sequence[Tensor]:
    """The results of one region, which are of use where ``go`` holds: zeros if it does nowhere."""
    types = [t.type for t in (go, *operands)]

    def some(go: Tensor, *given: Tensor) -> list[Tensor]:
        found, flags = replay_batched(region, _standing_in(go, given, batched), batched, rows)
        return [with_rows(t, rows, b) for t, b in zip(found, flags, strict=True)]

    def none(_go: Tensor, *_given: Tensor) -> list[Tensor]:
        made = [all_rows(v.type, rows) for v in region.results]
        return [ops.zeros(t.shape, dtype=t.dtype) for t in made]

    sides = remembered(
        (region,),
        ("some rows", batched, rows),
        lambda: (region_of("then", types, some), region_of("else", types, none)),
    )
    return applied(cond, (ops.any(go), go, *operands), {}, sides)


# Loops ------------------------------------------------------------------------------------------


def _carried_flags(
    body: Graph,
    before: Flags,
    carried: Flags,
    behind: Flags,
    skip: int,
    rows: int,
    apart: bool,
) -> Flags:
    """Which carried values are batched, in the end; ``skip`` results of the body come first.

    If rows stop ``apart`` from each other, all that an iteration changes are.
    """
    at = len(before)
    if apart:
        changed = [body.results[skip + i] is not body.params[at + i] for i in range(len(carried))]
        carried = tuple([b or c for b, c in zip(carried, changed, strict=True)])
    while True:
        found = batched_region(body, (*before, *carried, *behind), rows)[1]
        new = found[skip : skip + len(carried)]
        grown = tuple([a or b for a, b in zip(carried, new, strict=True)])
        if grown == carried:
            return carried
        carried = grown


def _stacks_of(results: Sequence[Tensor], batched: Sequence[bool] | None = None) -> list[Tensor]:
    """Stacks of iterations, those of batched values with the rows before the iterations."""
    flags = [True] * len(results) if batched is None else batched
    return [ops.moveaxis(t, 1, 0) if b else t for t, b in zip(results, flags, strict=True)]


def _spread(values: Sequence[Tensor], now: Flags, wanted: Flags, rows: int) -> list[Tensor]:
    return [with_rows(t, rows, b) if w else t for t, b, w in zip(values, now, wanted, strict=True)]


@while_.batch
def while_batch(
    rows: int,
    batched: Flags,
    go: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    regions: tuple[Graph],
) -> Any:
    """Until all rows are done, if they are done at different times."""
    body = regions[0]
    invariant = batched[1 + carried :]
    flags = _carried_flags(body, (), batched[1 : 1 + carried], invariant, 1, rows, False)
    apart = batched[0] or batched_region(body, (*flags, *invariant), rows)[1][0]
    if not apart:
        start = _spread(operands[:carried], batched[1 : 1 + carried], flags, rows)
        _, found = batched_region(body, (*flags, *invariant), rows)
        wanted = (False, *flags, *found[1 + carried :])
        region, _ = batched_region(body, (*flags, *invariant), rows, wanted)
        loop = {"carried": carried, "length": length}
        results = applied(while_, (go, *start, *operands[carried:]), loop, (region,))
        stacks = _stacks_of(results[1 + carried :], wanted[1 + carried :])
        return [*results[: 1 + carried], *stacks], wanted
    if not _is_pure(body):
        return NotImplemented
    flags = _carried_flags(body, (), flags, invariant, 1, rows, True)
    start = _spread(operands[:carried], batched[1 : 1 + carried], flags, rows)
    go = with_rows(go, rows, batched[0])
    trips = ops.zeros((rows,), dtype=int64)

    def step(go: Tensor, trips: Tensor, *given: Tensor) -> list[Tensor]:
        every = (*flags, *invariant)
        found, made = replay_batched(body, _standing_in(go, given, every), every, rows)
        further = ops.logical_and(go, with_rows(found[0], rows, made[0]))
        kept = _kept(go, given[:carried], found[1 : 1 + carried], made[1 : 1 + carried], flags)
        stacked = _shown(go, found[1 + carried :], made[1 + carried :])
        return [ops.any(further), further, trips + ops.astype(go, int64), *kept, *stacked]

    given = (go, trips, *start, *operands[carried:])
    region = _region(body, "while", (flags, invariant, rows), given, step)
    loop = {"carried": 2 + carried, "length": length}
    results = applied(while_, (ops.any(go), *given), loop, (region,))
    stacks = _stacks_of(results[3 + carried :])
    wanted = (True, *flags, *[True] * len(stacks))
    return [results[2], *results[3 : 3 + carried], *stacks], wanted


def _region(
    body: Graph,
    name: str,
    key: tuple[Any, ...],
    given: Sequence[Tensor],
    step: Callable[..., list[Tensor]],
) -> Graph:
    types = [t.type for t in given]
    return remembered((body,), (f"rows of {name}", *key), lambda: region_of("body", types, step))


def _kept(
    go: Tensor,
    old: Sequence[Tensor],
    new: Sequence[Tensor],
    batched: Sequence[bool],
    flags: Sequence[bool],
) -> list[Tensor]:
    """What rows carry on: those that are done, what they had."""
    rows = go.shape[0]
    return [
        _chosen(go, with_rows(b, rows, is_batched), a) if flag else b
        for a, b, is_batched, flag in zip(old, new, batched, flags, strict=True)
    ]


def _shown(go: Tensor, found: Sequence[Tensor], batched: Sequence[bool]) -> list[Tensor]:
    """What rows stack: nothing that counts once they are done."""
    rows = go.shape[0]
    wide = [with_rows(t, rows, b) for t, b in zip(found, batched, strict=True)]
    return [_chosen(go, t, ops.zeros_like(t)) for t in wide]


@for_.batch
def for_batch(
    rows: int,
    batched: Flags,
    count: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    reverse: bool,
    sliced: int,
    overruns: bool,
    regions: tuple[Graph],
    **facts: Any,
) -> Any:
    """As often as the row of the largest count asks."""
    body, apart = regions[0], batched[0]
    if apart and not _is_pure(body):
        return NotImplemented
    slices = operands[carried : carried + sliced]
    behind = batched[1 + carried :]
    moved = [ops.moveaxis(t, 0, 1) if b else t for t, b in zip(slices, behind, strict=False)]
    flags = _carried_flags(body, (False,), batched[1 : 1 + carried], behind, 0, rows, apart)
    start = _spread(operands[:carried], batched[1 : 1 + carried], flags, rows)
    every = (False, *flags, *behind)
    found = batched_region(body, every, rows)[1]
    loop = {"carried": carried, "length": length, "reverse": reverse, "sliced": sliced}
    loop |= {"overruns": overruns, **facts}
    rest = (*moved, *operands[carried + sliced :])
    if not apart:
        wanted = (*flags, *found[carried:])
        region, _ = batched_region(body, every, rows, wanted)
        results = applied(for_, (count, *start, *rest), loop, (region,))
        return [*results[:carried], *_stacks_of(results[carried:], wanted[carried:])], wanted
    if (sliced or len(found) > carried) and not overruns:
        count = ops.minimum(count, length)

    def step(index: Tensor, *given: Tensor) -> list[Tensor]:
        *inside, counts = given
        go = ops.less(index, counts)
        given = _standing_in(go, inside, every[1:])
        results, made = replay_batched(body, (index, *given), every, rows)
        kept = _kept(go, inside[:carried], results[:carried], made[:carried], flags)
        return [*kept, *_shown(go, results[carried:], made[carried:])]

    index = Value(tensor_type(int64, ()), "i")
    inside = [
        index,
        *start,
        *[Value(_row(t, at < len(moved)), "x") for at, t in enumerate(rest)],
        count,
    ]
    region = _region(body, "for", (flags, behind, rows), inside, step)
    results = applied(for_, (ops.max(count), *start, *rest, count), loop, (region,))
    stacks = _stacks_of(results[carried:])
    return [*results[:carried], *stacks], (*flags, *[True] * len(stacks))


def _row(t: Tensor, sliced: bool) -> Any:
    """The type of what a region gets of an operand."""
    return row_type(t.type, sliced)
