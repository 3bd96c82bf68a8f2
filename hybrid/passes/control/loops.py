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

from collections.abc import Iterable, Sequence

from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady
from hybrid.ir.rewrite import with_replaced
from hybrid.ops.flow.control import FLAG, LOOPS
from hybrid.ops.shapes.creation import fill
from hybrid.passes.control.parts import (
    CarriedValue,
    Given,
    LoopParts,
    Renaming,
    Stack,
    fresh,
    holds_control_flow,
    used_values,
)
from hybrid.passes.scalar.cse import cse
from hybrid.passes.scalar.facts import Facts, implied
from hybrid.passes.scalar.simplify import simplify


@steady
def simplify_loop(graph: Graph) -> Graph:
    """``graph`` with loops that carry and take only what they must."""
    if not holds_control_flow(graph):
        return graph
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op not in LOOPS:
            return None
        loop = LoopParts(node)
        replaced = _fix(loop, facts)
        flags = _flags_at_entry(loop, facts)
        replaced |= _merge_carried(loop, flags)
        replaced |= _merge_stacks(loop) | _drop_empty_stacks(loop, builder)
        changed = _say(loop, flags)
        changed = _merge_given(loop) or changed
        changed = loop.drop_unused() or changed
        if not (changed or replaced):
            return None
        builder.append(loop.node(builder))
        return tuple([replaced.get(v, v) for v in node.results])

    return rewrite(graph, rule, regions=simplify_loop)


def _fix(loop: LoopParts, facts: Facts) -> Renaming:
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


def _flags_at_entry(loop: LoopParts, facts: Facts) -> dict[Value, bool]:
    """Carried flags that are the same whenever an iteration begins, for else it would not."""
    if loop.test is None:
        return {}
    own = Facts()
    for node in loop.nodes:
        own.add(node)
    before = implied(loop.head, True, facts.defining)
    again = implied(loop.test, True, own.defining)
    return {
        c.param: before[c.initial]
        for c in loop.carried
        if c.initial in before and before[c.initial] == again.get(c.next)
    }


def _say(loop: LoopParts, flags: dict[Value, bool]) -> bool:
    """Put constants for ``flags`` into the body, where it reads them."""
    used = used_values(loop.nodes, loop.returned)
    known = {param: truth for param, truth in flags.items() if param in used}
    inside = {param: fresh(param) for param in known}
    loop.rename(inside)
    loop.nodes[:0] = [_constant(inside[param], truth) for param, truth in known.items()]
    return bool(known)


def _constant(value: Value, truth: bool) -> Node:
    attrs = fill.attributes({"shape": (), "dtype": FLAG.dtype, "value": truth})
    return Node(fill, (), attrs, (value,), (), value.location)


def _merge_carried(loop: LoopParts, flags: dict[Value, bool]) -> Renaming:
    """Carry once what begins and goes on as the same value."""
    replaced: Renaming = {}
    params: Renaming = {}
    for group in _equal_groups(loop, flags):
        kept = next((c for c in group if c.param in flags), group[0])
        for dropped in group:
            if dropped is not kept:
                replaced[dropped.result] = kept.result
                params[dropped.param] = kept.param
    loop.carried = [carried for carried in loop.carried if carried.param not in params]
    loop.rename(params)
    return replaced


def _equal_groups(loop: LoopParts, flags: dict[Value, bool]) -> list[list[CarriedValue]]:
    """Those of the carried values that are one in every iteration, together.

    All that begin as one are taken for one, until an iteration turns out to tell them apart.
    """
    begun: dict[Value, list[CarriedValue]] = {}
    for carried in loop.carried:
        begun.setdefault(carried.initial, []).append(carried)
    groups = [group for group in begun.values() if len(group) > 1]
    if not groups:
        return groups
    # What is before a loop changes more often than what is in it: the body knows the answer.
    derived = loop.source.regions[0].derived
    asked = tuple([tuple([(c.param, flags.get(c.param)) for c in group]) for group in groups])
    key = _equal_groups, asked
    if key not in derived:
        derived[key] = [{c.param for c in group} for group in _told_apart(loop, groups, flags)]
    return [[c for c in loop.carried if c.param in params] for params in derived[key]]


def _told_apart(
    loop: LoopParts, groups: list[list[CarriedValue]], flags: dict[Value, bool]
) -> list[list[CarriedValue]]:
    """``groups``, divided until an iteration finds the members of each equal."""
    while groups:
        parts = [part for group in _ended(loop, groups, flags) for part in group.values()]
        parts = [part for part in parts if len(part) > 1]
        if parts == groups:
            break
        groups = parts
    return groups


def _ended(
    loop: LoopParts, groups: Sequence[list[CarriedValue]], flags: dict[Value, bool]
) -> list[dict[Value, list[CarriedValue]]]:
    """What an iteration returns for the members of each group, if it finds them equal."""
    renaming, head = {}, []
    for group in groups:
        known = next((flags[c.param] for c in group if c.param in flags), None)
        param = group[0].param if known is None else fresh(group[0].param)
        renaming |= {c.param: param for c in group}
        if known is not None:
            head.append(_constant(param, known))
    nodes = (*head, *[with_replaced(node, renaming) for node in loop.nodes])
    members = [c for group in groups for c in group]
    results = tuple([renaming.get(c.next, c.next) for c in members])
    nodes = _leading_to(nodes, results)
    ends = iter(cse(simplify(Graph("", (), nodes, results))).results)
    found: list[dict[Value, list[CarriedValue]]] = []
    for group in groups:
        found.append({})
        for carried in group:
            found[-1].setdefault(next(ends), []).append(carried)
    return found


def _leading_to(nodes: Sequence[Node], values: Iterable[Value]) -> tuple[Node, ...]:
    """Those of ``nodes`` that compute ``values``, with all that they own."""
    used, kept = set(values), []
    for node in reversed(nodes):
        if not used.isdisjoint(node.results):
            used.update(node.operands)
            kept.append(node)
    return tuple(reversed(kept))


def _merge_stacks(loop: LoopParts) -> Renaming:
    """Stack each value once."""
    first: dict[Value, Stack] = {}
    replaced: Renaming = {}
    for stack in loop.stacks:
        kept = first.setdefault(stack.row, stack)
        if kept is not stack:
            replaced[stack.result] = kept.result
    loop.stacks = list(first.values())
    return replaced


def _drop_empty_stacks(loop: LoopParts, builder: Builder) -> Renaming:
    """A stack of no rows needs no loop.  (A ``for`` of length 0 makes no iteration.)"""
    if loop.is_for or loop.length:
        return {}
    empty, loop.stacks = loop.stacks, []
    replaced: Renaming = {}
    for stack in empty:
        attrs = {"shape": stack.result.type.shape, "dtype": stack.result.type.dtype, "value": 0}
        (replaced[stack.result],) = builder.apply(fill, (), attrs, hints=(stack.result.hint,))
    return replaced


def _merge_given(loop: LoopParts) -> bool:
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
