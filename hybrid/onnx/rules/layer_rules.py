"""Products, softmax, losses, norms and attention, and the ops of their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import DType, bool_, float32, float64, int8, int32, int64, uint8
from hybrid.ir import Node
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.elementwise_rules import compared, where
from hybrid.onnx.rules.reduction_rules import reduced
from hybrid.onnx.size_terms import lower_triangle

# Softmax ------------------------------------------------------------------------------------------


@writes("softmax")
def softmax(g: GraphWriter, x: Wire, *, axis: int) -> Wire:
    return g("Softmax", x, axis=axis)


@writes("log_softmax")
def log_softmax(g: GraphWriter, x: Wire, *, axis: int) -> Wire:
    return g("LogSoftmax", x, axis=axis)


@writes("class_at")
def class_at(g: GraphWriter, logits: Wire, targets: Wire) -> Wire:
    column = g("Unsqueeze", targets, g.ints(1))
    return g("Squeeze", g("GatherElements", logits, column, axis=1), g.ints(1))


@writes("cross_entropy")
def cross_entropy(g: GraphWriter, logits: Wire, targets: Wire) -> Wire:
    return g("Neg", class_at(g, g("LogSoftmax", logits, axis=1), targets))


@writes("cross_entropy_pull")
def cross_entropy_pull(g: GraphWriter, logits: Wire, targets: Wire, ct: Wire) -> Wire:
    assert logits.shape is not None
    classes = g("Range", g.zero(int64), g.scalar(logits.shape[1]), g.constant(1, int64))
    hot = g("Equal", g("Unsqueeze", targets, g.ints(1)), classes, dtype=bool_)
    slopes = g("Sub", g("Softmax", logits, axis=1), g.cast(hot, logits.dtype))
    return g("Mul", slopes, g("Unsqueeze", ct, g.ints(1)))


# Norms --------------------------------------------------------------------------------------------


def _mean(g: GraphWriter, x: Wire, *axes: int) -> Wire:
    return reduced(g, "ReduceMean", x, axes or (-1,), True)


def _scale_of(g: GraphWriter, away: Wire, eps: float, *axes: int) -> Wire:
    """One over the root of the mean square of ``away``, and ``eps``."""
    mean = _mean(g, g("Mul", away, away), *axes)
    return g("Reciprocal", g("Sqrt", g("Add", mean, g.constant(eps, away.dtype))))


@writes("layer_norm")
def layer_norm(g: GraphWriter, x: Wire, weight: Wire, bias: Wire, *, eps: float) -> Wire:
    return g("LayerNormalization", x, weight, bias, axis=-1, epsilon=eps)


@writes("rms_norm")
def rms_norm(g: GraphWriter, x: Wire, weight: Wire, *, eps: float) -> Wire:
    if g.opset >= 23:
        return g("RMSNormalization", x, weight, axis=-1, epsilon=eps)
    return g("Mul", g("Mul", x, _scale_of(g, x, eps)), weight)


@writes("layer_norm_pull")
def layer_norm_pull(g: GraphWriter, ct: Wire, x: Wire, *, eps: float) -> Wire:
    return _pulled(g, ct, g("Sub", x, _mean(g, x)), eps, centered=True)


@writes("rms_norm_pull")
def rms_norm_pull(g: GraphWriter, ct: Wire, x: Wire, *, eps: float) -> Wire:
    return _pulled(g, ct, x, eps, centered=False)


def _pulled(g: GraphWriter, ct: Wire, away: Wire, eps: float, *axes: int, centered: bool) -> Wire:
    """``(ct - mean(ct) - normal * mean(ct * normal)) * scale``."""
    scale = _scale_of(g, away, eps, *axes)
    normal = g("Mul", away, scale)
    left = g("Sub", ct, _mean(g, ct, *axes)) if centered else ct
    along = g("Mul", normal, _mean(g, g("Mul", ct, normal), *axes))
    return g("Mul", g("Sub", left, along), scale)


@writes("channel_moments")
def channel_moments(g: GraphWriter, x: Wire) -> tuple[Wire, Wire]:
    away = g("Sub", x, _mean(g, x, 0, 2))
    return (
        reduced(g, "ReduceMean", x, (0, 2), False),
        reduced(g, "ReduceMean", g("Mul", away, away), (0, 2), False),
    )


def _column(g: GraphWriter, x: Wire) -> Wire:
    return g("Unsqueeze", x, g.ints(1))


@writes("channel_norm")
def channel_norm(g: GraphWriter, x: Wire, weight: Wire, bias: Wire, *, eps: float) -> Wire:
    away = g("Sub", x, _mean(g, x, 0, 2))
    normal = g("Mul", away, _scale_of(g, away, eps, 0, 2))
    return g("Add", g("Mul", normal, _column(g, weight)), _column(g, bias))


@writes("channel_norm_pull")
def channel_norm_pull(
    g: GraphWriter, ct: Wire, x: Wire, weight: Wire, *, eps: float
) -> tuple[Wire, Wire, Wire]:
    away = g("Sub", x, _mean(g, x, 0, 2))
    by_x = g("Mul", _pulled(g, ct, away, eps, 0, 2, centered=True), _column(g, weight))
    normal = g("Mul", away, _scale_of(g, away, eps, 0, 2))
    by_weight = reduced(g, "ReduceSum", g("Mul", ct, normal), (0, 2), False)
    return by_x, by_weight, reduced(g, "ReduceSum", ct, (0, 2), False)


# Attention ----------------------------------------------------------------------------------------


def turned(g: GraphWriter, x: Wire) -> Wire:
    """``x`` with its last two axes exchanged."""
    assert x.shape is not None
    rank = len(x.shape)
    return g("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


def _scores(
    g: GraphWriter,
    q: Wire,
    k: Wire,
    scale: Any,
    causal: bool,
    mask: Wire | None = None,
) -> Wire:
    """``scale * q kᵀ``, and -inf where a query does not see a key."""
    assert q.shape is not None and k.shape is not None
    hidden = g.constant(-math.inf, q.dtype)
    scores = g("Mul", g("MatMul", q, turned(g, k)), _number(g, scale, q))
    if mask is not None:
        away = g("Equal", mask, hidden, dtype=bool_)
        scores = where(g, away, hidden, g("Add", scores, mask))
    if causal:
        scores = where(g, _behind(g, q.shape[-2], k.shape[-2]), scores, hidden)
    return scores


def _number(g: GraphWriter, number: Any, x: Wire) -> Wire:
    if isinstance(number, SizeValue):
        return g.cast(g.float(number), x.dtype)
    return g.constant(number, x.dtype)


def _behind(g: GraphWriter, queries: Any, keys: Any) -> Wire:
    """Which keys are not behind a query."""
    if isinstance(queries, SizeValue) or isinstance(keys, SizeValue):
        return lower_triangle(g, queries, keys, 0)
    return g.constant(np.tri(queries, keys, dtype=bool), bool_)


@writes("attention", node=True)
def attention(
    g: GraphWriter,
    q: Wire,
    k: Wire,
    v: Wire,
    *,
    scale: Any,
    causal: bool,
    node: Node,
) -> tuple[Wire, Wire]:
    assert q.shape is not None
    alone = node.results[1] not in g.reads
    plain = q.dtype is float32 and len(q.shape) == 4 and not isinstance(scale, SizeValue)
    if alone and plain and g.opset >= 23:
        mean = g("Attention", q, k, v, is_causal=int(causal), scale=scale)
        return mean, mean
    scores = _scores(g, q, k, scale, causal)
    mean = g("MatMul", g("Softmax", scores, axis=-1), v)
    return mean, mean if alone else reduced(g, "ReduceLogSumExp", scores, (-1,), False)


@writes("attention_masked", node=True)
def attention_masked(
    g: GraphWriter,
    q: Wire,
    k: Wire,
    v: Wire,
    mask: Wire,
    *,
    scale: Any,
    node: Node,
) -> tuple[Wire, Wire]:
    """Rows that see no key have the mean 0, and the logarithm inf."""
    scores = _scores(g, q, k, scale, causal=False, mask=mask)
    one, zero = g.constant(1, q.dtype), g.zero(q.dtype)
    top = reduced(g, "ReduceMax", scores, (-1,), True)
    blind = g("Equal", top, g.constant(-math.inf, q.dtype), dtype=bool_)
    weights = g("Exp", g("Sub", scores, where(g, blind, zero, top)))
    total = where(g, blind, one, reduced(g, "ReduceSum", weights, (-1,), True))
    mean = g("MatMul", g("Div", weights, total), v)
    if node.results[1] not in g.reads:
        return mean, mean
    log_sum = where(g, blind, g.constant(math.inf, q.dtype), g("Add", top, g("Log", total)))
    return mean, g("Squeeze", log_sum, g.ints(-1))


@writes("attention_pull")
def attention_pull(
    g: GraphWriter, ct: Wire, shift: Wire, log_sum: Wire, q: Wire, k: Wire, v: Wire, *,
    scale: Any, causal: bool,
) -> tuple[Wire, Wire, Wire]:  # fmt: skip
    return _attention_pulled(g, ct, shift, log_sum, q, k, v, scale, _scores(g, q, k, scale, causal))


@writes("attention_masked_pull")
def attention_masked_pull(
    g: GraphWriter, ct: Wire, shift: Wire, log_sum: Wire, q: Wire, k: Wire, v: Wire, mask: Wire,
    *, scale: Any,
) -> tuple[Wire, Wire, Wire]:  # fmt: skip
    scores = _scores(g, q, k, scale, causal=False, mask=mask)
    return _attention_pulled(g, ct, shift, log_sum, q, k, v, scale, scores)


def _attention_pulled(
    g: GraphWriter, ct: Wire, shift: Wire, log_sum: Wire, q: Wire, k: Wire, v: Wire, scale: Any,
    scores: Wire,
) -> tuple[Wire, Wire, Wire]:  # fmt: skip
    assert q.shape is not None and k.shape is not None
    shape = (*q.shape[:-1], k.shape[-2])
    column = g.ints(-1)
    weights = g("Exp", g("Sub", scores, g("Unsqueeze", log_sum, column)), shape=shape)
    away = g("Sub", g("MatMul", ct, turned(g, v)), g("Unsqueeze", shift, column))
    scaled = g("Mul", weights, _number(g, scale, q))
    slopes = g("Mul", scaled, away, shape=shape)
    return (
        g("MatMul", slopes, k),
        g("MatMul", turned(g, slopes), q),
        g("MatMul", turned(g, weights), ct),
    )


# Products -----------------------------------------------------------------------------------------


@writes("matmul")
def matmul(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    return g.wide("MatMul", a, b)


def _flat(a: Wire, b: Wire) -> bool:
    """Whether both are matrices of a dtype that kernels of Gemm take."""
    assert a.shape is not None and b.shape is not None
    return a.dtype in (float32, float64) and len(a.shape) == len(b.shape) == 2


@writes("matmul_nt")
def matmul_nt(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if _flat(a, b):
        return g("Gemm", a, b, transB=1)
    return g.wide("MatMul", a, turned(g, b))


@writes("matmul_tn")
def matmul_tn(g: GraphWriter, a: Wire, b: Wire) -> Wire:
    if _flat(a, b):
        return g("Gemm", a, b, transA=1)
    return g.wide("MatMul", turned(g, a), b)


@writes("matmul_sum")
def matmul_sum(g: GraphWriter, start: Wire, a: Wire, b: Wire, *, reverse: bool) -> Wire:
    return g("Add", start, reduced(g, "ReduceSum", g("MatMul", a, b), (0,), False))


@writes("matmul_integer", node=True)
def matmul_integer(g: GraphWriter, a: Wire, b: Wire, *, node: Node) -> Wire:
    assert a.shape is not None
    if type(a.shape[-1]) is int and a.shape[-1] == 0:  # onnxruntime leaves such sums undone
        return g("Expand", g.zero(int32), g.sizes(node.results[0].type.shape))
    if (a.dtype, b.dtype) != (uint8, int8):
        return g("MatMulInteger", a, b, dtype=int32)
    return g("MatMulInteger", a, *with_sign_turned(g, b), dtype=int32)


@writes("matmul_integer_nt", node=True)
def matmul_integer_nt(g: GraphWriter, a: Wire, b: Wire, *, node: Node) -> Wire:
    return matmul_integer(g, a, turned(g, b), node=node)


def with_sign_turned(g: GraphWriter, b: Wire) -> tuple[Wire, Wire, Wire]:
    """``b`` of int8 as uint8, and zero points: 0 of what it multiplies, and its own.

    onnxruntime adds products of uint8 and int8 in 16 bits, which saturate, where a machine has no
    instruction for them (documentation of its quantization, "U8S8"); those of uint8 are exact.
    """
    return sign_turned(g, b), g.zero(uint8), g.constant(128, uint8)


def sign_turned(g: GraphWriter, x: Wire) -> Wire:
    """``x`` of int8 plus 128, as uint8."""
    return g.cast(g("Add", g.cast(x, int32), g.constant(128, int32)), uint8)


@writes("quantize")
def quantize(
    g: GraphWriter, x: Wire, scale: Wire, zero: Wire, *, low: int, high: int, dtype: DType
) -> Wire:
    steps = g("Round", g("Div", x, scale))
    steps = where(g, g("IsNaN", steps, dtype=bool_), zero, g("Add", steps, zero))
    steps = g("Clip", steps, g.constant(low, float32), g.constant(high, float32))
    return g.cast(steps, dtype)


@writes("scale_sums")
def scale_sums(g: GraphWriter, sums: Wire, first: Wire, second: Wire, bias: Wire) -> Wire:
    y = g("Mul", g.cast(sums, float32), first)
    if not _is_number(g, second, 1.0):
        y = g("Mul", y, second)
    return y if _is_number(g, bias, -0.0) else g("Add", y, bias)


def _is_number(g: GraphWriter, x: Wire, number: float) -> bool:
    found = g.array_of(x)
    return (
        found is not None and found.shape == () and found.tobytes() == np.float32(number).tobytes()
    )


@writes("quantize_rows")
def quantize_rows(g: GraphWriter, x: Wire) -> tuple[Wire, Wire]:
    zero = g.zero(float32)
    top = reduced(g, "ReduceMax", g("Abs", x), (-1,), True)
    # Runtimes differ in the maximum of no elements and in that of a row that has a NaN.
    unknown = reduced(g, "ReduceMax", g.cast(g("IsNaN", x, dtype=bool_), float32), (-1,), True)
    top = where(g, compared(g, "Greater", unknown, zero), g.constant(np.nan, float32), top)
    top = g("Max", top, zero)
    size = g("Div", top, g.constant(127, float32))
    scale = where(g, compared(g, "Equal", size, zero), g.constant(1, float32), size)
    steps = g("Round", g("Div", x, scale))
    steps = where(g, g("IsNaN", steps, dtype=bool_), zero, steps)
    steps = g("Clip", steps, g.constant(-127, float32), g.constant(127, float32))
    return g.cast(steps, int8), scale


@writes("det")
def det(g: GraphWriter, x: Wire) -> Wire:
    return g("Det", x)
