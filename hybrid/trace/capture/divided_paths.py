"""Collectives on paths that may differ from rank to rank: refused when a function is captured.

A branch or loop that communicates has to go the same way on all ranks of the channel; else those
that go there wait for the others.  A plan cannot ask them each time, so the value that decides must
be known to be the same: made of constants and of what collectives give to all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.errors import CaptureError
from hybrid.ir import Graph, Node, Value
from hybrid.memory.channels import WORLD
from hybrid.ops.communication.collectives import SHARED, known_alike
from hybrid.ops.communication.shard_sums import parts_total

Channels = frozenset[str]
EVERYWHERE: Channels = frozenset({"*"})  # of constants: the same on all ranks of any channel
NOWHERE: Channels = frozenset()


def refuse_divided_paths(graph: Graph) -> None:
    """Raise CaptureError if the ranks may go different ways to a collective of ``graph``."""
    if any(node.op.communicates for node in graph.walk()):
        _walk(graph, [NOWHERE] * len(graph.params))


def _walk(graph: Graph, given: Sequence[Channels]) -> list[Channels]:
    """On the ranks of which channels each result is the same, if parameters are on ``given``."""
    same: dict[Value, Channels] = dict(zip(graph.params, given, strict=True))
    for node in graph.nodes:
        found = [same[v] for v in node.operands]
        results = _through(node, found) if node.regions else [_of(node, found)] * len(node.results)
        same.update(zip(node.results, results, strict=True))
    return [same[v] for v in graph.results]


def _of(node: Node, operands: Sequence[Channels]) -> Channels:
    if node.op is known_alike:
        return EVERYWHERE
    if node.op in SHARED or node.op is parts_total:
        name = node.attributes["comm"]
        own = frozenset({"*"}) if name == WORLD else frozenset({name})
        return _joined(operands[0], own)
    if not node.op.pure:
        return NOWHERE
    return _common(operands)


def _joined(a: Channels, b: Channels) -> Channels:
    return EVERYWHERE if "*" in a | b else a | b


def _common(found: Sequence[Channels]) -> Channels:
    result = EVERYWHERE
    for channels in found:
        result = (
            channels if result == EVERYWHERE else result if "*" in channels else result & channels
        )
    return result


def _through(node: Node, operands: list[Channels]) -> list[Channels]:
    name = node.op.name
    if name == "cond":
        _require_same(node, node.regions, operands[0])
        ways = [_walk(region, operands[1:]) for region in node.regions]
        return [_common([operands[0], *found]) for found in zip(*ways, strict=True)]
    if name in ("while", "for"):
        return _loop(node, operands)
    if len(node.regions) == 1 and len(node.regions[0].params) == len(operands):
        return _walk(node.regions[0], operands)
    _require_same(node, node.regions, NOWHERE)
    return [NOWHERE] * len(node.results)


def _loop(node: Node, operands: list[Channels]) -> list[Channels]:
    """Of a loop: until no iteration makes less of what is carried."""
    carried = node.attributes["carried"]
    is_for = node.op.name == "for"
    decides, state = operands[0], list(operands[1:])
    while True:
        inside = [decides, *state] if is_for else state
        found = _walk(node.regions[0], inside)
        test = decides if is_for else _common([decides, found[0]])
        results = found if is_for else found[1:]
        after = [_common([old, new]) for old, new in zip(state, results[:carried], strict=False)]
        if after == state[:carried] and test == decides:
            break
        state[:carried], decides = after, test
    _require_same(node, node.regions, decides)
    stacks = [_common([decides, found]) for found in results[carried:]]
    ends = [_common([decides, found]) for found in state[:carried]]
    return [*ends, *stacks] if is_for else [decides, *ends, *stacks]


def _require_same(node: Node, regions: Sequence[Graph], decides: Channels) -> None:
    for region in regions:
        for inner in region.walk():
            if not inner.op.communicates or inner.attributes["ranks"] == 1:
                continue
            if "*" in decides or inner.attributes["comm"] in decides:
                continue
            kind = "branch" if node.op.name == "cond" else "loop"
            raise CaptureError(
                f"{inner.op.name} in a {kind} that the ranks may not take alike",
                at=inner.location or node.location,
                why=f"The {kind} is decided by a tensor that need not be the same on all ranks, "
                "and those who come here would wait for the others for ever.",
                fix="let a collective make what decides: if hybrid.distributed.all_reduce(x, "
                '"max") > 0; or move the collective out of it',
            )
