"""Constant folding: small nodes of constants are computed now.

Before::                                                  After::

    %a: f32[] = full {dtype=f32, shape=(), value=2}           %b: f32[] = full {..., value=0.5}
    %b: f32[] = reciprocal %a

Values come from ``evaluate``, which the caller makes from the kernels that a run would use, so a
folded node has the bits it would have had.  Views of a uniform constant need no kernel.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.size_values import SizeBytes
from hybrid.core.types import TensorType
from hybrid.errors import HybridError
from hybrid.ir import Builder, Graph, Node, Op, Value, rewrite, steady
from hybrid.ops.shapes.creation import fill, literal
from hybrid.passes.scalar.facts import CONSTANTS, Facts

Constant = tuple[TensorType, bytes]
Definition = tuple[Op, dict[str, Any]]
Evaluate = Callable[[Op, Sequence[Constant], dict[str, Any]], Sequence[Constant]]

MAX_NBYTES = 4096  # of all operands, and of all results: constants are kept with the plan

_FORMAT = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
           "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}  # fmt: skip


@steady
def fold(graph: Graph, evaluate: Evaluate | None = None) -> Graph:
    """``graph`` with nodes of constants replaced by constants."""
    facts = Facts()

    def compute(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        facts.add(node)
        results = _uniform_view(node, facts)
        if results is None and evaluate is not None:
            results = _evaluated(node, facts, evaluate)
        if results is None:
            return None
        values = tuple([builder.apply(op, (), attrs)[0] for op, attrs in results])
        for constant in builder.nodes[-len(values) :]:
            facts.add(constant)
        return values

    return rewrite(graph, compute, regions=lambda region: fold(region, evaluate))


def _uniform_view(node: Node, facts: Facts) -> list[Definition] | None:
    """A view of equal elements holds these elements: only the shape may be another."""
    if node.op.view_rule is None or len(node.operands) != 1:
        return None
    source, result = node.operands[0], node.results[0].type
    full = facts.by("full", source)
    if full is None or result.dtype is not source.type.dtype:
        return None
    return [(fill, full.attributes | {"shape": result.shape})]


def _evaluated(node: Node, facts: Facts, evaluate: Evaluate) -> list[Definition] | None:
    if not node.pure or node.regions or node.op.name in CONSTANTS or node.is_open:
        return None
    for values in (node.operands, node.results):
        if sum([v.type.nbytes for v in values]) > MAX_NBYTES:
            return None
    constants = []
    for value in node.operands:
        constant = facts.constant(value)
        data = None if constant is None else _bytes_of(constant)
        if data is None:
            return None
        constants.append((value.type, data))
    try:
        return [_constant(*result) for result in evaluate(node.op, constants, node.attributes)]
    except HybridError:
        return None  # it fails while the graph runs, at the author's line


def _bytes_of(node: Node) -> bytes | None:
    """The elements of a ``full`` or ``literal``; None when they cannot be known here."""
    attrs = node.attributes
    if node.op.name == "literal":
        return None if isinstance(attrs["data"], SizeBytes) else attrs["data"]
    code = _FORMAT.get(attrs["dtype"].short)
    try:
        return struct.pack(f"<{code}", attrs["value"]) * node.results[0].type.size
    except (struct.error, OverflowError):  # no such dtype, or a value that it does not hold
        return None


def _constant(type: TensorType, data: bytes) -> Definition:
    """``full`` for equal elements, else ``literal``.

    NaN stays a literal: its many bit patterns are one as a Python number.
    """
    size, code = type.dtype.itemsize, _FORMAT.get(type.dtype.short)
    first = data[:size]
    if code is not None and data == first * type.size:
        value = struct.unpack(f"<{code}", first)[0] if data else 0
        if not (isinstance(value, float) and math.isnan(value)):
            return fill, {"shape": type.shape, "dtype": type.dtype, "value": value}
    return literal, {"shape": type.shape, "dtype": type.dtype, "data": data}


assert sys.byteorder == "little", "the bytes of constants are those of memory"
