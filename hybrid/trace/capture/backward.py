"""Derive the backward graphs of a captured call, one for each pattern of cotangents.

The capture of the call makes the graph for cotangents of all outputs, and inputs that have none
yet.  An output that nobody uses has none, though, and an input that is used elsewhere may have got
some: the terms of this call are added to those one by one, as if its ops had run eagerly.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from hybrid.autodiff.arrivals import Arrivals
from hybrid.autodiff.cotangent_sums import conjoined
from hybrid.autodiff.presence import OptionalCt, disjoined, neutral
from hybrid.autodiff.record_values import TapeValue
from hybrid.autodiff.tape import history
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Value
from hybrid.ir.record import AnyRecord, Leaf, node_of, recording
from hybrid.trace.capture.captured_graph import Backward, BackwardRequest, Capture
from hybrid.trace.capture.surroundings import above_handlers
from hybrid.trace.gradients.region_vjp import CotangentKind, Tape, cut, leaves_at, opened, values_of
from hybrid.trace.regions.build import computing


def places_at_hand(sources: Sequence[Value], outputs: Sequence[Value]) -> dict[Value, tuple]:
    """Return where a call finds each value that it has stored: a source or an output, by index."""
    places = {v: ("output", i) for i, v in reversed(list(enumerate(outputs)))}
    return places | {v: ("source", i) for i, v in enumerate(sources)}


def uses_of(records: Sequence[AnyRecord | None], leaves: Sequence[Leaf]) -> tuple[int, ...]:
    """Return an upper bound of the terms in the cotangent of each leaf; 2 stands for 2 or more."""
    uses = dict.fromkeys(leaves, 0)
    for record in records:
        if record in uses:
            uses[record] += 1
    for node in history(records):
        for parent in node.parents:
            if parent in uses:
                uses[parent] += 2 if "regions" in node.attrs else 1
    return tuple(uses.values())


def alike(
    records: Sequence[AnyRecord], sources: Mapping[TapeValue, int]
) -> list[tuple[int, str, int, Tensor | None]]:
    """Return which ``records`` are a source or an earlier record, with the flag; None: always.

    Outside, the uses of both are then uses of one value.
    """
    arrivals = Arrivals(needed=set(history(records)))
    found: list[tuple[int, str, int, Tensor | None]] = []
    ends: list[dict[TapeValue, Tensor | None]] = []
    with recording(False):
        for at, record in enumerate(records):
            mine = arrivals.ends(node_of(record))
            found += [(at, "source", sources[s], w) for s, w in mine.items() if s in sources]
            for other, theirs in enumerate(ends):
                both = [
                    conjoined(where, theirs[value])
                    for value, where in mine.items()
                    if value in theirs and value not in sources
                ]
                if both:
                    known = None in both
                    where = None if known else functools.reduce(disjoined, both)
                    found.append((at, "output", other, where))
            ends.append(mine)
    return found


def backward_of(capture: Capture, request: BackwardRequest) -> Backward:
    """Return the Backward for ``request``, which is derived when it is first needed."""
    gradient, types = capture.gradient, capture.output_types
    unsure = gradient.unsure
    usual = tuple(
        [CotangentKind(types[i], at not in unsure) for at, i in enumerate(gradient.outputs)]
    )
    apart = all(place == at for at, place in enumerate(request.places))
    if request.cts == usual and apart and not any(request.arrived):
        return gradient.backward
    found = gradient.further.get(request)
    if found is None:
        found = gradient.further[request] = above_handlers(lambda: _derived(capture, request))
    return found


def _derived(capture: Capture, request: BackwardRequest) -> Backward:
    """Trace the backward pass of ``request`` on the forward graph, and cut it off as a graph."""
    gradient, graph = capture.gradient, capture.graph
    places = [-1] * len(graph.params)
    for at, i in enumerate(gradient.inputs):
        places[i] = gradient.inputs[request.places[at]]
    leaves = leaves_at(graph, places)
    tape = Tape(graph, leaves, capture.recorded)
    cts = [tape.params_like(kind, "ct") for kind in request.cts]
    arrived = [tape.params_like(kind, "sum") for kind in request.arrived]
    targets = [leaves[i] for i in gradient.inputs]
    with opened(tape), recording(False):
        seeds = list(zip(targets, arrived, strict=True))
        seeds += [(tape.results[i].record, ct) for i, ct in zip(gradient.outputs, cts, strict=True)]
        found = tape.pull(seeds, targets)
        given = [v for ct in (*cts, *arrived) for v in values_of(ct)]
        results, reached, flags = [], [], []
        news = [
            (at, ct)
            for at, ct in enumerate(found)
            if ct is not None and request.places[at] == at and ct is not arrived[at]
        ]
        for at, ct in news:
            reached.append(at)
            results.append(neutral(ct).content)
        for _, ct in news:
            flags.append(len(results) if isinstance(ct, OptionalCt) else -1)
            results += [ct.present.content] if isinstance(ct, OptionalCt) else []
    kept = {
        graph.results[i]: ("output", i) for of, i in gradient.backward.residuals if of == "output"
    }
    own = places_at_hand(graph.params, ())
    at_hand = kept | own
    back = cut(tape.builder.nodes, tape.forward, results, [*at_hand, *given])
    nodes = back.nodes
    if back.residuals:  # which the call has not kept
        whole = Graph(graph.name, graph.params, tuple(tape.builder.nodes), ())
        nodes = computing(whole, results).nodes
        at_hand = own
    read = {v for node in nodes for v in node.operands} | set(results)
    outside = [v for v in at_hand if v in read]
    params = (*outside, *given)
    derived = Graph(f"{graph.name}_backward", params, nodes, tuple(results))
    places = tuple([at_hand[v] for v in outside])
    return Backward(derived, places, tuple(reached), tuple(flags))
