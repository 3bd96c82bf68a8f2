"""Sinking: what regions are given and is known outside is said inside.

Before::                                        After::

    %c: f32[] = full {shape=(), value=2, ...}       %y: f32[] = cond %p, %x {
    %y: f32[] = cond %p, %x, %c, %p {                 then(%x: f32[]) {
      then(%x: f32[], %c: f32[], %q: bool[]) {          %c: f32[] = full {shape=(), value=2, ...}
        ...                                             %q: bool[] = full {..., value=true}
      }                                                 ...

Constants move in, and so does the predicate, which in its branches is true and false, with the
flags that this decides.  Then fold, simplify and fuse see them there.
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady, with_regions
from hybrid.ops.flow.control import FLAG, LOOPS, cond
from hybrid.ops.shapes.creation import fill
from hybrid.passes.control.parts import Cond, Given, LoopParts, fresh, holds_control_flow
from hybrid.passes.scalar.facts import Facts, implied

MAX_NBYTES = 4096  # of a literal: larger ones are passed in

_TRUE, _FALSE = (
    Node(fill, (), fill.attributes({"shape": (), "dtype": FLAG.dtype, "value": value}), ())
    for value in (True, False)
)


@steady
def sink(graph: Graph) -> Graph:
    """``graph`` with regions that know the constants that they use."""
    if not holds_control_flow(graph):
        return graph
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        new = node
        if node.op is cond:
            new = _into_branches(node, facts)
        elif node.op in LOOPS:
            new = _into_body(node, facts, builder)
        if new.regions:
            new = with_regions(new, sink)  # afterwards: what came in may go further in
        if new is node:
            return None
        builder.append(new)
        return new.results

    return rewrite(graph, rule)


def _into_branches(node: Node, facts: Facts) -> Node:
    parts = Cond(node)
    flags = [implied(parts.pred, truth, facts.defining) for truth in (True, False)]
    heads: tuple[list[Node], list[Node]] = ([], [])
    for given in list(parts.inputs):
        constants = [_known(given.operand, facts, known) for known in flags]
        if None not in constants:
            parts.inputs.remove(given)
        for branch, (param, constant) in enumerate(zip(given.params, constants, strict=True)):
            if constant is None or (None in constants and param not in parts.used(branch)):
                continue
            inside = fresh(param)
            parts.rename(branch, {param: inside})
            heads[branch].append(_defining(inside, constant, node))
    if not any(heads):
        return node
    parts.nodes = [head + nodes for head, nodes in zip(heads, parts.nodes, strict=True)]
    return parts.node()


def _into_body(node: Node, facts: Facts, builder: Builder) -> Node:
    parts = LoopParts(node)
    head: list[Node] = []
    flags: dict[Value, bool] = {}
    if parts.test is not None:  # an iteration runs only if the test of the first one holds
        flags = implied(parts.head, True, facts.defining)

    def unknown(given: list[Given], sliced: bool) -> list[Given]:
        """Those of ``given`` that ``head`` does not define."""
        kept = []
        for operand, param in given:
            constant = _known(operand, facts, flags)
            if constant is None or (sliced and constant.op is not fill):
                kept.append(Given(operand, param))
            else:
                head.append(_defining(param, constant, node))
        return kept

    parts.slices = unknown(parts.slices, True)
    parts.invariants = unknown(parts.invariants, False)
    if not head:
        return node
    parts.nodes = head + parts.nodes
    return parts.node(builder)


def _known(value: Value, facts: Facts, flags: dict[Value, bool]) -> Node | None:
    """What may define ``value`` inside; None when it is not known."""
    if value in flags:
        return _TRUE if flags[value] else _FALSE
    negation = facts.by("logical_not", value)
    if negation is not None and negation.operands[0] in flags:
        return _FALSE if flags[negation.operands[0]] else _TRUE
    node = facts.constant(value)
    small = node is not None and (node.op is fill or value.type.nbytes <= MAX_NBYTES)
    return node if small else None


def _defining(param: Value, constant: Node, user: Node) -> Node:
    """What defines ``param``, so far a parameter, as ``constant`` or a row of it."""
    attrs = constant.attrs
    if constant.op is fill:
        attrs = fill.attributes(constant.attributes | {"shape": param.type.shape})
    return Node(constant.op, (), attrs, (param,), (), constant.location or user.location)
