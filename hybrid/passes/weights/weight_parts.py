"""Products in two: what needs the weight alone, and the rest; for passes that compute the first
sooner, or less often.

Before::                                        After::

    %y: f32[8,4] = matmul %x, %w                    %p: f32[...] = matmul_prepare %w {rows=5}
                                                    %y: f32[8,4] = matmul_prepared %x, %w, %p
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from hybrid.core.dataclass import replace
from hybrid.ir import Builder, Node, Op, Value
from hybrid.ops.matrix import integer_weights, matmul_weights
from hybrid.ops.spatial import convolution_integer, convolution_weights


def in_two(node: Node, known: Collection[Value]) -> list[Node] | None:
    """What ``node`` becomes if it is a product of something else by a known weight.

    None if it is not, or if that does not pay.
    """
    parts = _PARTS.get(node.op.name)
    if parts is None or node.operands[1] not in known or node.operands[0] in known:
        return None
    attrs = parts.attrs(*node.operands, node.attributes)
    if attrs is None:
        return None
    builder = Builder()
    builder.location = node.location
    (p,) = builder.apply(parts.prepare, node.operands[1:2], attrs)
    return [*builder.nodes, replace(node, op=parts.rest, operands=(*node.operands, p))]


def prepared_values(nodes: Iterable[Node]) -> list[Value]:
    """What the products among ``nodes`` that are in two take of their first parts."""
    rests = {parts.rest for parts in _PARTS.values()}
    return [node.operands[-1] for node in nodes if node.op in rests]


class _ProductParts(NamedTuple):
    """What a product becomes: an op of its right operand, and one of both and what that gave."""

    prepare: Op
    rest: Op
    attrs: Callable[..., dict[str, Any] | None]  # of operands and attributes; None: it does not pay


def _of_convolution(x: Value, w: Value, attrs: dict[str, Any]) -> dict[str, Any] | None:
    paying = convolution_weights.pays(x.type, w.type, attrs)
    return {"source": x.type.shape, **attrs} if paying else None


def _of_bytes(x: Value, w: Value, _zero: Value, attrs: dict[str, Any]) -> dict[str, Any] | None:
    paying = convolution_integer.is_prepared(x.type, w.type, attrs["size"])
    return {"source": x.type.shape, **attrs} if paying else None


def _of_product(a: Value, b: Value, _attrs: dict[str, Any]) -> dict[str, Any] | None:
    paying = matmul_weights.pays(a.type, b.type)
    return {"rows": matmul_weights.alike(math.prod(a.type.shape[:-1]))} if paying else None


def _of_integers(a: Value, b: Value, _attrs: dict[str, Any]) -> dict[str, Any] | None:
    return {} if integer_weights.pays(a.type, b.type) else None


_PARTS = {
    "conv": _ProductParts(
        convolution_weights.conv_prepare, convolution_weights.conv_prepared, _of_convolution
    ),
    "conv_integer": _ProductParts(
        convolution_integer.conv_integer_prepare,
        convolution_integer.conv_integer_prepared,
        _of_bytes,
    ),
    "matmul": _ProductParts(
        matmul_weights.matmul_prepare, matmul_weights.matmul_prepared, _of_product
    ),
    "matmul_integer": _ProductParts(
        integer_weights.matmul_integer_prepare,
        integer_weights.matmul_integer_prepared,
        _of_integers,
    ),
}
