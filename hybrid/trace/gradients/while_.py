"""Reverse mode through ``while``: a ``for`` back over as many iterations as were made.

Before::                                     The gradient by %x::

    %n, %y = while %go, %x {carried=1} {         %n, %y, %xs = while %go, %x {length=4096 ...} {
      body(%a) { ... return %p, %a1 }              body(%a) { ... return %p, %a1, %a }
    }                                            }
                                                 %fits = less_equal %n, 4096
                                                 %g = cond %fits, %n, %ct, %xs, %x {
                                                   then(...) { for over the stack, backwards }
                                                   else(...) { run again, block by block }
                                                 }
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid import ops
from hybrid.autodiff.presence import Ct
from hybrid.autodiff.tape import Pull
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph
from hybrid.ops.flow.control import for_, while_
from hybrid.trace.gradients.budget import further_gradients, rows_back
from hybrid.trace.gradients.for_ import as_index, item_by_item, request_for
from hybrid.trace.gradients.loop_aliases import flagged_loop
from hybrid.trace.gradients.loop_body import derive
from hybrid.trace.gradients.loop_request import Tie
from hybrid.trace.gradients.loop_run import backward_run, totals_of
from hybrid.trace.gradients.region_vjp import inside_region
from hybrid.trace.gradients.unknown_length import Unbounded
from hybrid.trace.regions.build import Here, as_of_for, here, known_int, remembered


def while_vjp(
    pull: Pull,
    results: tuple[Tensor, ...],
    go: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    regions: tuple[Graph],
) -> list[Ct | None]:
    """The total cotangent of each operand of a ``while``."""
    attrs = {"carried": carried, "length": length}
    # Within a region that is itself led back through, the stacks would be residuals: too large, but
    # for the few rows that stacks have of which there may be stacks anyway.
    extend = further_gradients() > 0 or not inside_region()
    node = here(while_, pull.record, results, (go, *operands), attrs, regions, extend=extend)
    trips = results[0]
    cts = (*pull.cts[1:], *[None] * (len(node.results) - len(pull.cts)))
    body = remembered(node.regions, "as of for", lambda: as_of_for(node.regions[0]))
    cts = tuple([item_by_item(ct, body, at, carried) for at, ct in enumerate(cts)])
    loop = flagged_loop(pull, operands, body, carried, 0)
    if loop is None:
        return _gone_back(node, pull, body, cts, trips)
    attrs = node.attrs | {"carried": carried + loop.flags}
    again = Here(
        op=while_,
        attrs=attrs,
        regions=node.regions,
        operands=(go, *loop.operands),
        results=(),
        tracer=None,
        record=pull.record,
    )
    cts = loop.results(cts)
    return loop.totals(_gone_back(again, loop.pull, loop.body, cts, trips, loop.ties))


def _gone_back(
    node: Here,
    pull: Pull,
    body: Graph,
    cts: Sequence[Ct | None],
    trips: Tensor,
    ties: tuple[Tie, ...] = (),
) -> list[Ct | None]:
    """The same, with the ``body`` as of a for and the cotangents of all but the ``trips`` made."""
    _, *operands = node.operands
    carried = node.attrs["carried"]
    attrs = dict(for_.attributes({"carried": carried}))
    request = request_for(pull, operands, cts, False, attrs, ties)
    key = request, further_gradients() > 0
    derived = remembered((body,), key, lambda: derive(body, request))
    if derived is None:
        return [None] * (1 + len(operands) + len(pull.further))
    known = known_int(trips)
    ran = ops.greater(trips, 0) if known is None else known > 0
    types = [derived.forward.results[i].type for i in derived.stacks]
    inside = inside_region()
    rows = rows_back(types, inside)
    stacked = len(body.results) > carried
    outcome = None
    if node.tracer is not None and (not stacked or node.attrs["length"] <= rows):
        rows = node.attrs["length"] if stacked else rows
        test = node.regions[0].results[0]
        made = derived.forward
        region = Graph(made.name, made.params[1:], made.nodes, (test, *made.results))
        fresh = len(region.results) - len(node.results)
        outcome = node.extended(fresh, (region,), length=rows)[1:]
    elif derived.row_cts:
        rows = min(rows, node.attrs["length"])
    run = backward_run(derived, pull, cts, operands, outcome, as_index(0), trips)
    before, invariants = operands[:carried], operands[carried:]
    if not (derived.stacks or derived.row_cts):
        found = run.go(trips, 0, reverse=True)
    else:
        loop = Unbounded(
            derived=derived,
            count=trips,
            reverse=False,
            carried=before,
            invariants=invariants,
            run=run,
            rows=rows,
            kept=rows_back([t.type for t in before], inside),
        )
        found = loop.go(known)
    return totals_of(derived, pull, cts, operands, found, ran, as_index(0))
