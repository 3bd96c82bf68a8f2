"""Simpler loops: what no iteration changes is not carried, and nothing is carried twice.

Before::                                                After::

    %n: i64[], %a: f32[], %b: f32[] = while ... {         %n: i64[], %a: f32[] = while ... {
      body(%a: f32[], %b: f32[], %x: f32[], %y: f32[]) {    body(%a: f32[], %b: f32[]) {
        %a_1: f32[] = add %a, %b                              %a_1: f32[] = add %a, %b
        ...                                                   ...
        return %go, %a_1, %b                                  return %go, %a_1
      }                                                     }
    }                                                     }
    return %a, %b                                         return %a, %operand
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, rewrite
from hybrid.ir.rewrite import with_replaced
from hybrid.ops.control import for_, while_
from hybrid.ops.creation import fill
from hybrid.passes.cse import cse
from hybrid.passes.facts import Facts
from hybrid.passes.parts import Carried, Given, Loop, Renaming, Stack, holds_control_flow


def simplify_loop(graph: Graph) -> Graph:
    """``graph`` with loops that carry and take only what they must."""
    if not holds_control_flow(graph):
        return graph
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op not in (while_, for_):
            return None
        loop = Loop(node)
        replaced = _fix(loop, facts) | _merge_carried(loop)
        replaced |= _merge_stacks(loop) | _drop_empty_stacks(loop, builder)
        changed = _merge_given(loop)
        changed = loop.drop_unused() or changed
        if not (changed or replaced):
            return None
        builder.append(loop.node(builder))
        return tuple([replaced.get(v, v) for v in node.results])

    return rewrite(graph, rule, regions=simplify_loop)


def _fix(loop: Loop, facts: Facts) -> Renaming:
    """Make invariants of the carried values that every iteration returns as it got them.

    Assume it of all, then give up those that another value may replace, until none is left to.
    """
    outside = {given.param: given.operand for given in loop.invariants}
    outside |= {carried.param: carried.initial for carried in loop.carried}
    constants = {node.results[0]: node for node in loop.nodes if node.op.name == "full"}
    fixed = list(loop.carried)
    while True:
        kept = [
            c
            for c in fixed
            if outside.get(c.next) is c.initial or _equal(constants.get(c.next), c.initial, facts)
        ]
        if len(kept) == len(fixed):
            break
        for carried in set(fixed).difference(kept):
            del outside[carried.param]
        fixed = kept
    loop.carried = [c for c in loop.carried if c not in fixed]
    loop.invariants += [Given(c.initial, c.param) for c in fixed]
    return {c.result: c.initial for c in fixed}


def _equal(constant: Node | None, value: Value, facts: Facts) -> bool:
    other = facts.by("full", value)
    return constant is not None and other is not None and constant.key == other.key


def _merge_carried(loop: Loop) -> Renaming:
    """Carry once what begins and goes on as the same value."""
    replaced: Renaming = {}
    while (pair := _equal_pair(loop)) is not None:
        kept, dropped = pair
        replaced[dropped.result] = kept.result
        loop.carried.remove(dropped)
        loop.rename({dropped.param: kept.param})
    return replaced


def _equal_pair(loop: Loop) -> tuple[Carried, Carried] | None:
    first: dict[Value, Carried] = {}
    for carried in loop.carried:
        other = first.setdefault(carried.initial, carried)
        if other is not carried and _stay_equal(loop, other, carried):
            return other, carried
    return None


def _stay_equal(loop: Loop, a: Carried, b: Carried) -> bool:
    """Whether an iteration that gets equal values for both returns equal ones."""
    nodes = tuple([with_replaced(node, {b.param: a.param}) for node in loop.nodes])
    results = [a.param if v is b.param else v for v in (a.next, b.next)]
    first, second = cse(Graph("", (), nodes, tuple(results))).results
    return first is second


def _merge_stacks(loop: Loop) -> Renaming:
    """Stack each value once."""
    first: dict[Value, Stack] = {}
    replaced: Renaming = {}
    for stack in loop.stacks:
        kept = first.setdefault(stack.row, stack)
        if kept is not stack:
            replaced[stack.result] = kept.result
    loop.stacks = list(first.values())
    return replaced


def _drop_empty_stacks(loop: Loop, builder: Builder) -> Renaming:
    """A stack of no rows needs no loop.  (A ``for`` of length 0 makes no iteration.)"""
    if loop.is_for or loop.length:
        return {}
    empty, loop.stacks = loop.stacks, []
    replaced: Renaming = {}
    for stack in empty:
        attrs = {"shape": stack.result.type.shape, "dtype": stack.result.type.dtype, "value": 0}
        (replaced[stack.result],) = builder.apply(fill, (), attrs, hints=(stack.result.hint,))
    return replaced


def _merge_given(loop: Loop) -> bool:
    """Slice each operand once, and give each invariant once."""
    renaming: Renaming = {}

    def merged(given: list[Given]) -> list[Given]:
        first: dict[Value, Given] = {}
        for each in given:
            kept = first.setdefault(each.operand, each)
            if kept is not each:
                renaming[each.param] = kept.param
        return list(first.values())

    loop.slices, loop.invariants = merged(loop.slices), merged(loop.invariants)
    loop.rename(renaming)
    return bool(renaming)
