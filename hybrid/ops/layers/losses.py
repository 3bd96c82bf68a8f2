"""Losses of numbers and of vectors; classification.py has those of classes."""

from __future__ import annotations

import math
from typing import Any

from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.ops.axes.reduction import mean, reduce_sum, sum
from hybrid.ops.elementwise.activation import softplus
from hybrid.ops.elementwise.arithmetic import absolute, maximum
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.elementwise.exponential import exp, log
from hybrid.ops.elementwise.powers import rsqrt, square
from hybrid.ops.elementwise.value_checks import require_values
from hybrid.ops.matrix.norms import pairwise_distance
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.dtypes import common, stop_gradient
from hybrid.ops.support.operand_checks import as_tensor, is_number, listed, type_of


def reduced(loss: Any, how: str) -> Any:
    """``loss`` itself, its mean or its sum, as ``how`` says."""
    if how == "mean":
        return mean(loss)
    if how == "sum":
        return sum(loss)
    if how == "none":
        return loss
    raise ArgumentError(f"no reduction {how!r}", fix='use "mean", "sum" or "none"')


def paired(name: str, *operands: Any) -> list[Any]:
    """All in their common floating dtype; shapes must agree: broadcasting here is nearly always a
    slip.
    """
    found = common(*map(as_tensor, operands))
    types = [type_of(x) for x in found]
    if any(t.shape != types[0].shape for t in types):
        given = [type_of(as_tensor(x)) for x in operands]
        verb = "compare" if len(given) == 2 else "take"
        raise ShapeError(
            f"{name} cannot {verb} {listed(given)}",
            why="Predictions and targets must have one shape.",
            fix="change one shape with reshape",
        )
    if not types[0].dtype.is_floating:
        raise DTypeError(
            f"{name} cannot take {listed(types)}",
            why="Predictions have a floating dtype.",
            fix="convert them with astype, to float32 for example",
        )
    return found


def weighted(name: str, loss: Any, weight: Any) -> Any:
    """``loss`` times ``weight`` (None: 1), which must broadcast to it."""
    if weight is None:
        return loss
    loss, weight = common(loss, as_tensor(weight))
    shape, own = loss.shape, weight.shape
    lead = len(shape) - len(own)
    if lead < 0 or any(n not in (1, m) for n, m in zip(own, shape[lead:], strict=True)):
        raise ShapeError(
            f"{name} cannot use a weight {type_of(weight)}",
            why=f"It must broadcast to the losses, {list(shape)}.",
            fix="change its shape with reshape or expand_dims",
        )
    return loss * weight


def require_parameter(name: str, label: str, value: Any, low: float = -math.inf) -> None:
    """Raise unless ``value`` is a number of at least ``low``."""
    if not is_number(value) or not value >= low:
        bound = "" if low == -math.inf else f" of at least {low:g}"
        raise ArgumentError(f"{name} got {label} {value!r}", fix=f"give a number{bound}")


# Numbers -----------------------------------------------------------------------------------------


@remembered_of_any
def mse_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Squared differences."""
    input, target = paired("mse_loss", input, target)
    return reduced(square(input - target), reduction)


@remembered_of_any
def l1_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Absolute differences."""
    input, target = paired("l1_loss", input, target)
    return reduced(absolute(input - target), reduction)


