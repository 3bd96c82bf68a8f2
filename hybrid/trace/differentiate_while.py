"""Reverse mode through ``while``: a loop that goes back as many iterations as were made.

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

from hybrid import ops
from hybrid.autodiff.presence import Ct
from hybrid.autodiff.tape import Pull
from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import current
from hybrid.ops.control import COUNT, while_
from hybrid.tensor import Tensor
from hybrid.trace.differentiate import Tape, here, remembered
from hybrid.trace.differentiate_for import as_index, ask, item_by_item, known_int
from hybrid.trace.differentiate_loop import derive
from hybrid.trace.differentiate_unbounded import Unbounded, capacity
from hybrid.trace.differentiate_way import totals_of, way_back


@while_.vjp
def while_vjp(
    pull: Pull,
    results: tuple[Tensor, ...],
    go: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    regions: tuple[Graph],
) -> list[Ct | None]:
    """The totals of the operands once the loop has been gone back."""
    attrs = {"carried": carried, "length": length}
    # Within a region that is itself led back through, the stacks would be residuals: too large.
    tape = current()
    extend = not (isinstance(tape, Tape) and tape.is_region)
    node = here(while_, pull.record, results, (go, *operands), attrs, regions, extend=extend)
    trips = results[0]
    cts = (*pull.cts[1:], *[None] * (len(node.results) - len(pull.cts)))
    body = remembered(node.regions, "as of for", lambda: as_of_for(node.regions[0]))
    cts = [item_by_item(ct, body, at, carried) for at, ct in enumerate(cts)]
    question = ask(pull, operands, carried, 0, cts, whole=False, ahead=True)
    answer = remembered((body,), question, lambda: derive(body, question))
    if answer is None:
        return [None] * (1 + len(operands) + len(pull.further))
    known = known_int(trips)
    ran = ops.greater(trips, 0) if known is None else known > 0
    types = [answer.forward.results[i].type for i in answer.stacks]
    rows = capacity(types)
    stacked = len(body.results) > carried
    outcome = None
    if node.tracer is not None and (not stacked or node.attrs["length"] <= rows):
        rows = node.attrs["length"] if stacked else rows
        test = node.regions[0].results[0]
        asked = answer.forward
        region = Graph(asked.name, asked.params[1:], asked.nodes, (test, *asked.results))
        fresh = len(region.results) - len(node.results)
        outcome = node.extended(fresh, (region,), length=rows)[1:]
    elif answer.row_cts:
        rows = min(rows, node.attrs["length"])
    way = way_back(answer, pull, cts, operands, outcome, as_index(0), trips)
    before, invariants = operands[:carried], operands[carried:]
    if not (answer.stacks or answer.row_cts):
        found = way.go(trips, 0, reverse=True)
    else:
        loop = Unbounded(answer, trips, False, before, invariants, way, rows)
        found = loop.go(known)
    return totals_of(answer, pull, cts, operands, found, ran)


def as_of_for(body: Graph) -> Graph:
    """The body without its test, and with an index that nothing reads."""
    index = Value(COUNT, "i")
    return Graph(body.name, (index, *body.params), body.nodes, body.results[1:])
