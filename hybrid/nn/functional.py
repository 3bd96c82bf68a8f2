"""The layers' computations as functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hybrid import ops, random
from hybrid.core.other_names import FUNCTIONAL, missing_member
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn.functions.ctc import ctc_loss as ctc_loss
from hybrid.nn.functions.dropout_kinds import alpha_dropout as alpha_dropout
from hybrid.nn.functions.dropout_kinds import dropout as dropout
from hybrid.nn.functions.dropout_kinds import dropout1d as dropout1d
from hybrid.nn.functions.dropout_kinds import dropout2d as dropout2d
from hybrid.nn.functions.dropout_kinds import dropout3d as dropout3d
from hybrid.nn.functions.dropout_kinds import feature_alpha_dropout as feature_alpha_dropout
from hybrid.nn.functions.dropout_kinds import require_probability as require_probability
from hybrid.nn.functions.embedding_rows import embedding as embedding
from hybrid.nn.functions.embedding_rows import embedding_bag as embedding_bag
from hybrid.nn.functions.grids import affine_grid as affine_grid
from hybrid.nn.functions.grids import grid_sample as grid_sample
from hybrid.nn.functions.multihead import (
    multi_head_attention_forward as multi_head_attention_forward,
)
from hybrid.nn.functions.pads import pad as pad
from hybrid.nn.functions.spelling import (
    in_order,
    in_place,
    with_dim,
    with_dtype,
    with_inplace,
    with_words,
)
from hybrid.nn.functions.unpools import lp_pool1d as lp_pool1d
from hybrid.nn.functions.unpools import lp_pool2d as lp_pool2d
from hybrid.nn.functions.unpools import lp_pool3d as lp_pool3d
from hybrid.nn.functions.unpools import max_unpool1d as max_unpool1d
from hybrid.nn.functions.unpools import max_unpool2d as max_unpool2d
from hybrid.nn.functions.unpools import max_unpool3d as max_unpool3d
from hybrid.ops import adaptive_avg_pool1d as adaptive_avg_pool1d
from hybrid.ops import adaptive_avg_pool2d as adaptive_avg_pool2d
from hybrid.ops import adaptive_avg_pool3d as adaptive_avg_pool3d
from hybrid.ops import adaptive_max_pool1d as adaptive_max_pool1d
from hybrid.ops import adaptive_max_pool2d as adaptive_max_pool2d
from hybrid.ops import adaptive_max_pool3d as adaptive_max_pool3d
from hybrid.ops import avg_pool1d as avg_pool1d
from hybrid.ops import avg_pool2d as avg_pool2d
from hybrid.ops import avg_pool3d as avg_pool3d
from hybrid.ops import cdist as cdist
from hybrid.ops import conv1d as conv1d
from hybrid.ops import conv2d as conv2d
from hybrid.ops import conv3d as conv3d
from hybrid.ops import conv_transpose1d as conv_transpose1d
from hybrid.ops import conv_transpose2d as conv_transpose2d
from hybrid.ops import conv_transpose3d as conv_transpose3d
from hybrid.ops import fold as fold
from hybrid.ops import interpolate as interpolate
from hybrid.ops import interpolate as upsample  # noqa: F401  its name of old
from hybrid.ops import max_pool1d as max_pool1d
from hybrid.ops import max_pool2d as max_pool2d
from hybrid.ops import max_pool3d as max_pool3d
from hybrid.ops import pixel_shuffle as pixel_shuffle
from hybrid.ops import pixel_unshuffle as pixel_unshuffle
from hybrid.ops import unfold as unfold
from hybrid.ops.layers.attention import attention
from hybrid.ops.layers.losses import reduced
from hybrid.ops.layers.normalization import require_channels
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    normalize_axis,
    require_choice,
    require_floating,
    require_rank,
)

# PyTorch's words for arguments: ``input``, ``dim`` for ``axis``, ``inplace``, which writes to it.
batch_norm = with_words(ops.batch_norm, "input")
group_norm = with_words(ops.group_norm, "input")
hardshrink = with_words(ops.hardshrink, "input")
instance_norm = with_words(ops.instance_norm, "input")
layer_norm = with_words(ops.layer_norm, "input")
linear = with_words(ops.linear, "input", "weight", "bias")
logsigmoid = with_words(ops.logsigmoid, "input")
prelu = with_words(ops.prelu, "input", "weight")
rms_norm = with_words(ops.rms_norm, "input")
sigmoid = with_words(ops.sigmoid, "input")
softshrink = with_words(ops.softshrink, "input")
softsign = with_words(ops.softsign, "input")
tanh = with_words(ops.tanh, "input")
tanhshrink = with_words(ops.tanhshrink, "input")
cosine_similarity = with_dim(ops.cosine_similarity, "x1", "x2")
flatten = with_dim(ops.flatten, "input")
glu = with_dim(ops.glu, "input")
log_softmax = with_dim(with_dtype(ops.log_softmax))
pairwise_distance = with_dim(ops.pairwise_distance, "x1", "x2")
softmax = with_dim(with_dtype(ops.softmax))
softmin = with_dim(with_dtype(ops.softmin))
unflatten = with_dim(ops.unflatten, "input")
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
celu_ = in_place(celu)
elu_ = in_place(elu)
hardtanh_ = in_place(hardtanh)
leaky_relu_ = in_place(leaky_relu)
relu_ = in_place(relu)
selu_ = in_place(selu)
threshold_ = in_place(threshold)

# The losses, with PyTorch's order of arguments.
binary_cross_entropy = in_order("input target weight size_average reduce reduction")(
    ops.binary_cross_entropy
)
binary_cross_entropy_with_logits = in_order(
    "input target weight size_average reduce reduction pos_weight"
)(ops.binary_cross_entropy_with_logits)
cosine_embedding_loss = in_order("input1 input2 target margin size_average reduce reduction")(
    ops.cosine_embedding_loss
)
cross_entropy = in_order(
    "input target weight size_average ignore_index reduce reduction label_smoothing"
)(ops.cross_entropy)
gaussian_nll_loss = in_order("input target var full eps reduction")(ops.gaussian_nll_loss)
hinge_embedding_loss = in_order("input target margin size_average reduce reduction")(
    ops.hinge_embedding_loss
)
huber_loss = in_order("input target reduction delta")(ops.huber_loss)
kl_div = in_order("input target size_average reduce reduction log_target")(ops.kl_div)
l1_loss = in_order("input target size_average reduce reduction")(ops.l1_loss)
margin_ranking_loss = in_order("input1 input2 target margin size_average reduce reduction")(
    ops.margin_ranking_loss
)
mse_loss = in_order("input target size_average reduce reduction")(ops.mse_loss)
multi_margin_loss = in_order("input target p margin weight size_average reduce reduction")(
    ops.multi_margin_loss
)
multilabel_margin_loss = in_order("input target size_average reduce reduction")(
    ops.multilabel_margin_loss
)
multilabel_soft_margin_loss = in_order("input target weight size_average reduce reduction")(
    ops.multilabel_soft_margin_loss
)
nll_loss = in_order("input target weight size_average ignore_index reduce reduction")(ops.nll_loss)
poisson_nll_loss = in_order("input target log_input full size_average eps reduce reduction")(
    ops.poisson_nll_loss
)
smooth_l1_loss = in_order("input target size_average reduce reduction beta")(ops.smooth_l1_loss)
soft_margin_loss = in_order("input target size_average reduce reduction")(ops.soft_margin_loss)
triplet_margin_loss = in_order(
    "anchor positive negative margin p eps swap size_average reduce reduction"
)(ops.triplet_margin_loss)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """``input`` times the normal distribution function at it, or about that by ``"tanh"``."""
    require_choice("approximate", approximate, ("none", "tanh"))
    return ops.gelu_tanh(input) if approximate == "tanh" else ops.gelu(input)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta`` of ``input``, itself where ``beta * x > threshold``."""
    if not beta > 0:
        raise ArgumentError(f"softplus got beta {beta}", fix="give a number above 0")
    x = as_tensor(input)
    scaled = x * beta
    return ops.where(scaled > threshold, x, ops.softplus(scaled) / beta)


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``input`` above zero, ``input`` times a slope from [lower, upper) below (Xu et al. 2015).

    Each element draws its slope from the default generator; unless ``training`` it is the mean.
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu got slopes from {lower} to {upper}", fix="give lower <= upper")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    x = as_tensor(input)
    above = x > 0
    dtype = x.dtype if x.dtype.is_floating else None
    slopes = random.uniform(lower, upper, x.shape, dtype=dtype)
    y = ops.where(above, x, slopes * ops.where(above, 0.0, x))
    return x.write_in_place(y) if inplace else y


