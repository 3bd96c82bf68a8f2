"""Lowering of branches and loops: their regions become blocks of steps.

A loop's carried values want to stay where they are: when the step that computes the next value may
write it over the one that dies, they do.  Else two buffers take turns: after each iteration every
value of the loop moves to where the next one was written.  Slices and stacks are rows, which the
steps of the body read and write where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hybrid.core.types import int64, tensor_type
from hybrid.ir import Graph, Node, Value, View
from hybrid.plan.steps import Buffer, Control, Step, overwrites, step_touches, walk

if TYPE_CHECKING:
    from hybrid.plan.lower import Lowering

COUNT = tensor_type(int64, ())
ALIGNMENT = 64  # of places that values take turns in


def lower_cond(low: Lowering, node: Node) -> None:
    """Lower a cond to two blocks that write the results to one place."""
    pred, *operands = low.operands(node)
    targets: list[Buffer | None] = []
    for value, *returned in zip(node.results, *[r.results for r in node.regions], strict=True):
        same = {
            region.params.index(v) if v in region.params else -1
            for region, v in zip(node.regions, returned, strict=True)
        }
        if len(same) == 1 and same != {-1} and value not in low.destination:
            low.views[value] = operands[same.pop()]  # what neither branch changes
            targets.append(None)
        else:
            targets.append(low.result(value).buffer)
    blocks = []
    for region in node.regions:
        inner = _inside(low, region, repeats=False)
        inner.run(operands, targets)
        blocks.append(inner.steps)
    control = Control(kind="cond", blocks=blocks)
    low.steps.append(
        Step(kernel=None, inputs=[pred], outputs=[], location=low.location, control=control)
    )


def lower_while(low: Lowering, node: Node) -> None:
    """Lower a ``while`` to a block that runs while its last test holds."""
    attrs = node.attributes
    go, *operands = low.operands(node)
    body, n = node.regions[0], attrs["carried"]
    trips, *results = node.results
    loop = _LoopLowering(low, node, Control(kind="while", blocks=[]))
    inner = loop.inner
    params = loop.start(operands[:n], body.params[:n], body.results[1 : 1 + n], results[:n])
    targets = loop.stacks(results[n:], attrs["length"], spares=True)
    test, *found = inner.run([*params, *operands[n:]], [None] * (n + 1) + targets)
    loop.close(found[:n], [test])
    loop.append([go, test], [low.result(trips)])


def lower_for(low: Lowering, node: Node) -> None:
    """Lower a ``for`` to a block that runs for each index."""
    attrs = node.attributes
    count, *operands = low.operands(node)
    body, n, length = node.regions[0], attrs["carried"], attrs["length"]
    results, end = node.results, n + attrs["sliced"]
    loop = _LoopLowering(low, node, Control(kind="for", blocks=[], reverse=attrs["reverse"]))
    inner, control = loop.inner, loop.control
    overruns = attrs["overruns"]
    if (attrs["sliced"] or len(results) > n) and not overruns:
        control.limit = length
    index = low.whole(inner.scratch(COUNT.nbytes), COUNT)
    loop.index = index.buffer
    params = loop.start(operands[:n], body.params[1 : 1 + n], body.results[:n], results[:n])
    slices = [loop.sliced(view) for view in operands[n:end]]
    targets = loop.stacks(results[n:], length, spares=overruns)
    given = [index, *params, *slices, *operands[end:]]
    found = inner.run(given, [None] * n + targets)
    loop.close(found[:n], [])
    used = any(view.buffer is index.buffer for step in walk(inner.steps) for view in step.operands)
    loop.append([count], [index] if used else [])


def _inside(low: Lowering, region: Graph, *, repeats: bool) -> Lowering:
    return type(low)(region, low, repeats=repeats)


class _LoopLowering:
    """A loop while it is lowered."""

    def __init__(self, low: Lowering, node: Node, control: Control) -> None:
        self.low, self.node, self.control = low, node, control
        self.inner = _inside(low, node.regions[0], repeats=True)
        self.step = Step(kernel=None, inputs=[], outputs=[], location=low.location, control=control)
        self.carried: list[tuple[int, Buffer, Buffer]] = []  # which one, its home, the parameter
        self.finals: list[tuple[Value, View]] = []
        self.stacked: list[Buffer] = []
        self.index: Buffer | None = None

    def start(
        self,
        initial: Sequence[View],
        params: Sequence[Value],
        returned: Sequence[Value],
        results: Sequence[Value],
    ) -> list[View]:
        """The views that the body has of its carried values; they get homes of their own."""
        views = []
        for at, (view, param, value) in enumerate(zip(initial, params, returned, strict=True)):
            if value is not param:
                home = self.low.scratch(param.type.nbytes)
                self.low.copy(view, self.low.whole(home, param.type))
                place = self.inner.scratch(param.type.nbytes)
                self.low.own.add(place)
                self.carried.append((at, home, place))
                view = self.low.whole(place, param.type)
            views.append(view)
            self.finals.append((results[at], view))
        return views

    def sliced(self, view: View) -> View:
        """Row i of ``view``."""
        type = tensor_type(view.dtype, view.shape[1:])
        if not View(None, view.dtype, view.shape[1:], view.strides[1:]).dense:
            view = self.low.dense(view)
        row = Buffer(kind="row", nbytes=type.nbytes, base=view.buffer, count=view.shape[0])
        if view.size:
            size = view.dtype.itemsize
            row.start, row.stride = view.offset * size, view.strides[0] * size
        return self.low.whole(self._row(row), type)

    def stacks(self, results: Sequence[Value], length: int, *, spares: bool) -> list[Buffer]:
        """Row i of each stacked result, to be written."""
        rows = []
        for value in results:
            stack = self.low.result(value)
            nbytes = tensor_type(value.type.dtype, value.type.shape[1:]).nbytes
            row = Buffer(kind="row", nbytes=nbytes, base=stack.buffer, stride=nbytes, count=length)
            if spares:
                row.spare = self.low.scratch(nbytes)
            rows.append(self._row(row))
        self.stacked = rows
        return rows

    def _row(self, row: Buffer) -> Buffer:
        row.loop = self.step
        self.inner.own.add(row)
        self.control.rows.append(row)
        return row

    def append(self, inputs: list[View], outputs: list[View]) -> None:
        """The loop's step, and its results where they are wanted."""
        low, control = self.low, self.control
        control.blocks = [self.inner.steps]
        self.step.inputs, self.step.outputs = inputs, outputs
        low.steps.append(self.step)
        for value, view in self.finals:
            low.views[value] = view
            target = low.destination.get(value)
            if target is None:
                continue
            low.views[value] = low.whole(target, value.type)
            if view.buffer.root in control.homes and view.buffer.root.kind == "arena":
                home = view.buffer.root
                home.same = target
                control.homes[control.homes.index(home)] = target
            else:
                low.copy(view, low.views[value])

    # Where the next values go -----------------------------------------------------------------

    def close(self, results: Sequence[View], others: Sequence[View]) -> None:
        """Decide for every carried value: in place, or taking turns."""
        steps = self.inner.steps
        reached: dict[Step, set[Buffer]] = {}
        _reach(steps, reached)
        returned = [view.buffer.root for view in (*results, *others)]
        places = {place for _, _, place in self.carried}
        turns = []
        for at, home, place in self.carried:
            view, target = results[at], results[at].buffer.root
            if target is place and view.dense and view.type.nbytes == place.nbytes:
                place.same = home  # never changed
                self.control.homes.append(home)
            elif (
                self._is_own(view)
                and target not in places
                and returned[: len(results)].count(target) == 1
                and place not in returned
                and _in_place(steps, place, target, reached)
            ):
                place.same = target.same = home
                self.control.homes.append(home)
            else:
                turns.append((at, home, place))
        self._take_turns(turns, results)

    def _is_own(self, view: View) -> bool:
        """Whether ``view`` is all of a buffer that this iteration has made."""
        buffer = view.buffer.root
        whole = view.dense and view.type.nbytes == buffer.nbytes
        own = buffer in self.inner.own and buffer is not self.index
        return whole and own and buffer.kind == "arena"

    def _may_follow(self, view: View) -> bool:
        """Whether ``view`` is a row of a stack, where the next iteration may read it."""
        row = view.buffer.root
        if row not in self.stacked or row.spare is not None:
            return False
        whole = view.dense and row.nbytes == view.type.nbytes > 0
        assert row.base is not None
        return whole and row.nbytes % ALIGNMENT == 0 and row.base.root.kind in ("arena", "output")

    def _take_turns(self, turns: list[tuple[int, Buffer, Buffer]], results: Sequence[View]) -> None:
        source: dict[Buffer, Buffer] = {}  # of each parameter: where its next value is written
        places = {place for _, _, place in turns}
        fresh = []
        for at, _, place in turns:
            view = results[at]
            buffer = view.buffer.root
            usable = self._is_own(view) or self._may_follow(view)
            if not usable or buffer in source.values():
                target = self.inner.temporary(view.dtype, view.shape)
                self.inner.copy(view, target)
                buffer = target.buffer
            source[place] = buffer
            if buffer not in places and buffer.kind != "row":
                fresh.append(buffer)
        reader = {buffer: place for place, buffer in source.items()}
        for _, home, place in turns:
            self._carry(place, home)
        for buffer in fresh:
            left = buffer  # the place that nobody goes to, at the end of the chain from it
            while left in reader:
                left = reader[left]
            self._carry(buffer, self.low.scratch(buffer.nbytes))
            source[buffer] = left
        self.control.moves = list(source.items())
        for to, came in self.control.moves:
            joined = [*to.ring, *(b for b in came.ring or [came] if b not in to.ring)]
            for buffer in joined:
                buffer.ring = joined

    def _carry(self, buffer: Buffer, home: Buffer) -> None:
        buffer.kind, buffer.base, buffer.loop = "carried", home, self.step
        buffer.ring = [buffer]
        self.control.carried.append(buffer)


def _reach(steps: Sequence[Step], reached: dict[Step, set[Buffer]]) -> set[Buffer]:
    """Everything that ``steps`` reach, and each of them with its blocks."""
    everything: set[Buffer] = set()
    for step in steps:
        found = set(step_touches(step))
        for block in step.blocks:
            found |= _reach(block, reached)
        reached[step] = found
        everything |= found
    return everything


def _in_place(
    steps: Sequence[Step], old: Buffer, new: Buffer, reached: dict[Step, set[Buffer]]
) -> bool:
    """Whether ``old`` is not needed any more once ``steps`` begin to write ``new``."""
    first = next((i for i, step in enumerate(steps) if new in reached[step]), None)
    if first is None:
        return True
    if any(old in reached[step] for step in steps[first + 1 :]):
        return False
    step = steps[first]
    if old not in reached[step]:
        return True
    if step.control is not None and step.control.kind == "cond":
        return all(_in_place(block, old, new, reached) for block in step.blocks)
    output = next((view for view in step.outputs if view.buffer.root is new), None)
    return step.control is None and output is not None and overwrites(step, output, old)
