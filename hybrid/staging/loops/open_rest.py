"""The rest of a loop over items of many sizes: a second loop, whose body is bound to each item.

::

    for item in items: ...        # the node of like items, which ends before the first unlike one

    while %more {                 # and behind it
      body(...) {
        ... = py_call ... {<body>}   # the open graph of the body, at the sizes of the next item
      }
    }

The body is traced once more, with symbols for the sizes of the item.  What it gives has no open
types, so to the graph around it is a call; the call looks up the plan of the body at these sizes,
or makes it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.convert.runtime import Site
from hybrid.core.dataclass import dataclass, field
from hybrid.core.exceptions import Leaving, settle
from hybrid.core.loop_io import ItemKind
from hybrid.core.sizes import OpenSizes, Size
from hybrid.core.tree import unflatten
from hybrid.core.types import TensorType
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.fused_calls import optimized_plan
from hybrid.eager.launch import call_plan
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location
from hybrid.ir import Builder, Graph, Node, Value
from hybrid.ir.bound_graphs import SizeBinding
from hybrid.number import Number
from hybrid.number.staging import OwnCall
from hybrid.ops.flow.control import COUNT, py_call
from hybrid.plan import Plan
from hybrid.staging.loops.for_node import StagedFor
from hybrid.staging.values.walks import Supplied

Axis = tuple[int, int]  # of a leaf of the item
_MOST_PLANS = 64  # of one body; those used least recently go


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item of which sizes have symbols."""

    sizes: OpenSizes
    places: tuple[tuple[int, int], ...]  # of each symbol: a leaf, and an axis of it
    types: tuple[TensorType, ...]

    @staticmethod
    def of(
        kinds: Sequence[ItemKind], *, batches: bool, all_axes: bool, closed: Collection[Axis] = ()
    ) -> OpenItem:
        """The open item of ``kinds``: that of the loop, and of others that were looked at.

        Axes that always agree have one symbol; the first ones, where items are ``batches``, are
        those of the samples.  Without ``all_axes`` only these are open, and those that differ.  The
        ``closed`` ones are not.
        """
        first = kinds[0]
        ranks = [t.rank for t in first.types]
        alike = [k for k in kinds if k.structure == first.structure
                 and [t.rank for t in k.types] == ranks]  # fmt: skip
        sizes, symbols, places, types = OpenSizes(), dict[Any, Size](), [], []
        samples = [tuple([k.types[0].shape[0] for k in alike])] if batches and ranks[0] else []
        for at, kind in enumerate(first.types):
            shape: list[Any] = list(kind.shape)
            for axis, size in enumerate(kind.shape):
                history = tuple([k.types[at].shape[axis] for k in alike])
                own = axis == 0 and history in samples
                if size and (at, axis) not in closed and (own or all_axes or len(set(history)) > 1):
                    key = own, history
                    if key not in symbols:
                        symbols[key] = sizes.symbol(f"n{len(symbols)}", size, low=1)
                        places.append((at, axis))
                    shape[axis] = symbols[key]
            types.append(kind.with_shape(tuple(shape)))
        return OpenItem(sizes, tuple(places), tuple(types))

    def values(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
        """The sizes of an item; None where the body is not for these."""
        if [len(shape) for shape in shapes] != [t.rank for t in self.types]:
            return None
        values = tuple([shapes[at][axis] for at, axis in self.places])
        if not self.sizes.holds(values):
            return None
        bound = [self.sizes.bound(t.shape, values) for t in self.types]
        return values if bound == list(shapes) else None


@dataclass(frozen=True, slots=True, eq=False)
class OpenBody(OwnCall):
    """The py_call that runs the body of a loop on the next item, whatever its sizes."""

    graph: Graph  # whose last parameters are the leaves of the item
    item: OpenItem
    supplied: Supplied
    number: int  # of the parameter that tells the pass
    at: Location | None
    plans: dict[tuple[int, ...], Plan] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)
    raises = None
    settles = True

    @property
    def location(self) -> Location | None:  # type: ignore[override]
        return self.at

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return self.supplied.supply.waits

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        held = self.supplied.held_of(arrays[self.number])
        values = self.item.values([array.shape for array in held])
        if values is None:
            raise self._refusal(arrays[self.number])
        operands = [from_numpy(np.asarray(a)) for a in (*arrays, *held)]
        return [array_of(t) for t in call_plan(self.plan(values), self._typed(operands))]

    def _refusal(self, number: Any) -> Exception:
        error: Any = self.supplied.refusal(number)
        asked = ", ".join(map(str, self.item.sizes.conditions.values()))
        types = ", ".join(map(str, self.item.types))
        error.why += f"\nBehind the first unlike one it is for {types}"
        error.why += f", where {asked}." if asked else "."
        return error

    def _typed(self, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """The operands with the types of the graph: bits of bfloat16 are such numbers again."""
        for operand, value in zip(operands, self.graph.params, strict=True):
            if operand.type.dtype is not value.type.dtype:
                operand.type = operand.type.with_dtype(value.type.dtype)
        return operands

    def plan(self, values: tuple[int, ...]) -> Plan:
        """The plan of the body at the sizes ``values``."""
        with self.lock:
            plan = self.plans.pop(values, None)
            if plan is None:
                plan = optimized_plan(SizeBinding(self.item.sizes, values).graph(self.graph))
            self.plans[values] = plan
            for oldest in list(self.plans)[:-_MOST_PLANS]:
                del self.plans[oldest]
        return plan

    def __repr__(self) -> str:
        return "body"


class StagedRest(StagedFor):
    """The session of a loop over the items behind the like ones."""

    def __init__(self, site: Site, feed: Supplied) -> None:
        super().__init__(site, feed)
        self.stream, self.all_axes = feed, True
        self.fixed: set[Axis] = set()  # axes that the body takes for plain numbers
        self.item_kind: OpenItem | None = None
        self.asked: list[Node] = []  # what asks for the first item
        self.states: list[tuple[Tensor, Tensor]] = []  # what cells held before

    def begin(self, found: Mapping[str, Any]) -> bool:
        self.entry_found = dict(found)
        self.before = self.snapshot(found)
        return self.attempt()

    def attempt(self) -> bool:
        assert isinstance(self.feed, Supplied)
        with self.inside(self.parent):
            self.open()
        region = self.path.region
        kinds, batches = self.feed.supply.kinds_met, self.feed.supply.batches_samples
        self.item_kind = OpenItem.of(
            kinds, batches=batches, all_axes=self.all_axes, closed=self.fixed
        )
        region.opens = self.item_kind.sizes
        self.index = region.param(COUNT, "i")
        self.slices = []
        with self.inside(region):
            self.position = Number("int", self.index, 0, None).tensor.content
            found = self.feed.open_row(self.item_kind.types)
            self.item = unflatten(kinds[0].structure, found)
        self.state = self.body_done
        return True

    def again(self, found: Mapping[str, Any]) -> bool:
        try:
            return super().again(found)
        except CaptureError as error:
            settle(error)
            return self.state is not None and self._give_up()

    def caught(self, error: BaseException) -> bool:
        if not isinstance(error, CaptureError):
            return False
        self.state = lambda _found: self._give_up()
        return True

    def _give_up(self) -> bool:
        """Trace the body once more with fewer axes open, or leave unlike items refused."""
        self.path = None
        del self.tracer.notes[self.noted :]
        self._take_out(self.asked)
        for cell, value in self.states:
            self.parent.give(cell, value)
        self.asked, self.states = [], []
        pinned = self._pinned()
        if pinned or self.all_axes:
            self.fixed |= pinned
            self.all_axes = self.all_axes and bool(pinned)
            self.attempts, self.peels, self.widened = 0, 0, {}
            self.rewritten, self.carried_places, self.rebuilt = set(), {}, set()
            return self.attempt()
        self.state = None
        self.load(self.before)
        return False

    def _take_out(self, taken: Sequence[Node]) -> None:
        """Remove nodes, and those that take what they give."""
        nodes, gone, left = self.parent.builder.nodes, set[Value](), []
        for node in nodes:
            if node in taken or not gone.isdisjoint(node.operands):
                gone.update(node.results)
            else:
                left.append(node)
        nodes[:] = left

    def _pinned(self) -> set[Axis]:
        """The axes of which the body that was traced allows one size alone."""
        item = self.item_kind
        assert item is not None
        pinned = item.sizes.pinned()
        symbols = [t.shape[axis] for at, axis in item.places for t in (item.types[at],)]
        numbers = [n for n in symbols if n.terms[0][0][0] in pinned]
        return {
            (at, axis)
            for at, t in enumerate(item.types)
            for axis, size in enumerate(t.shape)
            if any(size is n or (type(size) is Size and size.terms == n.terms) for n in numbers)
        }

    def leave_loop(self, found: Mapping[str, Any]) -> bool:
        self.state = None
        self.finish(found)
        return False

    def settle(self) -> bool:
        if self._pinned():
            raise CaptureError("the body takes a size for a plain number")
        return super().settle()

    def _peel(self) -> bool:
        raise CaptureError("the items behind the like ones leave another state")

    def _go_on_open(self) -> bool:
        return False

    def _over(self, found: Mapping[str, Any]) -> bool:
        return False  # the pass is that of the loop before

    def _stage_as_while(self, over: bool, flag: Tensor | None, count: Tensor) -> None:
        nodes, cells = self.parent.builder.nodes, self.stream.supply.cells
        self.states = [(cell, self.parent.traced(cell)) for cell in cells]
        begin = len(nodes)
        with self.inside(self.parent):
            self.go = self.stream.advance(False)
        self.asked = nodes[begin:]
        super()._stage_as_while(over, flag, count)

    def closed(self, params: Sequence[Value], results: Sequence[Value]) -> Graph:
        """The body as a call of what binds it to the sizes of each item."""
        region = self.path.region
        leaves = [leaf for c in (*self.names.values(), *self.places.values()) for leaf in c.leaves]
        histories = [leaf.final.record for leaf in leaves if isinstance(leaf.final, Tensor)]
        cells = [cell for cell in region.cells.values() if cell.written]
        histories += [c.record for c in cells if c.record is not getattr(c.tensor, "leaf", None)]
        if any(record is not None for record in histories):
            raise CaptureError("gradients flow through the loop")
        graph = super().closed(params, results)
        return _as_call(graph, self.item_kind, self.feed, self.site.location)


def _as_call(graph: Graph, item: OpenItem, feed: Supplied, at: Location | None) -> Graph:
    asks = next(node for node in graph.nodes if feed.asks_row(_called(node)))
    if asks.operands[0] not in graph.params or any(v.type.is_open for v in graph.results):
        raise CaptureError("what the body leaves has the sizes of an item")
    function: Any = asks.attributes["function"]
    rest = asks.operands[1:] if type(function) is Leaving else ()
    if not set(rest) <= set(graph.params):
        raise CaptureError("what was written before is computed in the body")
    inner = Graph(
        graph.name,
        (*graph.params, *asks.results),
        tuple([node for node in graph.nodes if node is not asks]),
        graph.results,
    )
    number = graph.params.index(asks.operands[0])
    call: Any = OpenBody(graph=inner, item=item, supplied=feed, number=number, at=at)
    builder = Builder(graph.name)
    params = {v: builder.param(v.type, v.hint) for v in graph.params}
    operands = [params[v] for v in (*graph.params, *rest)]
    if type(function) is Leaving:
        call = Leaving(call, len(graph.params), function.left)
    types = tuple([v.type for v in graph.results])
    attrs = py_call.attributes({"function": call, "types": types})
    results: Sequence[Value] = builder.apply(py_call, operands, attrs, location=at)
    return builder.finish(results)


def _called(node: Node) -> Any:
    """What ``node`` calls."""
    call: Any = node.attributes["function"] if node.op is py_call else None
    return call.function if type(call) is Leaving else call
