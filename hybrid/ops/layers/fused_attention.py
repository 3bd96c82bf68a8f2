"""Weighted means of values as one op: the weights of all queries are never stored together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.axes.reduction import reduce_sum
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.elementwise.exponential import exp
from hybrid.ops.matrix.products import matmul
from hybrid.ops.shapes.creation import arange
from hybrid.ops.shapes.shape import matrix_transpose
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import leading
from hybrid.ops.support.derivatives import reshaped, unbroadcast, widened
from hybrid.ops.support.operand_checks import (
    listed,
    require_floating,
    require_same_dtype,
    require_shape,
)

Drop = Callable[[Any], Any]


def all_kept(x: Any) -> Any:
    """What is applied to weights of which none is dropped."""
    return x


def seen_by(queries: int, keys: int) -> Any:
    """Which keys each query may look at in causal attention: those up to its own place."""
    return arange(keys) <= reshaped(arange(queries), (queries, 1))


def require_attention(name: str, q: TensorType, k: TensorType, v: TensorType) -> None:
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


def require_mask(name: str, q: TensorType, k: TensorType, mask: TensorType) -> None:
    require_same_dtype(name, q, mask)
    scores = (*q.shape[:-1], k.shape[-2])
    if mask.rank != q.rank or any(n not in (1, m) for n, m in zip(mask.shape, scores, strict=True)):
        raise ShapeError(
            f"{name} cannot take {listed([q, k])} with a mask {mask}",
            why=f"Each axis of a mask has size 1 or that of the scores, {list(scores)}.",
            fix="change the shape of the mask",
        )


def heads_of(emit: Any, view: Any, rank: int) -> Any:
    """A view with two leading axes before the last ``rank``, of which the last one is dense.

    None of them is walked backwards.
    """
    lead = view.shape[: view.rank - rank]
    apart = rank == 2 and view.shape[-1] != 1 and view.strides[-1] != 1
    if len(lead) > 2 or apart or min(view.strides) < 0:
        view = emit.dense(view)
    if len(lead) > 2:
        return view.reshape((math.prod(lead[:-1]), *view.shape[len(lead) - 1 :]))
    for _ in range(2 - len(lead)):
        view = view.expand(0)
    return view


def mask_heads(emit: Any, mask: Any, scores: Shape) -> Any:
    """The mask spread over heads and queries without copies of it, if that can be."""
    lead, behind = scores[:-2], mask.shape[-2:]
    apart = behind[-1] != 1 and mask.strides[-1] != 1
    if behind[-1] != scores[-1] or apart or min(mask.strides) < 0:
        mask = emit.dense(mask.broadcast((*mask.shape[:-1], scores[-1])))
    if len(lead) > 2:
        outer = mask.shape[: len(lead) - 1]
        if any(n != 1 for n in outer):
            outer = lead[:-1]
            mask = mask.broadcast((*outer, *mask.shape[len(outer) :]))
        mask = emit.dense(mask).reshape((math.prod(outer), *mask.shape[len(outer) :]))
        lead = (math.prod(lead[:-1]), lead[-1])
    return mask.broadcast(((1, 1, *lead)[-2:]) + scores[-2:])


def scores_reference(
    q: np.ndarray, k: np.ndarray, scale: float, causal: bool = False, mask: Any = None
) -> np.ndarray:
    scores = scale * (q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64))
    if mask is not None:
        scores = np.where(mask == -np.inf, -np.inf, scores + mask)
    return np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf) if causal else scores


# The mean ----------------------------------------------------------------------------------------


@op(name="attention")
def weighted_mean(
    q: TensorType, k: TensorType, v: TensorType, *, scale: float, causal: bool
) -> tuple[TensorType, TensorType]:
    """``softmax(scale * q kᵀ) v``, and the logarithm of the sum of each row's exponentials.

    ``q`` is [..., L, E], ``k`` [..., S, E] and ``v`` [..., S, D]; ``causal`` keeps query i from the
    keys behind i (Vaswani et al. 2017; in blocks as Dao et al. 2022).
    """
    require_attention("attention", q, k, v)
    return q.with_shape((*q.shape[:-1], v.shape[-1])), q.with_shape(q.shape[:-1])


@weighted_mean.couples
def attention_couples(operands, results, **_):
    """Leading axes and queries; the values' features, not those that scores are the products of.

    The scale of the scores is by how many those are.
    """
    rank = operands[0].rank
    queries = axis_ties.along(operands, results, [(0, rank - 2), (~0, rank - 2), (~1, rank - 2)])
    features = axis_ties.along(operands, results, [(2, rank - 1), (~0, rank - 1)])
    return [*axis_ties.broadcast(operands[:4], results, range(rank - 2)), queries, features]


def _leading_ties(operands, results, **_):
    """What all of them share: batches, heads."""
    rank = operands[-1].rank
    return [
        [
            axis_ties.tied(place, axis, t.shape[axis])
            for place, t in [*enumerate(operands), *[(~i, t) for i, t in enumerate(results)]]
            if t.shape[axis] == results[0].shape[axis] or place < 0
        ]
        for axis in range(rank - 2)
    ]


by_heads = shared_work.tied(_leading_ties)


@weighted_mean.reference
def attention_reference(q, k, v, *, scale, causal):
    return mean_reference(scores_reference(q, k, scale, causal), v)


@weighted_mean.lowering
def attention_lowering(emit, q, k, v, mean, log_sum, *, scale, causal):
    inputs = [heads_of(emit, x, 2) for x in (q, k, v)]
    outputs = [heads_of(emit, mean, 2), heads_of(emit, log_sum, 1)]
    emit.kernel("attention", inputs, outputs, [float(scale), float(causal)])


def shift_of(ct: Any, mean: Any, of_log_sum: Any) -> Any:
    return reduce_sum(ct * mean, axis=(len(mean.shape) - 1,), keepdims=False) - of_log_sum


@weighted_mean.vjp
def attention_vjp(ct, result, q, k, v, *, scale, causal):
    (mean, log_sum), (ct, of_log_sum) = result, ct
    shift = shift_of(ct, mean, of_log_sum)
    return attention_pull(ct, shift, log_sum, q, k, v, scale=scale, causal=causal)


@weighted_mean.jvp
def attention_jvp(tangents, result, q, k, v, *, scale, causal):
    weights = weights_of(result[1], q, k, scale, causal)
    return pushed((*tangents, None), result[1], weights, q, k, v, scale)


def pushed(
    tangents: Any,
    log_sum: Any,
    weights: Any,
    q: Any,
    k: Any,
    v: Any,
    scale: float,
    drop: Drop = all_kept,
) -> tuple[Any, Any]:
    """The tangents of the mean and of ``log_sum``, from those of ``q``, ``k``, ``v`` and a mask.

    ``drop`` is what was applied to the weights.
    """
    of_q, of_k, of_v, of_mask = tangents
    slope = None
    if of_q is not None:
        slope = matmul(of_q, matrix_transpose(k))
    if of_k is not None:
        term = matmul(q, matrix_transpose(of_k))
        slope = term if slope is None else slope + term
    slope = None if slope is None else slope * scale
    if of_mask is not None:
        slope = widened(of_mask, weights.shape) if slope is None else slope + of_mask
    of_mean = None if of_v is None else matmul(drop(weights), of_v)
    if slope is None:
        return of_mean, None
    slope = weights * slope
    of_sum = reduce_sum(slope, axis=(len(slope.shape) - 1,), keepdims=True)
    term = matmul(drop(slope - weights * of_sum), v)
    of_mean = term if of_mean is None else of_mean + term
    return of_mean, reshaped(of_sum, log_sum.shape)


def across_of(ct: Any, shift: Any, v: Any, drop: Drop = all_kept) -> Any:
    """The cotangents of the weights less what they have in common."""
    return drop(matmul(ct, matrix_transpose(v))) - reshaped(shift, (*shift.shape, 1))


def weights_of(
    log_sum: Any, q: Any, k: Any, scale: float, causal: bool = False, mask: Any = None
) -> Any:
    """All weights at once, for derivatives of derivatives and of masks."""
    scores = matmul(q, matrix_transpose(k)) * scale
    scores = scores if mask is None else scores + mask
    weights = exp(scores - reshaped(log_sum, (*log_sum.shape, 1)))
    if mask is not None:
        weights = where(mask == -math.inf, 0.0, weights)
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
    require_attention(name, q, k, v)
    require_same_dtype(name, q, ct, shift, log_sum)
    require_shape(name, "ct", ct, (*q.shape[:-1], v.shape[-1]))
    require_shape(name, "shift", shift, q.shape[:-1])
    require_shape(name, "log_sum", log_sum, q.shape[:-1])
    return q, k, v


@attention_pull.reference
def attention_pull_reference(ct, shift, log_sum, q, k, v, *, scale, causal):
    return pulled_reference(
        ct, shift, log_sum, q, k, v, scores_reference(q, k, scale, causal), scale
    )


def pulled_reference(
    ct: Any,
    shift: Any,
    log_sum: Any,
    q: Any,
    k: Any,
    v: Any,
    scores: Any,
    scale: float,
    factors: Any = 1.0,
) -> tuple[np.ndarray, ...]:
    weights = np.exp(scores - log_sum[..., None])
    slopes = scale * weights * (ct @ np.swapaxes(v, -1, -2) * factors - shift[..., None])
    dropped = weights * factors
    pulled = slopes @ k, np.swapaxes(slopes, -1, -2) @ q, np.swapaxes(dropped, -1, -2) @ ct
    return tuple(x.astype(q.dtype) for x in pulled)


@attention_pull.lowering
def attention_pull_lowering(emit, *views, scale, causal):
    ct, shift, log_sum, q, k, v, *results = views
    rows = [heads_of(emit, emit.dense(x), 1) for x in (shift, log_sum)]
    inputs = [heads_of(emit, ct, 2), *rows, *[heads_of(emit, x, 2) for x in (q, k, v)]]
    outputs = [heads_of(emit, x, 2) for x in results]
    emit.kernel("attention_pull", inputs, outputs, [float(scale), float(causal)])


@attention_pull.vjp
def attention_pull_vjp(cts, _results, ct, shift, log_sum, q, k, v, *, scale, causal):
    weights = weights_of(log_sum, q, k, scale, causal)
    return pulled_again(cts, weights, ct, shift, q, k, v, scale)[:-1]


def pulled_again(
    cts: Any,
    weights: Any,
    ct: Any,
    shift: Any,
    q: Any,
    k: Any,
    v: Any,
    scale: float,
    drop: Drop = all_kept,
) -> tuple[Any, ...]:
    """With weights P, ``G = ct vᵀ - shift`` and ``D = P G``, the results are ``s D k``, ``s Dᵀ q``
    and ``Pᵀ ct``: their cotangents a, b, c give D the cotangent ``s (a kᵀ + q bᵀ)``, and so on.

    ``drop`` is what was applied to the weights, and is to ``ct vᵀ`` and to the P of ``Pᵀ ct``.
    The last one is that of the scores.
    """
    a, b, c = cts
    across = across_of(ct, shift, v, drop)
    slopes = weights * across * scale
    of_slopes = (matmul(a, matrix_transpose(k)) + matmul(q, matrix_transpose(b))) * scale
    of_weights = drop(matmul(ct, matrix_transpose(c))) + of_slopes * across
    of_across, of_scores = of_slopes * weights, of_weights * weights

    def down(x):
        return -reduce_sum(x, axis=(len(x.shape) - 1,), keepdims=False)

    return (
        lambda: matmul(drop(weights), c) + matmul(drop(of_across), v),
        lambda: down(of_across),
        lambda: down(of_scores),
        lambda: matmul(slopes, b) + matmul(of_scores, k) * scale,
        lambda: (
            matmul(matrix_transpose(slopes), a) + matmul(matrix_transpose(of_scores), q) * scale
        ),
        lambda: matmul(matrix_transpose(drop(of_across)), ct),
        of_scores,
    )


# With a mask -------------------------------------------------------------------------------------


@op(name="attention_masked")
def masked_mean(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType, *, scale: float
) -> tuple[TensorType, TensorType]:
    """``attention`` of scores to which ``mask`` is added, each axis of its [..., L, S] of that size
    or 1.

    -inf hides a key from a query, whatever its score is; where all are hidden, the mean is 0 and
    the logarithm inf.
    """
    require_attention("attention_masked", q, k, v)
    require_mask("attention_masked", q, k, mask)
    return q.with_shape((*q.shape[:-1], v.shape[-1])), q.with_shape(q.shape[:-1])


masked_mean.couples(attention_couples)


@masked_mean.reference
def attention_masked_reference(q, k, v, mask, *, scale):
    return mean_reference(scores_reference(q, k, scale, mask=mask), v)


def mean_reference(scores: np.ndarray, v: np.ndarray, factors: Any = 1.0) -> tuple[np.ndarray, ...]:
    """The mean and the logarithms; ``factors`` are those that dropout has for the weights."""
    top = scores.max(-1, keepdims=True)
    hidden = top == -np.inf
    weights = np.exp(scores - np.where(hidden, 0.0, top))
    total = np.where(hidden, 1.0, weights.sum(-1, keepdims=True))
    log_sum = np.where(hidden, np.inf, top + np.log(total))[..., 0]
    return ((weights / total * factors) @ v).astype(v.dtype), log_sum.astype(v.dtype)


@masked_mean.lowering
def attention_masked_lowering(emit, q, k, v, mask, mean, log_sum, *, scale):
    inputs = [heads_of(emit, x, 2) for x in (q, k, v)]
    inputs.append(mask_heads(emit, mask, (*q.shape[:-1], k.shape[-2])))
    outputs = [heads_of(emit, mean, 2), heads_of(emit, log_sum, 1)]
    emit.kernel("attention_masked", inputs, outputs, [float(scale), 0.0])


@masked_mean.vjp
def attention_masked_vjp(ct, result, q, k, v, mask, *, scale):
    (mean, log_sum), (ct, of_log_sum) = result, ct
    shift = shift_of(ct, mean, of_log_sum)

    def of_mask():
        weights = weights_of(log_sum, q, k, scale, mask=mask)
        return unbroadcast(weights * across_of(ct, shift, v), mask)

    return *attention_masked_pull(ct, shift, log_sum, q, k, v, mask, scale=scale), of_mask


@masked_mean.jvp
def attention_masked_jvp(tangents, result, q, k, v, mask, *, scale):
    weights = weights_of(result[1], q, k, scale, mask=mask)
    return pushed(tangents, result[1], weights, q, k, v, scale)


@op
def attention_masked_pull(
    ct: TensorType,
    shift: TensorType,
    log_sum: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType,
    *,
    scale: float,
) -> tuple[TensorType, TensorType, TensorType]:
    """The gradients of ``attention_masked`` by ``q``, ``k`` and ``v``, as ``attention_pull``'s."""
    types = attention_pull.rule(ct, shift, log_sum, q, k, v, scale=scale, causal=False)
    require_mask("attention_masked_pull", q, k, mask)
    return types


