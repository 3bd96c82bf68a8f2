"""What can be computed ahead: nodes that depend on fixed parameters alone leave the graph.

Before, with %w fixed::                           After, the part ahead::

    graph @g(%x: f32[...], %w: f32[...]) {            graph @g_ahead(%w: f32[...]) {
      %y: f32[...] = conv %x, %w {...}                  %p: f32[...] = conv_prepare %w {...}
      return %y                                         return %p
    }                                                 }

    and the rest::

    graph @g(%x: f32[...], %w: f32[...], %p: f32[...]) {
      %y: f32[...] = conv_prepared %x, %w, %p {...}
      return %y
    }

Its results can be kept for as long as the fixed parameters keep their values; the rest gets them
after its own parameters.  Views stay where they are, and so does what shows that it ran or makes
much out of little.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hybrid.ir import Graph, Node, Value
from hybrid.ir.rewrite import with_replaced
from hybrid.passes.weights.weight_parts import in_two

WORTH = 1024  # elements read or written ahead: fewer are computed at once
GROWTH = 4  # bytes of a kept result for each byte that it is made of, at most,
SMALL = 1 << 16  # beyond so many


class Precomputation(NamedTuple):
    """A graph in two parts."""

    graph: Graph  # computed ahead
    params: tuple[int, ...]  # the parameters that it takes
    rest: Graph


def ahead(graph: Graph, fixed: Collection[int]) -> Precomputation | None:
    """``graph`` in two parts, given which parameters are fixed; None if that is not worth it."""
    known = known_values(graph, fixed)
    nodes = _prepared(graph.nodes, known)
    kept = _kept(graph, nodes, known)
    early = _needed([node for node in nodes if _is_known(node, known)], kept)
    if sum(map(_work, early)) < WORTH:
        return None
    used = {value for node in early for value in node.operands}
    params = tuple([i for i in sorted(fixed) if graph.params[i] in used])
    name = f"{graph.name}_ahead"
    first = Graph(name, tuple([graph.params[i] for i in params]), tuple(early), tuple(kept))
    given = {value: Value(value.type, value.hint, value.location) for value in kept}
    late = [
        with_replaced(node, given) for node in nodes if not _is_known(node, known) or _stays(node)
    ]
    results = tuple([given.get(value, value) for value in graph.results])
    late = _needed(late, results, observable=True)
    rest = Graph(graph.name, (*graph.params, *given.values()), tuple(late), results)
    return Precomputation(first, params, rest)


def known_values(graph: Graph, fixed: Collection[int]) -> set[Value]:
    """The values that follow from fixed parameters, and the constants."""
    based = {graph.params[i] for i in fixed}
    known = set(based)
    for node in graph.nodes:
        if node.observable or node.regions or not known.issuperset(node.operands):
            continue
        if any(value.type.is_open for value in node.results):  # one for each size
            continue
        if not node.operands:
            known.update(node.results)
        elif not based.isdisjoint(node.operands) and (
            _is_view(node) or _made(node) <= _given(node) * GROWTH + SMALL
        ):
            based.update(node.results)
            known.update(node.results)
    return known


def _made(node: Node) -> int:
    return sum([value.type.nbytes for value in node.results])


def _given(node: Node) -> int:
    return sum([value.type.nbytes for value in dict.fromkeys(node.operands)])


def _work(node: Node) -> int:
    """Elements that ``node`` reads or writes, at least."""
    if _is_view(node) or not node.operands:
        return 0
    return max([value.type.size for value in (*node.operands, *node.results)])


def _is_view(node: Node) -> bool:
    return node.op.view_rule is not None


def _is_known(node: Node, known: set[Value]) -> bool:
    return bool(node.results) and known.issuperset(node.results)


def _stays(node: Node) -> bool:
    """Whether a known node costs nothing where it is."""
    return _is_view(node) or not node.operands


def _prepared(nodes: tuple[Node, ...], known: set[Value]) -> list[Node]:
    """``nodes`` with products by known weights in two; ``known`` learns of the first."""
    made: list[Node] = []
    for node in nodes:
        parts = in_two(node, known)
        made += [node] if parts is None else parts
        if parts is not None:
            known.update(parts[0].results)
    return made


def _kept(graph: Graph, nodes: list[Node], known: set[Value]) -> list[Value]:
    """The computed known values that other nodes, or views of them, read, or that are returned."""
    defining = {value: node for node in nodes for value in node.results}
    found: dict[Value, None] = {}
    wanted = [v for node in nodes if not _is_known(node, known) for v in node.operands]
    for value in (*wanted, *graph.results):
        while value in known and value in defining:
            node = defining[value]
            if not _stays(node):
                found[value] = None
                break
            if not node.operands:
                break
            value = node.operands[0]
    return list(found)


def _needed(nodes: list[Node], results: Collection[Value], observable: bool = False) -> list[Node]:
    """Those of ``nodes`` that ``results`` depend on."""
    used = set(results)
    needed: list[Node] = []
    for node in reversed(nodes):
        if not used.isdisjoint(node.results) or (observable and node.observable):
            used.update(node.operands)
            needed.append(node)
    return needed[::-1]
