"""Reverse mode through the body of a loop: the body of a loop that goes back.

Bodies have the form of those of ``for``: ``body(i, carried..., slices..., invariants...)`` returns
the carried values and rows.  The body that goes back carries the cotangents of the carried values
and the sums of those of the invariants; it slices what the forward loop has stacked for it and the
cotangents of rows, and stacks the cotangents of slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hybrid.autodiff.presence import (
    Ct,
    Perhaps,
    added,
    either,
    flag,
    neutral,
    nothing,
    perhaps,
    plain,
)
from hybrid.autodiff.tape import Pull, history, node_of
from hybrid.ir import Graph, Value
from hybrid.ops.control import for_
from hybrid.record import Leaf, recording
from hybrid.tensor import Tensor
from hybrid.trace.differentiate import (
    Kind,
    Tape,
    applied,
    cut,
    leaves_at,
    live,
    opened,
    values_of,
)
from hybrid.trace.region import control_histories
from hybrid.types import TensorType


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a body: what of its cotangents is known before the graph runs."""

    carried: int
    sliced: int
    flow: tuple[bool, ...]  # of the operands of the loop, in the order of the parameters
    places: tuple[int, ...]  # of each operand the first one of its record, or -1
    cts: tuple[Kind | None, ...]  # of what the body returns: of rows, the kinds of their stacks
    arrived: tuple[Kind | None, ...]  # of each operand: only invariants need it


@dataclass(frozen=True, slots=True)
class Item:
    """One value that the loop back carries."""

    of: str  # "ct" of a carried value, or "sum" of an invariant
    at: int  # which operand of the loop
    type: TensorType
    perhaps: bool  # whether it may be absent
    made: bool  # whether it is present once there was an iteration
    flag: int  # which carried flag says so; -1: none, since nothing in the loop asks


@dataclass(frozen=True, slots=True)
class Answer:
    """The bodies, and what the loop back takes and gives.

    Its operands: the carried values (``items``, then their flags), the slices (stacks of the
    forward loop, cotangents of stacks, operands), and the invariants (operands, flags of the
    cotangents of stacks).
    """

    forward: Graph  # the body, with rows that hold residuals
    backward: Graph
    items: tuple[Item, ...]
    flags: tuple[int, ...]  # which items have a carried flag
    stacks: tuple[int, ...]  # results of the forward body that are sliced
    row_cts: tuple[int, ...]  # results of the body whose cotangents are sliced
    slices: tuple[int, ...]  # operands that are sliced
    invariants: tuple[int, ...]  # operands
    row_flags: tuple[int, ...]  # results of the body the flags of whose cotangents are read
    sliced: tuple[int, ...]  # operands whose cotangents are stacked


def derive(body: Graph, question: Question) -> Answer | None:
    """Lead back through ``body``; None when no operand gets a cotangent."""
    asked = _Asked(body, question)
    if not (asked.carried or asked.sums or asked.slices):
        return None
    flagged: set[tuple[str, int]] = set()
    while True:
        back = _Back(asked, flagged)
        if back.absent <= flagged:
            return back.answer()
        flagged |= back.absent


class _Asked:
    """Which cotangents there are to carry, to sum and to stack."""

    def __init__(self, body: Graph, question: Question) -> None:
        self.body, self.question = body, question
        n, attrs = question.carried, {"carried": question.carried}
        active = control_histories(for_, [False, *question.flow], attrs, (body,))
        places = list(question.places)
        for at in range(len(places)):
            if at < n:
                places[at] = at if active[at] else -1
            elif at < n + question.sliced and places[at] >= 0:
                places[at] = at
        self.places = places
        tape, leaves = self.open()
        reached = [_leaves_behind(t) for t in tape.results]
        alive = [ct is not None for ct in question.cts]
        grown = True
        while grown:
            found = {leaf for r, lives in zip(reached, alive, strict=True) if lives for leaf in r}
            grown = False
            for at in range(n):
                if not alive[at] and leaves[at] in found:
                    alive[at] = grown = True
        self.carried = [at for at in range(n) if places[at] >= 0 and alive[at]]
        rest = [at for at in range(n, len(places)) if places[at] == at and leaves[at] in found]
        self.slices = [at for at in rest if at < n + question.sliced]
        self.sums = [at for at in rest if at >= n + question.sliced]
        self.rows = [
            at for at in range(n, len(alive)) if alive[at] and not reached[at].isdisjoint(leaves)
        ]

    def open(self) -> tuple[Tape, list[Leaf | None]]:
        """The body, and the leaves of the loop's operands."""
        leaves = leaves_at(self.body, (-1, *[at if at < 0 else at + 1 for at in self.places]))
        return Tape(self.body, leaves), leaves[1:]