@attention_masked_pull.reference
def attention_masked_pull_reference(ct, shift, log_sum, q, k, v, mask, *, scale):
    return pulled_reference(
        ct, shift, log_sum, q, k, v, scores_reference(q, k, scale, mask=mask), scale
    )


@attention_masked_pull.lowering
def attention_masked_pull_lowering(emit, *views, scale):
    ct, shift, log_sum, q, k, v, mask, *results = views
    rows = [heads_of(emit, emit.dense(x), 1) for x in (shift, log_sum)]
    inputs = [heads_of(emit, ct, 2), *rows, *[heads_of(emit, x, 2) for x in (q, k, v)]]
    inputs.append(mask_heads(emit, mask, (*q.shape[:-1], k.shape[-2])))
    outputs = [heads_of(emit, x, 2) for x in results]
    emit.kernel("attention_masked_pull", inputs, outputs, [float(scale), 0.0])


@attention_masked_pull.vjp
def attention_masked_pull_vjp(cts, _results, ct, shift, log_sum, q, k, v, mask, *, scale):
    weights = weights_of(log_sum, q, k, scale, mask=mask)
    *others, of_scores = pulled_again(cts, weights, ct, shift, q, k, v, scale)
    return *others, lambda: unbroadcast(of_scores, mask)


for _op in (weighted_mean, attention_pull, masked_mean, attention_masked_pull):
    _op.batch(leading(_op))
    _op.shares(by_heads)


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


