"""Fusion: elementwise nodes of one shape become a ``map``, which runs them tile by tile.

Before::                                  After::

    %a: f32[8] = multiply %x, %y              %c: f32[8] = map %x, %y {
    %b: f32[8] = tanh %a                        (%x: f32[8], %y: f32[8]) {
    %c: f32[8] = add %b, %x                       %a: f32[8] = multiply %x, %y
                                                  %b: f32[8] = tanh %a
                                                  %c: f32[8] = add %b, %x
                                                  return %c
                                                }
                                              }

Nothing is computed twice and nothing in another order, so bits stay the same.  Nodes join the
groups of those that use them, last node first: what a backward pass derives from a value of the
forward pass is computed where it is used, and only the value itself is kept in between.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hybrid.core.types import DType
from hybrid.ir import Graph, Node, Value, with_regions
from hybrid.ops.flow.fusion import HOLDING_MAPS, map_tiles
from hybrid.passes.fusion.groups import Groups, schedule

MAX_TILES = 16  # HYB_MAX_TILES of the runtime
MAX_OPERANDS, MAX_RESULTS = 12, 8  # streams that a core reads and writes well at a time
MAX_NODES = 64


def fuse(graph: Graph) -> Graph:
    """``graph`` with its elementwise nodes in maps."""
    nodes = [with_regions(n, fuse) if owns_graphs(n) else n for n in graph.nodes]
    groups = Groups(nodes, [_iteration_shape(node) for node in nodes], MAX_NODES)
    for i in reversed(range(len(nodes))):
        for user in groups.users[i]:
            groups.merge(i, user)
    for value in graph.params + tuple([v for node in nodes for v in node.results]):
        # Nodes that read the same large operand read it once.
        if value.type.rank:
            _merge_readers(groups, value)
    users = _users(nodes, graph.results)
    fused: list[Node] = []
    for members in schedule(groups):
        fused.extend(_maps([nodes[i] for i in members], users))
    if len(fused) == len(graph.nodes) and tuple(fused) == graph.nodes:
        return graph
    return Graph(graph.name, graph.params, tuple(fused), graph.results)


def owns_graphs(node: Node) -> bool:
    """Whether ``node`` has regions to fuse in: control flow, not the maps that fusion makes."""
    return bool(node.regions) and node.op not in HOLDING_MAPS


def is_fusable(node: Node) -> bool:
    """Whether ``node`` may stand in the region of a map."""
    if not node.op.elementwise or node.op.kernel is None or not node.op.pure or node.regions:
        return False
    shape = node.results[0].type.shape
    return all(v.type.shape == shape for v in node.results)


def _iteration_shape(node: Node) -> tuple[int, ...] | None:
    return node.results[0].type.shape if is_fusable(node) else None


def _merge_readers(groups: Groups, value: Value) -> None:
    readers = [i for i in groups.readers.get(value, ()) if groups.shapes[i] == value.type.shape]
    for a, b in pairwise(readers):
        groups.merge(a, b)


def _users(nodes: list[Node], results: tuple[Value, ...]) -> dict[Value, set[Node | None]]:
    """The nodes that use each value; None stands for the end of the graph."""
    users: dict[Value, set[Node | None]] = {}
    for node in nodes:
        for value in node.operands:
            users.setdefault(value, set()).add(node)
    for value in results:
        users.setdefault(value, set()).add(None)
    return users


def _maps(members: list[Node], users: dict[Value, set[Node | None]]) -> list[Node]:
    """``members``, a group in order, as one map, or as several where it exceeds the limits."""
    made = []
    while members:
        sizes = range(len(members), 1, -1)
        size = next((n for n in sizes if _fits(members[:n], users)), 1)
        piece, members = members[:size], members[size:]
        if size == 1:
            made.append(piece[0])
        elif results_of(piece, users):  # else dead, all of it
            made.append(_map(piece, users))
    return made


def _fits(members: list[Node], users: dict[Value, set[Node | None]]) -> bool:
    results = results_of(members, users)
    return (
        len(operands_of(members)) <= MAX_OPERANDS
        and len(results) <= MAX_RESULTS
        and tiles_of(members, results) <= MAX_TILES
    )


def operands_of(members: list[Node]) -> list[Value]:
    """What ``members`` read and do not compute, each once, in order."""
    computed = {value for node in members for value in node.results}
    return list(dict.fromkeys([v for node in members for v in node.operands if v not in computed]))


def results_of(members: list[Node], users: dict[Value, set[Node | None]]) -> list[Value]:
    """What ``members`` compute and others use."""
    inside = set(members)
    return [v for node in members for v in node.results if not users.get(v, set()) <= inside]


def tiles_of(members: list[Node], results: list[Value]) -> int:
    """How many tile buffers hold the values that do not leave the map.

    A node may write over a tile that it reads for the last time, with values of the same dtype.
    """
    last_read = {value: node for node in members for value in node.operands}
    tiled = {value for node in members for value in node.results}.difference(results)
    spare: Counter[DType] = Counter()
    tiles = 0
    for node in members:
        for value in dict.fromkeys(node.operands):
            if value in tiled and last_read[value] is node:
                spare[value.type.dtype] += 1
        inside = [v for v in node.results if v in tiled]
        for value in inside:
            if spare[value.type.dtype]:
                spare[value.type.dtype] -= 1
            else:
                tiles += 1
        for value in inside:
            if value not in last_read:
                spare[value.type.dtype] += 1
    return tiles


def region_of(members: list[Node], params: list[Value], results: list[Value]) -> Graph:
    """A closed graph of copies of ``members``."""
    renamed = {value: Value(value.type, value.hint, value.location) for value in params}
    copies = []
    for node in members:
        for value in node.results:
            renamed[value] = Value(value.type, value.hint, value.location)
        copies.append(
            Node(
                node.op,
                tuple([renamed[v] for v in node.operands]),
                node.attrs,
                tuple([renamed[v] for v in node.results]),
                (),
                node.location,
            )
        )
    return Graph(
        "", tuple([renamed[v] for v in params]), tuple(copies), tuple([renamed[v] for v in results])
    )


def _map(members: list[Node], users: dict[Value, set[Node | None]]) -> Node:
    operands, results = operands_of(members), results_of(members, users)
    region = region_of(members, operands, results)
    location = members[-1].location
    return Node(map_tiles, tuple(operands), (), tuple(results), (region,), location)
