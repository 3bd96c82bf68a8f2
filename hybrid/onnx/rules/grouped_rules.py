"""Products with weights in groups: their bytes are in the file, and ops of any runtime unpack them.

::

    %y = matmul_grouped %x, %packed, %scale     halves = packed % 16, packed >> 4, side by side
                                                w = (halves - 8) * scale, group by group
                                                y = MatMul(x, transposed w)

Runtimes that compute what is constant beforehand have the weights in floats then.  Of integers each
group is a product of its own; CumSum adds them in order, so the bits are those of hybrid.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import float32, int8, int32, int64
from hybrid.ir import Node
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.shape_rules import pad, reshaped
from hybrid.ops.matrix.grouped_products import NORMAL_FLOAT, OFFSET, groups_of


@writes("matmul_grouped", node=True)
def matmul_grouped(
    g: GraphWriter, x: Wire, packed: Wire, *scales: Wire, group_size: int, table: bool, node: Node
) -> Wire:
    size, outputs = _sizes(x, packed)
    if size == 0:
        return _zeros(g, node)
    if packed.dtype is int8:
        values = g.cast(packed, x.dtype)
    elif table:
        halves = g.cast(_halves(g, packed, size), int64)
        values = g("Gather", g.constant(NORMAL_FLOAT, x.dtype), halves, dtype=x.dtype)
    else:
        halves = g.cast(_halves(g, packed, size), x.dtype)
        values = g("Sub", halves, g.constant(OFFSET, x.dtype))
    group_size = min(group_size, size)
    grouped = _in_groups(g, values, outputs, size, group_size)
    for op, each in zip(("Mul", "Add"), scales, strict=False):
        grouped = g(op, grouped, g("Unsqueeze", each, g.ints(-1)))
    whole = reshaped(g, grouped, (outputs, groups_of(size, group_size) * group_size))
    weight = g("Slice", whole, g.ints(0), g.ints(size), g.ints(1))
    return g("MatMul", x, g("Transpose", weight, perm=(1, 0)))


@writes("matmul_grouped_integer", node=True)
def matmul_grouped_integer(
    g: GraphWriter, x: Wire, packed: Wire, scale: Wire, *, group_size: int, node: Node
) -> Wire:
    size, outputs = _sizes(x, packed)
    if size == 0:
        return _zeros(g, node)
    q = packed
    if packed.dtype is not int8:
        halves = g.cast(_halves(g, packed, size), int32)
        q = g.cast(g("Sub", halves, g.constant(OFFSET, int32)), int8)
    group_size = min(group_size, size)
    shape = node.results[0].type.shape
    rows = g("Reshape", x, g.ints(-1, size))
    by_rows = g("Transpose", _in_groups(g, rows, -1, size, group_size), perm=(1, 0, 2))
    weights = g("Transpose", _in_groups(g, q, outputs, size, group_size), perm=(1, 2, 0))
    sums = g.cast(g("MatMulInteger", by_rows, weights, dtype=int32), float32)
    factors = g("Unsqueeze", g("Transpose", scale, perm=(1, 0)), g.ints(1))
    running = g("CumSum", g("Mul", sums, factors), g.constant(0, int64))
    last = g("Gather", running, g.constant(-1, int64), axis=0)
    return reshaped(g, g("Add", last, g.constant(0, float32)), shape)  # no sum is -0


def _sizes(x: Wire, packed: Wire) -> tuple[int, int]:
    """How long the inputs are, and how many outputs there are: no open sizes."""
    assert x.shape is not None and packed.shape is not None
    return _plain(x.shape[-1]), _plain(packed.shape[0])


def _plain(size: Any) -> int:
    if isinstance(size, SizeValue):
        raise TypeError("weights in groups have fixed sizes")
    return int(size)


def _zeros(g: GraphWriter, node: Node) -> Wire:
    made = node.results[0].type
    return g("Expand", g.zero(made.dtype), g.sizes(made.shape))


def _halves(g: GraphWriter, packed: Wire, size: int) -> Wire:
    """The halves of bytes side by side: [outputs, size], 0 to 15."""
    assert packed.shape is not None
    outputs, count = packed.shape
    sixteen, four = g.constant(16, packed.dtype), g.constant(4, packed.dtype)
    parts = [g("Mod", packed, sixteen), g("BitShift", packed, four, direction="RIGHT")]
    pairs = g("Concat", *[g("Unsqueeze", part, g.ints(-1)) for part in parts], axis=-1)
    whole = reshaped(g, pairs, (outputs, 2 * count))
    return g("Slice", whole, g.ints(0), g.ints(size), g.ints(1))


def _in_groups(g: GraphWriter, x: Wire, rows: int, size: int, group_size: int) -> Wire:
    """``x`` [rows, size] as [rows, groups, group_size], with zeros behind."""
    count = groups_of(size, group_size)
    missing = count * group_size - size
    if missing:
        x = pad(g, x, widths=((0, 0), (0, missing)), value=0)
    return g("Reshape", x, g.ints(rows, count, group_size))
