"""Lower a graph: choose kernels and views for every node, in order.

The result is a list of steps over named buffers; memory.py then gives each buffer a place.  An
eager op goes the same way as a one-node graph, which is why both modes give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hybrid.errors import Location, NativeError
from hybrid.ir import REGISTRY, Graph, Node, NotDense, Value, View
from hybrid.ir.lowering import row_major
from hybrid.native import MAX_TILES
from hybrid.types import BY_SHORT, DType, Shape, TensorType


@dataclass(eq=False, slots=True)
class Buffer:
    """Bytes with one definition: an argument of the plan, a constant, or scratch in the arena."""

    kind: str  # "input", "output", "constant", "arena"
    nbytes: int
    index: int = -1  # input or output: which one
    data: bytes = b""  # constant
    offset: int = -1  # arena or constants: set by memory.py


@dataclass(slots=True)
class MapOp:
    """An elementwise kernel; args >= 0 are operands of its step, args < 0 tile buffers -1 - arg."""

    kernel: str
    dtype: DType
    attrs: tuple[int | float, ...]
    args: tuple[int, ...]
    n_out: int = 1


@dataclass(slots=True)
class Step:
    """One step of a plan: a kernel (with post-ops in ``ops``) or, without a kernel, a map."""

    kernel: str | None
    inputs: list[View]
    outputs: list[View]
    extra: list[View] = field(default_factory=list)
    attrs: tuple[int | float, ...] = ()
    ops: list[MapOp] = field(default_factory=list)
    location: Location | None = None

    @property
    def operands(self) -> list[View]:
        return [*self.inputs, *self.outputs, *self.extra]


@dataclass(slots=True)
class Lowered:
    """A graph as steps over buffers; inputs and outputs in the graph's order."""

    steps: list[Step]
    inputs: list[Buffer]
    outputs: list[Buffer]


def lower(graph: Graph) -> Lowered:
    """The steps that compute ``graph``."""
    return _Lowering(graph).run()


