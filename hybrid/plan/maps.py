"""Lowering of maps: elementwise nodes as map ops, alone or applied to products or reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import BY_SHORT, DType, Shape
from hybrid.errors import NativeError
from hybrid.ir import REGISTRY, Graph, Node, Value, View
from hybrid.ir.lowering import reduced_order, row_major
from hybrid.memory.native import MAX_TILES
from hybrid.plan.steps import Buffer, MapOp, Step

if TYPE_CHECKING:
    from hybrid.plan.lower import Lowering


def lower_map(low: Lowering, node: Node) -> None:
    """Lower ``node`` to a map step."""
    shape = node.results[0].type.shape
    inputs = [low.views[v].broadcast(shape) for v in node.operands]
    region = node.regions[0]
    outputs = [low.result(v) for v in node.results]
    places = {param: i for i, param in enumerate(region.params)}
    at = {value: len(inputs) + i for i, value in enumerate(region.results)}
    append_map(low, inputs, outputs, map_ops(region, places, at))


def lower_mapped(low: Lowering, node: Node) -> None:
    """Lower a product or convolution with post-ops: see postops.py."""
    region = node.regions[0]
    product = region.params[0]
    results = dict(zip(region.results, map(low.result, node.results), strict=True))
    host = product if product in results else _host(region, product)
    if host is None:
        target = low.temporary(product.type.dtype, product.type.shape)
    else:
        target = low.whole(results[host].buffer, product.type)
        if host.type.dtype is product.type.dtype:
            results.pop(host)
    before = len(low.steps)
    kernel = node.op.name.removesuffix("_map")
    count = len(REGISTRY[kernel].operand_names)
    factors = [low.views[v] for v in node.operands[:count]]
    REGISTRY[kernel].lowering_rule(low, *factors, target, **node.attributes)
    step = low.steps[-1] if len(low.steps) > before else None
    if step is None or step.kernel != kernel:  # of nothing, or of sums of nothing
        _map_over(low, node, region, product, target, results, host)
        return
    walked = step.outputs[0].shape
    own = len(step.outputs)  # results and room of the kernel itself
    step.outputs += [view.reshape(walked) for view in results.values()]
    shape = product.type.shape
    step.extra = [
        _reshaped(low, low.views[v].broadcast(shape), walked) for v in node.operands[count:]
    ]
    at_product, n_out = len(step.inputs), len(step.outputs)
    places = {product: at_product}
    for i, param in enumerate(region.params[1:]):
        places[param] = at_product + n_out + i
    outputs = {value: at_product + own + i for i, value in enumerate(results)}
    if host is not None and host not in results:
        outputs[host] = at_product
    step.ops = map_ops(region, places, outputs)
    # Copies that the post-ops asked for were appended behind the product: run it last.
    low.steps.remove(step)
    low.steps.append(step)


def lower_reduced(low: Lowering, node: Node) -> None:
    """Lower a reduction with pre-ops, which make what it reduces: see preops.py."""
    region, attrs = node.regions[0], node.attributes
    made = region.results[0]
    order, sizes = reduced_order(made.type.shape, attrs["axis"])
    extra = [low.views[v].broadcast(made.type.shape).permute(order) for v in node.operands]
    result, *stored = map(low.result, node.results)
    source = View(Buffer(kind="made", nbytes=0), made.type.dtype, sizes, row_major(sizes))
    result = result.reshape((sizes[0], sizes[2]))
    outputs = [result, *[view.reshape(extra[0].shape) for view in stored]]
    places = {param: 1 + len(outputs) + i for i, param in enumerate(region.params)}
    at = {made: 0, **{value: 2 + i for i, value in enumerate(region.results[1:])}}
    kernel = node.op.name.removeprefix("map_")
    ops = map_ops(region, places, at)
    low.steps.append(
        Step(
            kernel=kernel,
            inputs=[source],
            outputs=outputs,
            extra=extra,
            ops=ops,
            location=low.location,
        )
    )


def _map_over(
    low: Lowering,
    node: Node,
    region: Graph,
    product: Value,
    target: View,
    results: dict[Value, View],
    host: Value | None,
) -> None:
    """The map of a product that has no product kernel to follow, as a step of its own."""
    if host is not None and host is not product:
        results = {**results, host: low.views[node.results[region.results.index(host)]]}
    results.pop(product, None)
    shape = product.type.shape
    count = len(node.operands) - (len(region.params) - 1)
    extra = [low.views[v].broadcast(shape) for v in node.operands[count:]]
    places = {param: i for i, param in enumerate(region.params)}
    outputs = {value: 1 + len(extra) + i for i, value in enumerate(results)}
    append_map(low, [target, *extra], list(results.values()), map_ops(region, places, outputs))


def _reshaped(low: Lowering, view: View, shape: Shape) -> View:
    """``view`` in another ``shape`` of the last axis and those before it; a copy if it must be."""
    if [n for n in view.shape if n != 1] == [n for n in shape if n != 1]:
        strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
        among = tuple([next(strides) if n != 1 else 0 for n in shape])
        return View(view.buffer, view.dtype, shape, among, view.offset)
    *leading, columns = view.shape
    rows, stride = 1, 0
    for n, step in zip(reversed(leading), reversed(view.strides[:-1]), strict=True):
        if n == 1:
            continue
        if rows != 1 and step != stride * rows:
            return low.dense(view).reshape(shape)
        stride = step if rows == 1 else stride
        rows *= n
    if shape[-1] != columns:
        return low.dense(view).reshape(shape)
    strides, step = [view.strides[-1]], stride
    for n in reversed(shape[:-1]):
        strides.append(step)
        step *= n
    return View(view.buffer, view.dtype, shape, tuple(reversed(strides)), view.offset)


def append_map(low: Lowering, inputs: list[View], outputs: list[View], ops: list[MapOp]) -> None:
    """Append a map step of ``ops``."""
    assert all(view.dense for view in outputs), "a map writes dense results"
    inputs, outputs = coalesce(inputs, outputs)
    low.steps.append(
        Step(kernel=None, inputs=inputs, outputs=outputs, ops=ops, location=low.location)
    )


def _host(region: Graph, product: Value) -> Value | None:
    """A result of ``region``, of the dtype if any, in whose place the product may wait."""
    last_read = max(at for at, node in enumerate(region.nodes) if product in node.operands)
    dtype, found = product.type.dtype, None
    for value in [v for node in region.nodes[last_read:] for v in node.results]:
        if value in region.results and value.type.dtype.itemsize == dtype.itemsize:
            if value.type.dtype is dtype:
                return value
            found = found or value
    return found


def map_ops(region: Graph, places: dict[Value, int], outputs: dict[Value, int]) -> list[MapOp]:
    """The nodes of a region as map ops.

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
    """The views with neighbouring axes merged where every operand walks them as one."""
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
    """The numeric attributes of a node as floats, in the order of the op's declaration."""
    given = node.attributes
    values = (given[name] for name in node.op.attr_defaults)
    numbers = [v for v in values if isinstance(v, (bool, int, float))]
    return tuple([v * 1.0 if isinstance(v, SizeValue) else float(v) for v in numbers])


_elementwise: set[str] = set()


def is_elementwise(kernel: str) -> bool:
    """Whether ``kernel`` runs inside maps."""
    if not _elementwise:
        _elementwise.update(
            op.kernel for op in REGISTRY.values() if op.elementwise and isinstance(op.kernel, str)
        )
        of_dtypes = ("where", "cast", "quantize")
        _elementwise.update(f"{kind}_{short}" for kind in of_dtypes for short in BY_SHORT)
    return kernel in _elementwise
