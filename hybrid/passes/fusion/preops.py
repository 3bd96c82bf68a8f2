"""Pre-ops: a reduction makes what it reduces, part by part, where nothing else needs it.

Before::                                  After::

    %m: f32[8,4] = map %a, %b {               %s: f32[8] = map_sum %a, %b {axis=(1,), ...} {
      (%a: f32[8,4], %b: f32[8,4]) {            (%a: f32[8,4], %b: f32[8,4]) {
        %d: f32[8,4] = subtract %a, %b            %d: f32[8,4] = subtract %a, %b
        %q: f32[8,4] = square %d                  %q: f32[8,4] = square %d
        return %q                                 return %q
      }                                         }
    }                                         }
    %s: f32[8] = sum %m {axis=(1,), ...}

Other results of the map are stored on the way; where it follows a product, or several reductions
follow it, only what they do not share is moved.  A map that is the only reader of a product stays
behind it.  The kernels and the order of summation are the same, so the bits are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hybrid.errors import Location
from hybrid.ir import Graph, Node, Value, with_regions
from hybrid.ir.lowering import reduced_order
from hybrid.ops.flow.fusion import MAPPED, REDUCED, map_tiles
from hybrid.passes.fusion.fuse import is_fusable, owns_graphs, region_of

LONG_STRETCH = 256  # elements, of a reduction in another order than its operand's: LONG_ROW in C


class _Map(NamedTuple):
    """A map, or an elementwise node as one: ``nodes`` over ``params``, which are ``operands``."""

    nodes: tuple[Node, ...]
    params: tuple[Value, ...]
    operands: tuple[Value, ...]
    inside: dict[Value, Value]  # of each result
    location: Location | None

    def node(self, results: list[Value], reduction: Node | None = None) -> Node:
        """A node that computes those ``results``; ``reduction`` takes the first of them."""
        returned = [self.inside[value] for value in results]
        nodes = self._needed(returned)
        read = {value for node in nodes for value in node.operands}
        used = [at for at, param in enumerate(self.params) if param in read]
        region = region_of(nodes, [self.params[at] for at in used], returned)
        operands = tuple([self.operands[at] for at in used])
        if reduction is None:
            return Node(map_tiles, operands, (), tuple(results), (region,), self.location)
        made = (*reduction.results, *results[1:])
        op, location = REDUCED[reduction.op.name], reduction.location or self.location
        return Node(op, operands, reduction.attrs, made, (region,), location)

    def shares(self, value: Value, others: list[Value]) -> bool:
        """Whether some node is needed for ``value`` and for one of the ``others``."""
        own = self._needed([self.inside[value]])
        return not set(own).isdisjoint(self._needed([self.inside[v] for v in others]))

    def _needed(self, values: list[Value]) -> list[Node]:
        """The nodes that compute ``values``, in order."""
        wanted, found = set(values), []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.results):
                wanted.update(node.operands)
                found.append(node)
        return found[::-1]


def _whole(node: Node) -> _Map:
    if node.op is map_tiles:
        region = node.regions[0]
        inside = dict(zip(node.results, region.results, strict=True))
        return _Map(region.nodes, region.params, node.operands, inside, node.location)
    operands = tuple(dict.fromkeys(node.operands))
    inside = {value: value for value in node.results}
    return _Map((node,), operands, operands, inside, node.location)


def fuse_reductions(graph: Graph) -> Graph:
    """``graph`` with maps moved into the reductions of what nothing else needs."""
    users: dict[Value, list[Node | None]] = {value: [None] for value in graph.results}
    product_of: dict[Value, Node] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.operands):
            users.setdefault(value, []).append(node)
        if node.op.name in MAPPED:
            product_of[node.results[0]] = node
    nodes: list[Node] = []
    gone: set[Node] = set()
    for node in graph.nodes:
        reductions = _reductions(node, users)
        products = [v for v in node.operands if v in product_of]
        if not reductions or any(len(users[v]) == 1 for v in products):
            nodes.append(with_regions(node, fuse_reductions) if owns_graphs(node) else node)
            continue
        parts = _parts(node, reductions, bool(products))
        made = {value for part in parts for value in part.results}
        gone.update([user for user in reductions.values() if user.results[0] in made])
        nodes.extend(parts)
    kept = tuple([node for node in nodes if node not in gone])
    return graph if kept == graph.nodes else Graph(graph.name, graph.params, kept, graph.results)


def _reductions(node: Node, users: dict[Value, list[Node | None]]) -> dict[Value, Node]:
    """The results of a map that a reduction alone uses, with it."""
    if node.op is not map_tiles and not is_fusable(node):
        return {}
    found = {}
    for value in node.results:
        user, *others = users.get(value, [None])
        if user is None or others or user.op.name not in REDUCED:
            continue
        if value.type.rank and 0 not in value.type.shape and _in_long_stretches(user):
            found[value] = user
    return found


def _order(reduction: Node) -> list[int]:
    """The axes of what is reduced, in the order in which the reduction goes over it."""
    order, _ = reduced_order(reduction.operands[0].type.shape, reduction.attributes["axis"])
    return order


def _in_order(reduction: Node) -> bool:
    """Whether it goes over it as it lies."""
    order = _order(reduction)
    return order == sorted(order)


def _in_long_stretches(reduction: Node) -> bool:
    """Whether it does, at least within stretches that are worth tiles of their own."""
    order = _order(reduction)
    places = [sorted(order).index(axis) for axis in order]
    start = max(len(order) - 1, 0)
    while start > 0 and places[start] == places[start - 1] + 1:
        start -= 1
    shape = reduction.operands[0].type.shape
    return start == 0 or math.prod(shape[axis] for axis in order[start:]) >= LONG_STRETCH


def _parts(node: Node, reductions: dict[Value, Node], follows: bool) -> list[Node]:
    """What takes the place of ``node``, which ``follows`` a product that others read, too."""
    whole = _whole(node)
    several = follows or len(reductions) > 1
    left, parts = list(node.results), []
    for value, reduction in reductions.items():
        others = [v for v in left if v is not value]
        apart = several or not _in_order(reduction)
        if not others or (apart and not whole.shares(value, others)):
            parts.append(whole.node([value], reduction))
            left = others
    first = next((v for v in left if v in reductions and _in_order(reductions[v])), None)
    if first is not None and not follows:
        parts.append(whole.node([first, *[v for v in left if v is not first]], reductions[first]))
    elif len(left) == len(node.results):
        return [node]
    elif left:
        parts.append(whole.node(left))
    return parts
