"""Loss functions and what belongs to them: one-hot codes, dropout."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.activation import softplus
from hybrid.ops.arithmetic import absolute, maximum
from hybrid.ops.checks import as_tensor, normalize_axis, optional_dtype, type_of
from hybrid.ops.comparison import where
from hybrid.ops.creation import arange
from hybrid.ops.derivatives import reshaped
from hybrid.ops.dtypes import common, converted, identity
from hybrid.ops.exponential import log
from hybrid.ops.indexing import as_indices, take_along_axis
from hybrid.ops.powers import square
from hybrid.ops.random import random_uniform
from hybrid.ops.reduction import mean, sum
from hybrid.ops.shape import flatten, moveaxis, reshape_to
from hybrid.ops.softmax import class_entropy, log_softmax
from hybrid.types import float32, int64


def one_hot(indices: Any, num_classes: int, /, *, axis: int = -1, dtype: Any = None) -> Any:
    """A new axis of ``num_classes``: 1 at the index, 0 elsewhere (all 0 for one out of range)."""
    indices = as_indices("one_hot", indices)
    codes = reshaped(indices, (*indices.shape, 1)) == arange(num_classes)
    codes = converted(codes, optional_dtype(dtype, int64))
    axis = normalize_axis("one_hot", axis, len(codes.shape))
    return codes if axis == len(codes.shape) - 1 else moveaxis(codes, -1, axis)


def dropout(x: Any, rate: float, state: Any) -> Any:
    """``x`` with each element zeroed with probability ``rate``, the others scaled to keep the mean.

    ``state`` is the i64[2] (seed, counter) that the draws come from.
    """
    x = as_tensor(x)
    if not 0 <= rate <= 1:
        raise ArgumentError(f"dropout got rate {rate}", fix="give a probability in [0, 1]")
    if rate == 0:
        return identity(x)
    kept = random_uniform(state, shape=x.shape, dtype=float32) >= rate
    return where(kept, x * (1 / (1 - rate) if rate < 1 else 0.0), 0.0)


def _reduced(loss: Any, how: str) -> Any:
    if how == "mean":
        return mean(loss)
    if how == "sum":
        return sum(loss)
    if how == "none":
        return loss
    raise ArgumentError(f"no reduction {how!r}", fix='use "mean", "sum" or "none"')


def _pair(name: str, prediction: Any, target: Any) -> tuple[Any, Any]:
    """Both in their common dtype; shapes must agree: broadcasting here is nearly always a slip."""
    prediction, target = common(prediction, target)
    if prediction.shape != target.shape:
        raise ShapeError(
            f"{name} cannot compare {type_of(prediction)} and {type_of(target)}",
            why="Predictions and targets must have one shape.",
            fix="change one shape with reshape",
        )
    return prediction, target


def mse_loss(prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Squared differences."""
    prediction, target = _pair("mse_loss", prediction, target)
    return _reduced(square(prediction - target), reduction)


def l1_loss(prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Absolute differences."""
    prediction, target = _pair("l1_loss", prediction, target)
    return _reduced(absolute(prediction - target), reduction)


def huber_loss(prediction: Any, target: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Half the squared difference up to ``delta``, linear beyond (Huber 1964)."""
    prediction, target = _pair("huber_loss", prediction, target)
    apart = absolute(prediction - target)
    loss = where(apart <= delta, 0.5 * square(apart), delta * (apart - 0.5 * delta))
    return _reduced(loss, reduction)


def smooth_l1_loss(
    prediction: Any, target: Any, *, beta: float = 1.0, reduction: str = "mean"
) -> Any:
    """The Huber loss over ``beta``."""
    if beta == 0:
        return l1_loss(prediction, target, reduction=reduction)
    return huber_loss(prediction, target, delta=beta, reduction=reduction) / beta


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    axis: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> Any:
    """The negative log-likelihood of class ``targets`` under softmax of ``logits``.

    The classes lie along ``axis``: by default axis 1 (axis 0 of 1-d logits).  ``targets`` are
    integers of the shape of the others, or probabilities of the shape of ``logits``.  Targets equal
    to ``ignore_index`` do not count; any other outside the classes raises OutOfRangeError.
    """
    logits, targets = as_tensor(logits), as_tensor(targets)
    rank = len(logits.shape)
    axis = normalize_axis("cross_entropy", min(1, rank - 1) if axis is None else axis, rank)
    if targets.dtype.is_floating:
        return _soft_entropy(logits, targets, axis, reduction, label_smoothing)
    targets = as_indices("cross_entropy", targets)
    classes = logits.shape[axis]
    rows = moveaxis(logits, axis, -1)
    if rows.shape[:-1] != targets.shape:
        raise ShapeError(
            f"cross_entropy cannot take {type_of(logits)} and {type_of(targets)}",
            why=f"The targets must have the shape of the logits without axis {axis}.",
            fix="change the shape of the targets, or give the axis of the classes",
        )
    flat = reshape_to(rows, shape=(math.prod(targets.shape), classes))
    wanted = flatten(targets)
    counted = None if ignore_index is None else wanted != ignore_index
    if counted is not None:
        wanted = where(counted, wanted, 0)
    loss = class_entropy(flat, wanted)
    if label_smoothing:
        even = -mean(log_softmax(flat), axis=-1)
        loss = (1 - label_smoothing) * loss + label_smoothing * even
    if counted is None:
        return _reduced(reshaped(loss, targets.shape), reduction)
    loss = where(counted, loss, 0.0)
    if reduction == "mean":
        return _reduced(loss, "sum") / _reduced(converted(counted, loss.dtype), "sum")
    return _reduced(reshaped(loss, targets.shape), reduction)


def _soft_entropy(logits: Any, targets: Any, axis: int, how: str, label_smoothing: float) -> Any:
    logits, targets = _pair("cross_entropy", logits, targets)
    if label_smoothing:
        targets = (1 - label_smoothing) * targets + label_smoothing / logits.shape[axis]
    loss = -sum(targets * log_softmax(logits, axis), axis=axis)
    return _reduced(loss, how)


def nll_loss(log_probabilities: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """``-log_probabilities[i, targets[i]]`` for class targets."""
    targets = as_indices("nll_loss", targets)
    chosen = take_along_axis(log_probabilities, reshaped(targets, (*targets.shape, 1)), axis=-1)
    return _reduced(-reshaped(chosen, targets.shape), reduction)


def binary_cross_entropy(prediction: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The negative log-likelihood of ``target`` under probabilities; logarithms end at -100."""
    prediction, target = _pair("binary_cross_entropy", prediction, target)
    yes, no = maximum(log(prediction), -100.0), maximum(log(1 - prediction), -100.0)
    return _reduced(-(target * yes + (1 - target) * no), reduction)


def binary_cross_entropy_with_logits(
    logits: Any, target: Any, *, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """The negative log-likelihood of ``target`` under sigmoid of ``logits``, without overflow."""
    logits, target = _pair("binary_cross_entropy_with_logits", logits, target)
    if pos_weight is None:
        return _reduced(softplus(logits) - target * logits, reduction)
    weight = 1 + (as_tensor(pos_weight) - 1) * target
    return _reduced((1 - target) * logits + weight * softplus(-logits), reduction)


def kl_div(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """``target * (log(target) - input)`` for log-probabilities ``input``; 0 for a target of 0."""
    input, target = _pair("kl_div", input, target)
    known = target > 0
    log_target = log(where(known, target, 1.0))
    return _reduced(where(known, target * (log_target - input), 0.0), reduction)
