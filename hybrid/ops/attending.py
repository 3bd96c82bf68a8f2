"""Weighted means of values as one op: the weights of all queries are never stored together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.batching import leading
from hybrid.ops.checks import require_floating, require_same_dtype, require_shape
from hybrid.ops.comparison import where
from hybrid.ops.creation import arange
from hybrid.ops.derivatives import reshaped
from hybrid.ops.exponential import exp
from hybrid.ops.linalg import matmul
from hybrid.ops.reduction import reduce_sum
from hybrid.ops.shape import matrix_transpose
from hybrid.types import TensorType


def seen_by(queries: int, keys: int) -> Any:
    """Which keys each query may look at in causal attention: those up to its own place."""
    return arange(keys) <= reshaped(arange(queries), (queries, 1))


def _require(name: str, q: TensorType, k: TensorType, v: TensorType) -> None:
    require_floating(name, q=q)
    require_same_dtype(name, q, k, v)
    agree = min(q.rank, k.rank, v.rank) >= 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    agree = agree and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    if not agree or 0 in (*k.shape[-2:], v.shape[-1]):
        raise ShapeError(
            f"{name} cannot take {q}, {k} and {v}",
            why="It takes [..., L, E], [..., S, E] and [..., S, D], of the same leading axes and "
            "with S, E and D above 0.",
            fix="change a shape",
        )


def _heads(emit: Any, view: Any, rank: int) -> Any:
    """A view with two leading axes before the last ``rank``, of which the last one is dense."""
    lead = view.shape[: view.rank - rank]
    if len(lead) > 2 or (rank == 2 and view.shape[-1] != 1 and view.strides[-1] != 1):
        view = emit.dense(view)
    if len(lead) > 2:
        return view.reshape((math.prod(lead[:-1]), *view.shape[len(lead) - 1 :]))
    for _ in range(2 - len(lead)):
        view = view.expand(0)
    return view


def _scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    scores = scale * (q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64))
    if not causal:
        return scores
    return np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)


# The mean ----------------------------------------------------------------------------------------


@op(name="attention")
def weighted_mean(
    q: TensorType, k: TensorType, v: TensorType, *, scale: float, causal: bool
) -> tuple[TensorType, TensorType]:
    """``softmax(scale * q kᵀ) v``, and the logarithm of the sum of each row's exponentials.

    ``q`` is [..., L, E], ``k`` [..., S, E] and ``v`` [..., S, D]; ``causal`` keeps query i from the
    keys behind i (Vaswani et al. 2017; in blocks as Dao et al. 2022).
    """
    _require("attention", q, k, v)
    return q.with_shape((*q.shape[:-1], v.shape[-1])), q.with_shape(q.shape[:-1])


@weighted_mean.reference
def attention_reference(q, k, v, *, scale, causal):
    scores = _scores(q, k, scale, causal)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return ((weights / total) @ v).astype(q.dtype), (top + np.log(total))[..., 0].astype(q.dtype)


@weighted_mean.lowering
def attention_lowering(emit, q, k, v, mean, log_sum, *, scale, causal):
    inputs = [_heads(emit, x, 2) for x in (q, k, v)]
    outputs = [_heads(emit, mean, 2), _heads(emit, log_sum, 1)]
    emit.kernel("attention", inputs, outputs, [float(scale), float(causal)])


@weighted_mean.vjp
def attention_vjp(ct, result, q, k, v, *, scale, causal):
    (mean, log_sum), (ct, of_log_sum) = result, ct
    shift = reduce_sum(ct * mean, axis=(len(mean.shape) - 1,), keepdims=False) - of_log_sum
    return attention_pull(ct, shift, log_sum, q, k, v, scale=scale, causal=causal)


@weighted_mean.jvp
def attention_jvp(tangents, result, q, k, v, *, scale, causal):
    (_, log_sum), (of_q, of_k, of_v) = result, tangents
    weights = _weights(log_sum, q, k, scale, causal)
    slope = None
    if of_q is not None:
        slope = matmul(of_q, matrix_transpose(k))
    if of_k is not None:
        term = matmul(q, matrix_transpose(of_k))
        slope = term if slope is None else slope + term
    of_mean = None if of_v is None else matmul(weights, of_v)
    if slope is None:
        return of_mean, None
    slope = weights * (slope * scale)
    of_sum = reduce_sum(slope, axis=(len(slope.shape) - 1,), keepdims=True)
    term = matmul(slope - weights * of_sum, v)
    of_mean = term if of_mean is None else of_mean + term
    return of_mean, reshaped(of_sum, log_sum.shape)


def _weights(log_sum: Any, q: Any, k: Any, scale: float, causal: bool) -> Any:
    """All weights at once, for derivatives of derivatives."""
    scores = matmul(q, matrix_transpose(k)) * scale
    weights = exp(scores - reshaped(log_sum, (*log_sum.shape, 1)))
    return where(seen_by(q.shape[-2], k.shape[-2]), weights, 0.0) if causal else weights


# Its gradient ------------------------------------------------------------------------------------


@op
def attention_pull(
    ct: TensorType,
    shift: TensorType,
    log_sum: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    *,
    scale: float,
    causal: bool,
) -> tuple[TensorType, TensorType, TensorType]:
    """The gradients of ``attention`` by ``q``, ``k`` and ``v`` from that of its mean, ``ct``.

    ``shift`` is the sum of ``ct * mean`` over features, less the gradient of ``log_sum``.
    """
    name = "attention_pull"
    _require(name, q, k, v)
    require_same_dtype(name, q, ct, shift, log_sum)
    require_shape(name, "ct", ct, (*q.shape[:-1], v.shape[-1]))
    require_shape(name, "shift", shift, q.shape[:-1])
    require_shape(name, "log_sum", log_sum, q.shape[:-1])
    return q, k, v


@attention_pull.reference
def attention_pull_reference(ct, shift, log_sum, q, k, v, *, scale, causal):
    weights = np.exp(_scores(q, k, scale, causal) - log_sum[..., None])
    slopes = scale * weights * (ct @ np.swapaxes(v, -1, -2) - shift[..., None])
    pulled = slopes @ k, np.swapaxes(slopes, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ ct
    return tuple(x.astype(q.dtype) for x in pulled)


@attention_pull.lowering
def attention_pull_lowering(emit, *views, scale, causal):
    ct, shift, log_sum, q, k, v, *results = views
    rows = [_heads(emit, emit.dense(x), 1) for x in (shift, log_sum)]
    inputs = [_heads(emit, ct, 2), *rows, *[_heads(emit, x, 2) for x in (q, k, v)]]
    outputs = [_heads(emit, x, 2) for x in results]
    emit.kernel("attention_pull", inputs, outputs, [float(scale), float(causal)])


@attention_pull.vjp
def attention_pull_vjp(cts, _results, ct, shift, log_sum, q, k, v, *, scale, causal):
    """With weights P, ``G = ct vᵀ - shift`` and ``D = P G``, the results are ``s D k``, ``s Dᵀ q``
    and ``Pᵀ ct``: their cotangents a, b, c give D the cotangent ``s (a kᵀ + q bᵀ)``, and so on.
    """
    a, b, c = cts
    weights = _weights(log_sum, q, k, scale, causal)
    across = matmul(ct, matrix_transpose(v)) - reshaped(shift, (*shift.shape, 1))
    slopes = weights * across * scale
    of_slopes = (matmul(a, matrix_transpose(k)) + matmul(q, matrix_transpose(b))) * scale
    of_weights = matmul(ct, matrix_transpose(c)) + of_slopes * across
    of_across, of_scores = of_slopes * weights, of_weights * weights

    def down(x):
        return -reduce_sum(x, axis=(len(x.shape) - 1,), keepdims=False)

    return (
        lambda: matmul(weights, c) + matmul(of_across, v),
        lambda: down(of_across),
        lambda: down(of_scores),
        lambda: matmul(slopes, b) + matmul(of_scores, k) * scale,
        lambda: (
            matmul(matrix_transpose(slopes), a) + matmul(matrix_transpose(of_scores), q) * scale
        ),
        lambda: matmul(matrix_transpose(of_across), ct),
    )


for _op in (weighted_mean, attention_pull):
    _op.batch(leading(_op))


def _drawn(draw):
    shapes = [
        ((1,), 1, 1, 1, 1),
        ((2,), 3, 5, 4, 3),
        ((2, 3), 70, 150, 17, 32),
        ((), 200, 7, 16, 5),
    ]
    shapes += [((2, 1, 2), 5, 3, 2, 1), ((1, 2), 0, 4, 3, 2)]
    for dtype in draw.floats:
        for lead, length, size, features, width in shapes:
            queries, keys = (*lead, length, features), (*lead, size, features)
            values = (*lead, size, width)
            for causal in (False, True):
                operands = [draw(dtype, *x, low=-2, high=2) for x in (queries, keys, values)]
                yield operands, {"scale": 0.3, "causal": causal}


@weighted_mean.samples
def attention_samples(draw):
    for operands, attrs in _drawn(draw):
        yield tuple(operands), attrs


@attention_pull.samples
def attention_pull_samples(draw):
    for (q, k, v), attrs in _drawn(draw):
        ct = draw(q.dtype.name, *q.shape[:-1], v.shape[-1], low=-2, high=2)
        mean, log_sum = attention_reference(q, k, v, **attrs)
        yield (ct, (ct * mean).sum(-1), log_sum, q, k, v), attrs
