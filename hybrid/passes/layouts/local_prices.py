"""Prices of ways and moves: the sum over the ops that a rank runs for them.

The matrix product of a rank that has half of the columns of ``w`` costs what this one takes, and
``all_gather`` what it takes between the ranks::

    %y: f32[8,3] = matmul %x, %w
    %z: f32[8,6] = all_gather ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.layouts import MeshAxis, Placement, cut
from hybrid.core.types import TensorType
from hybrid.ir import Builder, Node, Op
from hybrid.ops.support.shared_work import SharedWay
from hybrid.passes.layouts.layout_costs import computing
from hybrid.passes.layouts.local_graph import computed_by
from hybrid.passes.layouts.work import Work

FREE = frozenset(["reshape", "full", "literal", "identity", "laid_out", "pipeline_edge", "after"])
STEP = 5e-8  # seconds that each op takes at least
LinkSeconds = Callable[[str, int, str, int], float]  # (collective, nbytes, comm, ranks)


class LocalPrices:
    """Prices by ``op_seconds(node)`` and ``link_seconds(collective, nbytes, comm, ranks)``.

    All ranks come to the same prices: they are those of a rank that is not the first.
    """

    def __init__(self, op_seconds: Callable[[Node], float], link_seconds: LinkSeconds) -> None:
        self.op_seconds, self.link_seconds = op_seconds, link_seconds
        self._work: dict[Any, float] = {}
        self._moving: dict[Any, float] = {}

    def work(self, node: Node, way: SharedWay, axis: MeshAxis) -> float:
        """What a rank takes for its part of ``node``."""
        types = tuple([v.type for v in node.operands])
        key = node.op, node.attrs, types, way, axis.ranks, axis.comm, node.regions
        found = self._work.get(key)
        if found is None:
            found = self._work[key] = self._of_node(node, way, axis)
        return found

    def _of_node(self, node: Node, way: SharedWay, axis: MeshAxis) -> float:
        if node.regions:
            return self.of(node)
        builder = Builder("part")
        pairs = zip(node.operands, way.operands, strict=True)
        operands = [builder.param(cut(v.type, p, axis.ranks)) for v, p in pairs]
        computed_by(Work(builder, _not_first(axis)), node, way, operands)
        return sum(map(self.of, builder.nodes))

    def moving(self, type: TensorType, now: Placement, then: Placement, axis: MeshAxis) -> float:
        """What it takes to make of what ``now`` says of a tensor what ``then`` says."""
        if now == then:
            return 0.0
        key = type, now, then, axis.comm, axis.ranks
        found = self._moving.get(key)
        if found is None:
            builder = Builder("move")
            x = builder.param(cut(type, now, axis.ranks))
            Work(builder, _not_first(axis)).moved_to(x, now, then, type)
            found = self._moving[key] = sum(map(self.of, builder.nodes))
        return found

    def of(self, node: Node) -> float:
        """What one op takes as it stands; of branches and loops, what is in them once."""
        if node.op.name in FREE:
            return 0.0
        if node.op.communicates:
            nbytes = sum([v.type.nbytes for v in node.operands])
            return self.link_seconds(node.op.name, nbytes, *_group(node))
        if node.regions:
            return sum([self.of(inner) for region in node.regions for inner in region.nodes])
        return self.op_seconds(node)


def _group(node: Node) -> tuple[str, int]:
    return node.attributes["comm"], node.attributes["ranks"]


def _not_first(axis: MeshAxis) -> MeshAxis:
    return axis._replace(rank=axis.ranks - 1)


def guessed(node: Node) -> float:
    """About the seconds that an op takes, as long as nobody has measured it."""
    types = [v.type for v in node.operands], [v.type for v in node.results]
    if node.op.name == "broadcast_to":
        return STEP
    return STEP + 1e-6 * computing(node.op.name, *types, 1.0)


def op_key(node: Node) -> tuple[Op, Any, tuple[TensorType, ...]]:
    """Equal for ops that take equally long."""
    return node.op, node.attrs, tuple([v.type for v in node.operands])
