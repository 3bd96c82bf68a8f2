"""The layers' computations as functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hybrid import ops, random
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn.ctc import ctc_loss as ctc_loss
from hybrid.nn.dropping import alpha_dropout as alpha_dropout
from hybrid.nn.dropping import dropout as dropout
from hybrid.nn.dropping import dropout1d as dropout1d
from hybrid.nn.dropping import dropout2d as dropout2d
from hybrid.nn.dropping import dropout3d as dropout3d
from hybrid.nn.dropping import feature_alpha_dropout as feature_alpha_dropout
from hybrid.nn.dropping import require_probability as require_probability
from hybrid.nn.lookup import embedding as embedding
from hybrid.nn.lookup import embedding_bag as embedding_bag
from hybrid.nn.multihead import multi_head_attention_forward as multi_head_attention_forward
from hybrid.nn.pads import pad as pad
from hybrid.nn.spelling import with_dim, with_dtype, with_inplace
from hybrid.nn.unpools import lp_pool1d as lp_pool1d
from hybrid.nn.unpools import lp_pool2d as lp_pool2d
from hybrid.nn.unpools import lp_pool3d as lp_pool3d
from hybrid.nn.unpools import max_unpool1d as max_unpool1d
from hybrid.nn.unpools import max_unpool2d as max_unpool2d
from hybrid.nn.unpools import max_unpool3d as max_unpool3d
from hybrid.ops import adaptive_avg_pool1d as adaptive_avg_pool1d
from hybrid.ops import adaptive_avg_pool2d as adaptive_avg_pool2d
from hybrid.ops import adaptive_avg_pool3d as adaptive_avg_pool3d
from hybrid.ops import adaptive_max_pool1d as adaptive_max_pool1d
from hybrid.ops import adaptive_max_pool2d as adaptive_max_pool2d
from hybrid.ops import adaptive_max_pool3d as adaptive_max_pool3d
from hybrid.ops import avg_pool1d as avg_pool1d
from hybrid.ops import avg_pool2d as avg_pool2d
from hybrid.ops import avg_pool3d as avg_pool3d
from hybrid.ops import batch_norm as batch_norm
from hybrid.ops import binary_cross_entropy as binary_cross_entropy
from hybrid.ops import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from hybrid.ops import cdist as cdist
from hybrid.ops import conv1d as conv1d
from hybrid.ops import conv2d as conv2d
from hybrid.ops import conv3d as conv3d
from hybrid.ops import conv_transpose1d as conv_transpose1d
from hybrid.ops import conv_transpose2d as conv_transpose2d
from hybrid.ops import conv_transpose3d as conv_transpose3d
from hybrid.ops import cosine_embedding_loss as cosine_embedding_loss
from hybrid.ops import cross_entropy as cross_entropy
from hybrid.ops import fold as fold
from hybrid.ops import gaussian_nll_loss as gaussian_nll_loss
from hybrid.ops import group_norm as group_norm
from hybrid.ops import hardshrink as hardshrink
from hybrid.ops import hinge_embedding_loss as hinge_embedding_loss
from hybrid.ops import huber_loss as huber_loss
from hybrid.ops import instance_norm as instance_norm
from hybrid.ops import interpolate as interpolate
from hybrid.ops import interpolate as upsample  # noqa: F401  its name of old
from hybrid.ops import kl_div as kl_div
from hybrid.ops import l1_loss as l1_loss
from hybrid.ops import layer_norm as layer_norm
from hybrid.ops import linear as linear
from hybrid.ops import logsigmoid as logsigmoid
from hybrid.ops import margin_ranking_loss as margin_ranking_loss
from hybrid.ops import max_pool1d as max_pool1d
from hybrid.ops import max_pool2d as max_pool2d
from hybrid.ops import max_pool3d as max_pool3d
from hybrid.ops import mse_loss as mse_loss
from hybrid.ops import multi_margin_loss as multi_margin_loss
from hybrid.ops import multilabel_margin_loss as multilabel_margin_loss
from hybrid.ops import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from hybrid.ops import nll_loss as nll_loss
from hybrid.ops import pixel_shuffle as pixel_shuffle
from hybrid.ops import pixel_unshuffle as pixel_unshuffle
from hybrid.ops import poisson_nll_loss as poisson_nll_loss
from hybrid.ops import prelu as prelu
from hybrid.ops import rms_norm as rms_norm
from hybrid.ops import sigmoid as sigmoid
from hybrid.ops import smooth_l1_loss as smooth_l1_loss
from hybrid.ops import soft_margin_loss as soft_margin_loss
from hybrid.ops import softshrink as softshrink
from hybrid.ops import softsign as softsign
from hybrid.ops import tanh as tanh
from hybrid.ops import tanhshrink as tanhshrink
from hybrid.ops import triplet_margin_loss as triplet_margin_loss
from hybrid.ops import unfold as unfold
from hybrid.ops.attention import attention
from hybrid.ops.checks import (
    as_int,
    as_tensor,
    normalize_axis,
    require_choice,
    require_floating,
    require_rank,
)
from hybrid.ops.losses import reduced
from hybrid.ops.normalization import require_channels
from hybrid.tensor import Tensor

# PyTorch's words for arguments: ``dim`` for ``axis``, and ``inplace``, which writes to ``x``.
cosine_similarity = with_dim(ops.cosine_similarity)
flatten = with_dim(ops.flatten)
glu = with_dim(ops.glu)
log_softmax = with_dim(with_dtype(ops.log_softmax))
pairwise_distance = with_dim(ops.pairwise_distance)
softmax = with_dim(with_dtype(ops.softmax))
softmin = with_dim(with_dtype(ops.softmin))
unflatten = with_dim(ops.unflatten)
celu = with_inplace(ops.celu, 1)
elu = with_inplace(ops.elu, 1)
hardsigmoid = with_inplace(ops.hardsigmoid)
hardswish = with_inplace(ops.hardswish)
hardtanh = with_inplace(ops.hardtanh, 2)
leaky_relu = with_inplace(ops.leaky_relu, 1)
mish = with_inplace(ops.mish)
relu = with_inplace(ops.relu)
relu6 = with_inplace(ops.relu6)
selu = with_inplace(ops.selu)
silu = with_inplace(ops.silu)
threshold = with_inplace(ops.threshold, 2)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function at ``x``, or its approximation by ``"tanh"``."""
    require_choice("approximate", approximate, ("none", "tanh"))
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""
    if not beta > 0:
        raise ArgumentError(f"softplus got beta {beta}", fix="give a number above 0")
    x = as_tensor(x)
    scaled = x * beta
    return ops.where(scaled > threshold, x, ops.softplus(scaled) / beta)


