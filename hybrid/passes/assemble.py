"""Assembly: parts that are put into zeros and added up are joined.

Before::                                                  After::

    %z: f32[4] = full {shape=(4,), value=0.0}                 %c: f32[4] = concat %a, %b {axis=0}
    %p: f32[4] = slice_assign %z, %a {size=(2,), start=(0,)}
    %q: f32[4] = slice_assign %z, %b {size=(2,), start=(2,)}
    %c: f32[4] = add %p, %q

That is how the gradients of slices come together.  Zeros are added to each part on the way, and
0.0 + -0.0 is 0.0: so only parts count that are a sum with 0.0 themselves, and have no -0.0 left.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hybrid.ir import Builder, Graph, Node, Value, rewrite
from hybrid.ops.joining import join
from hybrid.passes.facts import Facts


class Parts(NamedTuple):
    """What a value is along ``axis``: by its start, each part and the end; zeros between them."""

    axis: int
    placed: dict[int, tuple[Value, int]]


def assemble(graph: Graph) -> Graph:
    """``graph`` with sums of parts that fill a whole tensor as one ``concat``."""
    facts = Facts()
    known: dict[Value, Parts] = {}

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op.name == "slice_assign":
            alone = _part(node, facts)
            if alone is not None:
                known[node.results[0]] = alone
        if node.op.name != "add":
            return None
        a, b = [known.get(v) for v in node.operands]
        together = _together(a, b) if a and b else None
        if together is None:
            return None
        known[node.results[0]] = together
        order = sorted(together.placed)
        starts = [0, *[together.placed[at][1] for at in order]]
        if starts != [*order, node.results[0].type.shape[together.axis]]:
            return None
        parts = [together.placed[at][0] for at in order]
        return builder.apply(join, parts, {"axis": together.axis})

    return rewrite(graph, rule, regions=assemble)


def _part(node: Node, facts: Facts) -> Parts | None:
    """The part that ``node`` puts into zeros, if it is one along a single axis."""
    onto, value = node.operands
    whole, place = onto.type.shape, node.attributes
    along = [axis for axis, n in enumerate(place["size"]) if n != whole[axis]]
    summed = facts.by("add", value)
    if len(along) != 1 or not facts.is_zero(onto) or place["step"] != (1,) * len(whole):
        return None
    if summed is None or not any(map(facts.is_zero, summed.operands)):
        return None
    (axis,) = along
    start = place["start"][axis]
    return Parts(axis, {start: (value, start + place["size"][axis])})


def _together(a: Parts, b: Parts) -> Parts | None:
    """The parts of a sum; None where two overlap, or lie along different axes."""
    placed = a.placed | b.placed
    ends = [(start, end) for start, (_, end) in sorted(placed.items())]
    apart = all(end <= start for (_, end), (start, _) in pairwise(ends))
    if a.axis != b.axis or len(placed) != len(a.placed) + len(b.placed) or not apart:
        return None
    return Parts(a.axis, placed)
