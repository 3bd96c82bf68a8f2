"""Attention some of whose weights are dropped: nothing is kept of the draws but their state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, float32
from hybrid.ir import op
from hybrid.ops.layers.fused_attention import (
    Drop,
    across_of,
    attention_masked_pull,
    heads_of,
    mask_heads,
    masked_samples,
    mean_reference,
    pulled_again,
    pulled_reference,
    pulled_sample,
    pushed,
    require_attention,
    require_mask,
    scores_reference,
    shift_of,
    weights_of,
)
from hybrid.ops.state.random_numbers import (
    drop_again,
    drop_reference,
    random_type,
    stretch_state,
)
from hybrid.ops.support.batching import no_draws
from hybrid.ops.support.derivatives import unbroadcast
from hybrid.ops.support.shared_work import SharedWay


def _drop(state: Any, rate: float) -> Drop:
    """What drops of weights what the kernels drop, where all of them are there at once."""
    return lambda x: drop_again(x, state, rate=rate)


def _factors(q: np.ndarray, k: np.ndarray, state: np.ndarray, rate: float) -> np.ndarray:
    return drop_reference(np.ones((*q.shape[:-1], k.shape[-2])), state, rate=rate)


@op(name="attention_dropped")
def dropped_mean(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType,
    state: TensorType,
    *,
    scale: float,
    causal: bool,
    rate: float,
) -> tuple[TensorType, TensorType]:
    """``attention_masked``, causal or not, whose weights [..., L, S] went through ``drop``.

    The logarithm is that of the sum of all exponentials.  Each weight is drawn for by its place in
    [..., L, S], in the gradient again (Srivastava et al. 2014; Dao et al. 2022).
    """
    name = "attention_dropped"
    require_attention(name, q, k, v)
    require_mask(name, q, k, mask)
    random_type(name, state, q.shape, float32)
    return q.with_shape((*q.shape[:-1], v.shape[-1])), q.with_shape(q.shape[:-1])


@dropped_mean.reference
def attention_dropped_reference(q, k, v, mask, state, *, scale, causal, rate):
    scores = scores_reference(q, k, scale, causal, mask)
    return mean_reference(scores, v, _factors(q, k, state, rate))


@dropped_mean.lowering
def attention_dropped_lowering(emit, q, k, v, mask, state, mean, log_sum, *, scale, causal, rate):
    inputs = [heads_of(emit, x, 2) for x in (q, k, v)]
    inputs += [mask_heads(emit, mask, (*q.shape[:-1], k.shape[-2])), emit.dense(state)]
    outputs = [heads_of(emit, mean, 2), heads_of(emit, log_sum, 1)]
    emit.kernel("attention_dropped", inputs, outputs, [float(scale), float(causal), float(rate)])


@dropped_mean.vjp
def attention_dropped_vjp(ct, result, q, k, v, mask, state, *, scale, causal, rate):
    (mean, log_sum), (ct, of_log_sum) = result, ct
    shift = shift_of(ct, mean, of_log_sum)

    def of_mask():
        weights = weights_of(log_sum, q, k, scale, causal, mask)
        return unbroadcast(weights * across_of(ct, shift, v, _drop(state, rate)), mask)

    operands = (ct, shift, log_sum, q, k, v, mask, state)
    pulled = attention_dropped_pull(*operands, scale=scale, causal=causal, rate=rate)
    return *pulled, of_mask, None


@dropped_mean.jvp
def attention_dropped_jvp(tangents, result, q, k, v, mask, state, *, scale, causal, rate):
    weights = weights_of(result[1], q, k, scale, causal, mask)
    return pushed(tangents[:4], result[1], weights, q, k, v, scale, _drop(state, rate))


dropped_mean.batch(no_draws)


@op
def attention_dropped_pull(
    ct: TensorType,
    shift: TensorType,
    log_sum: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType,
    state: TensorType,
    *,
    scale: float,
    causal: bool,
    rate: float,
) -> tuple[TensorType, TensorType, TensorType]:
    """The gradients of ``attention_dropped`` by ``q``, ``k`` and ``v``, as ``attention_pull``'s."""
    random_type("attention_dropped_pull", state, q.shape, float32)
    return attention_masked_pull.rule(ct, shift, log_sum, q, k, v, mask, scale=scale)


