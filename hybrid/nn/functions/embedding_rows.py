"""Rows of a table by index: embedding, and sums, means and maxima of bags of them."""

from __future__ import annotations

import math
from typing import Any

from hybrid import ops
from hybrid.autodiff import no_grad
from hybrid.core.types import int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.index.indexing import as_indices
from hybrid.ops.layers import attention
from hybrid.ops.support.operand_checks import as_tensor, require_choice, require_rank

MODES = ("sum", "mean", "max")


def refuse_sparse(name: str, sparse: bool) -> None:
    """Raise for ``sparse=True``."""
    if sparse:
        raise ArgumentError(
            f"{name} got sparse=True", why="Gradients of tables are dense here.", fix="leave it out"
        )


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` [count, features] at ``input``, integers of any shape.

    The row ``padding_idx`` gets no gradient.  With ``max_norm``, rows that are looked up and whose
    ``norm_type``-norm is larger are scaled down to it, in ``weight`` itself.  With
    ``scale_grad_by_freq`` the gradient of each row is divided by how often ``input`` has it.
    """
    refuse_sparse("embedding", sparse)
    if max_norm is not None:
        _bound(input, weight, max_norm, norm_type)
    rows = attention.embedding(input, weight, padding_idx)
    if not scale_grad_by_freq:
        return rows
    indices, count = as_indices("embedding", input), as_tensor(weight).shape[0]
    flat = ops.flatten(indices)
    ones = ops.ones(flat.shape, dtype=rows.dtype)
    counts = ops.index_add(ops.zeros((count,), dtype=rows.dtype), flat, ones, axis=0)
    shares = ops.reshape(1 / ops.take(counts, flat, axis=0), (*indices.shape, 1))
    held = ops.stop_gradient(rows)
    scaled = held + -((held - rows) * shares)  # less nothing, and not plus: zeros keep their signs
    return ops.where(ops.isfinite(rows), scaled, rows)


def _bound(indices: Any, weight: Any, max_norm: float, norm_type: float) -> None:
    if not isinstance(weight, Tensor):
        raise ArgumentError(
            "embedding cannot bound the rows of what is no tensor", fix="pass a hybrid.Tensor"
        )
    indices = ops.flatten(as_indices("embedding", indices))
    with no_grad():
        used = ops.scatter(ops.zeros(weight.shape[:1], dtype=weight.dtype), indices, 1.0, 0)
        norms = ops.vector_norm(weight, axis=1, ord=norm_type, keepdims=True)
        large = (norms > max_norm) & (ops.expand_dims(used, 1) > 0)
        weight.assign(ops.where(large, weight * (max_norm / (norms + 1e-7)), weight))


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The ``"sum"``, ``"mean"`` or ``"max"`` of bags of rows of ``weight``: [bags, features].

    ``input`` is [bags, size], or [items] with ``offsets`` [bags], where each bag begins
    (``include_last_offset``: and the last ends).  Items equal to ``padding_idx`` do not count, nor
    do those before the first bag; an empty bag is 0.  ``per_sample_weights``, of the shape of
    ``input``, scale the terms of a sum.
    """
    name = "embedding_bag"
    require_choice("mode", mode, MODES)
    indices, weight = as_indices(name, input), as_tensor(weight)
    require_rank(name, "weight", weight.type, 2)
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(
            f'{name} got per_sample_weights and mode "{mode}"', fix='give them with mode "sum"'
        )
    bags, count = _bags(indices, offsets, include_last_offset)
    given = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    rows = embedding(ops.flatten(indices), weight, *given)
    counted = None
    if padding_idx is not None:
        counted = ops.flatten(indices) != padding_idx % weight.shape[0]
    if mode == "max":
        return _greatest(rows, bags, count, counted)
    shares = None if counted is None else ops.astype(counted, weight.dtype)
    if per_sample_weights is not None:
        scale = as_tensor(per_sample_weights)
        if scale.shape != indices.shape:
            raise ShapeError(
                f"{name} cannot use per_sample_weights {scale.type} for {indices.type}",
                why="There is one for each index.",
                fix="change a shape",
            )
        scale = ops.flatten(scale)
        shares = scale if shares is None else shares * scale
    if shares is not None:
        rows = rows * ops.expand_dims(shares, 1)
    sums = _summed(rows, bags, count)
    if mode == "sum":
        return sums
    if shares is None:
        shares = ops.ones(rows.shape[:1], dtype=weight.dtype)
    return sums / ops.maximum(_summed(ops.expand_dims(shares, 1), bags, count), 1.0)


def _bags(indices: Tensor, offsets: Any, include_last: bool) -> tuple[Tensor | None, int]:
    """The bag of each item, counted from 1 (None: as many each), and how many there are."""
    if indices.ndim == 2 and offsets is None:
        return None, indices.shape[0]
    if indices.ndim != 1 or offsets is None:
        raise ShapeError(
            f"embedding_bag cannot take {indices.type} with offsets {offsets!r}",
            why="It takes [bags, size] without offsets, or [items] with offsets [bags].",
            fix="change the shape, or the offsets",
        )
    starts = as_indices("embedding_bag", offsets)
    require_rank("embedding_bag", "offsets", starts.type, 1)
    count = starts.shape[0] - bool(include_last)
    begun = ops.expand_dims(starts[:count], 1) <= ops.arange(indices.shape[0])
    return ops.sum(ops.astype(begun, int64), axis=0), count


def _summed(rows: Tensor, bags: Tensor | None, count: int) -> Tensor:
    """The sums over bags of ``rows`` [items, features]; what comes before the first is left out."""
    items, features = rows.shape
    if bags is None:
        size = items // count if count else 0
        return ops.sum(ops.reshape(rows, (count, size, features)), axis=1)
    sums = ops.zeros((count + 1, features), dtype=rows.dtype)
    return ops.index_add(sums, bags, rows, axis=0)[1:]


def _greatest(rows: Tensor, bags: Tensor | None, count: int, counted: Tensor | None) -> Tensor:
    items, features = rows.shape
    if not items or not count:
        return ops.broadcast_to(ops.sum(rows[:0], axis=0), (count, features))
    if bags is None:
        size = items // count
        rows = ops.reshape(rows, (count, size, features))
        if counted is None:
            return ops.max(rows, axis=1)
        member = ops.reshape(counted, (count, size, 1))
    else:
        member = ops.reshape(ops.arange(1, count + 1), (count, 1)) == bags
        member = ops.expand_dims(member if counted is None else member & counted, 2)
    found = ops.max(ops.where(member, rows, -math.inf), axis=1)
    return ops.where(ops.any(member, axis=1), found, 0.0)
