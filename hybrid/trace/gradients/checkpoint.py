"""checkpoint: a function without residuals, computed once more when a gradient asks.

The result of a checkpointed call has one record.  Its parents are the values from outside that the
function used; its vjp computes the function once more and goes back through that.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid.autodiff.presence import Ct, OptionalCt
from hybrid.autodiff.record_values import Aliases, make_snapshot, type_of
from hybrid.autodiff.tape import Pull, history, node_of, pulled_back, pushed_forward
from hybrid.core.dataclass import replace
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Graph, Node, Op, Value
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.op import results_of
from hybrid.ir.record import (
    AnyRecord,
    Boundary,
    Output,
    Record,
    is_recording,
    keeping_operands,
    latest,
    recording,
)
from hybrid.ops.flow.call_nodes import checkpoint_call
from hybrid.ops.flow.control import after
from hybrid.ops.support.dtypes import stop_gradient
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.journal import LoggedPlace, Mark
from hybrid.trace.regions.build import computing, copied, replay
from hybrid.trace.regions.tracer import Tracer


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose intermediate values are computed again in the backward pass.

    That takes the time of another forward pass and saves their memory.  The second run draws the
    same random numbers, and leaves tensors and attributes as they are.
    """

    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if not is_recording():
            return current().converted(function)(*args, **kwargs)
        if isinstance(current(), Tracer):
            return _traced(function, args, kwargs)
        return _eager(function, args, kwargs)

    return checkpointed


class _Again:
    """Stands as the op of a call that is made eagerly: its rules make the call once more.

    Like those of control flow they are told what its operands have got so far.
    """

    differentiable = True
    name = "checkpoint"

    def __init__(self, run: Callable[[], list[Tensor]], outside: tuple[AnyRecord, ...]) -> None:
        self.run, self.outside = run, outside

    def alias_rule(self, _record: Record) -> Aliases:
        """See ``_asks``."""
        return _asks(_record)

    def vjp_rule(
        self, pull: Pull, _results: Any, *_operands: Any, regions: tuple
    ) -> list[Ct | None]:
        """The total of each value from outside."""
        return _pulled(pull, self.outside, self.run)

    def jvp_rule(
        self, incoming: tuple[Ct | None, ...], result: Any, *_operands: Any, regions: tuple
    ) -> Any:
        """The tangents of the results."""
        return _pushed(incoming, self.outside, self.run, isinstance(result, tuple))


def _asks(_record: Record) -> Aliases:
    """Its results are its own; that its operands may be one value it wants to know."""
    return Aliases(places=(), made=(), flags=lambda: [], asks="several")


def _pulled(
    pull: Pull, outside: Sequence[AnyRecord | None], run: Callable[[], list[Tensor]]
) -> list[Ct | None]:
    """The total of each value from outside, of which ``run`` makes the results."""
    differentiable = is_recording()
    with recording(True):
        results = run()
    targets, arrived = (*outside, *pull.others), (*pull.arrived, *pull.further)
    flow = (*pull.flow, *[True] * len(pull.others))
    values = [
        None if r is None or not f else node_of(r) for r, f in zip(targets, flow, strict=True)
    ]
    first = [value is not None and values.index(value) == at for at, value in enumerate(values)]
    wanted = [r for r, is_first in zip(targets, first, strict=True) if is_first]
    seeds = list(zip(wanted, [a for a, f in zip(arrived, first, strict=True) if f], strict=True))
    seeds += [(t.record, ct) for t, ct in zip(results, pull.cts, strict=True)]
    seeds = [(r, ct) for r, ct in seeds if r is not None and ct is not None]
    with recording(differentiable):
        totals = iter(pulled_back(seeds, wanted, stop=True))
    return [next(totals) if is_first else None for is_first in first]


def _pushed(
    incoming: Sequence[Ct | None],
    outside: Sequence[AnyRecord | None],
    run: Callable[[], list[Tensor]],
    several: bool,
) -> Any:
    """The tangents of the results."""
    given = [(r, t) for r, t in zip(outside, incoming, strict=True) if t is not None]
    with recording(True), keeping_operands():
        results = run()
        found = pushed_forward(results, [r for r, _ in given], [t for _, t in given])
    return found if several else found[0]


def forgotten(
    outputs: Sequence[Tensor], outside: Sequence[AnyRecord], run: Callable[[], list[Tensor]]
) -> list[AnyRecord]:
    """The record of ``outputs``, an entry for each, whose rules compute them again by ``run``."""
    outside = tuple(outside)
    saved = tuple([type_of(record) for record in outside])
    types = tuple([t.type for t in outputs])
    op: Any = _Again(run, outside)
    record = Record(op, {"regions": ()}, outside, saved, types)
    return [record] if len(outputs) == 1 else [Output(record, i) for i in range(len(outputs))]