def _leaves_behind(tensor: Tensor) -> set[Leaf]:
    return {node for node in history([tensor.record]) if isinstance(node, Leaf)}


class _Back:
    """The body led back through once, when the items in ``flagged`` may be absent."""

    def __init__(self, asked: _Asked, flagged: set[tuple[str, int]]) -> None:
        self.asked, question = asked, asked.question
        self.tape, leaves = asked.open()
        tape = self.tape
        keys = [*(("ct", at) for at in asked.carried), *(("sum", at) for at in asked.sums)]
        given = {
            "ct": question.cts,
            "sum": dict(enumerate(question.arrived)),
        }
        self.keys = keys
        self.types = [asked.body.params[1 + at].type for _, at in keys]
        self.start = [given[of][at] for of, at in keys]
        self.params: list[Ct] = []
        for (of, at), type, kind in zip(keys, self.types, self.start, strict=True):
            sure = kind is not None and kind.sure and (of, at) not in flagged
            self.params.append(tape.params_like(Kind(type, sure), of))
        self.rows: dict[int, Ct] = {}
        for at in asked.rows:
            kind = Kind(asked.body.results[at].type, question.cts[at].sure)
            self.rows[at] = tape.params_like(kind, "ct")
        carried = dict(zip(keys, self.params, strict=True))
        with opened(tape), recording(False):
            seeds = [(leaves[at], carried["sum", at]) for at in asked.sums]
            seeds += [(tape.results[at].record, ct) for at, ct in self.rows.items()]
            seeds += [(tape.results[at].record, carried["ct", at]) for at in asked.carried]
            targets = [leaves[at] for _, at in keys] + [leaves[at] for at in asked.slices]
            found = tape.pull(seeds, targets)
        self.found = found[: len(keys)]
        self.stacked = {
            at: ct
            for at, ct in zip(asked.slices, found[len(keys) :], strict=True)
            if ct is not None
        }
        self.absent = {
            key
            for key, ct, param in zip(keys, self.found, self.params, strict=True)
            if not isinstance(ct, Tensor) and isinstance(param, Tensor)
        }

    def answer(self) -> Answer:
        tape, asked, question = self.tape, self.asked, self.asked.question
        with opened(tape), recording(False):
            totals = [
                (nothing(type) if ct is None else neutral(ct)).data
                for ct, type in zip(self.found, self.types, strict=True)
            ]
            outs = [plain(ct).data for ct in self.stacked.values()]
            flags = self.flags([*totals, *outs])
            flag_values = [self.flag_of(i).data for i in flags]
        n = question.carried
        body = asked.body
        row_values = [v for ct in self.rows.values() for v in values_of(ct)]
        own = [*(v for ct in self.params for v in values_of(ct)), *row_values]
        index, operands = body.params[0], body.params[1:]
        invariants = operands[n + question.sliced :]
        results = [*totals, *flag_values, *outs]
        c = cut(
            tape.builder.nodes,
            tape.forward,
            results,
            [index, *operands[n:], *own],
            fixed=invariants,
            lost=operands[:n],
        )
        forward = list(body.results)
        for value in c.residuals:
            if value not in forward[n:]:
                forward.append(value)
        used = set(c.given)
        stacks = [forward.index(v, n) for v in c.residuals]
        slices = [at for at in range(n, n + question.sliced) if operands[at] in used]
        fixed = [at for at in range(n + question.sliced, len(operands)) if operands[at] in used]
        row_flags = [at for at, ct in self.rows.items() if isinstance(ct, Perhaps)]
        row_flags = [at for at in row_flags if self.rows[at].present.data in used]
        params = [
            index,
            *(values_of(ct)[0] for ct in self.params),
            *(self.params[i].present.data for i in flags),
            *c.residuals,
            *(values_of(ct)[0] for ct in self.rows.values()),
            *(operands[at] for at in slices),
            *(operands[at] for at in fixed),
            *(self.rows[at].present.data for at in row_flags),
        ]
        items = tuple(
            Item(
                of,
                at,
                type,
                isinstance(param, Perhaps),
                isinstance(ct, Tensor),
                flags.index(i) if i in flags else -1,
            )
            for i, ((of, at), type, param, ct) in enumerate(
                zip(self.keys, self.types, self.params, self.found, strict=True)
            )
        )
        nodes = tuple(tape.builder.nodes[: tape.forward])
        return Answer(
            Graph(body.name, body.params, nodes, tuple(forward)),
            Graph("body", tuple(params), c.nodes, tuple(results)),
            items,
            tuple(flags),
            tuple(stacks),
            tuple(self.rows),
            tuple(slices),
            tuple(fixed),
            tuple(row_flags),
            tuple(self.stacked),
        )

    def flags(self, results: Sequence[Value]) -> list[int]:
        """The items whose flags must be carried: those that are read, or not yet known."""
        kept = {i for i, ct in enumerate(self.found) if not isinstance(ct, Tensor)}
        tape = self.tape
        while True:
            nodes = tape.builder.nodes[tape.forward :]
            outs = [self.found[i].present.data for i in kept if isinstance(self.found[i], Perhaps)]
            needed = [*results, *outs]
            read = {v for node in live(nodes, needed) for v in node.operands} | set(needed)
            more = {
                i
                for i, param in enumerate(self.params)
                if isinstance(param, Perhaps) and param.present.data in read
            }
            if more <= kept:
                return sorted(kept)
            kept |= more

    def flag_of(self, item: int) -> Tensor:
        """Whether the item is present after the iteration."""
        ct = self.found[item]
        return ct.present if isinstance(ct, Perhaps) else flag(ct is not None)


