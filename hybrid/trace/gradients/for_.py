"""Reverse mode through ``for``: a loop in the other direction, over stacked residuals.

Before::                                     The gradient by %x and %w::

    %y = for %n, %x, %w {carried=1} {            %y, %hs = for %n, %x, %w {carried=1, length=8} {
      body(%i, %h, %w) { ... return %h1 }          body(%i, %h, %w) { ... return %h1, %h }
    }                                            }
                                                 %gx, %gw = for %n, %ct, %0, %hs, %w
                                                     {carried=2, length=8, reverse=true, sliced=1} {
                                                   body(%i, %ct, %sum, %h, %w) { ... }
                                                 }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.presence import Ct, OptionalCt, neutral
from hybrid.autodiff.tape import Pull
from hybrid.core.types import int64
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph
from hybrid.ops.flow.control import for_
from hybrid.trace.gradients.budget import further_gradients, rows_back
from hybrid.trace.gradients.loop_aliases import flagged_loop
from hybrid.trace.gradients.loop_body import derive
from hybrid.trace.gradients.loop_request import LoopRequest, Tie
from hybrid.trace.gradients.loop_run import backward_run, totals_of
from hybrid.trace.gradients.region_vjp import firsts, inside_region, kinds_of, places_of
from hybrid.trace.gradients.unknown_length import Unbounded
from hybrid.trace.regions.build import Here, here, known_int, remembered


def for_vjp(
    pull: Pull,
    results: tuple[Tensor, ...],
    count: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    reverse: bool,
    sliced: int,
    overruns: bool,
    regions: tuple[Graph],
    **facts: Any,
) -> list[Ct | None]:
    """The total cotangent of each operand of a ``for``."""
    attrs = {"carried": carried, "length": length, "reverse": reverse, "sliced": sliced}
    attrs |= {"overruns": overruns, **facts}
    node = here(for_, pull.record, results, (count, *operands), attrs, regions)
    body = node.regions[0]
    cts = (*pull.cts, *[None] * (len(node.results) - len(pull.cts)))
    cts = tuple([item_by_item(ct, body, at, carried) for at, ct in enumerate(cts)])
    loop = flagged_loop(pull, operands, body, carried, sliced)
    if loop is None:
        return _gone_back(node, pull, cts)
    attrs = node.attrs | {"carried": carried + loop.flags}
    results = loop.results(node.results)
    again = Here(
        op=for_,
        attrs=attrs,
        regions=(loop.body,),
        operands=(count, *loop.operands),
        results=results,
        tracer=None,
        record=pull.record,
    )
    return loop.totals(_gone_back(again, loop.pull, loop.results(cts), loop.ties))


def _gone_back(
    node: Here, pull: Pull, cts: Sequence[Ct | None], ties: tuple[Tie, ...] = ()
) -> list[Ct | None]:
    """The same, given the cotangents of all results."""
    count, *operands = node.operands
    carried, sliced, reverse = [node.attrs[name] for name in ("carried", "sliced", "reverse")]
    body = node.regions[0]
    overruns, stacked = node.attrs["overruns"], len(node.results) > carried
    known = None if overruns else known_int(count)
    bounded = sliced > 0 or (stacked and not overruns)
    whole = bounded and known is not None and known >= node.attrs["length"] > 0
    request = request_for(pull, operands, cts, whole, node.attrs, ties)
    key = request, further_gradients() > 0
    derived = remembered((body,), key, lambda: derive(body, request))
    if derived is None:
        return [None] * (1 + len(operands) + len(pull.further))
    start = ops.maximum(count - 1, 0) if reverse else as_index(0)
    ran = ops.greater(count, 0) if known is None else known > 0
    types = [derived.forward.results[i].type for i in derived.stacks]
    inside = inside_region()
    rows = rows_back(types, inside)
    # A stack of the most rows that there can be is within the budget, or has to be that long.
    fits = bounded and (node.attrs["length"] <= rows or reverse or sliced)
    fresh = len(derived.forward.results) - len(node.results)
    if known is None and (types or (derived.row_cts and overruns)) and not fits:
        outcome, most = None, node.attrs["length"]
        if bounded:
            count, rows = ops.minimum(count, most), min(rows, most)
        elif _is_extended(node, overruns, rows):
            rows = most if overruns else rows
            outcome = node.extended(fresh, (derived.forward,), length=rows, overruns=True)
        elif derived.row_cts:
            rows = min(rows, most)
        run = backward_run(derived, pull, cts, operands, outcome, start, count)
        before, invariants = operands[:carried], operands[carried:]
        loop = Unbounded(
            derived=derived,
            count=count,
            reverse=reverse,
            carried=before,
            invariants=invariants,
            run=run,
            rows=rows,
            kept=rows_back([t.type for t in before], inside),
        )
        return totals_of(derived, pull, cts, operands, loop.go(None), ran, start)
    length = node.attrs["length"] if bounded else max(known or 0, 0)
    outcome = node.extended(fresh, (derived.forward,), length=length)
    if bounded and reverse:
        start = ops.minimum(start, length - 1)
    run = backward_run(derived, pull, cts, operands, outcome, start, count, reverse)
    if bounded and not (run.stacks or run.row_cts or run.slices):
        count = ops.minimum(count, length)
    found = run.go(count, length, not reverse)
    n = len(run.start)
    if known is None or known < length:
        made = ops.less(ops.arange(length), count)
        found[n:] = [_rows_made(made, stack) for stack in found[n:]]
    return totals_of(derived, pull, cts, operands, found, ran, start)


def _is_extended(node: Here, overruns: bool, rows: int) -> bool:
    """Whether a loop of unknown length keeps ``rows`` of its residuals as it runs.

    It does where the way back is led back through, too: one loop then adds up what eager code adds
    up in one go.
    """
    if node.tracer is None or node.attrs["reverse"]:
        return False
    return node.attrs["length"] <= rows if overruns else further_gradients() > 0


def _rows_made(made: Tensor, stack: Tensor) -> Tensor:
    """``stack`` with zeros in the rows that no iteration has made."""
    made = ops.reshape(made, (*made.shape, *[1] * (stack.type.rank - 1)))
    return ops.where(made, stack, ops.zeros((), dtype=stack.dtype))


def request_for(
    pull: Pull,
    operands: Sequence[Tensor],
    cts: Sequence[Ct | None],
    whole: bool,
    attrs: Mapping[str, Any],
    ties: tuple[Tie, ...] = (),
) -> LoopRequest:
    """The request for the derived body: what is known of the loop's cotangents statically.

    ``attrs`` are those of a ``for``.
    """
    flow = pull.flow[1:]
    carried, sliced = attrs["carried"], attrs["sliced"]
    inside = range(carried, carried + sliced)  # slices are values of their own
    places = places_of(operands, [f and i not in inside for i, f in enumerate(flow)])
    places = tuple([i if flow[i] and i in inside else at for i, at in enumerate(places)])
    arrived = [*firsts(places, pull.arrived[1:]), *pull.further]
    edges = [(alias - 1, source - 1) for alias, source, _ in pull.edges]
    types = {at: t.type for at, t in enumerate(operands)}
    for alias, source in edges:  # aliases come before their sources
        types.setdefault(source, types[alias])
    return LoopRequest(
        carried=carried,
        sliced=sliced,
        flow=flow,
        places=places,
        cts=kinds_of(cts),
        arrived=kinds_of(arrived),
        whole=whole,
        ascending=not attrs["reverse"],
        apart=attrs["apart"],
        follows=attrs["follows"],
        begins=attrs["begins"],
        same=places_of(operands, [t.record is not None for t in operands])
        if further_gradients() > 0
        else (),
        edges=tuple(edges),
        further=tuple([types[i] for i in range(len(operands), len(arrived))]),
        ties=ties,
        stacks=tuple([operands[i].type for i in inside]) if edges else (),
    )


def item_by_item(ct: Ct | None, body: Graph, at: int, carried: int) -> Ct | None:
    """The cotangent of a result, with a presence flag for each row of a stack."""
    row = body.results[at] if at < len(body.results) else None
    if not isinstance(ct, OptionalCt) or ct.present.type.rank or at < carried:
        return ct
    if all(row is not other for other in body.results[:carried]):
        return ct
    return OptionalCt(neutral(ct), ops.broadcast_to(ct.present, ct.type.shape[:1]), True)


def as_index(number: int) -> Tensor:
    """``number`` as an int64 scalar."""
    return ops.full((), number, dtype=int64)
