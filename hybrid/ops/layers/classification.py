"""Losses of classes and of probabilities, and one-hot codes."""

from __future__ import annotations

import math
from typing import Any

from hybrid.core.types import bool_, int64
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.ops.axes.cumulative import cumulative_sum
from hybrid.ops.axes.reduction import any, mean, sum
from hybrid.ops.elementwise.activation import softplus
from hybrid.ops.elementwise.arithmetic import maximum
from hybrid.ops.elementwise.bit_logic import logical_and, logical_not
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.elementwise.exponential import exp, log
from hybrid.ops.elementwise.powers import square
from hybrid.ops.elementwise.value_checks import require_values
from hybrid.ops.index.indexing import as_indices, take, take_along_axis
from hybrid.ops.layers.losses import paired, reduced, require_parameter, weighted
from hybrid.ops.layers.softmax import class_at, class_entropy, log_softmax
from hybrid.ops.shapes.creation import arange
from hybrid.ops.shapes.shape import expand_dims, flatten, moveaxis, reshape_to
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import converted
from hybrid.ops.support.operand_checks import (
    as_tensor,
    is_number,
    normalize_axis,
    optional_dtype,
    require_floating,
    require_shape,
    type_of,
)


@remembered_of_any
def one_hot(indices: Any, num_classes: int, /, *, axis: int = -1, dtype: Any = None) -> Any:
    """A new axis of ``num_classes``: 1 at the index, 0 elsewhere (all 0 for one out of range)."""
    indices = as_indices("one_hot", indices)
    codes = reshaped(indices, (*indices.shape, 1)) == arange(num_classes)
    codes = converted(codes, optional_dtype(dtype, int64))
    axis = normalize_axis("one_hot", axis, len(codes.shape))
    return codes if axis == len(codes.shape) - 1 else moveaxis(codes, -1, axis)


# Classes -----------------------------------------------------------------------------------------


@remembered_of_any
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    axis: int | None = None,
) -> Any:
    """The negative log-likelihood of classes ``target`` under softmax of the logits ``input``.

    The classes lie along ``axis``: by default axis 1 (axis 0 of 1-d logits).  ``target`` holds
    integers of the shape of the others, or probabilities of the shape of ``input``.  ``weight``
    [classes] scales the terms; the mean is then over the sum of the targets' weights.  Targets
    equal to ``ignore_index`` do not count; any other outside the classes raises OutOfRangeError.
    ``label_smoothing`` spreads that much of each target over all classes.
    """
    name = "cross_entropy"
    logits, target = as_tensor(input), as_tensor(target)
    axis = _class_axis(name, logits, axis)
    classes = logits.shape[axis]
    if not is_number(label_smoothing) or not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"{name} got label_smoothing {label_smoothing!r}", fix="give a number in [0, 1]"
        )
    weight = _class_weight(name, weight, logits, classes)
    if target.dtype.is_floating:
        _require_probabilities(name, logits, target)
        if ignore_index not in (None, -100):
            raise ArgumentError(
                f"{name} got ignore_index {ignore_index} for probabilities",
                fix="give the targets as class indices, or leave it out",
            )
        return _soft_entropy(logits, target, weight, axis, reduction, label_smoothing)
    flat, wanted, counted, shape = _rows(name, logits, target, ignore_index, axis)
    loss = class_entropy(flat, wanted)
    shares = None if weight is None else take(weight, wanted, axis=0)
    loss = loss if shares is None else loss * shares
    if label_smoothing:
        logs = log_softmax(flat)
        even = -(mean(logs, axis=-1) if weight is None else sum(logs * weight, axis=-1) / classes)
        loss = (1 - label_smoothing) * loss + label_smoothing * even
    return _counted(loss, counted, shares, shape, reduction)


def _class_axis(name: str, logits: Any, axis: int | None) -> int:
    rank = len(logits.shape)
    require_floating(name, input=type_of(logits))
    return normalize_axis(name, min(1, rank - 1) if axis is None else axis, rank)


def _class_weight(name: str, weight: Any, logits: Any, classes: int) -> Any:
    if weight is None:
        return None
    weight = converted(as_tensor(weight), logits.dtype)
    require_shape(name, "weight", type_of(weight), (classes,))
    return weight


def _require_probabilities(name: str, logits: Any, target: Any) -> None:
    """Raise for class indices in a floating dtype, which have one axis less than probabilities."""
    if len(target.shape) == len(logits.shape) - 1:
        raise DTypeError(
            f"{name} cannot take {type_of(target)} as the classes of {type_of(logits)}",
            why="Targets of a floating dtype are probabilities, one for each class.",
            fix="convert class indices with target.astype(hybrid.int64)",
        )


