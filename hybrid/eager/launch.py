"""Launches: op calls that are remembered, as plans of one op and what their results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.imports import above
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.eager.thread_state import WRITES
from hybrid.ir import Builder, Graph, NotDense, Op, View
from hybrid.ir.interpreter import current
from hybrid.ir.lowering import row_major
from hybrid.memory import native
from hybrid.memory.buffers import MAX_BYTES
from hybrid.ops.communication.layout_op import is_laid
from hybrid.plan import Plan, make_plan

MAX_LAUNCHES = 2048  # per op; the oldest half goes when it is full
_CALLS = {1: native.run1, 2: native.run2, 3: native.run3}
_new = object.__new__


class Launch:
    """A remembered op call: its plan and what its results are."""

    __slots__ = (
        "array", "call", "handle", "is_alias", "make", "offset", "plan", "regions", "storage",
        "type", "types",
    )  # fmt: skip

    def __init__(self, graph: Graph, *, offset: int | None = None, regions: tuple = ()) -> None:
        """``offset``: the result is the operand's bytes from there on, under another type."""
        results = graph.results
        self.regions = regions  # kept alive: their ids are in the key
        self.types = [v.type for v in results]
        if is_laid(graph):
            offset, self.plan = None, above.local_plan(graph)
            self.types = list(self.plan.output_types)
        else:
            self.plan = make_plan(graph) if offset is None else None
        self.type = self.types[0] if results else None
        self.make, self.storage = native.storage(self.type.nbytes if results else 0)
        self.offset = offset
        whole = graph.params[0].type.nbytes if offset == 0 else 0
        self.is_alias = offset == 0 and 2 * self.type.nbytes >= whole  # the memory itself is shared
        self.handle = None if self.plan is None else self.plan.handle  # None: not for the fast path
        count = len(graph.params)
        self.call = _CALLS.get(count) if self.handle is not None and len(results) == 1 else None
        self.array = native.pointer_array(len(results) + count)

    def run(self, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results on ``operands``."""
        call = self.call
        if call is not None:
            data = self.make(self.storage)
            status = call(self.handle, data, *[t.content for t in operands])
            if status:
                self.plan.fail(status)
            result = _new(Tensor)
            result.type, result.content, result.record = self.type, data, None
            return (result,)
        if self.plan is None:
            data = operands[0].content
            if not self.is_alias:
                data = native.part(data, self.offset, self.type.nbytes)
            return (make_tensor(self.type, data),)
        outputs = [native.allocate(v.nbytes) for v in self.types]
        self.plan.run(native.new(self.array, [*outputs, *[t.content for t in operands]]))
        return tuple([make_tensor(v, data) for v, data in zip(self.types, outputs, strict=True)])


def plan_into(
    op: Op, types: tuple[TensorType, ...], attrs: tuple, results: Sequence[TensorType]
) -> Plan:
    """The plan of one op whose results are held as ``results`` say."""
    return above.local_plan(_graph_of(op, types, attrs, ()), dict(enumerate(results)))


def _graph_of(op: Op, types: tuple[TensorType, ...], attrs: tuple, regions: tuple) -> Graph:
    builder = Builder(op.name)
    operands = [builder.param(t) for t in types]
    return builder.finish(builder.apply(op, operands, attrs, regions=regions))


def launch_of(
    op: Op, types: tuple[TensorType, ...], attrs: tuple, regions: tuple = (), *, views: bool = True
) -> Launch:
    """A launch of one op; unless ``views``, by a plan in any case."""
    graph = _graph_of(op, types, attrs, regions)
    return Launch(graph, offset=offset_of(op, types, attrs) if views else None, regions=regions)


def launch_for(op: Op, types: tuple[TensorType, ...], attrs: tuple) -> Launch:
    """The remembered launch of one op; ``attrs`` are complete."""
    key = (types, attrs) if attrs else types
    launch = op.launches.get(key)
    return launch if launch is not None else remember(op, key, launch_of(op, types, attrs))


def remember(op: Op, key: Any, launch: Launch) -> Launch:
    """Keep ``launch``; the cache of an op is bounded."""
    launches = op.launches
    if len(launches) >= MAX_LAUNCHES:
        for old in list(launches)[: MAX_LAUNCHES // 2]:
            launches.pop(old, None)
    launches[key] = launch
    return launch


def call_plan(plan: Plan, operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of ``plan`` on ``operands``."""
    interpreter = current()
    if interpreter.queues:
        made = interpreter.queued(plan, operands)
        if made is not None:
            return made
    fill(operands)
    outputs = [native.allocate(t.nbytes) for t in plan.output_types]
    externals = native.pointers(len(outputs) + len(operands))
    for at, buffer in enumerate([*outputs, *[t.content for t in operands]]):
        externals[at] = buffer
    plan.run(externals)
    return [make_tensor(t, b) for t, b in zip(plan.output_types, outputs, strict=True)]


def fill(tensors: Sequence[Tensor]) -> bool:
    """Wait for the values of ``tensors``; whether any was pending."""
    found = False
    for t in tensors:
        data = t.content
        if isinstance(data, native.Pending):
            found, buffer = True, data.wait()
            with WRITES:
                if t.content is data:  # nobody has written to the cell meanwhile
                    t.content = buffer
    return found


def offset_of(op: Op, types: Sequence[TensorType], attrs: tuple) -> int | None:
    """Where in the operand's bytes those of the result lie, all in a row; None if they do not."""
    if op.view_rule is None:
        return None
    whole = View(None, types[0].dtype, types[0].shape, row_major(types[0].shape))
    try:
        view = op.view_rule(whole, **dict(attrs))
    except NotDense:  # pragma: no cover - a whole operand is dense
        return None
    item = view.dtype.itemsize
    is_alias = view.offset == 0 and 2 * view.size >= whole.size
    if not view.dense or (view.size * item > MAX_BYTES and not is_alias):
        return None
    return view.offset * item
