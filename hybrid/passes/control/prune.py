"""Pruning: control flow gives only what is used, and loops carry only what that depends on.

Before::                                                  After::

    %a: f32[], %b: f32[] = for %n, %x, %y {                   %a: f32[] = for %n, %x {
      body(%i: i64[], %a: f32[], %b: f32[]) {                   body(%i: i64[], %a: f32[]) {
        %a_1: f32[] = exp %a                                      %a_1: f32[] = exp %a
        %b_1: f32[] = sin %b                                      return %a_1
        return %a_1, %b_1                                       }
      }                                                       }
    }                                                         return %a
    return %a
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ops.flow.control import LOOPS, cond
from hybrid.passes.control.parts import Cond, LoopParts


def prune(node: Node, used: set[Value]) -> list[Node]:
    """``node`` with only those results that are ``used``, after the nodes that it then needs."""
    if node.op is cond:
        return [_pruned_cond(node, used)]
    if node.op in LOOPS:
        return _pruned_loop(node, used)
    return [node]


def _pruned_cond(node: Node, used: set[Value]) -> Node:
    parts = Cond(node)
    parts.outputs = [output for output in parts.outputs if output.result in used]
    if not parts.drop_unused() and len(parts.outputs) == len(node.results):
        return node
    return parts.node()


def _pruned_loop(node: Node, used: set[Value]) -> list[Node]:
    loop = LoopParts(node)
    before = len(loop.stacks), len(loop.carried)
    needed = _operands_for(node, used)
    loop.stacks = [stack for stack in loop.stacks if stack.result in used]
    loop.carried = [c for k, c in enumerate(loop.carried) if needed >> (k + 1) & 1]
    if not loop.drop_unused() and before == (len(loop.stacks), len(loop.carried)):
        return [node]
    builder = Builder()
    builder.location = node.location
    new = loop.node(builder)
    return [*builder.nodes, new]


# What results depend on.  Sets of operands and of parameters are masks: an int with a bit for each.


class Needs(NamedTuple):
    """The masks of what is needed ``always``, and for each of the ``results`` besides."""

    always: int
    results: tuple[int, ...]


def _operands_for(node: Node, used: set[Value]) -> int:
    """The operands that ``node`` needs for those of its results that are ``used``, as a mask."""
    always, results = _of_node(node)
    return functools.reduce(
        operator.or_, [m for v, m in zip(node.results, results, strict=True) if v in used], always
    )


def _of_node(node: Node) -> Needs:
    """What the results of ``node`` need of its operands."""
    if node.op is cond:
        then, other = [_of_region(region) for region in node.regions]
        both = zip(then.results, other.results, strict=True)
        return Needs(1 | (then.always | other.always) << 1, tuple([(a | b) << 1 for a, b in both]))
    if node.op in LOOPS:
        (body,) = node.regions
        key = _of_node, node.op, node.attributes["carried"]
        if key not in body.derived:
            body.derived[key] = _of_loop(LoopParts(node), _of_region(body))
        return body.derived[key]
    return Needs((1 << len(node.operands)) - 1, (0,) * len(node.results))


def _of_loop(loop: LoopParts, body: Needs) -> Needs:
    """What the results of ``loop`` need of its operands, given what those of its ``body`` do."""
    # The first operand is the count or first test, the first parameter of a for is the index.
    masks = [mask >> 1 << 1 if loop.is_for else mask << 1 for mask in (body.always, *body.results)]
    base, *returned = masks
    if loop.test is not None:
        base |= returned.pop(0)
    count = len(loop.carried)

    def closed(mask: int) -> int:
        """``mask`` with what is needed for carried values in it that iterations have changed."""
        left = mask & carried
        while left:
            k = (left & -left).bit_length() - 1
            more = returned[k - 1] & ~mask
            mask |= more
            left = (left & left - 1) | (more & carried)
        return mask

    carried = (1 << count + 1) - 2
    results = [closed(1 << k + 1) for k in range(count)] + [closed(m) for m in returned[count:]]
    return Needs(1 | closed(base), tuple([0] * (loop.trips is not None) + results))


def _of_region(region: Graph) -> Needs:
    """What the results of ``region``, and its observable nodes, need of its parameters."""
    found = region.derived.get(_of_region)
    if found is None:
        masks = {param: 1 << i for i, param in enumerate(region.params)}
        always = 0
        for node in region.nodes:
            operands = [masks.get(v, 0) for v in node.operands]
            needs = _of_node(node) if node.regions else None
            first = _joined(operands, needs and needs.always)
            for i, result in enumerate(node.results):
                more = 0 if needs is None else _joined(operands, needs.results[i])
                masks[result] = first | more
            if node.observable:
                always |= first
        results = tuple([masks.get(v, 0) for v in region.results])
        found = region.derived[_of_region] = Needs(always, results)
    return found


def _joined(masks: Sequence[int], chosen: int | None) -> int:
    """The union of the ``masks``, or of those with a bit in ``chosen``."""
    if chosen is None:
        return functools.reduce(operator.or_, masks, 0)
    return functools.reduce(operator.or_, [m for i, m in enumerate(masks) if chosen >> i & 1], 0)
