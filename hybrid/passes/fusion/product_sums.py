"""Sums of products that a loop adds up, one in each iteration, in one go behind the loop.

Before::                                              After::

    %s: f32[4,16] = for %n, %zero, %g, %x {...} {         %t: f32[9,4,2] = permute_dims %g {...}
      body(%i: i64[], %s: ..., %g: ..., %x: ...) {        %s: f32[4,16] = matmul_sum %zero, %t, %x
        %t: f32[4,2] = permute_dims %g {...}
        %p: f32[4,16] = matmul %t, %x
        %s_1: f32[4,16] = add %s, %p
        return %s_1
      }
    }

So gradients of weights over time come about.  Sums stay in registers, piece by piece, while the
products pass by, in their order.  What products are made of must be rows of slices or stacks of the
loop, or small enough to become a stack: not larger than the sum, nor than half of all those rows.
"""

from __future__ import annotations

from typing import NamedTuple

from hybrid.core.types import TensorType, tensor_type
from hybrid.ir import Builder, Graph, Node, Value, get_op, rewrite, steady
from hybrid.ops.flow.control import LOOPS
from hybrid.ops.matrix.matmul_variants import matmul_sum, pays
from hybrid.passes.control.parts import CarriedValue, LoopParts, Stack, holds_control_flow
from hybrid.passes.scalar.facts import Facts

ROWS_FIRST = (0, 2, 1)


class _Sum(NamedTuple):
    """What is added up, and the rows that the products are made of: turned, or as they are."""

    carried: CarriedValue
    rows: tuple[Value, Value]
    turned: tuple[bool, bool]


@steady
def sums(graph: Graph) -> Graph:
    """``graph`` with loops that add up no products."""
    if not holds_control_flow(graph):
        return graph
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        if node.op not in LOOPS:
            return None
        loop = LoopParts(node)
        if not _runs_all(loop, facts):
            return None
        found = _found(loop)
        if not found:
            return None
        outside = {given.param: given.operand for given in loop.slices}
        for row in dict.fromkeys([row for each in found for row in each.rows]):
            if row not in outside:
                outside[row] = _stacked(loop, row)
        gone = {each.carried for each in found}
        loop.carried = [carried for carried in loop.carried if carried not in gone]
        loop.nodes = _needed(loop)
        loop.drop_unused()
        builder.append(loop.node(builder))
        totals = {each.carried.result: _total(loop, each, outside, builder) for each in found}
        return tuple([totals.get(v, v) for v in node.results])

    return rewrite(graph, rule, regions=sums)


def _runs_all(loop: LoopParts, facts: Facts) -> bool:
    """Whether all of ``length`` iterations are surely made."""
    if not loop.is_for or not loop.clamps or loop.length < 2:
        return False
    count = facts.by("full", loop.head)
    return count is not None and count.attributes["value"] >= loop.length


def _found(loop: LoopParts) -> list[_Sum]:
    defining = {value: node for node in loop.nodes for value in node.results}
    users: dict[Value, int] = {}
    for value in [*loop.returned, *[v for node in loop.nodes for v in node.operands]]:
        users[value] = users.get(value, 0) + 1
    room = _room(loop)
    found = []
    for carried in loop.carried:
        product = _added(carried, defining, users)
        if product is None:
            continue
        sides = [_row(operand, defining) for operand in product.operands]
        each = _Sum(carried, (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]))
        if not _fits(loop, each):
            continue
        known = {given.param for given in loop.slices} | {stack.row for stack in loop.stacks}
        known |= {row for other in found for row in other.rows}
        same = {given.param for given in loop.invariants}
        new = [row for row in dict.fromkeys(each.rows) if row not in known]
        nbytes = sum([row.type.nbytes for row in new])
        if same.isdisjoint(new) and nbytes <= min(room, carried.initial.type.nbytes):
            room -= nbytes
            found.append(each)
    return found


def _room(loop: LoopParts) -> int:
    """Bytes of an iteration's rows that may be stacked anew."""
    rows = [*[given.param for given in loop.slices], *[stack.row for stack in loop.stacks]]
    return sum([row.type.nbytes for row in rows]) // 2


def _added(
    carried: CarriedValue, defining: dict[Value, Node], users: dict[Value, int]
) -> Node | None:
    """The product that each iteration adds to ``carried``, if that is all that happens to it."""
    add = defining.get(carried.next)
    if add is None or add.op.name != "add" or users[carried.next] != 1:
        return None
    if users.get(carried.param) != 1 or carried.param not in add.operands:
        return None
    first, second = add.operands
    other = second if first is carried.param else first
    product = defining.get(other)
    if product is None or product.op.name != "matmul" or users[other] != 1:
        return None
    return product


def _row(value: Value, defining: dict[Value, Node]) -> tuple[Value, bool]:
    """What ``value`` is a view of, and whether it is its transpose."""
    node = defining.get(value)
    if node is not None and node.op.name == "permute_dims" and value.type.rank == 2:
        return node.operands[0], node.attributes["axes"] == (1, 0)
    return value, False


def _fits(loop: LoopParts, each: _Sum) -> bool:
    operands = [_stack_type(row.type, loop.length, t) for row, t in zip(*each[1:], strict=True)]
    return pays(each.carried.initial.type, operands[0], operands[1])


def _stack_type(row: TensorType, length: int, turned: bool = False) -> TensorType:
    shape = row.shape[::-1] if turned else row.shape
    return tensor_type(row.dtype, (length, *shape))


def _stacked(loop: LoopParts, row: Value) -> Value:
    """The result of ``loop`` that has all the rows."""
    for stack in loop.stacks:
        if stack.row is row:
            return stack.result
    result = Value(_stack_type(row.type, loop.length), row.hint, row.location)
    loop.stacks.append(Stack(row, result))
    return result


def _needed(loop: LoopParts) -> list[Node]:
    """The nodes that the loop needs, in order."""
    used, needed = set(loop.returned), []
    for node in reversed(loop.nodes):
        if node.observable or not used.isdisjoint(node.results):
            used.update(node.operands)
            needed.append(node)
    return needed[::-1]


def _total(loop: LoopParts, each: _Sum, outside: dict[Value, Value], builder: Builder) -> Value:
    operands, at = [], loop.source.location
    for row, turned in zip(each.rows, each.turned, strict=True):
        stack = outside[row]
        if turned:
            turn = get_op("permute_dims")
            (stack,) = builder.apply(turn, (stack,), {"axes": ROWS_FIRST}, location=at)
        operands.append(stack)
    hints = (each.carried.result.hint,)
    attrs = {"reverse": loop.reverse}
    given = (each.carried.initial, *operands)
    return builder.apply(matmul_sum, given, attrs, hints=hints, location=at)[0]
