"""Attention of several heads at once, with projections of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops, random
from hybrid.core.types import bool_
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.nn.functions.dropout_kinds import require_probability
from hybrid.ops.layers.attention import attention
from hybrid.ops.support.operand_checks import as_tensor

_NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    *,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of ``num_heads`` heads, and its weights (Vaswani et al. 2017).

    ``query`` is [L, N, E], ``key`` [S, N, Ek] and ``value`` [S, N, Ev] (N first if ``batch_first``,
    or left out), the result has the shape of the query.  ``in_proj_weight`` [3 E, E] projects all
    three, or with ``use_separate_proj_weight`` each has its own; ``bias_k`` and ``bias_v`` [1, 1,
    E] are one more key and value, zeros with ``add_zero_attn``.  What heads compute may be narrower
    than E, by an ``out_proj_weight`` [E, I]: then the others are [3 I, E] and [1, 1, I].

    Masks say what is left out where they are True, or are added to the scores:
    ``key_padding_mask`` [N, S] for keys, ``attn_mask`` [L, S] or [N * num_heads, L, S] for pairs.
    ``is_causal`` says that the mask is causal, and makes one if none is given.  The weights are
    [N, L, S], the means over heads, or [N, num_heads, L, S] unless ``average_attn_weights``; None
    unless ``need_weights``, and then they are never held at once.
    """
    require_probability(dropout_p)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None

    def project(*inputs: Tensor) -> list[Tensor]:
        return project_heads(*inputs, in_proj_weight, weights, in_proj_bias)

    def merge(found: Tensor) -> Tensor:
        return ops.linear(found, out_proj_weight, out_proj_bias)

    return attend(
        query,
        key,
        value,
        embed_dim_to_check,
        num_heads,
        project,
        merge,
        inner=None if out_proj_weight is None else out_proj_weight.shape[-1],
        bias_k=bias_k,
        bias_v=bias_v,
        add_zero_attn=add_zero_attn,
        dropout_p=dropout_p if training else 0.0,
        key_padding_mask=key_padding_mask,
        need_weights=need_weights,
        attn_mask=attn_mask,
        average_attn_weights=average_attn_weights,
        is_causal=is_causal,
        batch_first=batch_first,
    )