def rrelu(
    x: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``x`` above zero, ``x`` times a slope from [lower, upper) below (Xu et al. 2015).

    Each element draws its slope from the default generator; unless ``training`` it is the mean.
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu got slopes from {lower} to {upper}", fix="give lower <= upper")
    if not training:
        return leaky_relu(x, (lower + upper) / 2, inplace)
    x = as_tensor(x)
    above = x > 0
    dtype = x.dtype if x.dtype.is_floating else None
    slopes = random.uniform(lower, upper, x.shape, dtype=dtype)
    y = ops.where(above, x, slopes * ops.where(above, 0.0, x))
    return x.assign(y) if inplace else y


@with_dim
def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Softmax of (``logits`` plus Gumbel noise) over ``tau``: nearly one-hot draws of classes.

    ``hard`` draws are one-hot, with the gradient of the others (Jang et al. 2017).
    """
    if not tau > 0:
        raise ArgumentError(f"gumbel_softmax got tau {tau}", fix="give a number above 0")
    logits = as_tensor(logits)
    require_floating("gumbel_softmax", logits=logits.type)
    uniform = ops.maximum(random.uniform(size=logits.shape, dtype=logits.dtype), 2.0**-25)
    soft = softmax((logits - ops.log(-ops.log(uniform))) / tau, axis)
    if not hard:
        return soft
    axis = normalize_axis("gumbel_softmax", axis, logits.ndim)
    places = ops.argmax(soft, axis=axis)
    codes = ops.one_hot(places, logits.shape[axis], axis=axis, dtype=logits.dtype)
    return codes + (soft - ops.stop_gradient(soft))  # the bracket is 0


@with_dim
def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """``x`` over its ``p``-norm along ``axis``, which counts as ``eps`` at least."""
    return ops.normalize(x, axis, ord=p, eps=eps)


def one_hot(indices: Any, num_classes: int = -1, **options: Any) -> Tensor:
    """A new last axis of ``num_classes`` (-1: the greatest index and one): 1 at the index, else 0.

    ``options`` are the ``axis`` and ``dtype`` of ``hybrid.one_hot``.
    """
    if num_classes == -1:
        indices = as_tensor(indices)
        if indices.size == 0:
            raise ArgumentError("one_hot got no indices", fix="give num_classes")
        num_classes = int(ops.max(indices).item()) + 1
    return ops.one_hot(indices, num_classes, **options)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``y[o] = input1 @ weight[o] @ input2 + bias[o]``: [..., in1] and [..., in2] to [..., out].

    ``weight`` is [out, in1, in2] and ``bias`` [out].
    """
    left, right, weight = as_tensor(input1), as_tensor(input2), as_tensor(weight)
    require_rank("bilinear", "weight", weight.type, 3)
    out, *sizes = weight.shape
    agree = left.ndim and left.shape[:-1] == right.shape[:-1]
    if not agree or [left.shape[-1], right.shape[-1]] != sizes:
        raise ShapeError(
            f"bilinear cannot take {left.type} and {right.type} with weight {weight.type}",
            why="It takes [..., in1], [..., in2] and [out, in1, in2].",
            fix="change a shape",
        )
    count = math.prod(left.shape[:-1])
    table = ops.reshape(ops.permute_dims(weight, (1, 0, 2)), (sizes[0], out * sizes[1]))
    rows = ops.matmul(ops.reshape(left, (count, sizes[0])), table)
    products = ops.matmul(
        ops.reshape(rows, (count, out, sizes[1])), ops.reshape(right, (count, sizes[1], 1))
    )
    y = ops.reshape(products, (*left.shape[:-1], out))
    return y if bias is None else y + bias


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``input`` [N, C, ...] over ``(k + alpha * the mean of squares of size channels) ** beta``.

    The channels are those around each; beyond the first and the last there are zeros (Krizhevsky
    et al. 2012).
    """
    x = as_tensor(input)
    require_channels("local_response_norm", x, 3)
    size = as_int("local_response_norm", "size", size, 1)
    n, channels = x.shape[:2]
    squares = ops.reshape(x * x, (n, 1, channels, math.prod(x.shape[2:])))
    padded = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    means = ops.avg_pool2d(padded, (size, 1), stride=1) if x.size else squares
    return x / (k + alpha * ops.reshape(means, x.shape)) ** beta


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """The channels of [N, C, ...] dealt out: the first of each of ``groups``, the second ..."""
    x = as_tensor(input)
    require_channels("channel_shuffle", x, 2)
    groups = as_int("channel_shuffle", "groups", groups, 1)
    n, channels, *rest = x.shape
    if channels % groups:
        raise ShapeError(
            f"channel_shuffle cannot make {groups} groups of {channels} channels",
            why="All groups have as many channels.",
            fix="give a divisor of the number of channels",
        )
    dealt = ops.reshape(x, (n, groups, channels // groups, math.prod(rest)))
    return ops.reshape(ops.permute_dims(dealt, (0, 2, 1, 3)), x.shape)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` for a distance of one's own.

    ``distance_function`` is ``pairwise_distance`` unless given; ``swap`` is that of
    ``triplet_margin_loss``.
    """
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        other = distance(positive, negative)
        far = ops.where(other < far, other, far)
    return reduced(ops.maximum(margin + near - far, 0.0), reduction)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(scale * query keyᵀ + attn_mask) value`` (Vaswani et al. 2017).

    ``query`` is [..., L, E], ``key`` [..., S, E], ``value`` [..., S, D], the result [..., L, D];
    batches and heads, the leading axes, broadcast.  ``attn_mask`` broadcasts to [..., L, S]: True
    where a key takes part, or numbers that are added; a query without keys gives 0.  ``is_causal``
    lets query i see the keys up to i.  ``scale`` is ``1 / sqrt(E)`` unless given.  ``dropout_p``:
    the probability with which a weight becomes 0.  With ``enable_gqa``, heads (axis -3) of key and
    value are each shared by as many of the query.
    """
    require_probability(dropout_p)
    return attention(
        query,
        key,
        value,
        attn_mask,
        drop=None if dropout_p == 0 else lambda weights: dropout(weights, dropout_p),
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
