"""Derivatives of regions: opened as a tape, pulled back through, and cut in two graphs.

A region is differentiated by the records of its nodes, as any code is: ``Tape`` opens it up with
leaves for parameters, the tape of ``hybrid.autodiff`` walks back through it, and ``cut`` takes what
was recorded apart into a forward graph, which gives *residuals* as further results, and a backward
graph, which reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from hybrid.autodiff.presence import Ct, OptionalCt
from hybrid.autodiff.record_values import Edge
from hybrid.autodiff.record_values import Node as TapeNode
from hybrid.autodiff.tape import pulled_back
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType, bool_, tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.interpreter import apart, current
from hybrid.ir.record import Leaf, node_of, record_call, recording, with_regions
from hybrid.ops.flow.control import FLAG
from hybrid.trace.regions.build import live
from hybrid.trace.regions.tracer import Tracer

T = TypeVar("T")
# Elementwise ops that cost no more than reading back what they had computed.
CHEAP = frozenset(
    {"abs", "add", "cast", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan",
     "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
     "minimum", "multiply", "negative", "not_equal", "relu", "sign", "square", "subtract", "where"}
)  # fmt: skip
MAX_REPEATED = 4  # ops to repeat for one value

# Opening up -------------------------------------------------------------------------------------


class Tape(Tracer):
    """A tracer that holds the nodes of a region with records, as if just traced.

    Values that are not in ``recorded`` are constants: that of a whole call tells, regions have none
    but those that their nodes say.
    """

    def __init__(
        self,
        graph: Graph,
        leaves: Sequence[Leaf | None],
        recorded: Collection[Value] | None = None,
    ) -> None:
        super().__init__(Builder(graph.name), many=current().many)
        self.graph, self.is_region = graph, recorded is None
        self.builder.params = list(graph.params)
        known: dict[Value, Tensor] = {}
        for value, leaf in zip(graph.params, leaves, strict=True):
            known[value] = self._tensor(value)
            known[value].record = leaf
        with recording(True):
            for node in graph.nodes:
                operands = [known[v] for v in node.operands]
                results = tuple([self._tensor(v) for v in node.results])
                if any(t.record is not None for t in operands):
                    attrs = with_regions(node.attrs, node.regions)
                    record_call(node.op, operands, attrs, results)
                if recorded is not None:
                    for value, t in zip(node.results, results, strict=True):
                        t.record = t.record if value in recorded else None
                known.update(zip(node.results, results, strict=True))
        self.builder.nodes = list(graph.nodes)
        self.forward = len(graph.nodes)
        self.results = [known[v] for v in graph.results]

    def _tensor(self, value: Value) -> Tensor:
        self.owned.add(value)
        return make_tensor(value.type, value)

    def param_at(self, index: int) -> Tensor:
        """A parameter of the graph itself, as a constant."""
        return self._tensor(self.graph.params[index])

    def param(self, type: TensorType, hint: str = "") -> Tensor:
        """A parameter of the backward graph."""
        return self._tensor(Value(type, hint))

    def params_like(self, ct: CotangentKind | None, hint: str) -> Ct | None:
        """Parameters that stand for a cotangent of that kind."""
        if ct is None:
            return None
        made = self.param(ct.type, hint)
        if ct.sure:
            return made
        flags = tensor_type(bool_, ct.type.shape[:1]) if ct.each else FLAG
        return OptionalCt(made, self.param(flags, f"has_{hint}"), ct.neutral)

    def pull(
        self,
        seeds: Iterable[tuple[Any, Ct | None]],
        targets: Sequence[TapeNode],
        edges: Iterable[tuple[Leaf, Leaf, Tensor]] = (),
    ) -> list[Ct | None]:
        """The cotangents of ``targets``, from pairs of a record and its cotangent.

        By ``edges`` a leaf is another one itself where a flag holds.
        """
        pairs = [(record, ct) for record, ct in seeds if record is not None and ct is not None]
        known: dict[Any, list[Edge]] = {}
        for leaf, source, where in edges:
            known.setdefault((leaf, 0), []).append(Edge((leaf, 0), (source, 0), where))
        _number(known)
        return pulled_back(pairs, targets, known=known)


def _number(known: dict[Any, list[Edge]]) -> None:
    """Let leaves come after those that they may be, as values do."""
    left = {value for edges in known.values() for value in [e.source for e in edges]} | set(known)
    numbers = iter(sorted([leaf.sequence for leaf, _ in left]))
    while left:
        last = [s for s in left if left.isdisjoint(e.source for e in known.get(s, ()))]
        left.difference_update(last)
        for leaf, _ in sorted(last, key=lambda value: value[0].sequence):
            leaf.sequence = next(numbers)


@dataclass(frozen=True, slots=True)
class CotangentKind:
    """The static facts of a cotangent: its type, and whether it is present."""

    type: TensorType
    sure: bool = True  # whether it is present for sure
    neutral: bool = True  # whether it is -0.0 where it is not present
    each: bool = False  # whether each of its rows may be present or not


def inside_region() -> bool:
    """Whether what is led back through is of a region that is itself led back through."""
    tape = current()
    return isinstance(tape, Tape) and tape.is_region


def kind_of(ct: Ct | None) -> CotangentKind | None:
    """The static facts of the cotangent ``ct``; None for none."""
    if isinstance(ct, OptionalCt):
        return CotangentKind(ct.type, False, ct.neutral, bool(ct.present.type.rank))
    return None if ct is None else CotangentKind(ct.type)


def kinds_of(cts: Iterable[Ct | None]) -> tuple[CotangentKind | None, ...]:
    """The static facts of each of ``cts``."""
    return tuple([kind_of(ct) for ct in cts])


def tensors_of(ct: Ct | None) -> list[Tensor]:
    """The tensors that stand for a cotangent, in the order of ``Tape.params_like``."""
    if isinstance(ct, OptionalCt):
        return [ct.ct, ct.present]
    return [] if ct is None else [ct]


def values_of(ct: Ct | None) -> list[Value]:
    """The values of the tensors that stand for a cotangent."""
    return [t.content for t in tensors_of(ct)]


def places_of(operands: Sequence[Tensor], flow: Sequence[bool]) -> tuple[int, ...]:
    """For each operand the first one of the same record; -1 where no cotangent is wanted."""
    first: dict[Any, int] = {}
    return tuple(
        [
            first.setdefault(node_of(t.record), i) if flows else -1
            for i, (t, flows) in enumerate(zip(operands, flow, strict=True))
        ]
    )


def firsts(places: Sequence[int], entries: Sequence[T]) -> list[T | None]:
    """The ``entries`` of the first operand of each record; None for the others."""
    return [
        entry if at == i else None
        for i, (at, entry) in enumerate(zip(places, entries, strict=True))
    ]


def leaves_at(graph: Graph, places: Sequence[int]) -> list[Leaf | None]:
    """A leaf for each parameter, shared by those of one place; None for place -1."""
    made: dict[int, Leaf] = {}
    return [
        None if at < 0 else made.setdefault(at, Leaf(value.type))
        for value, at in zip(graph.params, places, strict=True)
    ]


# Cutting ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """The backward part of a tape: its nodes, and the values that it reads."""

    nodes: tuple[Node, ...]
    given: tuple[Value, ...]  # what it reads of what is at hand
    residuals: tuple[Value, ...]  # what it reads of what the forward part computes


def cut(
    nodes: Sequence[Node],
    forward: int,
    results: Sequence[Value],
    given: Collection[Value],
    fixed: Collection[Value] = (),
    lost: Collection[Value] = (),
    differentiable: bool = False,
) -> Cut:
    """The nodes behind the first ``forward`` ones that ``results`` need, and their residuals.

    Of the forward values it reads, constants are repeated; so is what depends on ``fixed`` alone (a
    pass hoists it out of the loop), and what few cheap ops make of values at hand.  The others are
    residuals, as are ``lost`` parameters.

    Where the way back is ``differentiable``, all floats are residuals: eagerly cotangents of
    a value are added up before they go on, and those of two values made alike would not be.
    """
    behind = live(nodes[forward:], results)
    read = dict.fromkeys([*(v for node in behind for v in node.operands), *results])
    order = dict.fromkeys(lost, (-1, None))
    order |= {v: (i, node) for i, node in enumerate(nodes[:forward]) for v in node.results}
    constant = set() if differentiable else set(fixed)
    for node in nodes[:forward]:
        if node.pure and constant.issuperset(node.operands):
            constant.update(node.results)
    at_hand = set(given)
    repeated: set[Node] = set()
    residuals: list[Value] = []
    for value in sorted([v for v in read if v in order], key=lambda v: order[v][0]):
        chain = _repeatable(value, order, at_hand, constant, differentiable)
        if chain is None:
            residuals.append(value)
            at_hand.add(value)
        else:
            repeated.update(chain)
    behind = [*(node for node in nodes[:forward] if node in repeated), *behind]
    read = {v for node in behind for v in node.operands} | set(results)
    return Cut(tuple(behind), tuple([v for v in given if v in read]), tuple(residuals))


def _repeatable(
    value: Value,
    order: dict[Value, tuple[int, Node | None]],
    at_hand: Collection[Value],
    constant: Collection[Value],
    differentiable: bool,
) -> set[Node] | None:
    """The nodes that make ``value`` out of what is at hand, if it is better made again."""
    found: set[Node] = set()
    cost = 0
    wanted = [value]
    while wanted:
        v = wanted.pop()
        if v in at_hand:
            continue
        node = order[v][1] if v in order else None
        if node is None:
            return None
        if node in found:
            continue
        found.add(node)
        wanted.extend(node.operands)
        if v not in constant:
            cost += node.op.view_rule is None
            cheap = node.op.view_rule is not None or node.op.name in CHEAP
            if cost > MAX_REPEATED or not cheap or not node.pure:
                return None
            if differentiable and v.type.floating:
                return None
    return found


def opened(tape: Tape) -> Any:
    """The context in which op calls become backward nodes of ``tape``."""
    return apart(tape)
