"""What the derivatives of control-flow ops share: regions opened up, pulled back through, and cut.

A region is differentiated by the records of its nodes, as any code is: ``Tape`` opens it up with
leaves for parameters, the tape of ``hybrid.autodiff`` walks back through it, and ``cut`` takes what
was recorded apart into a forward graph, which gives *residuals* as further results, and a backward
graph, which reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from hybrid.autodiff.origins import Edge
from hybrid.autodiff.origins import Node as TapeNode
from hybrid.autodiff.presence import Ct, Perhaps
from hybrid.autodiff.tape import pulled_back
from hybrid.classes import dataclass
from hybrid.ir import Builder, Graph, Node, Op, Value
from hybrid.ir import with_regions as change_regions
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.op import results_of
from hybrid.lanes import is_known
from hybrid.number.staging import OwnCall
from hybrid.ops.control import COUNT, FLAG, py_call
from hybrid.record import (
    Leaf,
    Output,
    Record,
    is_recording,
    node_of,
    record_call,
    recording,
    with_regions,
)
from hybrid.remains import Leaving
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.tracer import Tracer
from hybrid.types import TensorType, bool_, tensor_type

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
    """The nodes of a region with records, as if they had just been traced.

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

    def params_like(self, ct: Kind | None, hint: str) -> Ct | None:
        """Parameters that stand for a cotangent of that kind."""
        if ct is None:
            return None
        made = self.param(ct.type, hint)
        if ct.sure:
            return made
        flags = tensor_type(bool_, ct.type.shape[:1]) if ct.each else FLAG
        return Perhaps(made, self.param(flags, f"has_{hint}"), ct.neutral)

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
        for leaf, origin, where in edges:
            known.setdefault((leaf, 0), []).append(Edge((leaf, 0), (origin, 0), where))
        _number(known)
        return pulled_back(pairs, targets, known=known)


def _number(known: dict[Any, list[Edge]]) -> None:
    """Let leaves come after those that they may be, as values do."""
    left = {slot for edges in known.values() for slot in [e.origin for e in edges]} | set(known)
    numbers = iter(sorted([leaf.sequence for leaf, _ in left]))
    while left:
        last = [s for s in left if left.isdisjoint(e.origin for e in known.get(s, ()))]
        left.difference_update(last)
        for leaf, _ in sorted(last, key=lambda slot: slot[0].sequence):
            leaf.sequence = next(numbers)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a cotangent before the graph runs."""

    type: TensorType
    sure: bool = True  # whether it is present for sure
    neutral: bool = True  # whether it is -0.0 where it is not present
    each: bool = False  # whether each of its rows may be present or not


def kind_of(ct: Ct | None) -> Kind | None:
    if isinstance(ct, Perhaps):
        return Kind(ct.type, False, ct.neutral, bool(ct.present.type.rank))
    return None if ct is None else Kind(ct.type)


def kinds_of(cts: Iterable[Ct | None]) -> tuple[Kind | None, ...]:
    return tuple([kind_of(ct) for ct in cts])


def tensors_of(ct: Ct | None) -> list[Tensor]:
    """The tensors that stand for a cotangent, in the order of ``Tape.params_like``."""
    if isinstance(ct, Perhaps):
        return [ct.ct, ct.present]
    return [] if ct is None else [ct]


def values_of(ct: Ct | None) -> list[Value]:
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
    """``entries`` of the first operand of each record."""
    return [
        entry if at == i else None
        for i, (at, entry) in enumerate(zip(places, entries, strict=True))
    ]


def leaves_at(graph: Graph, places: Sequence[int]) -> list[Leaf | None]:
    """A leaf per parameter; those of one place share it, and -1 gets none."""
    made: dict[int, Leaf] = {}
    return [
        None if at < 0 else made.setdefault(at, Leaf(value.type))
        for value, at in zip(graph.params, places, strict=True)
    ]


# Cutting ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """The backward part of a tape."""

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
) -> Cut:
    """Separate what follows the first ``forward`` nodes, down to what ``results`` need.

    Of the forward values it reads, constants are repeated; so is what depends on ``fixed`` alone (a
    pass hoists it out of the loop), and what few cheap ops make of values at hand.  The others are
    residuals, as are ``lost`` parameters.
    """
    behind = live(nodes[forward:], results)
    read = dict.fromkeys([*(v for node in behind for v in node.operands), *results])
    order = dict.fromkeys(lost, (-1, None))
    order |= {v: (i, node) for i, node in enumerate(nodes[:forward]) for v in node.results}
    constant = set(fixed)
    for node in nodes[:forward]:
        if node.pure and constant.issuperset(node.operands):
            constant.update(node.results)
    at_hand = set(given)
    repeated: set[Node] = set()
    residuals: list[Value] = []
    for value in sorted([v for v in read if v in order], key=lambda v: order[v][0]):
        chain = _repeatable(value, order, at_hand, constant)
        if chain is None:
            residuals.append(value)
            at_hand.add(value)
        else:
            repeated.update(chain)
    behind = [*(node for node in nodes[:forward] if node in repeated), *behind]
    read = {v for node in behind for v in node.operands} | set(results)
    return Cut(tuple(behind), tuple([v for v in given if v in read]), tuple(residuals))


def live(nodes: Sequence[Node], results: Iterable[Value]) -> list[Node]:
    """Those of ``nodes`` that ``results`` need."""
    needed = set(results)
    kept = []
    for node in reversed(nodes):
        if not node.pure or not needed.isdisjoint(node.results):
            needed.update(node.operands)
            kept.append(node)
    return kept[::-1]


def computing(graph: Graph, results: Sequence[Value]) -> Graph:
    """``graph`` with other results, and only what they need: nothing is done to the world twice."""
    wanted = set(results)
    kept = []
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.results):
            wanted.update(node.operands)
            kept.append(change_regions(node, silent))
    return Graph(graph.name, graph.params, tuple(kept[::-1]), tuple(results))


def copied(graph: Graph, name: str) -> Graph:
    """``graph`` with values of its own."""
    new: dict[Value, Value] = {v: Value(v.type, v.hint, v.location) for v in graph.params}
    nodes = []
    for node in graph.nodes:
        new.update({v: Value(v.type, v.hint, v.location) for v in node.results})
        operands = tuple([new[v] for v in node.operands])
        results = tuple([new[v] for v in node.results])
        nodes.append(Node(node.op, operands, node.attrs, results, node.regions, node.location))
    params = tuple([new[v] for v in graph.params])
    return Graph(name, params, tuple(nodes), tuple([new[v] for v in graph.results]))


def is_repeatable(graph: Graph) -> bool:
    """Whether running it once more calls no function of the author's a second time."""
    calls = [n.attributes["function"] for n in graph.walk() if n.op is py_call and n.results]
    return all(isinstance(f.function if type(f) is Leaving else f, OwnCall) for f in calls)


