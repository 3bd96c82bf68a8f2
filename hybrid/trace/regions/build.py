"""Graphs made of graphs: copies, parts, replays, and nodes that return further results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving
from hybrid.core.sizes import Size
from hybrid.eager.batched_value import is_known
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Graph, Node, Op, Value
from hybrid.ir import with_regions as change_regions
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.ir.record import Output, Record, is_recording
from hybrid.number.staging import OwnCall
from hybrid.ops.flow.control import COUNT, applied, py_call
from hybrid.trace.regions.tracer import Tracer

T = TypeVar("T")


def live(nodes: Sequence[Node], results: Iterable[Value]) -> list[Node]:
    """The ones of ``nodes`` that ``results`` depend on."""
    needed = set(results)
    kept = []
    for node in reversed(nodes):
        if not node.pure or not needed.isdisjoint(node.results):
            needed.update(node.operands)
            kept.append(node)
    return kept[::-1]


def computing(graph: Graph, results: Sequence[Value]) -> Graph:
    """The part of ``graph`` that computes ``results``, without effects."""
    wanted = set(results)
    kept = []
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.results):
            wanted.update(node.operands)
            kept.append(change_regions(node, silent))
    return Graph(graph.name, graph.params, tuple(kept[::-1]), tuple(results))


def copied(graph: Graph, name: str) -> Graph:
    """A copy of ``graph`` with values of its own."""
    new: dict[Value, Value] = {v: Value(v.type, v.hint, v.location) for v in graph.params}
    nodes = []
    for node in graph.nodes:
        new.update({v: Value(v.type, v.hint, v.location) for v in node.results})
        operands = tuple([new[v] for v in node.operands])
        results = tuple([new[v] for v in node.results])
        nodes.append(Node(node.op, operands, node.attrs, results, node.regions, node.location))
    params = tuple([new[v] for v in graph.params])
    return Graph(name, params, tuple(nodes), tuple([new[v] for v in graph.results]))


def is_repeatable(graph: Graph) -> bool:
    """Whether a second run of the graph calls no function of the author's."""
    calls = [n.attributes["function"] for n in graph.walk() if n.op is py_call and n.results]
    return all(isinstance(f.function if type(f) is Leaving else f, OwnCall) for f in calls)


def silent(graph: Graph) -> Graph:
    """``graph`` without effects, for a second run."""
    if all(node.pure for node in graph.nodes):
        return graph
    return remembered((graph,), "silent", lambda: computing(graph, graph.results))


# Where the forward node is ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Here:
    """The node being differentiated, as it stands in the graph being traced or was run.

    ``tracer`` is None when the node has been run, not traced: then it runs once more to give its
    residuals.
    """

    op: Op
    attrs: dict[str, Any]
    regions: tuple[Graph, ...]
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    tracer: Tracer | None
    record: Record

    def extended(self, count: int, regions: tuple[Graph, ...], **attrs: Any) -> list[Tensor]:
        """All results of the node once it has ``regions``, for ``count`` further results.

        In place, or run again.
        """
        if not count:
            return list(self.results)
        if self.tracer is None:
            quiet = tuple([silent(region) for region in regions])
            found = applied(self.op, self.operands, quiet, **self.attrs | attrs)
            return [*self.results, *found[len(self.results) :]]
        self.tracer.extend(self.results[0].content, regions, attrs)
        return list(_refreshed(self.tracer, self.record, self.results))


def here(
    op: Op,
    record: Record,
    results: Sequence[Tensor],
    operands: Sequence[Tensor],
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
    *,
    extend: bool = True,
) -> Here:
    """The ``Here`` of the node whose record is being pulled back through."""
    value = results[0].content
    tracer = current() if extend and isinstance(current(), Tracer) else None
    while tracer is not None and value not in tracer.owned:
        tracer = tracer.parent
    node = None if tracer is None else tracer.maker(value)
    operands, results = tuple(operands), tuple(results)
    if node is None:
        return Here(
            op=op,
            attrs=attrs,
            regions=regions,
            operands=operands,
            results=results,
            tracer=None,
            record=record,
        )
    results = _refreshed(tracer, record, results)
    return Here(
        op=op,
        attrs=node.attributes,
        regions=node.regions,
        operands=operands,
        results=results,
        tracer=tracer,
        record=record,
    )


def _refreshed(tracer: Tracer, record: Record, results: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of the node of ``record``, those included that it has been given since."""
    node = tracer.maker(results[0].content)
    made = [make_tensor(v.type, v) for v in node.results[len(results) :]]
    if made and is_recording():
        first = len(record.results)
        record.attrs = {**node.attributes, "regions": node.regions}
        record.results = (*record.results, *[(t.type, t.content) for t in made])
        for index, t in enumerate(made):
            if t.type.floating:
                t.record = Output(record, first + index)
                tracer.recorded.add(t.content)
    return (*results, *made)


def known_int(count: Tensor) -> int | None:
    """The number in an integer scalar, if it is known statically; else None."""
    interpreter = current()
    if type(count.content) is not Value:
        return int(count.item()) if is_known(count) else None
    while isinstance(interpreter, Tracer):
        node = interpreter.maker(count.content) if count.content in interpreter.owned else None
        if node is not None and node.op.name == "full":
            value = node.attributes["value"]
            return value if type(value) is Size else int(value)
        interpreter = interpreter.parent
    return None


def as_of_for(body: Graph) -> Graph:
    """The body of a ``while`` as one of a ``for``: without its test, with an index."""
    index = Value(COUNT, "i")
    return Graph(body.name, (index, *body.params), body.nodes, body.results[1:])


# Remembering ------------------------------------------------------------------------------------


def remembered(graphs: tuple[Graph, ...], key: Hashable, derive: Callable[[], T]) -> T:
    """The result of ``derive()``, cached for these very graphs and ``key``."""
    first, *others = graphs
    full = (tuple(map(id, others)), key)
    found = first.derived.get(full)
    if found is None:
        found = first.derived[full] = (others, derive())  # kept alive: their ids are in the key
    return found[1]


def apply_node(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """The results of ``node``, by the current interpreter."""
    return results_of(current().apply(node.op, tuple(operands), node.attributes, node.regions))


def replay(
    graph: Graph,
    operands: Sequence[Any],
    recorded: Collection[Value] | None = None,
    run: Callable[[Node, list[Any]], Sequence[Any]] = apply_node,
) -> list[Any]:
    """The results of ``graph`` on ``operands``: eager ops, recorded for gradients as usual.

    Values that are not in ``recorded`` are constants, as they were when the graph was captured.
    ``run`` makes the results of a node of those of its operands.
    """
    known: dict[Value, Any] = dict(zip(graph.params, operands, strict=True))
    for node in graph.nodes:
        results = run(node, [known[v] for v in node.operands])
        for value, result in zip(node.results, results, strict=True):
            constant = recorded is not None and value not in recorded
            known[value] = result.detach() if constant else result
    return [known[v] for v in graph.results]
