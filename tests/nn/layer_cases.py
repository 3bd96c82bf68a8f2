"""Every layer, with inputs, its parameters as PyTorch has them, and what it means in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybrid import nn
from tests.nn import references as ref

erf = np.vectorize(math.erf)
RANDOM = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(most: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, most, shape)


@dataclass(frozen=True)
class Case:
    """``means(state, *inputs)`` is what the module computes, with its state by name."""

    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    means: Callable[..., Any]
    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict)
    text: str | None = None  # repr of the module
    training: bool = False  # the mode in which it means that

    @property
    def name(self) -> str:
        return type(self.make()).__name__


def plain(make: Any, inputs: Any, means: Any, text: str | None = None) -> Case:
    """A layer without parameters."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return Case(make, inputs, lambda _state, *xs: means(*xs), text=text)


# Activations -------------------------------------------------------------------------------------

X = draw(3, 4, 5) * 3
SELU = (1.0507009873554805, 1.6732632423543772)


def elu(x, alpha=1.0, scale=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / scale))


ACTIVATIONS = [
    plain(nn.ReLU, X, lambda x: np.maximum(x, 0), "ReLU()"),
    plain(lambda: nn.ReLU(inplace=True), X, lambda x: np.maximum(x, 0), "ReLU(inplace=True)"),
    plain(nn.ReLU6, X, lambda x: np.clip(x, 0, 6)),
    plain(nn.GELU, X, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, "GELU(approximate='none')"),
    plain(nn.SiLU, X, lambda x: x * ref.sigmoid(x)),
    plain(nn.Mish, X, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    plain(nn.Sigmoid, X, ref.sigmoid),
    plain(nn.LogSigmoid, X, lambda x: np.log(ref.sigmoid(x))),
    plain(nn.Tanh, X, np.tanh),
    plain(nn.Tanhshrink, X, lambda x: x - np.tanh(x)),
    plain(nn.Softsign, X, lambda x: x / (1 + np.abs(x))),
    plain(nn.SELU, X, lambda x: SELU[0] * elu(x, SELU[1])),
    plain(lambda: nn.ELU(0.7), X, lambda x: elu(x, 0.7), "ELU(alpha=0.7)"),
    plain(lambda: nn.CELU(0.7), X, lambda x: elu(x, 0.7, 0.7), "CELU(alpha=0.7)"),
    plain(nn.Hardswish, X, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    plain(nn.Hardsigmoid, X, lambda x: np.clip(x + 3, 0, 6) / 6),
    plain(
        lambda: nn.Hardtanh(-2, 0.5),
        X,
        lambda x: np.clip(x, -2, 0.5),
        "Hardtanh(min_val=-2, max_val=0.5)",
    ),
    plain(nn.Hardshrink, X, lambda x: np.where(np.abs(x) > 0.5, x, 0), "Hardshrink(lambd=0.5)"),
    plain(nn.Softshrink, X, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    plain(
        lambda: nn.Threshold(0.1, 20),
        X,
        lambda x: np.where(x > 0.1, x, 20),
        "Threshold(threshold=0.1, value=20)",
    ),
    plain(
        lambda: nn.LeakyReLU(0.2, inplace=True),
        X,
        lambda x: np.where(x > 0, x, 0.2 * x),
        "LeakyReLU(negative_slope=0.2, inplace=True)",
    ),
    plain(nn.RReLU, X, lambda x: np.where(x > 0, x, (1 / 8 + 1 / 3) / 2 * x)),
    plain(lambda: nn.Softplus(2.0), X, lambda x: np.log1p(np.exp(2 * x)) / 2),
    plain(lambda: nn.Softmax(dim=1), X, lambda x: ref.softmax(x, 1), "Softmax(dim=1)"),
    plain(lambda: nn.LogSoftmax(1), X, lambda x: np.log(ref.softmax(x, 1)), "LogSoftmax(dim=1)"),
    plain(lambda: nn.Softmin(dim=2), X, lambda x: ref.softmax(-x, 2), "Softmin(dim=2)"),
    plain(nn.Softmax2d, X, lambda x: ref.softmax(x, 0)),
    plain(
        lambda: nn.GLU(dim=1),
        X,
        lambda x: x[:, :2] * ref.sigmoid(x[:, 2:]),
        "GLU(dim=1)",
    ),
    Case(
        lambda: nn.PReLU(4),
        (X,),
        lambda s, x: np.where(x > 0, x, s["weight"].reshape(4, 1) * x),
        {"weight": (4,)},
        "PReLU(num_parameters=4)",
    ),
]

# Linear, shapes and distances --------------------------------------------------------------------

A, B = draw(3, 4), draw(3, 5)
IMAGE = draw(2, 8, 3, 4)


def shuffled(x, r):
    n, c, h, w = x.shape
    y = np.zeros((n, c // (r * r), h * r, w * r))
    for i, j in np.ndindex(r, r):
        y[:, :, i::r, j::r] = x[:, i * r + j :: r * r]
    return y


def unfolded(x, kernel):
    n, _, h, w = x.shape
    counts = (h - kernel[0] + 1, w - kernel[1] + 1)
    columns = [
        x[:, :, p : p + kernel[0], q : q + kernel[1]].reshape(n, -1) for p, q in np.ndindex(*counts)
    ]
    return np.stack(columns, -1)


def folded(y, size, kernel):
    x = np.zeros((len(y), y.shape[1] // math.prod(kernel), *size))
    counts = (size[0] - kernel[0] + 1, size[1] - kernel[1] + 1)
    for i, (p, q) in enumerate(np.ndindex(*counts)):
        x[:, :, p : p + kernel[0], q : q + kernel[1]] += y[:, :, i].reshape(*x.shape[:2], *kernel)
    return x


def cosine(a, b):
    return (a * b).sum(1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-8)


def bilinear(s, a, b):
    return np.einsum("ni,oij,nj->no", a, s["weight"], b) + s["bias"]


SHAPES = [
    Case(
        lambda: nn.Linear(4, 2),
        (A,),
        lambda s, x: x @ s["weight"].T + s["bias"],
        {"weight": (2, 4), "bias": (2,)},
        "Linear(in_features=4, out_features=2, bias=True)",
    ),
    Case(
        lambda: nn.Bilinear(4, 5, 2),
        (A, B),
        bilinear,
        {"weight": (2, 4, 5), "bias": (2,)},
        "Bilinear(in1_features=4, in2_features=5, out_features=2, bias=True)",
    ),
    plain(lambda: nn.Identity(3, unused=True), A, lambda x: x, "Identity()"),
    plain(nn.Flatten, X, lambda x: x.reshape(3, 20), "Flatten(start_dim=1, end_dim=-1)"),
    plain(
        lambda: nn.Unflatten(1, (2, 2)),
        X,
        lambda x: x.reshape(3, 2, 2, 5),
        "Unflatten(dim=1, unflattened_size=(2, 2))",
    ),
    plain(
        lambda: nn.PixelShuffle(2),
        IMAGE,
        lambda x: shuffled(x, 2),
        "PixelShuffle(upscale_factor=2)",
    ),
    plain(
        lambda: nn.PixelUnshuffle(2),
        shuffled(IMAGE, 2).astype(np.float32),
        lambda _: IMAGE,
        "PixelUnshuffle(downscale_factor=2)",
    ),
    plain(
        lambda: nn.ChannelShuffle(2),
        IMAGE,
        lambda x: x[:, [0, 4, 1, 5, 2, 6, 3, 7]],
        "ChannelShuffle(groups=2)",
    ),
    plain(
        lambda: nn.Upsample(scale_factor=2),
        IMAGE,
        lambda x: x.repeat(2, 2).repeat(2, 3),
        "Upsample(scale_factor=2, mode='nearest')",
    ),
    plain(lambda: nn.UpsamplingNearest2d((3, 8)), IMAGE, lambda x: x.repeat(2, 3)),
    plain(
        lambda: nn.UpsamplingBilinear2d((3, 7)),
        IMAGE,
        lambda x: np.stack(
            [x[..., j // 2] / 2 + x[..., (j + 1) // 2] / 2 for j in range(7)], axis=-1
        ),
        "UpsamplingBilinear2d(size=(3, 7), mode='bilinear')",
    ),
    plain(lambda: nn.Unfold((2, 3)), IMAGE, lambda x: unfolded(x, (2, 3))),
    plain(lambda: nn.Fold((3, 4), (2, 3)), draw(2, 12, 4), lambda y: folded(y, (3, 4), (2, 3))),
    plain(nn.CosineSimilarity, (A, draw(3, 4)), cosine, "CosineSimilarity(dim=1, eps=1e-08)"),
    plain(
        lambda: nn.PairwiseDistance(keepdim=True),
        (A, A + 1),
        lambda a, b: np.linalg.norm(a - b + 1e-6, axis=1, keepdims=True),
        "PairwiseDistance(p=2.0, eps=1e-06, keepdim=True)",
    ),
]

MODES = {"Reflection": "reflect", "Replication": "edge", "Circular": "wrap"}
SPATIAL = {1: draw(2, 3, 5), 2: draw(2, 3, 5, 4), 3: draw(2, 3, 3, 4, 5)}


def padded(kind: str, rank: int) -> Case:
    widths = tuple(range(1, 3)) * rank  # one before, two after each axis
    pairs = [(0, 0)] * 2 + [(1, 2)] * rank
    constant = {"Zero": 0.0, "Constant": 3.5}.get(kind)
    mode = {"mode": MODES[kind]} if constant is None else {"constant_values": constant}
    layer = getattr(nn, f"{kind}Pad{rank}d")
    make = (lambda: layer(widths, 3.5)) if kind == "Constant" else (lambda: layer(widths))
    text = f"{kind}Pad{rank}d(padding={widths}{', value=3.5' if kind == 'Constant' else ''})"
    return plain(make, SPATIAL[rank], lambda x: np.pad(x, pairs, **mode), text)


PADS = [padded(kind, rank) for kind in (*MODES, "Zero", "Constant") for rank in (1, 2, 3)]

# Windows -----------------------------------------------------------------------------------------


def spread(sizes):
    """The places of elements that go to every other place along each axis, row by row."""
    larger = [2 * n - 1 for n in sizes]
    return np.arange(math.prod(larger)).reshape(larger)[(slice(None, None, 2),) * len(sizes)]


def thinned(x, _):
    y = np.zeros((*x.shape[:2], *[2 * n - 1 for n in x.shape[2:]]))
    y[(..., *[slice(None, None, 2)] * (x.ndim - 2))] = x
    return y


def pools(rank: int) -> list[Case]:
    x, sizes = SPATIAL[rank], (2, 3, 1)[:rank]

    def layer(kind: str) -> Any:
        return getattr(nn, f"{kind}Pool{rank}d")

    return [
        plain(
            lambda: layer("Max")(2, 1, 1, dilation=2),
            x,
            lambda x: ref.pool(x, 2, 1, 1, 2),
            f"MaxPool{rank}d(kernel_size=2, stride=1, padding=1, dilation=2, ceil_mode=False)",
        ),
        plain(lambda: layer("Max")(2), x, lambda x: ref.pool(x, 2)),
        plain(
            lambda: layer("Avg")(3, 2, 1),
            x,
            lambda x: ref.pool(x, 3, 2, 1, reduce=np.mean, fill=0),
        ),
        plain(
            lambda: layer("AdaptiveAvg")(sizes if rank > 1 else 2),
            x,
            lambda x: ref.adaptive(x, sizes, np.mean),
            f"AdaptiveAvgPool{rank}d(output_size={sizes if rank > 1 else 2})",
        ),
        plain(
            lambda: layer("LP")(3, 2, 1),
            np.abs(x),
            lambda x: ref.pool(x**3, 2, 1, reduce=np.sum) ** (1 / 3),
            f"LPPool{rank}d(norm_type=3, kernel_size=2, stride=1, ceil_mode=False)",
        ),
        plain(
            lambda: getattr(nn, f"MaxUnpool{rank}d")(1, 2),
            (x, np.broadcast_to(spread(x.shape[2:]), x.shape)),
            thinned,
            f"MaxUnpool{rank}d(kernel_size={(1,) * rank}, stride={(2,) * rank}, "
            f"padding={(0,) * rank})",
        ),
        plain(lambda: layer("AdaptiveMax")(sizes), x, lambda x: ref.adaptive(x, sizes, np.max)),
    ]


def conv(rank: int, channels: tuple[int, int], widths: Any = 0, text: str = "", **given) -> Case:
    groups, kernel = given.get("groups", 1), (3, 2, 2)[:rank]
    layer = getattr(nn, f"Conv{rank}d")
    mode = {"zeros": "constant", "replicate": "edge", "circular": "wrap"}
    mode = mode.get(name := given.get("padding_mode", "zeros"), name)
    own = {k: given[k] for k in ("stride", "dilation", "groups") if k in given}
    biased = given.get("bias", True)
    shapes = {"weight": (channels[1], channels[0] // groups, *kernel)}
    return Case(
        lambda: layer(*channels, kernel, **given),
        (np.repeat(SPATIAL[rank], 2, axis=1)[:, : channels[0]],),
        lambda s, x: ref.conv(x, s["weight"], s.get("bias"), widths=widths, mode=mode, **own),
        shapes | ({"bias": (channels[1],)} if biased else {}),
        f"Conv{rank}d({channels[0]}, {channels[1]}, kernel_size={kernel}, {text})"
        if text
        else None,
    )


def conv_transpose(rank: int, channels: tuple[int, int], **given) -> Case:
    groups, kernel = given.get("groups", 1), (3, 2, 2)[:rank]
    layer = getattr(nn, f"ConvTranspose{rank}d")
    return Case(
        lambda: layer(*channels, kernel, **given),
        (np.repeat(SPATIAL[rank], 2, axis=1)[:, : channels[0]],),
        lambda s, x: ref.conv_transpose(x, s["weight"], s["bias"], **given),
        {"weight": (channels[0], channels[1] // groups, *kernel), "bias": (channels[1],)},
    )


SAME = [(1, 1), (0, 1), (0, 1)]  # for kernels of 3, 2 and 2
WINDOWS = [
    *[case for rank in (1, 2, 3) for case in pools(rank)],
    *[conv(rank, (3, 4), padding=1, widths=1) for rank in (1, 2, 3)],
    conv(
        1, (3, 2), text="stride=(2,), dilation=(2,), bias=False", stride=2, dilation=2, bias=False
    ),
    conv(2, (6, 4), text="stride=(2, 1), groups=2", stride=(2, 1), groups=2),
    conv(2, (3, 4), widths=SAME[:2], padding="same", text="stride=(1, 1), padding='same'"),
    conv(3, (2, 2), widths=SAME, padding="same"),
    *[
        conv(rank, (3, 2), widths=SAME[:rank], padding="same", padding_mode=mode)
        for rank in (1, 2, 3)
        for mode in ("reflect", "replicate", "circular")
    ],
    conv(
        2,
        (3, 2),
        widths=1,
        padding=1,
        padding_mode="reflect",
        text="stride=(1, 1), padding=(1, 1), padding_mode=reflect",
    ),
    *[conv_transpose(rank, (3, 4)) for rank in (1, 2, 3)],
    conv_transpose(1, (6, 4), stride=3, padding=1, output_padding=2, groups=2, dilation=2),
    conv_transpose(2, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2)),
]
