"""What layers mean, in plain NumPy loops: the oracles of the tests of layers."""

from __future__ import annotations

import itertools
import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def each(rank, value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


# Convolutions ------------------------------------------------------------------------------------


def conv(x, weight, bias=None, stride=1, widths=0, dilation=1, groups=1, mode="constant"):
    """[N, C, ...] with ``weight`` [O, C / groups, ...]; ``widths``: pairs, or a number for all."""
    rank = weight.ndim - 2
    stride, dilation = each(rank, stride), each(rank, dilation)
    pairs = [(n, n) if isinstance(n, int) else n for n in each(rank, widths)]
    x = np.pad(x, [(0, 0), (0, 0), *pairs], mode=mode)
    outputs, per_group = weight.shape[0] // groups, weight.shape[1]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, stride, strict=True)]
    y = np.zeros((x.shape[0], weight.shape[0], *counts))
    for o, place in itertools.product(range(weight.shape[0]), np.ndindex(*counts)):
        cut = [
            slice(p * s, p * s + span, d)
            for p, s, span, d in zip(place, stride, spans, dilation, strict=True)
        ]
        first = o // outputs * per_group
        part = x[(slice(None), slice(first, first + per_group), *cut)]
        y[(slice(None), o, *place)] = (part * weight[o]).reshape(len(x), -1).sum(1)
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


def conv_transpose(
    x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """Every input adds its multiple of the kernel; ``padding`` is cut off afterwards."""
    rank = weight.ndim - 2
    stride, padding, dilation = (each(rank, v) for v in (stride, padding, dilation))
    extra = each(rank, output_padding)
    kernel, per_group = weight.shape[2:], weight.shape[1]
    inputs = weight.shape[0] // groups
    full = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)
    ]
    y = np.zeros((x.shape[0], per_group * groups, *full))
    for i, place in itertools.product(range(x.shape[1]), np.ndindex(*x.shape[2:])):
        cut = [
            slice(p * s, p * s + d * (k - 1) + 1, d)
            for p, s, d, k in zip(place, stride, dilation, kernel, strict=True)
        ]
        first = i // inputs * per_group
        value = x[(slice(None), i, *place)].reshape(-1, 1, *(1,) * rank)
        y[(slice(None), slice(first, first + per_group), *cut)] += value * weight[i]
    y = y[(..., *[slice(p, n - p) for p, n in zip(padding, full, strict=True)])]
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


# Windows -----------------------------------------------------------------------------------------


def pool(x, kernel, stride=None, padding=0, dilation=1, reduce=np.max, fill=-np.inf):
    rank = x.ndim - 2
    kernel, padding, dilation = (each(rank, v) for v in (kernel, padding, dilation))
    stride = kernel if stride is None else each(rank, stride)
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]], constant_values=fill)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, stride, strict=True)]
    y = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        cut = [
            slice(p * s, p * s + span, d)
            for p, s, span, d in zip(place, stride, spans, dilation, strict=True)
        ]
        y[(..., *place)] = reduce(x[(..., *cut)].reshape(*x.shape[:2], -1), axis=-1)
    return y


def adaptive(x, sizes, reduce):
    y = np.zeros((*x.shape[:2], *sizes))
    for place in np.ndindex(*sizes):
        cut = [
            slice(p * n // s, math.ceil((p + 1) * n / s))
            for p, n, s in zip(place, x.shape[2:], sizes, strict=True)
        ]
        y[(..., *place)] = reduce(x[(..., *cut)].reshape(*x.shape[:2], -1), axis=-1)
    return y


# Normalisation -----------------------------------------------------------------------------------


def normal(x, axes, eps=1e-5):
    variance = x.var(axes, keepdims=True)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(variance + eps)


def channels(v, rank):
    return v.reshape(-1, *(1,) * (rank - 2))


# Recurrence --------------------------------------------------------------------------------------


def cell(mode, x, state, w_ih, w_hh, b_ih=0.0, b_hh=0.0, w_hr=None):
    """The state after one time: (h,) or (h, c)."""
    own, entering = state[0] @ w_hh.T + b_hh, x @ w_ih.T + b_ih
    if mode in ("tanh", "relu"):
        total = entering + own
        return (np.tanh(total) if mode == "tanh" else np.maximum(total, 0),)
    if mode == "lstm":
        i, f, g, o = np.split(entering + own, 4, axis=-1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if w_hr is None else h @ w_hr.T), c
    (r, z, n), (own_r, own_z, own_n) = (np.split(v, 3, axis=-1) for v in (entering, own))
    r, z = sigmoid(r + own_r), sigmoid(z + own_z)
    n = np.tanh(n + r * own_n)
    return ((1 - z) * n + z * state[0],)


def recurrent(mode, weights, x, layers, directions, begin):
    """Outputs [T, N, directions * size] and the last states, for ``weights`` by name."""
    ends = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
            given = [weights.get(name + suffix) for name in names]
            given[2:4] = [0.0 if b is None else b for b in given[2:4]]
            state = tuple(part[layer * directions + direction] for part in begin)
            seen = [None] * len(x)
            times = range(len(x))
            for t in reversed(times) if direction else times:
                state = cell(mode, x[t], state, *given)
                seen[t] = state[0]
            outputs.append(np.stack(seen))
            ends.append(state)
        x = np.concatenate(outputs, axis=-1)
    return x, tuple(np.stack(parts) for parts in zip(*ends, strict=True))


# Attention ---------------------------------------------------------------------------------------


def attention(query, key, value, heads, weights, biases, out, left_out=None, more=()):
    """[N, L, E], and weights [N, heads, L, S]; ``left_out`` broadcasts to those.

    ``more``: pairs of a key and a value [E] that every query sees, too.
    """
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), weights, biases, strict=True))
    for extra_key, extra_value in more:
        k = np.concatenate([k, np.broadcast_to(extra_key, (len(k), 1, k.shape[2]))], 1)
        v = np.concatenate([v, np.broadcast_to(extra_value, (len(v), 1, v.shape[2]))], 1)
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    if left_out is not None:
        scores = np.where(left_out, -np.inf, scores)
    shares = softmax(scores, -1)
    found = (shares @ v).transpose(0, 2, 1, 3).reshape(query.shape)
    return found @ out[0].T + out[1], shares