def _rows(
    name: str, logits: Any, target: Any, ignore_index: int | None, axis: int
) -> tuple[Any, Any, Any, tuple[int, ...]]:
    """The logits as [n, classes], the targets as [n], which of them count (None: all), and the
    shape that they had.
    """
    target = as_indices(name, target)
    rows = moveaxis(logits, axis, -1)
    if rows.shape[:-1] != target.shape:
        raise ShapeError(
            f"{name} cannot take {type_of(logits)} and {type_of(target)}",
            why=f"The targets must have the shape of the logits without axis {axis}.",
            fix="change the shape of the targets, or give the axis of the classes",
        )
    if ignore_index is not None and (
        isinstance(ignore_index, bool) or not isinstance(ignore_index, int)
    ):
        raise ArgumentTypeError(f"{name} got ignore_index {ignore_index!r}", fix="give an int")
    flat = reshape_to(rows, shape=(math.prod(target.shape), logits.shape[axis]))
    wanted = flatten(target)
    counted = None if ignore_index is None else wanted != ignore_index
    if counted is not None:
        wanted = where(counted, wanted, 0)
    return flat, wanted, counted, target.shape


def _counted(loss: Any, counted: Any, shares: Any, shape: tuple[int, ...], reduction: str) -> Any:
    """The reduction of what counts; a mean is over the sum of its ``shares`` (None: 1 each)."""
    if counted is None and shares is None:
        return reduced(reshaped(loss, shape), reduction)
    if counted is not None:
        loss = where(counted, loss, 0.0)
        one = converted(counted, loss.dtype)
        shares = one if shares is None else where(counted, shares, 0.0)
    if reduction == "mean":
        return sum(loss) / sum(shares)
    return reduced(reshaped(loss, shape), reduction)


def _soft_entropy(
    logits: Any, target: Any, weight: Any, axis: int, how: str, label_smoothing: float
) -> Any:
    logits, target = paired("cross_entropy", logits, target)
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / logits.shape[axis]
    if weight is not None:
        sizes = [1] * len(logits.shape)
        sizes[axis] = logits.shape[axis]
        target = target * reshaped(converted(weight, target.dtype), tuple(sizes))
    return reduced(-sum(target * log_softmax(logits, axis), axis=axis), how)


@remembered_of_any
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    axis: int | None = None,
) -> Any:
    """``-input`` at the classes ``target``, for log-probabilities ``input``.

    Axes, ``weight``, ``ignore_index`` and the mean are those of ``cross_entropy``.
    """
    logs = as_tensor(input)
    axis = _class_axis("nll_loss", logs, axis)
    weight = _class_weight("nll_loss", weight, logs, logs.shape[axis])
    flat, wanted, counted, shape = _rows("nll_loss", logs, as_tensor(target), ignore_index, axis)
    loss = -class_at(flat, wanted)
    shares = None if weight is None else take(weight, wanted, axis=0)
    loss = loss if shares is None else loss * shares
    return _counted(loss, counted, shares, shape, reduction)