rrelu_ = in_place(rrelu)


@with_dim
def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, axis: int = -1
) -> Tensor:
    """Softmax of (``logits`` plus Gumbel noise) over ``tau``: nearly one-hot draws of classes.

    ``hard`` draws are one-hot, with the gradient of the others (Jang et al. 2017).  ``eps`` is an
    argument of old, without effect.
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
def normalize(input: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """``input`` over its ``p``-norm along ``axis``, which counts as ``eps`` at least."""
    return ops.normalize(input, axis, ord=p, eps=eps)


def one_hot(tensor: Any, num_classes: int = -1, **options: Any) -> Tensor:
    """A new last axis of ``num_classes`` (-1: the greatest index and one): 1 at the index, else 0.

    ``options`` are the ``axis`` and ``dtype`` of ``hybrid.one_hot``.
    """
    if num_classes == -1:
        tensor = as_tensor(tensor)
        if tensor.size == 0:
            raise ArgumentError("one_hot got no indices", fix="give num_classes")
        num_classes = int(ops.max(tensor).item()) + 1
    return ops.one_hot(tensor, num_classes, **options)


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
    the probability with which a weight becomes 0; neither weights nor what is dropped of them are
    stored.  With ``enable_gqa``, heads (axis -3) of key and value are each shared by as many of
    the query.
    """
    require_probability(dropout_p)
    return attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p=dropout_p,
        next_state=None if dropout_p == 0 else random.default_generator().next_state,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


def __getattr__(name: str) -> Any:
    raise missing_member(__name__, name, FUNCTIONAL)
