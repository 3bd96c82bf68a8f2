"""Turn a capture that found gradients absent into one that adds to present ones, without a trace.

``backward()`` gives a leaf without a gradient what has arrived, and adds that to the gradient of
others.  Which of the two it is shows at each call, and nothing else depends on it.  So what is
given is marked while a function is captured, by a node that changes nothing::

    %m: f32[3] = reshape %g {shape=(3,)}

The graph of the capture has ``%g`` in its place, and that of a call that finds gradients
``%m = add %old, %g``, for which nothing has to be traced again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import Location
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import apart
from hybrid.ir.record import recording
from hybrid.trace.capture.captured_graph import Capture, Source
from hybrid.trace.places.address import Address
from hybrid.trace.regions.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class FirstGradients:
    """A captured graph with marked values, and the place that each marked value is written to."""

    graph: Graph
    places: tuple[tuple[Address, Value], ...]  # where each is written, and the mark


def unmarked(graph: Graph, marks: Collection[Value]) -> Graph:
    """Return ``graph`` without the nodes that make ``marks``."""
    return _with(graph, {}, marks) if marks else graph


def adding(capture: Capture, leaves: Sequence[Any]) -> Capture | None:
    """Return ``capture`` adapted to the gradients that this call finds; None if it cannot be."""
    found: FirstGradients | None = capture.firsts
    if found is None:
        return None
    there: dict[Value, Address] = {}
    for address, mark in found.places:
        now = address.read(leaves)
        if now is not None and not (isinstance(now, Tensor) and _fits(now, mark, capture, leaves)):
            return None
        if now is not None:
            there[mark] = address
    olds = {mark: Value(mark.type) for mark in there}
    marks = [mark for _, mark in found.places if mark not in there]
    known = {address.key for address, _ in found.places}
    reads = [(a, was) for a, was in capture.place_reads if a.key not in known]
    for address, mark in found.places:
        reads.append((address, make_tensor(mark.type, None) if mark in there else None))
    n = len(found.graph.params)
    made = replace(
        capture,
        stored_graph=_with(found.graph, olds, marks),
        sources=[*capture.sources[:n], *[Source("attribute", address=a) for a in there.values()]],
        requires=[*capture.requires[:n], *[False] * len(there)],
        place_reads=reads,
        notes=list(capture.notes),
        plans=None,
    )
    try:
        return made if made.guards.compiled(made)(leaves) else None
    except AttributeError:  # a place that was read is gone
        return None


def _fits(now: Tensor, mark: Value, capture: Capture, leaves: Sequence[Any]) -> bool:
    """Whether ``now`` can be added to: it has the type of ``mark``, at the sizes of this call."""
    if mark.type.is_open:
        assert capture.open_axes is not None
        return capture.open_axes.fits(now, mark.type, leaves)
    return now.type is mark.type


def _with(graph: Graph, olds: Mapping[Value, Value], marks: Collection[Value]) -> Graph:
    """Return ``graph`` with marks replaced: by a sum with an old value, or by their operand."""
    instead: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = tuple([instead.get(v, v) for v in node.operands])
        mark = node.results[0] if len(node.results) == 1 else None
        if mark in marks:
            instead[mark] = operands[0]
        elif mark in olds:
            made, instead[mark] = _sum(olds[mark], operands[0], node.location)
            nodes += made
        elif operands != node.operands:
            results, regions = node.results, node.regions
            nodes.append(Node(node.op, operands, node.attrs, results, regions, node.location))
        else:
            nodes.append(node)
    results = tuple([instead.get(v, v) for v in graph.results])
    return Graph(graph.name, (*graph.params, *olds.values()), tuple(nodes), results)


def _sum(old: Value, new: Value, at: Location | None) -> tuple[list[Node], Value]:
    """Return the nodes of a sum as ``backward()`` stages it, and the value of the sum."""
    tracer = Tracer(builder=Builder("sum"))
    tracer.located = at
    tracer.owned |= {old, new}
    with apart(tracer), recording(False):
        found = make_tensor(old.type, old) + make_tensor(new.type, new)
    return tracer.builder.nodes, found.content