def attend(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_heads: int,
    project: Callable[..., Sequence[Tensor]],
    merge: Callable[[Tensor], Tensor],
    *,
    inner: int | None = None,
    bias_k: Any = None,
    bias_v: Any = None,
    add_zero_attn: bool = False,
    dropout_p: float = 0.0,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``multi_head_attention_forward`` between products with weights that are not its own.

    ``project`` makes queries, keys and values of all heads of the three inputs, and ``merge`` the
    result of what all heads have found: ``inner`` features, E unless heads were pruned.
    """
    query, key, value = _each_once(as_tensor, query, key, value)
    alone = query.ndim == 2
    axis = 0 if alone or batch_first else 1  # of the batch
    _require_inputs(query, key, value, embed_dim, axis)
    if alone:
        query, key, value = _each_once(lambda x: ops.expand_dims(x, axis), query, key, value)
    inner = query.shape[-1] if inner is None else inner
    if inner % num_heads:
        raise ArgumentError(
            f"{_NAME} cannot split {inner} features among {num_heads} heads",
            fix="give a number of heads that divides it",
        )
    q, k, v = project(query, key, value)
    q, k, v = (_heads(x, num_heads, axis) for x in (q, k, v))
    count, _, length, _ = q.shape
    mask = _mask(attn_mask, key_padding_mask, count, num_heads, length, k.shape[2], alone)
    is_causal = is_causal and attn_mask is None  # else a hint that the mask is causal
    if is_causal and (mask is not None or bias_k is not None or add_zero_attn):
        is_causal = False
        later = ops.arange(k.shape[2]) > ops.reshape(ops.arange(length), (length, 1))
        mask = _both(mask, later)
    if bias_k is not None:
        k, v = (_extended(x, b, num_heads) for x, b in ((k, bias_k), (v, bias_v)))
        mask = _open_ended(mask)
    if add_zero_attn:
        k, v = (_extended(x, None, num_heads) for x in (k, v))
        mask = _open_ended(mask)
    if mask is not None and mask.dtype is bool_:
        mask = ops.logical_not(mask)  # attention has True where a key takes part
    drops = dropout_p > 0
    found = attention(
        q,
        k,
        v,
        mask,
        dropout_p=dropout_p,
        next_state=random.default_generator().next_state if drops else None,
        is_causal=is_causal,
        need_weights=need_weights,
    )
    found, shares = found if need_weights else (found, None)
    merged = ops.permute_dims(found, (0, 2, 1, 3) if axis == 0 else (2, 0, 1, 3))
    y = merge(ops.reshape(merged, (*query.shape[:-1], inner)))
    if alone:
        y = ops.squeeze(y, axis)
    if not need_weights:
        return y, None
    shares = ops.mean(shares, axis=1) if average_attn_weights else shares
    return y, shares[0] if alone else shares


def _require_inputs(query: Tensor, key: Tensor, value: Tensor, embed: int, axis: int) -> None:
    rank = query.ndim
    agree = key.ndim == rank and rank in (2, 3) and key.shape[:-1] == value.shape[:-1]
    agree = agree and (rank == 2 or query.shape[axis] == key.shape[axis])
    if not agree or query.shape[-1] != embed:
        of_query, of_key = ("N, L", "N, S") if axis == 0 else ("L, N", "S, N")
        raise ShapeError(
            f"{_NAME} cannot take {query.type}, {key.type} and {value.type}",
            why=f"Queries are [{of_query}, {embed}] or [L, {embed}], keys and values "
            f"[{of_key}, ...] or [S, ...].",
            fix="change a shape",
        )


def _each_once(function: Callable[[Any], Tensor], *xs: Any) -> list[Tensor]:
    """``function`` of each, where those that are one object stay one."""
    made = {id(x): x for x in xs}
    found = {key: function(x) for key, x in made.items()}
    return [found[id(x)] for x in xs]


def project_heads(
    query: Tensor, key: Tensor, value: Tensor, whole: Any, parts: Any, bias: Any
) -> list[Tensor]:
    """Queries, keys and values by the ``whole`` weight [3 E, E], or by its three ``parts``."""
    if parts is None and key is query and value is key:
        return ops.chunk(ops.linear(query, whole, bias), 3, axis=-1)
    weights = ops.chunk(whole, 3, axis=0) if parts is None else parts
    biases = [None] * 3 if bias is None else ops.chunk(bias, 3, axis=0)
    inputs = (query, key, value)
    return [ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


def _heads(x: Tensor, heads: int, axis: int) -> Tensor:
    """[L, N, E] (or [N, L, E]) as [N, heads, L, E / heads]."""
    first, second, features = x.shape
    split = ops.reshape(x, (first, second, heads, features // heads))
    return ops.permute_dims(split, (0, 2, 1, 3) if axis == 0 else (1, 2, 0, 3))


def _extended(x: Tensor, bias: Any, heads: int) -> Tensor:
    """``x`` [N, heads, S, d] with one more position: ``bias`` [1, 1, E], or zeros."""
    count, _, _, size = x.shape
    if bias is None:
        more = ops.zeros((count, heads, 1, size), dtype=x.dtype)
    else:
        more = ops.broadcast_to(ops.reshape(bias, (1, heads, 1, size)), (count, heads, 1, size))
    return ops.concat([x, more], axis=2)


# Masks -------------------------------------------------------------------------------------------


def _mask(
    pairs: Any, padding: Any, count: int, heads: int, length: int, size: int, alone: bool
) -> Tensor | None:
    """Both masks as one that broadcasts to [N, heads, L, S]; True is left out."""
    if pairs is not None:
        pairs = _mask_of("attn_mask", pairs)
        if pairs.shape == (count * heads, length, size):
            pairs = ops.reshape(pairs, (count, heads, length, size))
        elif pairs.shape != (length, size):
            _refuse(
                "attn_mask", pairs, f"[{length}, {size}] or [{count * heads}, {length}, {size}]"
            )
    if padding is not None:
        padding = _mask_of("key_padding_mask", padding)
        wanted = (size,) if alone else (count, size)
        if padding.shape != wanted:
            _refuse("key_padding_mask", padding, str(list(wanted)))
        padding = ops.reshape(padding, (count, 1, 1, size))
    return _both(pairs, padding)


def _mask_of(label: str, given: Any) -> Tensor:
    mask = as_tensor(given)
    if mask.dtype is not bool_ and not mask.dtype.is_floating:
        raise ArgumentTypeError(
            f"{_NAME} got {label} {mask.type}",
            why="A mask is bool (True: left out) or floating (added to the scores).",
            fix="compare it with something, or convert it with astype",
        )
    return mask


def _refuse(label: str, mask: Tensor, wanted: str) -> None:
    raise ShapeError(
        f"{_NAME} cannot use {label} {mask.type}",
        why=f"It must be {wanted}.",
        fix="change its shape",
    )


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """What either mask leaves out; numbers are added up."""
    if a is None or b is None:
        return b if a is None else a
    if a.dtype is bool_ and b.dtype is bool_:
        return a | b
    return _numbers(a, b) + _numbers(b, a)


def _numbers(mask: Tensor, other: Tensor) -> Tensor:
    if mask.dtype is not bool_:
        return mask
    return ops.where(mask, ops.full((), -math.inf, dtype=other.dtype), 0.0)


def _open_ended(mask: Tensor | None) -> Tensor | None:
    """``mask`` with one more key, which nothing is left out of."""
    if mask is None:
        return None
    widths = ((0, 0),) * (mask.ndim - 1) + ((0, 1),)
    return ops.pad(mask, widths, constant_value=0)
