"""The tree by which the shards of a batch are added, whatever number of ranks has them.

There are ``shards`` leaves, in order; neighbours are paired until one node is left, as in
``tree_sum``.  A rank has a contiguous range of leaves.  It adds what lies within its range, which
gives one node or a few, its *parts*; what is above them is added by whoever has the parts of all.
So the sum is one and the same expression on any number of ranks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TreeNode:
    """The shards from ``first`` up to ``end``, added as ``left`` plus ``right``; or one shard."""

    first: int
    end: int
    left: TreeNode | None = None
    right: TreeNode | None = None


def cut_evenly(count: int, parts: int, at: int) -> tuple[int, int]:
    """Part ``at`` of ``parts`` of ``count`` things: first and end, as numpy.array_split cuts."""
    size, more = divmod(count, parts)
    first = at * size + min(at, more)
    return first, first + size + (at < more)


@functools.lru_cache(256)
def tree_of(shards: int) -> TreeNode:
    """The tree over so many shards, one at least."""
    level = [TreeNode(i, i + 1) for i in range(shards)]
    while len(level) > 1:
        pairs = [
            TreeNode(a.first, b.end, a, b) for a, b in zip(level[::2], level[1::2], strict=False)
        ]
        level = [*pairs, *level[2 * len(pairs) :]]
    return level[0]


@functools.lru_cache(1024)
def parts_of(shards: int, ranks: int, rank: int) -> tuple[TreeNode, ...]:
    """The parts of ``rank``: the largest nodes that lie within its shards, in order."""
    first, end = cut_evenly(shards, ranks, rank)

    def within(node: TreeNode) -> list[TreeNode]:
        if node.end <= first or end <= node.first:
            return []
        if first <= node.first and node.end <= end:
            return [node]
        assert node.left is not None and node.right is not None
        return within(node.left) + within(node.right)

    return tuple(within(tree_of(shards)))


def most_parts(shards: int, ranks: int) -> int:
    """How many parts the rank has that has most."""
    return max(len(parts_of(shards, ranks, rank)) for rank in range(ranks))


def added(node: TreeNode, known: Callable[[TreeNode], Any], add: Callable[[Any, Any], Any]) -> Any:
    """The sum that ``node`` is; ``known`` gives those that need not be added, None for others."""
    found = known(node)
    if found is not None:
        return found
    assert node.left is not None and node.right is not None
    return add(added(node.left, known, add), added(node.right, known, add))


def local_parts(
    rows: Sequence[Any], shards: int, ranks: int, rank: int, add: Callable[[Any, Any], Any]
) -> list[Any]:
    """The parts of ``rank``, of whose shards ``rows`` are, in order."""
    first, _ = cut_evenly(shards, ranks, rank)

    def row(node: TreeNode) -> Any:
        return rows[node.first - first] if node.left is None else None

    return [added(node, row, add) for node in parts_of(shards, ranks, rank)]


def sum_of_parts(
    parts: Callable[[int, int], Any], shards: int, ranks: int, add: Callable[[Any, Any], Any]
) -> Any:
    """The sum of all shards; ``parts(rank, at)`` is part ``at`` of ``rank``."""
    places = {
        node: (rank, at)
        for rank in range(ranks)
        for at, node in enumerate(parts_of(shards, ranks, rank))
    }

    def part(node: TreeNode) -> Any:
        return parts(*places[node]) if node in places else None

    return added(tree_of(shards), part, add)
