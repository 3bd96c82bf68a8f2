"""How long ops take: measured where it counts, one op in a plan of its own, once for its types.

Steps of a plan are quicker than ops by themselves: chains of elementwise ops are one kernel, and
what is small stays in caches.  So the whole step is measured, too, and ops that do little with each
element are scaled such that all together take as long as it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybrid.distributed.strategies.link_speeds import agreed
from hybrid.distributed.strategies.plan_times import runner, seconds_of
from hybrid.eager.fused_calls import optimized
from hybrid.errors import HybridError
from hybrid.ir import Builder, Graph, Node
from hybrid.memory.channels import Channel
from hybrid.passes.layouts.layout_costs import is_long
from hybrid.passes.layouts.local_prices import guessed, op_key

WORTH = 2e-6  # seconds that an op has to take, as is guessed, to be measured
LEAST, MOST = 0.02, 2.0  # of the scale

_known: dict[Any, float] = {}  # by ``op_key``, of this job: the first rank's


class OpTimes:
    """The seconds that ops take on the ranks of ``channel``, which all ask for the same ones."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.scale = 1.0  # of ops that are not long
        self.waiting: dict[Any, Node] | None = None  # what is to be measured, while that is noted

    def seconds(self, node: Node) -> float:
        """The time of ``node``; as long as it is not measured, about that."""
        key, about = op_key(node), guessed(node)
        found = _known.get(key)
        if found is None:
            if self.waiting is not None and about >= WORTH and node.op.pure and not node.op.hosted:
                self.waiting[key] = node
            found = about
        return found if is_long(node.op.name) else found * self.scale

    def measure(self, nodes: Iterable[Node]) -> None:
        """Measure ops that are not known; all ranks do so at once, as they would in a step."""
        left = {op_key(node): node for node in nodes if op_key(node) not in _known}
        found = agreed(self.channel, [_alone(node) for node in left.values()])
        _known.update(zip(left, found, strict=True))

    def calibrate(self, graph: Graph) -> float:
        """Measure a step with the whole ``graph`` on one rank, and scale what is short by it."""
        nodes = [node for node in graph.nodes if not node.op.communicates]
        self.scale = 1.0
        times = [(is_long(node.op.name), self.seconds(node)) for node in nodes]
        long = sum([seconds for is_long_, seconds in times if is_long_])
        short = sum([seconds for is_long_, seconds in times if not is_long_])
        if any([node.regions or not node.op.pure for node in graph.nodes]):
            return long + short  # what it does depends on values
        [whole] = agreed(self.channel, [seconds_of(runner(optimized(graph)))])
        if short:
            self.scale = min(max((whole - long) / short, LEAST), MOST)
        return whole


def _alone(node: Node) -> float:
    builder = Builder("op")
    operands = [builder.param(v.type) for v in node.operands]
    graph = builder.finish(builder.apply(node.op, operands, node.attributes))
    try:
        return seconds_of(runner(graph))
    except HybridError:  # of values that it does not take: those of a triangular system, say
        return guessed(node)
