"""Steps whose ranks along one axis of a mesh are stages of a pipeline, and how long they take.

What lies between the examples and the loss is cut: see ``hybrid/passes/layouts/stage_program.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hybrid.core.layouts import MeshAxis
from hybrid.errors import ShapeError
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.pipeline_op import Pipe, pipeline_edge
from hybrid.ops.communication.point_to_point import recv, send
from hybrid.passes.layouts.rank_graph import graphs_of_stages

MICROBATCHES = (1, 2, 4)  # for each stage


def pipes_of(axis: MeshAxis, rows: int) -> list[Pipe]:
    """Pipelines along ``axis`` that may be good for a batch of so many rows."""
    return [
        Pipe(
            comm=axis.comm,
            ranks=axis.ranks,
            rank=axis.rank,
            stages=axis.ranks,
            microbatches=n * axis.ranks,
            schedule="1f1b",
            recompute=False,
        )
        for n in MICROBATCHES
        if rows % (n * axis.ranks) == 0 and rows > n * axis.ranks
    ]


def rows_of_batch(graph: Graph, batch: Sequence[int]) -> int:
    """The rows of the batch: of the first example."""
    return graph.params[batch[0]].type.shape[0] if batch else 0


def marked_graph(graph: Graph, batch: Sequence[int], loss: int, pipe: Pipe) -> Graph:
    """``graph`` with the edges of a pipeline: what is between is computed by stages.

    It begins where what is made of examples alone meets weights, and ends with the first numbers
    that the result ``loss`` is made of: the sum of what all rows contribute, say.
    """
    rows = rows_of_batch(graph, batch)
    data = _of_examples(graph, batch)
    ends = _first_numbers(graph, data, loss)
    nodes: list[Node] = []
    begun: dict[Value, Value] = {}
    ended: dict[Value, Value] = {}
    for node in graph.nodes:
        operands = list(node.operands)
        if not data.issuperset(node.results):
            for at, value in enumerate(operands):
                if value in data and value.type.rank and value.type.shape[0] % rows == 0:
                    if value not in begun:
                        nodes.append(_edge(value, pipe, begins=True))
                        begun[value] = nodes[-1].results[0]
                    operands[at] = begun[value]
                operands[at] = ended.get(value, operands[at])
        nodes.append(
            Node(node.op, tuple(operands), node.attrs, node.results, node.regions, node.location)
        )
        for value in node.results:
            if value in ends:
                nodes.append(_edge(value, pipe, begins=False))
                ended[value] = nodes[-1].results[0]
    results = tuple([ended.get(v, v) for v in graph.results])
    return Graph(graph.name, graph.params, tuple(nodes), results)


def _of_examples(graph: Graph, batch: Sequence[int]) -> set[Value]:
    """The values that are made of examples, and of no weights."""
    found = {graph.params[at] for at in batch}
    constant: set[Value] = set()
    for node in graph.nodes:
        if not node.pure or not (found | constant).issuperset(node.operands):
            continue
        known = constant if found.isdisjoint(node.operands) else found
        known.update(node.results)
    return found


def _first_numbers(graph: Graph, data: set[Value], loss: int) -> set[Value]:
    """The numbers that are made of tensors, and that the result ``loss`` is made of."""
    makers = {v: node for node in graph.nodes for v in node.results}
    found: set[Value] = set()
    seen: set[Value] = set()
    left = [graph.results[loss]]
    while left:
        value = left.pop()
        node = makers.get(value)
        if node is None or value in seen or value in data:
            continue
        seen.add(value)
        if any([v.type.rank for v in node.operands]):
            found.add(value)
        else:
            left += node.operands
    return found


def _edge(value: Value, pipe: Pipe, *, begins: bool) -> Node:
    attrs = pipeline_edge.attributes({"pipe": tuple(pipe), "begins": begins})
    made = Value(value.type, value.hint, value.location)
    return Node(pipeline_edge, (value,), attrs, (made,), (), value.location)


def stages_of(graph: Graph, batch: Sequence[int], loss: int, pipe: Pipe) -> list[Graph] | None:
    """What each rank runs; None where a pipeline cannot compute it."""
    try:
        return graphs_of_stages(marked_graph(graph, batch, loss, pipe))
    except ShapeError:  # it needs all microbatches at once, or has too few ops
        return None


def seconds_of_stages(graphs: Sequence[Graph], price: Callable[[Node], float], comm: str) -> float:
    """How long the ranks take that run ``graphs``, and wait for each other along ``comm``.

    Each goes through its ops in their order.  What is received has to have been sent, and in a
    collective the last one is waited for.
    """
    clocks = [0.0] * len(graphs)
    places = [0] * len(graphs)
    sent: dict[tuple[int, int], list[float]] = {}
    while True:
        moved = False
        for rank, graph in enumerate(graphs):
            while places[rank] < len(graph.nodes):
                node = graph.nodes[places[rank]]
                if node.op.communicates and node.attributes["comm"] == comm:
                    if node.op is send:
                        way = rank, node.attributes["to"]
                        sent.setdefault(way, []).append(clocks[rank] + price(node))
                    elif node.op is recv:
                        arrived = sent.get((node.attributes["source"], rank))
                        if not arrived:
                            break
                        clocks[rank] = max(clocks[rank], arrived.pop(0)) + price(node)
                        places[rank] += 1
                        moved = True
                        continue
                    else:
                        break
                clocks[rank] += price(node)
                places[rank] += 1
                moved = True
        waiting = [g.nodes[at] for g, at in zip(graphs, places, strict=True) if at < len(g.nodes)]
        if not waiting:
            return max(clocks)
        if not moved:
            if len(waiting) < len(graphs) or any([node.op is recv for node in waiting]):
                raise AssertionError("the stages of a pipeline wait for each other for ever")
            clocks = [max(clocks) + price(waiting[0])] * len(graphs)
            places = [at + 1 for at in places]
