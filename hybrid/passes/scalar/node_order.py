"""Ordering: large values die sooner.

Before, with two values of 4 MB alive at once::       After, with one::

    %a: f32[1000000] = exp %x                             %a: f32[1000000] = exp %x
    %b: f32[1000000] = sin %x                             %s: f32[] = sum %a {...}
    %s: f32[] = sum %a {...}                              %b: f32[1000000] = sin %x
    %t: f32[] = sum %b {...}                              %t: f32[] = sum %b {...}

Nodes are numbered as results and effects, in their order, ask for them.  Of the nodes that could
come next, the first that frees at least as many bytes as it takes comes next; where none does, the
first of all.  That need not be better, so it is done only where the most bytes that are alive at
once become clearly fewer, and matter.  What shows that it ran keeps its place among its like, and
no result of the graph is computed before something that may fail and used to come first: it could
not be written in place of what it replaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from hybrid.core.size_functions import value_here
from hybrid.ir import Graph, Node, Value, with_regions

WORTH_BYTES = 1 << 20  # alive at once: of fewer the caches take care
WORTH_SHARE = 0.95


def order(graph: Graph) -> Graph:
    """``graph``, and its regions, with nodes in an order in which fewer bytes are alive at once."""
    nodes = tuple(with_regions(node, order) if node.regions else node for node in graph.nodes)
    if nodes != graph.nodes:
        graph = Graph(graph.name, graph.params, nodes, graph.results)
    if sum(_nbytes(value) for node in nodes for value in node.results) < WORTH_BYTES:
        return graph
    lives = _Lives(graph)
    before = lives.most(range(len(nodes)))
    if before < WORTH_BYTES:
        return graph
    places = _ordered(lives, *_constraints(graph, lives.lasting))
    if lives.most(places) > WORTH_SHARE * before:
        return graph
    return Graph(graph.name, graph.params, tuple(nodes[i] for i in places), graph.results)


def _nbytes(value: Value) -> int:
    """The bytes of ``value``, at the sizes at hand: an order is only about what it costs."""
    return value_here(value.type.nbytes)


class _Lives:
    """By the number of each node: the bytes that it takes, and what it uses.

    A view lives in what it is a view of; the memory of parameters and results is not the plan's.
    """

    def __init__(self, graph: Graph) -> None:
        root: dict[Value, Value] = {}
        for node in graph.nodes:
            if node.op.view_rule is not None:
                root[node.results[0]] = root.get(node.operands[0], node.operands[0])
        self.lasting = {root.get(value, value) for value in graph.results}
        self.lasting.update(graph.params)
        self.taken: list[int] = []
        self.used: list[list[Value]] = []
        self.users: dict[Value, int] = {}  # how many there are
        for node in graph.nodes:
            used = dict.fromkeys([root.get(value, value) for value in node.operands])
            self.used.append([value for value in used if value not in self.lasting])
            for value in self.used[-1]:
                self.users[value] = self.users.get(value, 0) + 1
            made = () if node.op.view_rule is not None else node.results
            made = [value for value in made if value not in self.lasting]
            self.taken.append(sum(map(_nbytes, made)))

    def most(self, places: Sequence[int]) -> int:
        """The most bytes that are alive at once when nodes run in the order of ``places``."""
        left = dict(self.users)
        alive = most = 0
        for i in places:
            alive += self.taken[i]
            if alive > most:
                most = alive
            for value in self.used[i]:
                left[value] -= 1
                if not left[value]:
                    alive -= _nbytes(value)
        return most


def _constraints(graph: Graph, lasting: set[Value]) -> tuple[list[set[int]], list[int]]:
    """Which nodes each one waits for, and those that are not to be late, in their order."""
    defining: dict[Value, int] = {}
    before: list[set[int]] = []
    roots: list[int] = []
    fixed = -1
    for i, node in enumerate(graph.nodes):
        waits_for = {defining[value] for value in node.operands if value in defining}
        stays, lasts = _stays(node), not lasting.isdisjoint(node.results)
        if stays or lasts:
            roots.append(i)
            if fixed >= 0:
                waits_for.add(fixed)
        if stays:
            fixed = i
        before.append(waits_for)
        for value in node.results:
            defining[value] = i
    roots += [defining[value] for value in graph.results if value in defining]
    return before, roots


def _stays(node: Node) -> bool:
    return bool(node.regions) or node.op.hosted or node.observable


def _asked_for(before: list[set[int]], roots: list[int]) -> list[int]:
    """The rank of each node: what ``roots`` wait for comes just before them, the rest last."""
    ranks = [-1] * len(before)
    count = 0
    for root in (*roots, *range(len(before))):
        path = [] if ranks[root] >= 0 else [(root, iter(sorted(before[root])))]
        while path:
            node, rest = path[-1]
            waits_for = next((i for i in rest if ranks[i] < 0), None)
            if waits_for is not None:
                path.append((waits_for, iter(sorted(before[waits_for]))))
                continue
            ranks[node] = count
            count += 1
            path.pop()
    return ranks


def _ordered(lives: _Lives, before: list[set[int]], roots: list[int]) -> list[int]:
    rank = _asked_for(before, roots)
    after: list[list[int]] = [[] for _ in before]
    for i, waits_for in enumerate(before):
        for other in waits_for:
            after[other].append(i)
    waiting = [len(waits_for) for waits_for in before]
    left: dict[Value, set[int]] = {value: set() for value in lives.users}
    for i, used in enumerate(lives.used):
        for value in used:
            left[value].add(i)
    ready: list[tuple[int, int]] = []  # heaps of ranks and places
    freeing: list[tuple[int, int]] = []
    placed: dict[int, None] = {}

    def offer(i: int) -> None:
        freed = sum([_nbytes(v) for v in lives.used[i] if len(left[v]) == 1])
        heappush(freeing if freed >= lives.taken[i] else ready, (rank[i], i))

    for i, count in enumerate(waiting):
        if not count:
            offer(i)
    while freeing or ready:
        _, i = heappop(freeing or ready)
        if i in placed:  # offered twice: it came to free more
            continue
        placed[i] = None
        for value in lives.used[i]:
            left[value].discard(i)
            if len(left[value]) == 1:
                (last,) = left[value]
                if not waiting[last]:
                    offer(last)
        for follower in after[i]:
            waiting[follower] -= 1
            if not waiting[follower]:
                offer(follower)
    return list(placed)
