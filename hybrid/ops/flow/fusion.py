"""The ops that fusion makes: a map, a map applied to a product or a convolution, one reduced.

Their region is a graph of elementwise nodes, each with a result of the same shape as the node's
results.  Passes build them just before planning; nothing differentiates or interprets them eagerly.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import Shape, TensorType
from hybrid.errors import GraphError
from hybrid.ir import Graph, Op, get_op, op
from hybrid.ops.flow.control import run_region


@op(name="map", differentiable=False)
def map_tiles(*operands: TensorType, regions: tuple[Graph, ...]) -> tuple[TensorType, ...]:
    """Elementwise nodes run together, tile by tile; intermediate values stay in the cache.

    The region's parameters are the operands, which may have fewer dimensions than the results or
    dimensions of size 1: its nodes broadcast them.
    """
    region = _region("map", regions)
    _require_parameters("map", region, operands)
    _require_elementwise("map", region, region.results[0].type.shape)
    return tuple([v.type for v in region.results])


@map_tiles.reference
def map_reference(*operands: Any, regions: tuple[Graph, ...]) -> tuple[Any, ...]:
    return run_region(regions[0], operands)


def _over_product(name: str) -> Op:
    """``matmul_map`` and its like."""

    def rule(*operands: TensorType, regions: tuple[Graph, ...]) -> tuple[TensorType, ...]:
        """A map over a product, applied to each part of it while that is in the cache.

        The product takes the first operands.  It is the region's first parameter, the other
        operands are the others.  The region's results are the node's: the product itself is the
        first of them when it is needed elsewhere.
        """
        return _mapped(name, operands, {}, regions)

    rule.__name__ = f"{name}_map"
    return op(differentiable=False)(rule)


def _over_convolution(name: str) -> Op:
    """``conv_map`` and its like."""

    def rule(
        *operands: TensorType,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
        groups: int,
        size: Shape,
        regions: tuple[Graph, ...],
    ) -> tuple[TensorType, ...]:
        """A map over a convolution, as ``matmul_map`` is one over a product."""
        attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
        return _mapped(name, operands, attrs, regions)

    rule.__name__ = f"{name}_map"
    return op(differentiable=False)(rule)


_PRODUCTS = ("matmul", "matmul_prepared", "matmul_integer", "matmul_integer_prepared")
MAPPED: dict[str, Op] = {  # of a product's operands: the op that applies a map to it
    **{name: _over_product(name) for name in _PRODUCTS},
    **{
        name: _over_convolution(name)
        for name in (
            *("conv", "conv_transpose", "conv_prepared", "conv_blocked"),
            *("conv_integer", "conv_integer_prepared"),
        )
    },
}


def _reduced(name: str) -> Op:
    """``map_sum`` and its like."""

    def rule(
        *operands: TensorType, axis: Shape, keepdims: bool = False, regions: tuple[Graph, ...]
    ) -> tuple[TensorType, ...]:
        """A reduction of a map, which is not stored: parts of it are reduced as they are made.

        The region's first result is what is reduced; the others are stored, and are results of
        the node after the reduction.
        """
        own = f"map_{name}"
        region = _region(own, regions)
        _require_parameters(own, region, operands)
        made, *stored = [v.type for v in region.results]
        _require_elementwise(own, region, made.shape)
        (result,) = get_op(name).infer((made,), (("axis", axis), ("keepdims", keepdims)))
        return (result, *stored)

    rule.__name__ = f"map_{name}"
    return op(differentiable=False)(rule)


# Of a map: the op that reduces it.
REDUCED: dict[str, Op] = {
    name: _reduced(name) for name in ("sum", "prod", "mean", "max", "min", "any", "all")
}
HOLDING_MAPS = frozenset({map_tiles, *MAPPED.values(), *REDUCED.values()})


def _mapped(
    name: str,
    operands: tuple[TensorType, ...],
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
) -> tuple[TensorType, ...]:
    """The types of the results of ``regions[0]`` over the product ``name`` of first operands."""
    region, count = _region(f"{name}_map", regions), len(get_op(name).operand_names)
    (product,) = get_op(name).infer(operands[:count], tuple(attrs.items()))
    _require_parameters(f"{name}_map", region, (product, *operands[count:]))
    _require_elementwise(f"{name}_map", region, product.shape)
    if not any(region.params[0] in node.operands for node in region.nodes):
        raise GraphError(f"the region of {name}_map does not use the product")
    if region.params[0] in region.results[1:]:
        raise GraphError(f"the region of {name}_map returns the product, but not first")
    return tuple([v.type for v in region.results])


def _reference(name: str) -> Any:
    def reference(*given: Any, regions: tuple[Graph, ...], **attrs: Any) -> Any:
        product = get_op(name)
        count = len(product.operand_names)
        made = product.reference_rule(*given[:count], **attrs)
        return run_region(regions[0], (made, *given[count:]))

    return reference


def _reference_of_reduced(name: str) -> Any:
    def reference(*operands: Any, regions: tuple[Graph, ...], **attrs: Any) -> Any:
        made, *stored = run_region(regions[0], operands)
        return (get_op(name).reference_rule(made, **attrs), *stored)

    return reference


for _name, _op in MAPPED.items():
    _op.reference(_reference(_name))
for _name, _op in REDUCED.items():
    _op.reference(_reference_of_reduced(_name))


def _region(name: str, regions: tuple[Graph, ...]) -> Graph:
    if len(regions) != 1 or not regions[0].nodes or not regions[0].results:
        raise GraphError(f"{name} needs one region, with a node and a result at least")
    return regions[0]


def _require_parameters(name: str, region: Graph, operands: tuple[TensorType, ...]) -> None:
    types = tuple([v.type for v in region.params])
    if types != operands:
        have, want = (", ".join(map(str, t)) or "nothing" for t in (types, operands))
        raise GraphError(
            f"the region of {name} takes {have}; its operands are {want}",
            fix="give the region a parameter of the type of each operand",
        )


def _require_elementwise(name: str, region: Graph, shape: Shape) -> None:
    for node in region.nodes:
        if not node.op.elementwise:
            raise GraphError(
                f"the region of {name} holds {node.op.name}, which is not elementwise",
                fix="keep it outside",
            )
        for value in node.results:
            if value.type.shape != shape:
                raise GraphError(
                    f"the region of {name} is of shape {list(shape)} and holds a {value.type}",
                    fix="keep values of other shapes outside",
                )
    computed = {value for node in region.nodes for value in node.results}
    returned = [v for v in region.results if v in computed]
    params = 1 if name.endswith("_map") and region.results[0] is region.params[0] else 0
    if len(returned) + params != len(region.results) or len(set(returned)) != len(returned):
        raise GraphError(
            f"the region of {name} returns a parameter, or a value twice",
            fix="return distinct results of its nodes",
        )
