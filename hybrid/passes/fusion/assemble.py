"""Assemble: a sum of parts, each laid on zeros of its own, is one tensor that takes the parts.

The gradient of what was split or sliced is such a sum.

Before::                                              After::

    %z: f32[8] = full {value=0.0}                         %s: f32[8] = concat %a, %b {axis=0}
    %p: f32[8] = slice_assign %z, %a {start=(0,)}
    %q: f32[8] = slice_assign %z, %b {start=(4,)}
    %s: f32[8] = add %p, %q

It is exact where no part holds -0.0, which the sum would make 0.0: parts that were added to 0.0,
as gradients of slices are, hold none.
"""

from __future__ import annotations

from typing import NamedTuple

from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite, steady
from hybrid.passes.scalar.facts import Facts


class PlacedPart(NamedTuple):
    """A value, and where it lies: of each axis the first index, how many, and how far apart."""

    value: Value
    start: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]

    @property
    def box(self) -> list[tuple[int, int]]:
        """The least and the greatest index of each axis."""
        ends = [s + (n - 1) * by for s, n, by in zip(self.start, self.size, self.step, strict=True)]
        return [(min(s, e), max(s, e)) for s, e in zip(self.start, ends, strict=True)]

    def meets(self, other: PlacedPart) -> bool:
        """Whether some element may lie in both."""
        boxes = zip(self.box, other.box, strict=True)
        return all(low <= top and bottom <= high for (low, high), (bottom, top) in boxes)


@steady
def assemble(graph: Graph) -> Graph:
    """``graph`` without sums of parts of one tensor that do not meet."""
    facts = Facts()
    laid: dict[Value, tuple[PlacedPart, ...]] = {}  # what is zeros but for these parts

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op.name == "slice_assign":
            parts = _with_part(node, facts, laid)
            if parts is not None:
                laid[node.results[0]] = parts
        elif node.op.name == "add" and all(value in laid for value in node.operands):
            x, y = node.operands
            parts = (*laid[x], *laid[y])
            if x.type is y.type and not any(a.meets(b) for a in laid[x] for b in laid[y]):
                made = _joined(parts, x, builder) or _added(x, laid[y], builder)
                facts.add(builder.nodes[-1])
                laid[made] = parts
                return (made,)
        return None

    return rewrite(graph, rule, regions=assemble)


def _with_part(
    node: Node, facts: Facts, laid: dict[Value, tuple[PlacedPart, ...]]
) -> tuple[PlacedPart, ...] | None:
    """The parts that the result of a ``slice_assign`` consists of, if the rest is zeros."""
    base, value = node.operands
    before = () if facts.is_zero(base) else laid.get(base)
    if before is None or value.type.size == 0 or not _added_to_zero(value, facts):
        return None
    attrs = node.attributes
    part = PlacedPart(value, attrs["start"], attrs["size"], attrs["step"])
    return None if any(part.meets(other) for other in before) else (*before, part)


def _added_to_zero(value: Value, facts: Facts) -> bool:
    """Whether no element can be -0.0."""
    node = facts.by("add", value)
    return node is not None and any(facts.is_zero(operand) for operand in node.operands)


def _added(base: Value, parts: tuple[PlacedPart, ...], builder: Builder) -> Value:
    """``base`` with ``parts`` in their places."""
    for part in parts:
        attrs = {"start": part.start, "size": part.size, "step": part.step}
        (base,) = builder.apply(get_op("slice_assign"), (base, part.value), attrs)
    return base


def _joined(parts: tuple[PlacedPart, ...], whole: Value, builder: Builder) -> Value | None:
    """The parts one after the other, if they are all that there is of ``whole``."""
    shape = whole.type.shape
    cut = [axis for axis, size in enumerate(shape) if any(p.size[axis] != size for p in parts)]
    if len(cut) != 1 or any(by != 1 for part in parts for by in part.step):
        return None
    (axis,) = cut
    ordered = sorted(parts, key=lambda part: part.start[axis])
    if sum(part.size[axis] for part in ordered) != shape[axis]:
        return None
    values = tuple([part.value for part in ordered])
    [made] = builder.apply(get_op("concat"), values, {"axis": axis})
    if made.type is not whole.type:  # sizes that agree here are written otherwise
        [made] = builder.apply(get_op("reshape"), (made,), {"shape": shape})
    return made