@attention_dropped_pull.reference
def attention_dropped_pull_reference(
    ct, shift, log_sum, q, k, v, mask, state, *, scale, causal, rate
):
    scores, factors = scores_reference(q, k, scale, causal, mask), _factors(q, k, state, rate)
    return pulled_reference(ct, shift, log_sum, q, k, v, scores, scale, factors)


@attention_dropped_pull.lowering
def attention_dropped_pull_lowering(emit, *views, scale, causal, rate):
    ct, shift, log_sum, q, k, v, mask, state, *results = views
    rows = [heads_of(emit, emit.dense(x), 1) for x in (shift, log_sum)]
    inputs = [heads_of(emit, ct, 2), *rows, *[heads_of(emit, x, 2) for x in (q, k, v)]]
    inputs += [mask_heads(emit, mask, (*q.shape[:-1], k.shape[-2])), emit.dense(state)]
    outputs = [heads_of(emit, x, 2) for x in results]
    attrs = [float(scale), float(causal), float(rate)]
    emit.kernel("attention_dropped_pull", inputs, outputs, attrs)


@attention_dropped_pull.vjp
def attention_dropped_pull_vjp(
    cts, _results, ct, shift, log_sum, q, k, v, mask, state, *, scale, causal, rate
):
    weights = weights_of(log_sum, q, k, scale, causal, mask)
    drop = _drop(state, rate)
    *others, of_scores = pulled_again(cts, weights, ct, shift, q, k, v, scale, drop)
    return *others, lambda: unbroadcast(of_scores, mask), None


# Rows of a batch need no others: each has a stretch of what is drawn for all of them.


def _by_rows(cut, operands, results, compute):
    *tensors, mask, _ = operands
    split = cut.of(tensors[0], 0)
    if split is None or min(t.rank for t in tensors) < 2 or tensors[0].rank < 3:
        return []
    rows = tensors[0].shape[0]
    if any([t.shape[0] != rows for t in tensors]):
        return []
    own = mask.rank == tensors[-1].rank and mask.shape[0] == rows
    return [
        SharedWay(
            (*[split] * len(tensors), split if own else None, None),
            (split,) * len(results),
            compute,
            alone=True,
        )
    ]


def _numbers(q, k):
    """How many are drawn: one for each query and key."""
    return math.prod(q.type.shape[:-1]) * k.type.shape[-2]


@dropped_mean.shares
def attention_dropped_shares(cut, operands, results, **_attrs):
    return _by_rows(cut, operands, results, _dropped_of_rows)


def _dropped_of_rows(work, q, k, v, mask, state, **attrs):
    state = stretch_state(work, state, _numbers(q, k))
    return work.call("attention_dropped", q, k, v, mask, state, **attrs)


@attention_dropped_pull.shares
def attention_dropped_pull_shares(cut, operands, results, **_attrs):
    return _by_rows(cut, operands, results, _pulled_of_rows)


def _pulled_of_rows(work, *operands, **attrs):
    *tensors, state = operands
    state = stretch_state(work, state, _numbers(tensors[3], tensors[4]))
    return work.call("attention_dropped_pull", *tensors, state, **attrs)


def _dropped_samples(draw):
    """Those with masks, some of them causal as well: a query sees the first key at least."""
    for number, (operands, attrs) in enumerate(masked_samples(draw)):
        state = draw("int64", 2, low=-(2**40), high=2**40)
        yield [*operands, state], attrs | {"causal": number % 2 == 1, "rate": 0.3}


@dropped_mean.samples
def attention_dropped_samples(draw):
    for operands, attrs in _dropped_samples(draw):
        yield tuple(operands), attrs


@attention_dropped_pull.samples
def attention_dropped_pull_samples(draw):
    for operands, attrs in _dropped_samples(draw):
        yield pulled_sample(draw, attention_dropped_reference, operands, attrs), attrs
