"""The layers' computations as functions."""

from __future__ import annotations

from typing import Any

from hybrid import random
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.ctc import ctc_loss as ctc_loss
from hybrid.ops import adaptive_avg_pool1d as adaptive_avg_pool1d
from hybrid.ops import adaptive_avg_pool2d as adaptive_avg_pool2d
from hybrid.ops import adaptive_avg_pool3d as adaptive_avg_pool3d
from hybrid.ops import adaptive_max_pool1d as adaptive_max_pool1d
from hybrid.ops import adaptive_max_pool2d as adaptive_max_pool2d
from hybrid.ops import adaptive_max_pool3d as adaptive_max_pool3d
from hybrid.ops import argmax, gelu_tanh, log, maximum, stop_gradient, where
from hybrid.ops import avg_pool1d as avg_pool1d
from hybrid.ops import avg_pool2d as avg_pool2d
from hybrid.ops import avg_pool3d as avg_pool3d
from hybrid.ops import batch_norm as batch_norm
from hybrid.ops import binary_cross_entropy as binary_cross_entropy
from hybrid.ops import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from hybrid.ops import cdist as cdist
from hybrid.ops import celu as celu
from hybrid.ops import conv1d as conv1d
from hybrid.ops import conv2d as conv2d
from hybrid.ops import conv3d as conv3d
from hybrid.ops import conv_transpose1d as conv_transpose1d
from hybrid.ops import conv_transpose2d as conv_transpose2d
from hybrid.ops import conv_transpose3d as conv_transpose3d
from hybrid.ops import cosine_embedding_loss as cosine_embedding_loss
from hybrid.ops import cosine_similarity as cosine_similarity
from hybrid.ops import cross_entropy as cross_entropy
from hybrid.ops import elu as elu
from hybrid.ops import embedding as embedding
from hybrid.ops import flatten as flatten
from hybrid.ops import fold as fold
from hybrid.ops import gaussian_nll_loss as gaussian_nll_loss
from hybrid.ops import gelu as exact_gelu
from hybrid.ops import glu as glu
from hybrid.ops import group_norm as group_norm
from hybrid.ops import hardshrink as hardshrink
from hybrid.ops import hardsigmoid as hardsigmoid
from hybrid.ops import hardswish as hardswish
from hybrid.ops import hardtanh as hardtanh
from hybrid.ops import hinge_embedding_loss as hinge_embedding_loss
from hybrid.ops import huber_loss as huber_loss
from hybrid.ops import instance_norm as instance_norm
from hybrid.ops import interpolate as interpolate
from hybrid.ops import kl_div as kl_div
from hybrid.ops import l1_loss as l1_loss
from hybrid.ops import layer_norm as layer_norm
from hybrid.ops import leaky_relu as leaky_relu
from hybrid.ops import linear as linear
from hybrid.ops import log_softmax as log_softmax
from hybrid.ops import logsigmoid as logsigmoid
from hybrid.ops import margin_ranking_loss as margin_ranking_loss
from hybrid.ops import max_pool1d as max_pool1d
from hybrid.ops import max_pool2d as max_pool2d
from hybrid.ops import max_pool3d as max_pool3d
from hybrid.ops import mish as mish
from hybrid.ops import mse_loss as mse_loss
from hybrid.ops import multi_margin_loss as multi_margin_loss
from hybrid.ops import multilabel_margin_loss as multilabel_margin_loss
from hybrid.ops import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from hybrid.ops import nll_loss as nll_loss
from hybrid.ops import normalize as normalize_by
from hybrid.ops import one_hot as one_hot
from hybrid.ops import pairwise_distance as pairwise_distance
from hybrid.ops import pixel_shuffle as pixel_shuffle
from hybrid.ops import pixel_unshuffle as pixel_unshuffle
from hybrid.ops import poisson_nll_loss as poisson_nll_loss
from hybrid.ops import prelu as prelu
from hybrid.ops import relu as relu
from hybrid.ops import relu6 as relu6
from hybrid.ops import rms_norm as rms_norm
from hybrid.ops import selu as selu
from hybrid.ops import sigmoid as sigmoid
from hybrid.ops import silu as silu
from hybrid.ops import smooth_l1_loss as smooth_l1_loss
from hybrid.ops import soft_margin_loss as soft_margin_loss
from hybrid.ops import softmax as softmax
from hybrid.ops import softmin as softmin
from hybrid.ops import softplus as plain_softplus
from hybrid.ops import softshrink as softshrink
from hybrid.ops import softsign as softsign
from hybrid.ops import tanh as tanh
from hybrid.ops import tanhshrink as tanhshrink
from hybrid.ops import threshold as threshold
from hybrid.ops import triplet_margin_loss as triplet_margin_loss
from hybrid.ops import unfold as unfold
from hybrid.ops.attention import attention
from hybrid.ops.checks import as_tensor, normalize_axis, require_choice, require_floating
from hybrid.tensor import Tensor


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function at ``x``, or its approximation by ``"tanh"``."""
    require_choice("approximate", approximate, ("none", "tanh"))
    return gelu_tanh(x) if approximate == "tanh" else exact_gelu(x)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """``x`` with each element zeroed with probability ``p``, the others scaled by ``1 / (1 - p)``.

    Draws come from the default generator of ``hybrid.random``; unless ``training``, ``x`` is
    returned as it is (Srivastava et al. 2014).
    """
    require_probability(p)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    return where(random.uniform(size=x.shape) >= p, x * (1 / (1 - p)), 0.0)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""
    if not beta > 0:
        raise ArgumentError(f"softplus got beta {beta}", fix="give a number above 0")
    x = as_tensor(x)
    scaled = x * beta
    return where(scaled > threshold, x, plain_softplus(scaled) / beta)


def rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """``x`` above zero, ``x`` times a slope from [lower, upper) below (Xu et al. 2015).

    Each element draws its slope from the default generator; unless ``training`` it is the mean.
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu got slopes from {lower} to {upper}", fix="give lower <= upper")
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    x = as_tensor(x)
    above = x > 0
    dtype = x.dtype if x.dtype.is_floating else None
    slopes = random.uniform(lower, upper, x.shape, dtype=dtype)
    return where(above, x, slopes * where(above, 0.0, x))


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Softmax of (``logits`` plus Gumbel noise) over ``tau``: nearly one-hot draws of classes.

    ``hard`` draws are one-hot, with the gradient of the others (Jang et al. 2017).
    """
    if not tau > 0:
        raise ArgumentError(f"gumbel_softmax got tau {tau}", fix="give a number above 0")
    logits = as_tensor(logits)
    require_floating("gumbel_softmax", logits=logits.type)
    uniform = maximum(random.uniform(size=logits.shape, dtype=logits.dtype), 2.0**-25)
    soft = softmax((logits - log(-log(uniform))) / tau, axis)
    if not hard:
        return soft
    axis = normalize_axis("gumbel_softmax", axis, logits.ndim)
    places = argmax(soft, axis=axis)
    codes = one_hot(places, logits.shape[axis], axis=axis, dtype=logits.dtype)
    return codes + (soft - stop_gradient(soft))  # the bracket is 0


def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """``x`` over its ``p``-norm along ``axis``, which counts as ``eps`` at least."""
    return normalize_by(x, axis, ord=p, eps=eps)


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


def require_probability(p: Any) -> None:
    """Raise unless ``p`` is a number in [0, 1]."""
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise ArgumentTypeError(f"the probability {p!r} is not a number")
    if not 0 <= p <= 1:
        raise ArgumentError(f"a probability of {p}", fix="give a number from 0 to 1")