# Going back ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """What the loop back reads, as tensors."""

    answer: Answer
    start: tuple[Tensor, ...]  # what it carries at first
    stacks: tuple[Tensor, ...]
    row_cts: tuple[Tensor, ...]
    slices: tuple[Tensor, ...]
    invariants: tuple[Tensor, ...]  # operands and flags

    def go(self, count: Tensor, length: int, reverse: bool) -> list[Tensor]:
        """What it carries at last, and the cotangents of slices."""
        rows = (*self.stacks, *self.row_cts, *self.slices)
        return applied(
            for_,
            (count, *self.start, *rows, *self.invariants),
            (self.answer.backward,),
            carried=len(self.start),
            length=length,
            reverse=reverse,
            sliced=len(rows),
        )


def way_back(
    answer: Answer,
    pull: Pull,
    cts: Sequence[Ct | None],
    operands: Sequence[Tensor],
    outcome: Sequence[Tensor] | None,
) -> Way:
    """``outcome`` holds the results of the forward loop, residuals included, if it gave them."""
    first = [given(item, pull, cts) for item in answer.items]
    start = [
        nothing(item.type) if ct is None else neutral(ct)
        for item, ct in zip(answer.items, first, strict=True)
    ]
    start += [
        first[i].present if isinstance(first[i], Perhaps) else flag(first[i] is not None)
        for i in answer.flags
    ]
    return Way(
        answer,
        tuple(start),
        () if outcome is None else tuple([outcome[i] for i in answer.stacks]),
        tuple([neutral(cts[i]) for i in answer.row_cts]),
        tuple([operands[i] for i in answer.slices]),
        (*[operands[i] for i in answer.invariants], *[cts[i].present for i in answer.row_flags]),
    )


def given(item: Item, pull: Pull, cts: Sequence[Ct | None]) -> Ct | None:
    """What an item is before the loop."""
    return cts[item.at] if item.of == "ct" else pull.arrived[1 + item.at]


def totals_of(
    answer: Answer,
    pull: Pull,
    cts: Sequence[Ct | None],
    operands: Sequence[Tensor],
    found: Sequence[Tensor],
    ran: Tensor | bool,
) -> list[Ct | None]:
    """The totals of the operands, from what the loop back gave; ``ran``: whether it ran at all."""
    first: dict[Any, int] = {}
    for at, (t, flows) in enumerate(zip(operands, pull.flow[1:], strict=True)):
        if flows:
            first.setdefault(node_of(t.record), at)
    totals: dict[int, Ct] = {}

    def put(at: int, ct: Ct | None, *, total: bool) -> None:
        if ct is None or not pull.flow[1 + at]:
            return
        place = first[node_of(operands[at].record)]
        before = totals.get(place, pull.arrived[1 + place])
        totals[place] = ct if total or before is None else added(before, ct)

    ends = list(zip(answer.items, found, strict=False))
    flags = found[len(ends) :]

    def settled(item: Item, ct: Tensor) -> Ct | None:
        if not item.perhaps or (item.made and ran is True):
            return ct
        if item.flag >= 0:
            return perhaps(ct, flags[item.flag], True)
        before = given(item, pull, cts)
        if before is None:
            return perhaps(ct, ran, True)
        return before if ran is False else perhaps(ct, either(before.present, ran), True)

    for item, ct in ends:
        if item.of == "sum":
            put(item.at, settled(item, ct), total=True)
    for at, stack in zip(answer.sliced, flags[len(answer.flags) :], strict=True):
        put(at, stack, total=False)
    for item, ct in ends:
        if item.of == "ct":
            put(item.at, settled(item, ct), total=False)
    return [None, *[totals.get(at) for at in range(len(operands))]]
