"""Control-flow nodes taken apart: what passes change and then put together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hybrid.core.dataclass import replace
from hybrid.core.types import int64
from hybrid.ir import Builder, Graph, Node, Value, get_op
from hybrid.ir.rewrite import with_replaced
from hybrid.ops.flow.control import CONTROL, for_

Renaming = dict[Value, Value]


def holds_control_flow(graph: Graph) -> bool:
    """Whether ``graph`` has a node that the passes of control flow look at."""
    return any(node.regions and node.op in CONTROL for node in graph.nodes)


class CondInput(NamedTuple):
    """What a cond is given: the operand and its name in each branch."""

    operand: Value
    params: tuple[Value, Value]


class CondOutput(NamedTuple):
    """What a cond gives: the value that each branch returns, and the result."""

    values: tuple[Value, Value]
    result: Value


class Cond:
    """A ``cond``; change ``inputs``, ``outputs`` and ``nodes``, then ask for the ``node``."""

    def __init__(self, node: Node) -> None:
        self.source = node
        self.pred, *operands = node.operands
        then, other = node.regions
        params = zip(then.params, other.params, strict=True)
        values = zip(then.results, other.results, strict=True)
        self.inputs = list(map(CondInput, operands, params))
        self.outputs = list(map(CondOutput, values, node.results))
        self.nodes = [list(then.nodes), list(other.nodes)]

    def exchange(self) -> None:
        """Let the branches stand for the opposite predicate."""
        self.nodes.reverse()
        self.inputs = [CondInput(v, (b, a)) for v, (a, b) in self.inputs]
        self.outputs = [CondOutput((b, a), v) for (a, b), v in self.outputs]

    def rename(self, branch: int, renaming: Renaming) -> None:
        """Use other values in one of the branches."""
        self.nodes[branch] = [with_replaced(node, renaming) for node in self.nodes[branch]]
        for i, (values, result) in enumerate(self.outputs):
            new = list(values)
            new[branch] = renaming.get(new[branch], new[branch])
            self.outputs[i] = CondOutput((new[0], new[1]), result)

    def used(self, branch: int) -> set[Value]:
        """What the nodes and results of a branch read."""
        return used_values(self.nodes[branch], [o.values[branch] for o in self.outputs])

    def drop_unused(self) -> bool:
        """Give only what a branch reads; whether that is less than before."""
        used = self.used(0) | self.used(1)
        before = len(self.inputs)
        self.inputs = [i for i in self.inputs if not used.isdisjoint(i.params)]
        return len(self.inputs) < before

    def node(self) -> Node:
        regions = [
            Graph(
                region.name,
                tuple([i.params[branch] for i in self.inputs]),
                tuple(self.nodes[branch]),
                tuple([o.values[branch] for o in self.outputs]),
            )
            for branch, region in enumerate(self.source.regions)
        ]
        operands = (self.pred, *[i.operand for i in self.inputs])
        results = tuple([o.result for o in self.outputs])
        return replace(self.source, operands=operands, results=results, regions=tuple(regions))


class CarriedValue(NamedTuple):
    """A value that each iteration of a loop hands to the next."""

    initial: Value
    param: Value
    next: Value
    result: Value


class Given(NamedTuple):
    """What each iteration gets from outside: an invariant, or a row of a sliced operand."""

    operand: Value
    param: Value


class Stack(NamedTuple):
    """A result of rows, one from each iteration."""

    row: Value
    result: Value


class LoopParts:
    """A ``while`` or a ``for``; change its parts, then ask for the ``node``."""

    def __init__(self, node: Node) -> None:
        self.source = node
        attrs = node.attributes
        (body,) = node.regions
        self.is_for = node.op is for_
        self.length: int = attrs["length"]
        self.reverse: bool = attrs.get("reverse", False)
        self.overruns: bool = attrs.get("overruns", False)
        carried: int = attrs["carried"]
        slices: int = attrs.get("sliced", 0)
        self.head, *operands = node.operands
        params, returned, results = list(body.params), list(body.results), list(node.results)
        self.index = params.pop(0) if self.is_for else None
        self.test = None if self.is_for else returned.pop(0)
        self.trips = None if self.is_for else results.pop(0)
        fed = list(map(Given, operands, params))
        self.carried = [
            CarriedValue(*given, next, result)
            for given, next, result in zip(fed[:carried], returned, results, strict=False)
        ]
        self.slices = fed[carried : carried + slices]
        self.invariants = fed[carried + slices :]
        self.stacks = list(map(Stack, returned[carried:], results[carried:]))
        self.nodes = list(body.nodes)
        self._clamps = self.is_for and self.clamps

    @property
    def clamps(self) -> bool:
        """Whether a ``for`` stops at ``length``, however large its count."""
        return bool(self.slices or self.stacks) and not self.overruns

    @property
    def returned(self) -> list[Value]:
        """What the body returns, in order."""
        test = [] if self.test is None else [self.test]
        return [*test, *[c.next for c in self.carried], *[s.row for s in self.stacks]]

    def drop_unused(self) -> bool:
        """Give only those slices and invariants that the body reads; whether some were not."""
        used = used_values(self.nodes, self.returned)
        before = len(self.slices) + len(self.invariants)
        self.slices = [given for given in self.slices if given.param in used]
        self.invariants = [given for given in self.invariants if given.param in used]
        return len(self.slices) + len(self.invariants) < before

    def rename(self, renaming: Renaming) -> None:
        """Use other values in the body."""
        if not renaming:
            return
        self.nodes = [with_replaced(node, renaming) for node in self.nodes]
        if self.test is not None:
            self.test = renaming.get(self.test, self.test)
        self.carried = [c._replace(next=renaming.get(c.next, c.next)) for c in self.carried]
        self.stacks = [s._replace(row=renaming.get(s.row, s.row)) for s in self.stacks]

    def node(self, builder: Builder) -> Node:
        """The node; what its count needs is appended to ``builder``."""
        head, length, attrs = self.head, self.length, {}
        if self._clamps and not self.clamps:
            attrs = {"shape": (), "dtype": int64, "value": length}
            (limit,) = builder.apply(get_op("full"), (), attrs, hints=("length",))
            (head,) = builder.apply(get_op("minimum"), (head, limit), hints=("count",))
        rows = bool(self.slices or self.stacks)
        attrs = {"carried": len(self.carried), "length": length if rows else 0}
        if self.is_for:
            attrs |= {"reverse": self.reverse, "sliced": len(self.slices)}
            attrs |= {"overruns": self.overruns and rows}
        given = [*[Given(c.initial, c.param) for c in self.carried], *self.slices, *self.invariants]
        index = [] if self.index is None else [self.index]
        body = Graph(
            self.source.regions[0].name,
            (*index, *[g.param for g in given]),
            tuple(self.nodes),
            tuple(self.returned),
        )
        trips = [] if self.trips is None else [self.trips]
        return replace(
            self.source,
            operands=(head, *[g.operand for g in given]),
            attrs=self.source.op.attributes(attrs),
            results=(*trips, *[c.result for c in self.carried], *[s.result for s in self.stacks]),
            regions=(body,),
        )


def used_values(nodes: Iterable[Node], results: Iterable[Value]) -> set[Value]:
    """What ``nodes`` read, and ``results``."""
    used = set(results)
    for node in nodes:
        used.update(node.operands)
    return used


def copied(node: Node, renaming: Renaming) -> Node:
    """``node`` with operands renamed and results of its own, which ``renaming`` learns."""
    operands = tuple([renaming.get(v, v) for v in node.operands])
    results = tuple([fresh(v) for v in node.results])
    renaming.update(zip(node.results, results, strict=True))
    regions = tuple([copied_region(region) for region in node.regions])
    return replace(node, operands=operands, results=results, regions=regions)


def copied_region(region: Graph) -> Graph:
    """``region`` with values of its own, so that each value of a graph is defined once in all."""
    renaming = {param: fresh(param) for param in region.params}
    params = tuple(renaming.values())
    nodes = tuple([copied(node, renaming) for node in region.nodes])
    return Graph(region.name, params, nodes, tuple([renaming[v] for v in region.results]))


def fresh(value: Value) -> Value:
    """Another value of the same type, hint and location."""
    return Value(value.type, value.hint, value.location)


def inlined(builder: Builder, region: Graph, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Append what ``region`` does with ``operands``; its results."""
    renaming = dict(zip(region.params, operands, strict=True))
    for node in region.nodes:
        builder.append(copied(node, renaming))
    return tuple([renaming[v] for v in region.results])
