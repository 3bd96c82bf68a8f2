"""Sinking: what regions are given and is known outside is said inside.

Before::                                        After::

    %c: f32[] = full {shape=(), value=2, ...}       %y: f32[] = cond %p, %x {
    %y: f32[] = cond %p, %x, %c, %p {                 then(%x: f32[]) {
      then(%x: f32[], %c: f32[], %q: bool[]) {          %c: f32[] = full {shape=(), value=2, ...}
        ...                                             %q: bool[] = full {..., value=true}
      }                                                 ...

Constants move in, and so does the predicate, which in its branches is true and false.  Then fold,
simplify and fuse see them there.
"""

from __future__ import annotations

from hybrid.ir import Builder, Graph, Node, Value, rewrite, with_regions
from hybrid.ops.control import FLAG, cond, for_, while_
from hybrid.ops.creation import fill
from hybrid.passes.facts import Facts
from hybrid.passes.parts import Cond, Given, Loop, holds_control_flow

MAX_NBYTES = 4096  # of a literal: larger ones are passed in

_TRUE, _FALSE = (
    Node(fill, (), fill.attributes({"shape": (), "dtype": FLAG.dtype, "value": value}), ())
    for value in (True, False)
)


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
        elif node.op in (while_, for_):
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
    kept, heads = [], ([], [])
    for given in parts.inputs:
        known = _known_in_branches(given.operand, parts.pred, facts)
        if known is None:
            kept.append(given)
            continue
        for head, constant, param in zip(heads, known, given.params, strict=True):
            head.append(_defining(param, constant, node))
    if len(kept) == len(parts.inputs):
        return node
    parts.inputs = kept
    parts.nodes = [head + nodes for head, nodes in zip(heads, parts.nodes, strict=True)]
    return parts.node()


def _known_in_branches(operand: Value, pred: Value, facts: Facts) -> tuple[Node, Node] | None:
    """What defines ``operand`` in either branch, if that is known."""
    constant = _constant(operand, facts)
    if constant is not None:
        return constant, constant
    if operand is pred:
        return _TRUE, _FALSE
    negation = facts.by("logical_not", operand)
    if negation is not None and negation.operands[0] is pred:
        return _FALSE, _TRUE
    return None


def _into_body(node: Node, facts: Facts, builder: Builder) -> Node:
    parts = Loop(node)
    head: list[Node] = []

    def unknown(given: list[Given], sliced: bool) -> list[Given]:
        """Those of ``given`` that ``head`` does not define."""
        kept = []
        for operand, param in given:
            constant = _constant(operand, facts)
            if parts.test is not None and operand is parts.head:
                constant = _TRUE  # no iteration runs unless it is
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


def _constant(value: Value, facts: Facts) -> Node | None:
    node = facts.constant(value)
    small = node is not None and (node.op is fill or value.type.nbytes <= MAX_NBYTES)
    return node if small else None


def _defining(param: Value, constant: Node, user: Node) -> Node:
    """What defines ``param``, so far a parameter, as ``constant`` or a row of it."""
    attrs = constant.attrs
    if constant.op is fill:
        attrs = fill.attributes(constant.attributes | {"shape": param.type.shape})
    return Node(constant.op, (), attrs, (param,), (), constant.location or user.location)