@remembered_of_any
def multi_margin_loss(
    input: Any,
    target: Any,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """The mean over classes j but ``target`` of ``max(0, margin - input[target] + input[j]) ** p``.

    ``input`` is [n, classes] or [classes], ``p`` 1 or 2; ``weight`` [classes] is that of targets.
    """
    name = "multi_margin_loss"
    require_parameter(name, "margin", margin)
    if p not in (1, 2):
        raise ArgumentError(f"{name} got p {p!r}", fix="give 1 or 2")
    scores = as_tensor(input)
    axis = _class_axis(name, scores, -1)
    weight = _class_weight(name, weight, scores, scores.shape[axis])
    flat, wanted, _, shape = _rows(name, scores, as_tensor(target), None, axis)
    classes = flat.shape[1]
    behind = maximum(margin - reshaped(class_at(flat, wanted), (flat.shape[0], 1)) + flat, 0.0)
    column = reshaped(wanted, (flat.shape[0], 1))
    terms = where(column == arange(classes), 0.0, behind if p == 1 else square(behind))
    loss = sum(terms, axis=1) / classes
    loss = loss if weight is None else loss * take(weight, wanted, axis=0)
    return reduced(reshaped(loss, shape), reduction)


@remembered_of_any
def multilabel_margin_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The sum over target classes j and others i of ``max(0, 1 - input[j] + input[i])``, over the
    number of classes.

    ``input`` and ``target`` are [n, classes] or [classes]; the targets of a row end before the
    first negative one.
    """
    name = "multilabel_margin_loss"
    scores, target = as_tensor(input), as_indices(name, target)
    axis = _class_axis(name, scores, -1)
    if axis > 1 or scores.shape != target.shape:
        raise ShapeError(
            f"{name} cannot take {type_of(scores)} and {type_of(target)}",
            why="Both are [n, classes] or [classes]; targets are filled up with -1.",
            fix="change a shape",
        )
    classes = scores.shape[axis]
    counted = cumulative_sum(converted(target < 0, int64), axis=axis) == 0
    wanted = where(counted, target, 0)
    chosen = one_hot(wanted, classes, dtype=bool_)
    is_target = any(logical_and(chosen, reshaped(counted, (*counted.shape, 1))), axis=-2)
    at_target = reshaped(take_along_axis(scores, wanted, axis=axis), (*target.shape, 1))
    terms = maximum(1 - at_target + expand_dims(scores, -2), 0.0)
    pairs = logical_and(
        reshaped(counted, (*counted.shape, 1)), logical_not(expand_dims(is_target, -2))
    )
    return reduced(sum(where(pairs, terms, 0.0), axis=(-2, -1)) / classes, reduction)


# Probabilities -----------------------------------------------------------------------------------


@remembered_of_any
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """The negative log-likelihood of ``target`` under the probabilities ``input``.

    Logarithms end at -100, and with them the gradient.  ``weight`` broadcasts to the terms.  What
    is no probability is an ArgumentError.
    """
    input, target = paired("binary_cross_entropy", input, target)
    input = require_values(input, subject="probability")
    loss = -(target * _bounded_log(input) + (1 - target) * _bounded_log(1 - input))
    return reduced(weighted("binary_cross_entropy", loss, weight), reduction)


def _bounded_log(x: Any) -> Any:
    zero = x == 0
    return where(zero, -100.0, maximum(log(where(zero, 1.0, x)), -100.0))


@remembered_of_any
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    pos_weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of ``target`` under sigmoid of ``input``, without overflow.

    ``weight`` broadcasts to the terms; ``pos_weight`` scales those of targets 1.
    """
    name = "binary_cross_entropy_with_logits"
    logits, target = paired(name, input, target)
    loss = _logit_entropy(name, logits, target, pos_weight)
    return reduced(weighted(name, loss, weight), reduction)


def _logit_entropy(name: str, logits: Any, target: Any, pos_weight: Any = None) -> Any:
    """``-pos_weight * target * log(s) - (1 - target) * log(1 - s)`` of ``s = sigmoid(logits)``.

    A logarithm is that of ``1 + exp(-abs(logits))`` and a line, whose slope is exact: nothing large
    cancels, so the loss of a confident and right prediction is small and not 0.
    """
    above = logits > 0
    tail = softplus(where(above, -logits, logits))
    slope = -target
    if pos_weight is not None:
        more = weighted(name, target, converted(as_tensor(pos_weight), target.dtype) - 1)
        tail, slope = (1 + more) * tail, slope - more
    return where(above, 1 - target, slope) * logits + tail


@remembered_of_any
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """The mean over the last axis of ``binary_cross_entropy_with_logits``."""
    name = "multilabel_soft_margin_loss"
    logits, target = paired(name, input, target)
    normalize_axis(name, -1, len(logits.shape))
    loss = weighted(name, _logit_entropy(name, logits, target), weight)
    return reduced(mean(loss, axis=-1), reduction)


@remembered_of_any
def kl_div(input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Any:
    """``target * (log(target) - input)`` for log-probabilities ``input``; 0 for a target of 0.

    ``log_target``: the targets are logarithms, too.  The reduction ``"batchmean"`` is the sum over
    the size of the first axis.
    """
    input, target = paired("kl_div", input, target)
    if log_target:
        known = target != -math.inf  # NaN stays NaN
        target = where(known, target, 0.0)
        terms = exp(target) * (target - where(known, input, 0.0))
    else:
        known = target > 0
        terms = target * (log(where(known, target, 1.0)) - where(known, input, 0.0))
    loss = where(known, terms, 0.0)
    if reduction != "batchmean":
        return reduced(loss, reduction)
    normalize_axis("kl_div", 0, len(loss.shape))
    return sum(loss) / loss.shape[0]
