"""What a plan communicates, as the ranks compare it before its first run.

Ranks whose plans have other collectives, or the same in another order, would wait for each other
for ever.  So a plan that communicates begins with a step that tells its channel what is to come:
op, types and attributes of each collective, and the branches and loops that it is in.  Messages
from one rank to another are not among it, for the two ranks have one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.types import TensorType
from hybrid.ir import Graph, Node, Value
from hybrid.memory.channels import CollectiveCall, is_compared, number_of, reach
from hybrid.plan.steps import HostCall, Step

POINT_TO_POINT = frozenset({"send", "recv"})


@dataclass(frozen=True, slots=True)
class Agreement:
    """A call that compares the collectives of a plan which go through one channel."""

    comm: str
    ranks: int
    entries: tuple[CollectiveCall, ...]
    root: bool  # whether it is the plan of an eager call, which is compared each time
    kind = "agree"
    place = -1

    def __call__(self) -> tuple[()]:
        reach(self.comm, self.ranks).agree(self.entries, eager=self.root)
        return ()

    def bound(self, type_of: Callable[[TensorType], TensorType]) -> Agreement:
        """The same for a graph whose open types are what ``type_of`` says."""
        return replace(self, entries=tuple([at_sizes(entry, type_of) for entry in self.entries]))

    def channel_number(self, _step: HostCall) -> int:
        """By which C knows the channel."""
        return number_of(self.comm, self.ranks)

    @property
    def __name__(self) -> str:
        return self.kind


def call_of(node: Node, inside: str = "") -> CollectiveCall:
    """What the ranks compare of one node."""
    given = sorted(node.attributes.items())
    return CollectiveCall(
        name=node.op.name,
        types=tuple([v.type for v in node.operands[:1]]),  # the others are there, and do not move
        attributes=" ".join([f"{k}={v}" for k, v in given if k not in ("comm", "ranks")]),
        inside=inside,
        location=node.location,
    )


def at_sizes(call: CollectiveCall, type_of: Callable[[TensorType], TensorType]) -> CollectiveCall:
    """The same where open types are what ``type_of`` says."""
    return replace(call, types=tuple(map(type_of, call.types)))


def agreements(graph: Graph) -> list[Step]:
    """The steps that compare what ``graph`` communicates, one for each channel."""
    found: dict[tuple[str, int], list[CollectiveCall]] = {}
    for inside, node in _communicating(graph, ""):
        given = node.attributes
        if given["ranks"] > 1 and node.op.name not in POINT_TO_POINT:
            calls = found.setdefault((given["comm"], given["ranks"]), [])
            calls.append(call_of(node, inside))
    eager = all(node.location is None for node in graph.walk())
    return [
        Step(
            kernel=None,
            inputs=[],
            outputs=[],
            call=HostCall(Agreement(comm, ranks, tuple(calls), eager), (), ()),
        )
        for (comm, ranks), calls in found.items()
        if is_compared(comm, ranks)
    ]


def _communicating(graph: Graph, inside: str) -> Iterator[tuple[str, Node]]:
    made = {value: node for node in graph.nodes for value in node.results}
    for node in graph.nodes:
        if node.op.communicates:
            yield inside, node
        for at, region in enumerate(node.regions):
            yield from _communicating(region, f"{inside}{_around(node, at, made)}: ")


def _around(node: Node, region: int, made: dict[Value, Node]) -> str:
    """How ranks that run ``node`` have to agree: a loop goes round as often on all of them."""
    if node.op.name == "cond":
        return f"branch {region + 1}"
    count = made.get(node.operands[0]) if node.op.name == "for" else None
    known = count is not None and count.op.name == "full"
    return f"loop of {count.attributes['value']}" if known else "loop"