def outside_of(records: Sequence[AnyRecord], since: int) -> tuple[AnyRecord, ...]:
    """The records made before ``since`` from which ``records`` were computed."""
    found: dict[Any, AnyRecord] = {}
    seen = set()
    stack = list(records)
    while stack:
        record = stack.pop()
        node, index = node_of(record)
        if not _is_new(record, since):
            found.setdefault((node, index), record)
        elif node not in seen:
            seen.add(node)
            stack.extend(p for p in node.parents if p is not None)
    return tuple(found.values())


def _is_new(record: AnyRecord | None, since: int) -> bool:
    if record is None:
        return False
    node, _ = node_of(record)
    # A tensor from outside gets its boundary when it is first used, which may be in the call.
    return node.sequence >= since and type(node) is not Boundary


# Eagerly ----------------------------------------------------------------------------------------


class _Watch:
    """Does what the interpreter below does, eager or a vmap's.

    And remembers what the tensors and attributes that a call met held before it.
    """

    traces = False
    queues = False
    repeats = False
    exports = False

    def __init__(self) -> None:
        self.around = around = current()
        self.batches, self.many, self.watches = around.batches, around.many, around.watches
        self.lift, self.read_tensor_attribute, self.use_up = (
            around.lift,
            around.read_tensor_attribute,
            around.use_up,
        )
        self.stack_of, self.converted = around.stack_of, around.converted
        self.variable = around.variable
        self.going_back, self.first_gradient = around.going_back, around.first_gradient
        self.gradient_on_paths = around.gradient_on_paths
        self.require_history = around.require_history
        self.met: dict[int, tuple[Tensor, Any, AnyRecord | None]] = {}
        self.made: dict[int, weakref.ref] = {}
        self.mark = Mark()

    def meet(self, tensor: Tensor) -> None:
        made = self.made.get(id(tensor))
        if id(tensor) not in self.met and (made is None or made() is not tensor):
            self.met[id(tensor)] = (tensor, tensor.content, tensor.record)

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        for t in operands:
            if isinstance(t, Tensor):
                self.meet(t)
        result = self.around.apply(op, operands, attrs, regions)
        for t in results_of(result):
            self.made[id(t)] = weakref.ref(t)
        return result

    def assign(self, cell: Tensor, value: Tensor) -> None:
        self.meet(cell)
        self.around.assign(cell, value)

    def traced(self, tensor: Tensor) -> Tensor:
        return self.around.traced(tensor)

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        if (id(owner), name) not in self.mark.places:
            self.mark.add(
                LoggedPlace(
                    owner=owner, name=name, original=getattr(owner, name, MISSING), written=True
                )
            )
        self.around.write_tensor_attribute(owner, name, value)

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Let everything hold what it held before the call."""
        now = [(t, t.content, t.record) for t, _, _ in self.met.values()]
        _hold(self.met.values())
        left = self.mark.undo()
        try:
            yield
        finally:
            _hold(now)
            self.mark.redo(left)


def _hold(tensors: Iterable[tuple]) -> None:
    for t, data, record in tensors:
        t.content, t.record = data, record


def _eager(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    since, watch = latest(), _Watch()
    with interpreting(watch):
        result = function(*args, **kwargs)
    cells = [t for t, _, _ in watch.met.values()]
    logged = list(watch.mark.places.values())

    def left(result: Any) -> list[Any]:
        """What the call has left behind: results, tensors and attributes that it wrote."""
        written = [getattr(place.owner, place.name, None) for place in logged]
        return [*flatten(result)[0], *cells, *written]

    outputs: dict[int, tuple[int, Tensor]] = {}
    for at, t in enumerate(left(result)):
        if isinstance(t, Tensor) and _is_new(t.record, since):
            outputs.setdefault(id(t), (at, t))
    if not outputs:
        return result
    places = [at for at, _ in outputs.values()]
    tensors = [t for _, t in outputs.values()]

    def run() -> list[Tensor]:
        with watch.as_before():
            found = left(function(*args, **kwargs))
            return [
                make_snapshot((t.type, t.content, t.record)) for t in (found[i] for i in places)
            ]

    outside = outside_of([t.record for t in tensors], since)
    for t, record in zip(tensors, forgotten(tensors, outside, run), strict=True):
        t.record = record
    return result


# While tracing ----------------------------------------------------------------------------------


def _traced(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    tracer, since = current(), latest()
    given = [t for t in flatten((args, kwargs))[0] if isinstance(t, Tensor)]
    entered = {tracer.traced(t).content for t in given}
    mark = len(tracer.builder.nodes)
    with keeping_operands():
        result = tracer.converted(function)(*args, **kwargs)
    leaves = [t for t in (*flatten(result)[0], *given) if isinstance(t, Tensor)]
    tensors = {id(t): t for t in leaves if tracer.owns(t) and _is_new(t.record, since)}
    written = [cell for cell in tracer.cells.values() if _is_new(cell.record, since)]
    if not tensors and not written:
        return result
    values = [*(t.content for t in tensors.values()), *(cell.value for cell in written)]
    records = [*(t.record for t in tensors.values()), *(cell.record for cell in written)]
    nodes = tracer.builder.nodes[mark:]
    graph = computing(Graph(function.__name__, (), tuple(nodes), ()), values)
    made = {v for node in graph.nodes for v in node.results}
    read = dict.fromkeys([*(v for node in graph.nodes for v in node.operands), *values])
    params = [v for v in read if v not in made]
    histories = _histories(records, since)
    again = _constant(graph, params, histories, tracer.recorded)
    late = [at for at, v in enumerate(params) if v in entered] or range(len(params))
    with recording(False):
        copies = [stop_gradient(make_tensor(v.type, v)) for v in values]
    outside = [make_snapshot((v.type, v, histories.get(v))) for v in params]
    outputs = call_again(copies, outside, again, tuple(late))
    for t, output in zip((*tensors.values(), *written), outputs, strict=True):
        t.record = output.record
        if isinstance(t, Tensor):
            t.content = output.content
        else:
            t.value = output.content
    return result


def _constant(
    graph: Graph,
    params: Sequence[Value],
    histories: Mapping[Value, AnyRecord],
    recorded: Collection[Value],
) -> Graph:
    """``graph`` of ``params``, closed, which cuts histories where its capture did."""
    flowing, renamed, nodes = set(histories), {}, []
    for node in graph.nodes:
        operands = tuple([renamed.get(v, v) for v in node.operands])
        nodes.append(replace(node, operands=operands))
        if flowing.isdisjoint(node.operands):
            continue
        for v in node.results:
            if v in recorded or not v.type.floating:
                flowing.update([v] if v in recorded else [])
                continue
            cut = renamed[v] = Value(v.type, v.hint, v.location)
            nodes.append(Node(stop_gradient, (v,), (), (cut,), (), node.location))
    results = tuple([renamed.get(v, v) for v in graph.results])
    return copied(Graph("again", tuple(params), tuple(nodes), results), "again")


def call_again(
    made: Sequence[Tensor], read: Sequence[Tensor], again: Graph, late: tuple[int, ...]
) -> Sequence[Tensor]:
    """The results of a node for a checkpointed call: values ``made``, and ``again`` for its vjp."""
    params = tuple([Value(t.type) for t in (*made, *read)])
    passed_on = Graph("made", params, (), params[: len(made)])
    attrs = {"outs": len(made), "late": late}
    return results_of(current().apply(checkpoint_call, (*made, *read), attrs, (passed_on, again)))


@checkpoint_call.aliases
def checkpoint_aliases(record: Record) -> Aliases:
    """The aliases of the results of a checkpointed call: none; those of operands are asked for."""
    return _asks(record)


@checkpoint_call.vjp
def checkpoint_vjp(
    pull: Pull,
    _results: Any,
    *operands: Tensor,
    outs: int,
    late: tuple[int, ...],
    regions: tuple[Graph, Graph],
) -> list[Ct | None]:
    """The total cotangent of each operand, by a second run that is gone back through."""
    first = next(ct for ct in pull.cts if ct is not None)
    ct = first.ct if isinstance(first, OptionalCt) else first

    def run() -> list[Tensor]:
        read = []
        for at, (t, flows) in enumerate(zip(operands[outs:], pull.flow[outs:], strict=True)):
            record = t.record if flows else None
            if at in late:  # recorded, else it would be a constant to the regions of a graph
                t = after(t, ct)
            t = make_tensor(t.type, t.content)
            t.record = record  # the history is that of the value itself
            read.append(t)
        return replay(regions[1], read)

    return _pulled(pull, pull.record.parents, run)


@checkpoint_call.jvp
def checkpoint_jvp(
    tangents: tuple[Ct | None, ...],
    results: Any,
    *operands: Tensor,
    outs: int,
    late: tuple[int, ...],
    regions: tuple[Graph, Graph],
) -> Any:
    """The tangents of the results, by a second run."""
    read = operands[outs:]
    records = [t.record for t in read]
    run = functools.partial(replay, regions[1], read)
    return _pushed(tangents[outs:], records, run, isinstance(results, tuple))


def _histories(records: Sequence[AnyRecord], since: int) -> dict[Value, AnyRecord]:
    """The records of the values from outside that ``records`` came from."""
    found: dict[Value, AnyRecord] = {}
    outside = {node_of(record)[0] for record in outside_of(records, since)}
    for node in history(records, outside):
        for saved in node.saved if type(node) is Record and node not in outside else ():
            if isinstance(saved, tuple) and saved[2] is not None and not _is_new(saved[2], since):
                found[saved[1]] = saved[2]
    return found
