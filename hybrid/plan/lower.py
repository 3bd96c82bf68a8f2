"""Lowering: from a graph to steps, with a kernel and views for every node.

The result is a list of steps over named buffers; memory.py then gives each buffer a place.  An
eager op goes the same way as a one-node graph, which is why both modes give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.size_functions import SizeValue
from hybrid.core.types import DType, Shape, TensorType, bfloat16, uint8
from hybrid.errors import Location, NativeError
from hybrid.ir import Graph, Node, NotDense, Op, Value, View
from hybrid.ir.lowering import row_major
from hybrid.memory import native
from hybrid.memory.bfloat16 import to_bfloat16
from hybrid.memory.channels import CollectiveCall, Doing
from hybrid.plan import control_blocks
from hybrid.plan.agreement import agreements, call_of
from hybrid.plan.maps import (
    append_map,
    is_elementwise,
    kernel_attrs,
    lower_map,
    lower_mapped,
    lower_reduced,
)
from hybrid.plan.steps import Buffer, HostCall, Lowered, MapOp, Step, walk
from hybrid.plan.transfers import Transfer


def lower(graph: Graph) -> Lowered:
    """The steps that compute ``graph``."""
    inputs = [
        Buffer(kind="input", nbytes=v.type.nbytes, index=i) for i, v in enumerate(graph.params)
    ]
    outputs = [
        Buffer(kind="output", nbytes=v.type.nbytes, index=i) for i, v in enumerate(graph.results)
    ]
    low = Lowering(graph)
    low.run([low.whole(b, v.type) for b, v in zip(inputs, graph.params, strict=True)], outputs)
    steps = _settled(low.steps)
    if any(node.op.communicates for node in graph.walk()):
        steps = [*agreements(graph), *steps]
    return Lowered(steps, inputs, outputs)


@dataclass(frozen=True, slots=True)
class HostedOp:
    """An op that Python computes, with its attributes: a function of arrays."""

    op: Op
    attributes: dict[str, Any]
    entry: CollectiveCall | None = None  # of one that communicates

    def __call__(self, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):  # kernels warn of nothing
            if self.entry is None:
                return self.op.reference_rule(*arrays, **self.attributes)
            with Doing(self.entry):
                return self.op.reference_rule(*arrays, **self.attributes)

    @property
    def takes_bits(self) -> bool:
        """Whether arrays of bfloat16 come as the bits that they are."""
        return self.entry is not None

    @property
    def __name__(self) -> str:
        return self.op.name


class Lowering:
    """The lowering of one graph or region; lowering rules see it as Emit."""

    def __init__(
        self, graph: Graph, outer: Lowering | None = None, *, repeats: bool = False
    ) -> None:
        self.graph = graph
        self.outer = outer
        self.repeats = repeats  # whether it is the body of a loop
        self.steps: list[Step] = []
        self.views: dict[Value, View] = {}
        self.own: set[Buffer] = set()  # what is made here, or in each iteration
        self.densified: dict[View, View] = {}
        self.constants: dict[Any, Buffer] = outer.constants if outer else {}
        self.destination: dict[Value, Buffer] = {}
        self.communicating: CollectiveCall | None = None
        self.around: Location | None = outer.location if outer else None
        self.location = self.around

    def run(self, operands: Sequence[View], targets: Sequence[Buffer | None]) -> list[View]:
        """Where the results are; those that have a target are there."""
        self.views.update(zip(self.graph.params, operands, strict=True))
        self._choose_destinations(targets)
        for node in self.graph.nodes:
            self.location = node.location or self.around
            self._node(node)
        self.location = self.around
        results, placed = [], set(self.destination.values())
        for value, target in zip(self.graph.results, targets, strict=True):
            view = self.views[value]
            if target is not None and self.destination.get(value) is not target:
                place = self.whole(target, value.type)
                if target not in placed:
                    self.copy(view, place)
                view = place
            results.append(view)
        return results

    def _choose_destinations(self, targets: Sequence[Buffer | None]) -> None:
        """Let nodes write results where they are wanted, seen through reshapes."""
        defined = {result: node for node in self.graph.nodes for result in node.results}
        for value, target in zip(self.graph.results, targets, strict=True):
            root = value
            while root in defined and defined[root].op.name in ("reshape", "identity"):
                root = defined[root].operands[0]
            node = defined.get(root)
            if target is None or node is None or root in self.destination:
                continue
            if node.op.name not in ("full", "literal") and node.op.view_rule is None:
                self.destination[root] = target

    def _node(self, node: Node) -> None:
        first = len(self.steps)
        self._lower(node)
        for step in self.steps[first:]:
            step.raises = step.raises or (node.op.raises and step.call is None)

    def _lower(self, node: Node) -> None:
        op = node.op
        if op.name == "full":
            self.views[node.results[0]] = self._full(node)
        elif op.name == "literal":
            self.views[node.results[0]] = self._literal(node)
        elif op.view_rule is not None:
            self.views[node.results[0]] = self._view(node)
        elif op.name in _OWN_RULES:
            _OWN_RULES[op.name](self, node)
        elif op.hosted:
            call = call_of(node) if op.communicates else None
            self._host(node, HostedOp(op, node.attributes, call))
        elif op.lowering_rule is not None:
            self.communicating = call_of(node) if op.communicates else None
            op.lowering_rule(
                self, *self.operands(node), *map(self.result, node.results), **node.attributes
            )
        elif op.kernel is not None:
            views = self.operands(node)
            if not op.elementwise:
                views = [self.dense(view) for view in views]
            types = tuple(v.type for v in node.operands)
            name = op.kernel_name(types, node.attrs)
            results = [self.result(v) for v in node.results]
            self.kernel(name, views, results, kernel_attrs(node))
        else:
            raise NativeError(f"{op.name} has neither a kernel nor a lowering rule")

    def operands(self, node: Node) -> list[View]:
        return [self.views[v] for v in node.operands]

    def result(self, value: Value) -> View:
        """A place for ``value``, where it is wanted or in the arena."""
        buffer = self.destination.get(value) or self.scratch(value.type.nbytes)
        view = self.views[value] = self.whole(buffer, value.type)
        return view

    def scratch(self, nbytes: int) -> Buffer:
        """A new buffer in the arena."""
        buffer = Buffer(kind="arena", nbytes=nbytes)
        self.own.add(buffer)
        return buffer

    @staticmethod
    def whole(buffer: Buffer, type: TensorType) -> View:
        return View(buffer, type.dtype, type.shape, row_major(type.shape))

    def _full(self, node: Node) -> View:
        attrs = node.attributes
        return self.constant(attrs["dtype"], attrs["value"]).broadcast(attrs["shape"])

    def _literal(self, node: Node) -> View:
        type_ = node.results[0].type
        return self.whole(self._constant_buffer(node.attributes["data"], type_.nbytes), type_)

    def _view(self, node: Node) -> View:
        view = self.views[node.operands[0]]
        try:
            return node.op.view_rule(view, **node.attributes)
        except NotDense:
            return node.op.view_rule(self.dense(view), **node.attributes)

    def py_call(self, node: Node) -> None:
        """A call of the node's own function."""
        self._host(node, node.attributes["function"])

    def message(self, node: Node) -> None:
        """A step that prints, or ends the run."""
        given = node.attributes
        text = given["text"].encode()
        place = View(self._constant_buffer(text, len(text)), uint8, (len(text),), (1,))
        step = Step(kernel=None, inputs=[place, *map(self.dense, self.operands(node))], outputs=[])
        step.says = given.get("stream", "error")
        step.location = node.location or Location.of(given.get("at", "")) or self.location
        self.steps.append(step)

    def _host(self, node: Node, function: Callable[..., Any]) -> None:
        """A call of a Python function, on dense operands."""
        inputs = [self.dense(view) for view in self.operands(node)]
        types = tuple([v.type for v in node.results])
        call = HostCall(function, tuple([v.type for v in inputs]), types, node.location)
        outputs = [self.result(v) for v in node.results]
        self.steps.append(
            Step(kernel=None, inputs=inputs, outputs=outputs, location=self.location, call=call)
        )

    # What lowering rules call ---------------------------------------------------------------

    def kernel(
        self,
        name: str,
        inputs: Sequence[View],
        outputs: Sequence[View],
        attrs: Sequence[int | float] = (),
    ) -> None:
        if is_elementwise(name):
            args = tuple(range(len(inputs) + len(outputs)))
            dtype = inputs[0].dtype if inputs else outputs[0].dtype
            shape = outputs[0].shape
            views = [view.broadcast(shape) for view in inputs]
            op = MapOp(name, dtype, tuple(attrs), args, len(outputs))
            append_map(self, views, list(outputs), [op])
        else:
            step = Step(kernel=name, inputs=list(inputs), outputs=list(outputs), attrs=tuple(attrs))
            step.location = self.location
            step.moves = name == "copy" and is_whole(inputs[0]) and is_whole(outputs[0])
            self.steps.append(step)

    def transfer(
        self,
        kind: str,
        inputs: Sequence[View],
        outputs: Sequence[View],
        *,
        comm: str,
        ranks: int,
        root: int = 0,
        after: Sequence[View] = (),
    ) -> None:
        assert self.communicating is not None
        function = Transfer(kind=kind, comm=comm, ranks=ranks, root=root, call=self.communicating)
        types = [tuple([view.type for view in views]) for views in (inputs, outputs)]
        step = Step(kernel=None, inputs=list(inputs), outputs=list(outputs), after=list(after))
        step.call, step.location = HostCall(function, *types, self.location), self.location
        self.steps.append(step)

    @staticmethod
    def offers(name: str, dtype: DType) -> bool:
        """Whether the instruction set has kernel ``name`` for ``dtype``."""
        return native.find_kernel(name, dtype.code) >= 0

    def copy(self, view: View, target: View) -> None:
        """``view`` at ``target`` as well; no step when both come to lie at one place."""
        self.kernel("copy", [view], [target])

    def temporary(self, dtype: DType, shape: Shape) -> View:
        view = View(None, dtype, tuple(shape), row_major(shape))
        return self.whole(self.scratch(view.type.nbytes), view.type)

    def dense(self, view: View) -> View:
        """``view`` itself when dense, else a dense copy: before the loops that do not change it."""
        if view.dense:
            return view
        place: Lowering = self
        level: Lowering | None = self
        while level is not None:
            if view in level.densified:
                return level.densified[view]
            if view.buffer in level.own:
                break
            if level.repeats:
                assert level.outer is not None
                place = level.outer
            level = level.outer
        found = place.densified[view] = place.temporary(view.dtype, view.shape)
        place.kernel("copy", [view], [found])
        return found

    def constant(self, dtype: DType, value: float) -> View:
        data = (dtype, value) if isinstance(value, SizeValue) else element(dtype, value)
        return View(self._constant_buffer(data, dtype.itemsize), dtype, (), ())

    def _constant_buffer(self, data: Any, nbytes: int) -> Buffer:
        buffer = self.constants.get(data)
        if buffer is None:
            buffer = self.constants[data] = Buffer(kind="constant", nbytes=nbytes, data=data)
        return buffer