def silent(graph: Graph) -> Graph:
    """``graph`` without what it does to the world: for running it once more."""
    if all(node.pure for node in graph.nodes):
        return graph
    return remembered((graph,), "silent", lambda: computing(graph, graph.results))


def _repeatable(
    value: Value,
    order: dict[Value, tuple[int, Node | None]],
    at_hand: Collection[Value],
    constant: Collection[Value],
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
    return found


# Where the forward node is ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Here:
    """The node that is being differentiated, as it stands now in the graph being traced.

    ``tracer`` is None when the node has been run, not traced: then it runs once more to give its
    residuals.
    """

    op: Op
    attrs: dict[str, Any]
    regions: tuple[Graph, ...]
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    tracer: Tracer | None
    record: Record

    def extended(self, count: int, regions: tuple[Graph, ...], **attrs: Any) -> list[Tensor]:
        """All results of the node once it has ``regions``, for ``count`` further results.

        In place, or run again.
        """
        if not count:
            return list(self.results)
        if self.tracer is None:
            quiet = tuple([silent(region) for region in regions])
            found = applied(self.op, self.operands, quiet, **self.attrs | attrs)
            return [*self.results, *found[len(self.results) :]]
        self.tracer.extend(self.results[0].content, regions, attrs)
        return list(_refreshed(self.tracer, self.record, self.results))


def here(
    op: Op,
    record: Record,
    results: Sequence[Tensor],
    operands: Sequence[Tensor],
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
    *,
    extend: bool = True,
) -> Here:
    """Find the node whose record is being pulled back through."""
    value = results[0].content
    tracer = current() if extend and isinstance(current(), Tracer) else None
    while tracer is not None and value not in tracer.owned:
        tracer = tracer.parent
    node = None if tracer is None else tracer.maker(value)
    operands, results = tuple(operands), tuple(results)
    if node is None:
        return Here(op, attrs, regions, operands, results, None, record)
    results = _refreshed(tracer, record, results)
    return Here(op, node.attributes, node.regions, operands, results, tracer, record)


def _refreshed(tracer: Tracer, record: Record, results: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of the node of ``record``, those included that it has been given since."""
    node = tracer.maker(results[0].content)
    made = [make_tensor(v.type, v) for v in node.results[len(results) :]]
    if made and is_recording():
        first = len(record.results)
        record.attrs = {**node.attributes, "regions": node.regions}
        record.results = (*record.results, *[(t.type, t.content) for t in made])
        for index, t in enumerate(made):
            if t.type.floating:
                t.record = Output(record, first + index)
                tracer.recorded.add(t.content)
    return (*results, *made)


def known_int(count: Tensor) -> int | None:
    """The number in an integer scalar, if it is known before the graph runs."""
    interpreter = current()
    if type(count.content) is not Value:
        return int(count.item()) if is_known(count) else None
    while isinstance(interpreter, Tracer):
        node = interpreter.maker(count.content) if count.content in interpreter.owned else None
        if node is not None and node.op.name == "full":
            return int(node.attributes["value"])
        interpreter = interpreter.parent
    return None


def as_of_for(body: Graph) -> Graph:
    """The body without its test, and with an index that nothing reads."""
    index = Value(COUNT, "i")
    return Graph(body.name, (index, *body.params), body.nodes, body.results[1:])


# Remembering ------------------------------------------------------------------------------------


def remembered(graphs: tuple[Graph, ...], key: Hashable, derive: Callable[[], T]) -> T:
    """``derive()``, once for these very graphs and ``key``."""
    first, *others = graphs
    full = (tuple(map(id, others)), key)
    found = first.derived.get(full)
    if found is None:
        found = first.derived[full] = (others, derive())  # kept alive: their ids are in the key
    return found[1]


def region_of(
    name: str, types: Iterable[TensorType], function: Callable[..., Iterable[Tensor]]
) -> Graph:
    """The closed graph of ``function`` on tensors of ``types``."""
    tracer = Tracer(Builder(name), many=current().many)
    values = [tracer.builder.param(type) for type in types]
    tracer.owned.update(values)
    with interpreting(tracer), recording(False):
        results = function(*[make_tensor(v.type, v) for v in values])
        return tracer.builder.finish([tracer.traced(t).content for t in results])


def applied(
    op: Op, operands: Sequence[Tensor], regions: tuple[Graph, ...], **attrs: Any
) -> list[Tensor]:
    """The results of a control-flow op."""
    return list(results_of(current().apply(op, operands, attrs, regions)))


def opened(tape: Tape) -> Any:
    """Give op calls the meaning of ``tape``: nodes of its backward part."""
    return interpreting(tape)