class _Lowering:
    """The state of one lowering; the Emit that lowering rules see."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.views: dict[Value, View] = {}
        self.densified: dict[View, View] = {}
        self.constants: dict[bytes, Buffer] = {}
        self.outputs: list[Buffer | None] = [None] * len(graph.results)
        self.destination: dict[Value, Buffer] = {}
        self.location: Location | None = None

    def run(self) -> Lowered:
        inputs = []
        for index, value in enumerate(self.graph.params):
            buffer = Buffer("input", value.type.nbytes, index)
            inputs.append(buffer)
            self.views[value] = _whole(buffer, value.type)
        self._choose_destinations()
        for node in self.graph.nodes:
            self.location = node.location
            self._node(node)
        self.location = None
        outputs = []
        for index, value in enumerate(self.graph.results):
            buffer = self.outputs[index]
            if buffer is None:
                buffer = Buffer("output", value.type.nbytes, index)
                self.kernel("copy", [self.views[value]], [_whole(buffer, value.type)])
            outputs.append(buffer)
        return Lowered(self.steps, inputs, outputs)

    def _choose_destinations(self) -> None:
        """Let nodes write results of the graph in place, seen through reshapes."""
        defined = {result: node for node in self.graph.nodes for result in node.results}
        for index, value in enumerate(self.graph.results):
            root = value
            while root in defined and defined[root].op.name in ("reshape", "identity"):
                root = defined[root].operands[0]
            node = defined.get(root)
            if node is None or root in self.destination or node.op.name in ("full", "literal"):
                continue
            if node.op.view_rule is not None:
                continue
            buffer = Buffer("output", value.type.nbytes, index)
            self.outputs[index] = self.destination[root] = buffer

    def _node(self, node: Node) -> None:
        op = node.op
        if op.name == "full":
            self.views[node.results[0]] = self._full(node)
        elif op.name == "literal":
            self.views[node.results[0]] = self._literal(node)
        elif op.view_rule is not None:
            self.views[node.results[0]] = self._view(node)
        elif op.name == "map":
            self._map(node)
        elif op.name == "matmul_map":
            self._matmul_map(node)
        elif op.lowering_rule is not None:
            op.lowering_rule(
                self, *self._operands(node), *map(self._result, node.results), **node.attributes
            )
        elif op.kernel is not None:
            views = self._operands(node)
            if not op.elementwise:
                views = [self.dense(view) for view in views]
            types = tuple(v.type for v in node.operands)
            name = op.kernel_name(types, node.attrs)
            results = [self._result(v) for v in node.results]
            self.kernel(name, views, results, kernel_attrs(node))
        else:
            raise NativeError(f"{op.name} has neither a kernel nor a lowering rule")

    def _operands(self, node: Node) -> list[View]:
        return [self.views[v] for v in node.operands]

    def _result(self, value: Value) -> View:
        buffer = self.destination.get(value)
        if buffer is None:
            buffer = Buffer("arena", value.type.nbytes)
        view = self.views[value] = _whole(buffer, value.type)
        return view

    def _full(self, node: Node) -> View:
        attrs = node.attributes
        return self.constant(attrs["dtype"], attrs["value"]).broadcast(attrs["shape"])

    def _literal(self, node: Node) -> View:
        return _whole(self._constant_buffer(node.attributes["data"]), node.results[0].type)

    def _view(self, node: Node) -> View:
        view = self.views[node.operands[0]]
        try:
            return node.op.view_rule(view, **node.attributes)
        except NotDense:
            return node.op.view_rule(self.dense(view), **node.attributes)

    def _map(self, node: Node) -> None:
        shape = node.results[0].type.shape
        inputs = [self.views[v].broadcast(shape) for v in node.operands]
        region = node.regions[0]
        outputs = [self._result(v) for v in node.results]
        places = {param: i for i, param in enumerate(region.params)}
        at = {value: len(inputs) + i for i, value in enumerate(region.results)}
        ops = map_ops(region, places, at)
        self._append_map(inputs, outputs, ops)

    def _matmul_map(self, node: Node) -> None:
        """A product whose finished parts go through a map: see passes/postops.py."""
        region = node.regions[0]
        product = region.params[0]
        results = dict(zip(region.results, map(self._result, node.results), strict=True))
        host = product if product in results else _host(region, product)
        if host is None:
            target = self.temporary(product.type.dtype, product.type.shape)
        else:
            target = _whole(results.pop(host).buffer, product.type)
        REGISTRY["matmul"].lowering_rule(self, *[self.views[v] for v in node.operands[:2]], target)
        step = self.steps[-1] if self.steps else None
        if step is None or step.kernel != "matmul":  # of nothing, or of sums of nothing
            self._map_over(node, region, product, target, results, host)
            return
        walked = step.outputs[0].shape
        step.outputs += [view.reshape(walked) for view in results.values()]
        shape = product.type.shape
        step.extra = [
            self._reshaped(self.views[v].broadcast(shape), walked) for v in node.operands[2:]
        ]
        at_product, n_out = len(step.inputs), len(step.outputs)
        places = {product: at_product}
        for i, param in enumerate(region.params[1:]):
            places[param] = at_product + n_out + i
        outputs = {value: at_product + 1 + i for i, value in enumerate(results)}
        if host is not None and host is not product:
            outputs[host] = at_product
        step.ops = map_ops(region, places, outputs)
        # Copies that the post-ops asked for were appended behind the product: run it last.
        self.steps.remove(step)
        self.steps.append(step)

    def _map_over(
        self,
        node: Node,
        region: Graph,
        product: Value,
        target: View,
        results: dict[Value, View],
        host: Value | None,
    ) -> None:
        """The map of a product that has no product kernel to follow, as a step of its own."""
        if host is not None and host is not product:
            results = {**results, host: self.views[node.results[region.results.index(host)]]}
        results.pop(product, None)
        shape = product.type.shape
        extra = [self.views[v].broadcast(shape) for v in node.operands[2:]]
        places = {param: i for i, param in enumerate(region.params)}
        outputs = {value: 1 + len(extra) + i for i, value in enumerate(results)}
        ops = map_ops(region, places, outputs)
        self._append_map([target, *extra], list(results.values()), ops)

    def _reshaped(self, view: View, shape: Shape) -> View:
        """``view`` with leading axes merged or added to have ``shape``; a copy if it must be."""
        if view.rank < len(shape):
            return view.broadcast(shape)
        while view.rank > len(shape):
            outer, inner = view.shape[0], view.shape[1]
            if view.strides[0] != view.strides[1] * inner and 1 not in (outer, inner):
                return self.dense(view).reshape(shape)
            stride = view.strides[0] if inner == 1 else view.strides[1]
            view = View(
                view.buffer, view.dtype, (outer * inner, *view.shape[2:]),
                (stride, *view.strides[2:]), view.offset,
            )  # fmt: skip
        return view

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
            self._append_map(views, list(outputs), [op])
        else:
            step = Step(name, list(inputs), list(outputs), attrs=tuple(attrs))
            step.location = self.location
            self.steps.append(step)

    def temporary(self, dtype: DType, shape: Shape) -> View:
        view = View(None, dtype, tuple(shape), row_major(shape))
        return _whole(Buffer("arena", view.type.nbytes), view.type)

    def dense(self, view: View) -> View:
        if view.dense:
            return view
        found = self.densified.get(view)
        if found is None:
            found = self.densified[view] = self.temporary(view.dtype, view.shape)
            self.kernel("copy", [view], [found])
        return found

    def constant(self, dtype: DType, value: float) -> View:
        data = np.full((), value, dtype.numpy).tobytes()
        return View(self._constant_buffer(data), dtype, (), ())

    def _constant_buffer(self, data: bytes) -> Buffer:
        buffer = self.constants.get(data)
        if buffer is None:
            buffer = self.constants[data] = Buffer("constant", len(data), data=data)
        return buffer

    def _append_map(self, inputs: list[View], outputs: list[View], ops: list[MapOp]) -> None:
        outputs = [self._dense_output(view) for view in outputs]
        inputs, outputs = coalesce(inputs, outputs)
        self.steps.append(Step(None, inputs, outputs, ops=ops, location=self.location))

    def _dense_output(self, view: View) -> View:
        assert view.dense, "a map writes dense results"
        return view


def _host(region: Graph, product: Value) -> Value | None:
    """A result of ``region`` in whose place the product may wait to be read."""
    size = product.type.dtype.itemsize
    last_read = max(at for at, node in enumerate(region.nodes) if product in node.operands)
    for node in region.nodes[last_read:]:
        for value in node.results:
            if value in region.results and value.type.dtype.itemsize == size:
                return value
    return None


def map_ops(region: Graph, places: dict[Value, int], outputs: dict[Value, int]) -> list[MapOp]:
    """The region's nodes as map ops.

    ``places`` gives the operand of each region parameter, ``outputs`` that of each value that
    leaves the region; the others get tile buffers.
    """
    places = dict(places)
    last_use: dict[Value, int] = {}
    for at, node in enumerate(region.nodes):
        for value in node.operands:
            last_use[value] = at
    # Tiles whose values have died, by dtype: a kernel works in place on items of one size only.
    free: dict[DType, list[int]] = {}
    used = 0
    ops = []
    for at, node in enumerate(region.nodes):
        args = [places[v] for v in node.operands]
        for value in dict.fromkeys(node.operands):
            if last_use[value] == at and places[value] < 0:
                free.setdefault(value.type.dtype, []).append(places[value])
        # A tile that dies here may be overwritten: elementwise kernels work in place.
        for value in node.results:
            if value in outputs:
                places[value] = outputs[value]
            elif free.get(value.type.dtype):
                places[value] = free[value.type.dtype].pop()
            else:
                used += 1
                places[value] = -used
        for value in node.results:
            if value not in outputs and value not in last_use:
                free.setdefault(value.type.dtype, []).append(places[value])
        types = tuple(v.type for v in node.operands)
        name = node.op.kernel_name(types, node.attrs)
        args += [places[v] for v in node.results]
        dtype = node.operands[0].type.dtype
        ops.append(MapOp(name, dtype, kernel_attrs(node), tuple(args), len(node.results)))
    if used > MAX_TILES:
        raise NativeError(f"a map needs {used} tiles; the runtime has {MAX_TILES}")
    return ops


def coalesce(inputs: list[View], outputs: list[View]) -> tuple[list[View], list[View]]:
    """The same views with neighbouring axes merged wherever every operand walks them as one."""
    views = [*inputs, *outputs]
    shape = views[-1].shape
    keep = [a for a, n in enumerate(shape) if n != 1]
    if not keep:
        merged_shape, columns = (1,), [[1] for _ in outputs]
        columns = [[0] for _ in inputs] + columns
    else:
        merged, columns = [shape[keep[0]]], [[v.strides[keep[0]]] for v in views]
        for axis in keep[1:]:
            n = shape[axis]
            if all(c[-1] == v.strides[axis] * n for c, v in zip(columns, views, strict=True)):
                merged[-1] *= n
                for c, v in zip(columns, views, strict=True):
                    c[-1] = v.strides[axis]
            else:
                merged.append(n)
                for c, v in zip(columns, views, strict=True):
                    c.append(v.strides[axis])
        merged_shape = tuple(merged)
    flat = [
        View(v.buffer, v.dtype, merged_shape, tuple(c), v.offset)
        for v, c in zip(views, columns, strict=True)
    ]
    return flat[: len(inputs)], flat[len(inputs) :]


def kernel_attrs(node: Node) -> tuple[float, ...]:
    """The node's numeric attributes as floats, in the order of the op's declaration."""
    given = node.attributes
    values = (given[name] for name in node.op.attr_defaults)
    return tuple(float(v) for v in values if isinstance(v, (bool, int, float)))


_elementwise: set[str] = set()


def is_elementwise(kernel: str) -> bool:
    """Whether ``kernel`` runs inside maps."""
    if not _elementwise:
        _elementwise.update(
            op.kernel for op in REGISTRY.values() if op.elementwise and isinstance(op.kernel, str)
        )
        _elementwise.update(f"{kind}_{short}" for kind in ("where", "cast") for short in BY_SHORT)
    return kernel in _elementwise


def _whole(buffer: Buffer, type: TensorType) -> View:
    return View(buffer, type.dtype, type.shape, row_major(type.shape))