def element(dtype: DType, value: float) -> bytes:
    """``value`` in memory."""
    one = to_bfloat16(value) if dtype is bfloat16 else np.full((), value, dtype.numpy)
    return one.tobytes()


def is_whole(view: View) -> bool:
    """Whether ``view`` covers all of its buffer, in the same layout."""
    return view.dense and view.type.nbytes == view.buffer.nbytes


# Kernels that take post-ops, and those that take pre-ops.
PRODUCTS = (
    "matmul",
    "matmul_prepared",
    "matmul_integer",
    "matmul_integer_prepared",
    "conv",
    "conv_transpose",
    "conv_prepared",
    "conv_blocked",
    "conv_integer",
    "conv_integer_prepared",
)
REDUCTIONS = ("sum", "prod", "mean", "max", "min", "any", "all")

_OWN_RULES = {
    "map": lower_map,
    **dict.fromkeys([f"{name}_map" for name in PRODUCTS], lower_mapped),
    **dict.fromkeys([f"map_{name}" for name in REDUCTIONS], lower_reduced),
    "cond": control_blocks.lower_cond,
    "while": control_blocks.lower_while,
    "for": control_blocks.lower_for,
    "py_call": Lowering.py_call,
    "say": Lowering.message,
    "stop": Lowering.message,
}


def _settled(steps: list[Step]) -> list[Step]:
    """``steps`` with every view on the buffer that has its place, without copies in place."""
    for step in walk(steps):
        for views in (step.inputs, step.outputs, step.extra):
            views[:] = [
                v if v.buffer.same is None else replace(v, buffer=v.buffer.root) for v in views
            ]
    return without(steps, {step for step in walk(steps) if _is_idle(step)})


def _is_idle(step: Step) -> bool:
    return step.moves and step.inputs[0].buffer is step.outputs[0].buffer


def without(steps: list[Step], left_out: set[Step]) -> list[Step]:
    """``steps`` and those of their blocks, without those ``left_out``."""
    kept = []
    for step in steps:
        if step in left_out:
            continue
        if step.control is not None:
            step.control.blocks = [without(block, left_out) for block in step.blocks]
            if step.is_group:  # a member may be gone
                step.control.blocks = [block for block in step.blocks if block]
                if not step.blocks:
                    continue
        kept.append(step)
    return kept