@remembered_of_any
def huber_loss(input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the squared difference up to ``delta``, linear beyond (Huber 1964)."""
    require_parameter("huber_loss", "delta", delta, 0)
    input, target = paired("huber_loss", input, target)
    apart = absolute(input - target)
    near = apart <= delta
    bounded = where(near, apart, 0.0)  # the side not taken must not overflow
    return reduced(where(near, 0.5 * square(bounded), delta * (apart - 0.5 * delta)), reduction)


@remembered_of_any
def smooth_l1_loss(input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0) -> Any:
    """The Huber loss over ``beta``, and the absolute difference for a ``beta`` of 0."""
    require_parameter("smooth_l1_loss", "beta", beta, 0)
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return huber_loss(input, target, delta=beta, reduction=reduction) / beta


@remembered_of_any
def poisson_nll_loss(
    input: Any,
    target: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of counts ``target`` under Poisson distributions.

    ``input`` is the logarithm of the rate, or the rate itself without ``log_input`` (``eps`` is
    then added under the logarithm).  ``full`` adds Stirling's approximation of ``log(target!)``
    for targets above 1.
    """
    input, target = paired("poisson_nll_loss", input, target)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        many = target > 1
        count = where(many, target, 1.0)
        stirling = count * log(count) - count + 0.5 * log(2 * math.pi * count)
        loss = loss + where(many, stirling, 0.0)
    return reduced(loss, reduction)


@remembered_of_any
def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of ``target`` under normal distributions of mean ``input``.

    ``var``, their variance, broadcasts to them, or has their shape without the last axis; it counts
    as ``eps`` at least, which changes values and not what gradients flow back to it.  ``full`` adds
    the constant ``log(2 pi) / 2``.  A variance below 0 is an ArgumentError.
    """
    name = "gaussian_nll_loss"
    require_parameter(name, "eps", eps, 0)
    input, target = paired(name, input, target)
    input, target, var = common(input, target, as_tensor(var))
    shape, own = input.shape, var.shape
    if own != shape and own == shape[:-1]:
        var = reshaped(var, own := (*own, 1))
    lead = len(shape) - len(own)
    if lead < 0 or any(n not in (1, m) for n, m in zip(own, shape[lead:], strict=True)):
        raise ShapeError(
            f"{name} cannot use a variance {type_of(var)} for {type_of(input)}",
            why="It must broadcast to that, or have its shape without the last axis.",
            fix="change its shape with reshape or expand_dims",
        )
    var = require_values(var, subject="variance")
    var = where(var < eps, eps + (var - stop_gradient(var)), var)
    loss = 0.5 * (log(var) + square(input - target) / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


# Vectors and margins -----------------------------------------------------------------------------


@remembered_of_any
def hinge_embedding_loss(
    input: Any, target: Any, *, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """``input`` where ``target`` is 1, ``max(0, margin - input)`` where it is -1."""
    require_parameter("hinge_embedding_loss", "margin", margin)
    input, target = paired("hinge_embedding_loss", input, target)
    return reduced(where(target == 1, input, maximum(margin - input, 0.0)), reduction)


@remembered_of_any
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """``max(0, margin - target * (input1 - input2))``: 1 wants the first higher, -1 the second."""
    require_parameter("margin_ranking_loss", "margin", margin)
    input1, input2, target = paired("margin_ranking_loss", input1, input2, target)
    return reduced(maximum(margin - target * (input1 - input2), 0.0), reduction)


@remembered_of_any
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """By the cosine ``c`` of vectors along the last axis: ``1 - c`` where ``target`` is 1,
    ``max(0, c - margin)`` where it is -1.
    """
    name = "cosine_embedding_loss"
    require_parameter(name, "margin", margin)
    input1, input2 = paired(name, input1, input2)
    target = as_tensor(target)
    if not input1.shape or target.shape != input1.shape[:-1]:
        raise ShapeError(
            f"{name} cannot take {listed([type_of(x) for x in (input1, input2, target)])}",
            why="There is one target for each vector along the last axis.",
            fix="change the shape of the targets",
        )

    def dot(a, b):
        return reduce_sum(a * b, axis=(len(a.shape) - 1,), keepdims=False)

    lengths = (dot(input1, input1) + 1e-12) * (dot(input2, input2) + 1e-12)
    cosine = dot(input1, input2) * rsqrt(lengths)
    return reduced(where(target == 1, 1 - cosine, maximum(cosine - margin, 0.0)), reduction)


@remembered_of_any
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` along the last axis.

    ``d`` is ``pairwise_distance`` with ``p`` and ``eps``; with ``swap``, the distance of the
    negative is the smaller of those from anchor and positive (Balntas et al. 2016).
    """
    require_parameter("triplet_margin_loss", "margin", margin)
    anchor, positive, negative = paired("triplet_margin_loss", anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        other = pairwise_distance(positive, negative, p, eps)
        far = where(other < far, other, far)
    return reduced(maximum(margin + near - far, 0.0), reduction)


@remembered_of_any
def soft_margin_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """``log(1 + exp(-target * input))`` for targets 1 and -1, without overflow."""
    input, target = paired("soft_margin_loss", input, target)
    return reduced(softplus(-target * input), reduction)