def pulled_sample(draw, reference, operands, attrs):
    """The operands of a pull: a cotangent, what it takes off, and what went forward."""
    q, _, v, *_ = operands
    ct = draw(q.dtype.name, *q.shape[:-1], v.shape[-1], low=-2, high=2)
    mean, log_sum = reference(*operands, **attrs)
    return (ct, (ct * mean).sum(-1), log_sum, *operands)


@weighted_mean.samples
def attention_samples(draw):
    for operands, attrs in _drawn(draw):
        yield tuple(operands), attrs


@attention_pull.samples
def attention_pull_samples(draw):
    for operands, attrs in _drawn(draw):
        yield pulled_sample(draw, attention_reference, operands, attrs), attrs


def masked_samples(draw):
    """Operands of every sample that is not causal, with masks of each way to have one size or 1."""
    for operands, attrs in _drawn(draw):
        if attrs["causal"]:
            continue
        q, scores = operands[0], (*operands[0].shape[:-1], operands[1].shape[-2])
        for shape in (scores, (*(1 for _ in scores[:-2]), *scores[-2:]), (*scores[:-1], 1)):
            mask = draw(q.dtype.name, *shape)
            hidden = draw("bool", *shape)
            hidden[..., :1] = False  # where all keys are hidden the logarithm has no derivative
            yield [*operands, np.where(hidden, -np.inf, mask)], {"scale": attrs["scale"]}


@masked_mean.samples
def attention_masked_samples(draw):
    for operands, attrs in masked_samples(draw):
        yield tuple(operands), attrs


@attention_masked_pull.samples
def attention_masked_pull_samples(draw):
    for operands, attrs in masked_samples(draw):
        yield pulled_sample(draw, attention_masked_reference, operands, attrs), attrs
