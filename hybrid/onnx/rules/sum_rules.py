"""Sums: the end of a layer with a bias, or of a norm, is one op with what leads to it.

::

    %1 = conv %x, %w                                  y = Conv(x, w, b)
    %2 = reshape %b {shape=(4, 1, 1)}
    %y = add %1, %2

So runtimes find the layers that they know.  What nothing else reads of such a chain goes.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import float32, float64
from hybrid.ir import Node, Value
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.spatial_rules import conv, conv_transpose


@writes("add", node=True)
def add(g: GraphWriter, a: Wire, b: Wire, *, node: Node) -> Wire:
    left, right = node.operands
    if a.dtype in (float32, float64):
        found = _layer(g, left, right) or _batch_norm(g, left, right) or _group_norm(g, left, right)
        if found is not None:
            return found
    return g.wide("Add", a, b)


# What leads to a value ----------------------------------------------------------------------------


def _made(g: GraphWriter, value: Value | None, op: str) -> Node | None:
    """The node of ``op`` that makes ``value``."""
    node = None if value is None else g.makers.get(value)
    return node if node is not None and node.op.name == op else None


def _only(g: GraphWriter, value: Value, op: str) -> Node | None:
    """The same if nothing else reads ``value``."""
    return _made(g, value, op) if g.reads.get(value) == 1 else None


def _of_channels(g: GraphWriter, value: Value, rank: int) -> Value | None:
    """What has a number for each channel of [N, C, *spatial] of ``rank``, as a vector [C]."""
    if rank == 2 and value.type.rank == 1:
        return value
    node = _made(g, value, "reshape")
    if node is None or node.operands[0].type.rank != 1:
        return None
    (vector,) = node.operands
    behind = (*vector.type.shape, *(1,) * (rank - 2))
    return vector if value.type.shape in (behind, (1, *behind)) else None


def _constant(g: GraphWriter, value: Value) -> float | None:
    """The number that ``value`` [] is."""
    node = _made(g, value, "full")
    if node is None or node.attributes["shape"]:
        return None
    number = node.attributes["value"]
    return None if isinstance(number, SizeValue) else number


# Layers -------------------------------------------------------------------------------------------


def _layer(g: GraphWriter, left: Value, right: Value) -> Wire | None:
    """A product or convolution with a bias."""
    if left.type.rank == 2 and right.type.rank == 1:
        for op, turned in (("matmul_nt", 1), ("matmul", None)):
            product = _only(g, left, op)
            if product is None or right.type.shape != left.type.shape[1:]:
                continue
            a, b = product.operands
            if a.type.rank == b.type.rank == 2:
                return g("Gemm", g.term(a), g.term(b), g.term(right), transB=turned)
        return None
    bias = _of_channels(g, right, left.type.rank)
    if bias is None:
        return None
    for op, write in (("conv", conv), ("conv_transpose", conv_transpose)):
        found = _only(g, left, op)
        if found is not None and bias.type.shape[0] == left.type.shape[1]:
            x, w = map(g.term, found.operands)
            return write(g, x, w, bias=g.term(bias), **found.attributes)
    return None


def _batch_norm(g: GraphWriter, left: Value, right: Value) -> Wire | None:
    """``(x - mean) * (rsqrt(variance + eps) * weight) + bias`` of channels."""
    rank = left.type.rank
    product = _only(g, left, "multiply")
    away = None if product is None else _only(g, product.operands[0], "subtract")
    if product is None or away is None or rank < 2:
        return None
    x, centre = away.operands
    vectors = [_of_channels(g, value, rank) for value in (centre, product.operands[1], right)]
    mean, factor, bias = vectors
    scaled = _made(g, factor, "multiply")
    root = None if scaled is None else _made(g, scaled.operands[0], "rsqrt")
    raised = None if root is None else _made(g, root.operands[0], "add")
    if scaled is None or raised is None or mean is None or bias is None or x.type != left.type:
        return None
    variance, more = raised.operands
    weight, eps = scaled.operands[1], _constant(g, more)
    channels = (x.type.shape[1],)
    if eps is None or any(v.type.shape != channels for v in (mean, bias, variance, weight)):
        return None
    given = map(g.term, (x, weight, bias, mean, variance))
    return g("BatchNormalization", *given, epsilon=eps)


def _group_norm(g: GraphWriter, left: Value, right: Value) -> Wire | None:
    """Rows of weight 1 and bias 0 normalized, each of the channels of a group, then scaled."""
    rank = left.type.rank
    product = _only(g, left, "multiply")
    back = None if product is None else _only(g, product.operands[0], "reshape")
    norm = None if back is None else _only(g, back.operands[0], "layer_norm")
    rows = None if norm is None else _made(g, norm.operands[0], "reshape")
    if product is None or norm is None or rows is None or rank < 3:
        return None
    (x,) = rows.operands
    weight, bias = (_of_channels(g, value, rank) for value in (product.operands[1], right))
    groups = rows.results[0].type.shape[1]
    plain = _filled(g, norm.operands[1]) == 1 and _filled(g, norm.operands[2]) == 0
    if weight is None or bias is None or not plain or x.type != left.type:
        return None
    if rows.results[0].type.rank != 3 or isinstance(groups, SizeValue):
        return None
    given = [g.term(x), g.term(weight), g.term(bias)]
    eps = norm.attributes["eps"]
    if groups == x.type.shape[1] and x.type.dtype is float32:
        return g("InstanceNormalization", *given, epsilon=eps)
    if g.opset < 21:
        return None
    return g("GroupNormalization", *given, epsilon=eps, num_groups=groups)


def _filled(g: GraphWriter, value: Value) -> Any:
    """The number that all elements of ``value`` are."""
    node = _made(g, value, "full")
    return None if node is None else node.attributes["value"]
