"""Attention: weighted means of values, and embeddings: rows of a table by index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hybrid.core.types import DType, Shape, bool_, tensor_type
from hybrid.errors import ArgumentError, ArgumentTypeError, OutOfRangeError, ShapeError
from hybrid.ops.axes.reduction import reduce_any
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.index.indexing import as_indices, take
from hybrid.ops.layers.attention_dropout import dropped_mean
from hybrid.ops.layers.fused_attention import masked_mean, seen_by, weighted_mean
from hybrid.ops.layers.softmax import soft_maximum
from hybrid.ops.matrix.products import matmul
from hybrid.ops.shapes.creation import fill
from hybrid.ops.shapes.repeat import repeat_interleave
from hybrid.ops.shapes.shape import matrix_transpose
from hybrid.ops.state.random_numbers import dropout
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped, widened
from hybrid.ops.support.dtypes import common, converted, stop_gradient
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    is_number,
    listed,
    require_floating,
    require_rank,
    type_of,
)

_NAME = "scaled_dot_product_attention"


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    *,
    dropout_p: float = 0.0,
    next_state: Callable[[Shape], Any] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    need_weights: bool = False,
) -> Any:
    """``softmax(scale * query keyᵀ + mask) value``, whose weights are dropped with ``dropout_p``.

    See ``hybrid.nn.functional.scaled_dot_product_attention`` for the operands.  ``next_state``
    gives the state of draws of a shape, and is called if there are any; a weight's is that of its
    place among all of them, whatever computes them.  ``need_weights``: the result and the weights,
    in a tuple.
    """
    query, key, value = common(*map(as_tensor, (query, key, value)))
    types = {"query": type_of(query), "key": type_of(key), "value": type_of(value)}
    require_floating(_NAME, **types)
    if enable_gqa:
        key, value = _repeated(query, key, "key"), _repeated(query, value, "value")
    shape = _scores_shape(query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1] or 1)
    elif not is_number(scale) or isinstance(scale, bool):
        raise ArgumentTypeError(f"{_NAME} got scale {scale!r}", fix="give a number")
    if is_causal and attn_mask is not None:
        raise ArgumentError(
            f"{_NAME} got attn_mask and is_causal",
            fix="give one of them; make the mask causal yourself",
        )
    sizes = (*key.shape[-2:], value.shape[-1])
    mask = None if attn_mask is None else _checked_mask(as_tensor(attn_mask), shape)
    lead = _shared(query, key, value)
    fused = dropout_p == 0 or (dropout_p < 1 and lead == shape[:-2])  # one draw for each weight
    if fused and not need_weights and 0 not in sizes:
        operands = [widened(x, (*lead, *x.shape[-2:])) for x in (query, key, value)]
        told: dict[str, Any] = {"scale": float(scale)}
        if dropout_p == 0 and mask is None:
            return weighted_mean(*operands, causal=bool(is_causal), **told)[0]
        if mask is None:
            added = fill(shape=(1,) * (len(lead) + 2), value=0.0, dtype=query.dtype)
        else:
            ones = (1,) * (len(lead) + 2 - len(mask.shape))
            added = reshaped(_added(mask, query.dtype), (*ones, *mask.shape))
        if dropout_p == 0:
            return masked_mean(*operands, added, **told)[0]
        told |= {"causal": bool(is_causal), "rate": float(dropout_p)}
        return dropped_mean(*operands, added, next_state(shape), **told)[0]
    scores = matmul(query * scale, matrix_transpose(key))
    if is_causal:
        scores = where(seen_by(*shape[-2:]), scores, -math.inf)
    counted = None
    if mask is not None:
        scores, counted = _masked(scores, mask)
    weights = soft_maximum(scores, axis=len(shape) - 1)
    if dropout_p == 1:
        weights = weights * 0.0
    elif dropout_p > 0:
        weights = dropout(weights, dropout_p, next_state(weights.shape))
    found = matmul(weights, value)
    found = found if counted is None else where(counted, found, 0.0)
    if not need_weights:
        return found
    return found, weights if counted is None else where(counted, weights, 0.0)


def _scores_shape(query: Any, key: Any, value: Any) -> Shape:
    types = [type_of(x) for x in (query, key, value)]
    why = ""
    if any(t.rank < 2 for t in types):
        why = "Each has two dimensions at least: positions and features."
    elif query.shape[-1] != key.shape[-1]:
        why = f"The queries have {query.shape[-1]} features, the keys {key.shape[-1]}."
    elif key.shape[-2] != value.shape[-2]:
        why = f"There are {key.shape[-2]} keys and {value.shape[-2]} values."
    if why:
        raise ShapeError(
            f"{_NAME} cannot take {listed(types)}",
            why=why,
            fix="give query [..., L, E], key [..., S, E] and value [..., S, D]",
        )
    _shared(query, key, value)
    return (*_shared(query, key), query.shape[-2], key.shape[-2])


def _shared(*operands: Any) -> Shape:
    """The leading axes that operands share by broadcasting."""
    return broadcast_shapes(_NAME, *[tensor_type(x.dtype, type_of(x).shape[:-2]) for x in operands])


def _repeated(query: Any, x: Any, label: str) -> Any:
    """``x`` with as many heads (axis -3) as the query: groups of those share one."""
    if len(query.shape) < 3 or len(x.shape) < 3:
        raise ShapeError(
            f"{_NAME} cannot take {type_of(x)} as {label} with enable_gqa",
            why="Heads are the last axis but two.",
            fix="add an axis with expand_dims",
        )
    heads, own = query.shape[-3], x.shape[-3]
    if own == 0 or heads % own:
        raise ShapeError(
            f"{_NAME} cannot share {own} heads of {label} among {heads} heads of query",
            why="As many heads of the query share each.",
            fix="give a number of heads that divides the query's",
        )
    return x if heads == own else repeat_interleave(x, heads // own, axis=len(x.shape) - 3)


def _checked_mask(mask: Any, shape: Shape) -> Any:
    """The mask of scores of ``shape``, with one axis at least."""
    if mask.dtype is not bool_ and not mask.dtype.is_floating:
        raise ArgumentTypeError(
            f"{_NAME} got a mask of dtype {mask.dtype.name}",
            why="A mask is bool (True: take part) or floating (added to the scores).",
            fix="compare it with something, or convert it with astype",
        )
    lead = len(shape) - len(mask.shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(mask.shape, shape[lead:], strict=True)):
        raise ShapeError(
            f"{_NAME} cannot use a mask {type_of(mask)}",
            why=f"It must broadcast to the scores, {list(shape)}.",
            fix="change its shape with reshape or expand_dims",
        )
    return reshaped(mask, (1,)) if len(mask.shape) == 0 else mask


def _added(mask: Any, dtype: DType) -> Any:
    """What the mask adds to scores."""
    if mask.dtype is not bool_:
        return converted(mask, dtype)
    nothing, hidden = (fill(shape=(), value=x, dtype=dtype) for x in (0.0, -math.inf))
    return where(mask, nothing, hidden)


def _masked(scores: Any, mask: Any) -> tuple[Any, Any]:
    """The scores under the mask, and which rows count: those of nothing but -inf give 0.

    In place of -inf those rows hold a number, so that no NaN gets into the gradients.
    """
    taken = mask if mask.dtype is bool_ else mask > -math.inf
    counted = reduce_any(taken, axis=(len(mask.shape) - 1,), keepdims=True)
    if mask.dtype is bool_:
        return where(mask, scores, where(counted, -math.inf, 0.0)), counted
    return scores + where(counted, converted(mask, scores.dtype), 0.0), counted


@remembered_of_any
def embedding(indices: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """The rows of ``weight`` [count, features] at ``indices``, integers of any shape.

    Negative indices count from the end; one out of range is an OutOfRangeError.  The row
    ``padding_idx`` gets no gradient.
    """
    indices, weight = as_indices("embedding", indices), as_tensor(weight)
    require_rank("embedding", "weight", type_of(weight), 2)
    rows = take(weight, indices, axis=0)
    if padding_idx is None:
        return rows
    count = weight.shape[0]
    if isinstance(padding_idx, bool) or not isinstance(padding_idx, int):
        raise ArgumentTypeError(f"embedding got padding_idx {padding_idx!r}", fix="give an int")
    if not -count <= padding_idx < count:
        raise OutOfRangeError(
            f"embedding got padding_idx {padding_idx}",
            why=f"The table has {count} rows.",
            fix="give the index of one of them",
        )
    padding = indices == padding_idx % count
    padding = padding | (indices == padding_idx % count - count)
    return where(reshaped(padding, (*indices.shape, 1)), stop_gradient(rows), rows)
