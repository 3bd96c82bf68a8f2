"""Small programs over sizes, as people write them: what test_open_programs.py runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.nn import functional as F

DRAW = np.random.default_rng(0)

Program = Callable[..., Any]
Arguments = Callable[[int], tuple[Any, ...]]


def t(*shape: int) -> hy.Tensor:
    return hy.asarray(DRAW.standard_normal(shape).astype(np.float32))


def integers(most: int, *shape: int) -> hy.Tensor:
    return hy.asarray(DRAW.integers(0, most, shape))


def row(n: int) -> tuple[Any, ...]:
    return (t(n),)


def rows(n: int) -> tuple[Any, ...]:
    return (t(n, 4),)


def batch(n: int) -> tuple[Any, ...]:
    return (t(2, n, 4),)


def images(n: int) -> tuple[Any, ...]:
    return (t(2, 3, n + 3, 2 * n + 5),)


def two(n: int) -> tuple[Any, ...]:
    return t(n, 4), t(n, 4)


PROGRAMS: dict[str, tuple[Program, Arguments]] = {}


def program(arguments: Arguments) -> Callable[[Program], Program]:
    """A decorator that adds a program, called with what ``arguments`` gives for a size."""

    def add(function: Program) -> Program:
        PROGRAMS[function.__name__] = function, arguments
        return function

    return add


# What is made of sizes --------------------------------------------------------------------------


@program(row)
def arange(x):
    return x * hy.arange(x.shape[0])


@program(row)
def arange_float(x):
    return x * hy.arange(x.shape[0], dtype=hy.float32)


@program(row)
def arange_step(x):
    return hy.arange(0, x.shape[0], 2) * 2, hy.arange(1, x.shape[0] + 1, dtype=hy.float32)


@program(lambda n: (t(n, n),))
def tril_triu(x):
    return hy.tril(x), hy.triu(x, k=1)


@program(batch)
def causal_mask(x):
    n = x.shape[1]
    mask = hy.tril(hy.ones((n, n), dtype=hy.bool))
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    return hy.softmax(hy.where(mask, scores, -math.inf), axis=-1) @ x


@program(batch)
def mask_by_arange(x):
    n = x.shape[1]
    places = hy.arange(n)
    mask = places[:, None] >= places[None, :]
    return hy.where(mask, x @ x.mT, 0.0)


@program(row)
def eye(x):
    return hy.eye(x.shape[0]) * x


@program(rows)
def zeros_ones_full(x):
    n, m = x.shape
    return hy.zeros((n, m)) + hy.ones((n, 1)) * hy.full((n, m), 3.0) + hy.zeros_like(x)


@program(row)
def linspace(x):
    return x + hy.linspace(0, 1, x.shape[0])


@program(rows)
def random_tensors(x):
    hy.random.seed(3)
    return x + hy.random.normal(size=x.shape), x * hy.random.uniform(size=(x.shape[0], 1))


@program(batch)
def reshape_merge(x):
    b, n, d = x.shape
    return x.reshape(b * n, -1), x.reshape(-1, d), x.reshape(b, n * d)


@program(batch)
def heads(x):
    b, n, d = x.shape
    q = x.reshape(b, n, 2, d // 2).permute(0, 2, 1, 3)
    return (q @ q.mT).reshape(b, 2, n * n), q.permute(0, 2, 1, 3).reshape(b, n, d)


@program(batch)
def view_flatten(x):
    return x.view(-1), x.flatten(1), hy.nn.functional.flatten(x, 0, 1) if False else x.flatten()


@program(rows)
def unflatten(x):
    return x.reshape(x.shape[0] * 2, 2).unflatten(0, (x.shape[0], 2))


@program(row)
def broadcast(x):
    n = x.shape[0]
    return hy.broadcast_to(x[:, None], (n, 4)), x[None].expand(3, n), hy.broadcast_to(x, (2, n))


@program(lambda n: (t(2 * n, 4),))
def chunk_two(x):
    a, b = hy.chunk(x, 2)
    return a * b


@program(lambda n: (t(2 * n, 4),))
def split_half(x):
    n = x.shape[0] // 2
    a, b = hy.split(x, [n]) if False else (x[:n], x[n:])
    return a * b


@program(lambda n: (t(2 * n, 4),))
def split_by_size(x):
    a, b = hy.split(x, x.shape[0] // 2)
    return a * b


@program(rows)
def pad_to_multiple(x):
    missing = (-x.shape[0]) % 8
    return hy.pad(x, ((0, missing), (0, 0))).reshape(-1, 8, 4).sum(axis=1)


@program(rows)
def slices(x):
    n = x.shape[0]
    return x[: n // 2], x[n // 2 :], x[-2:], x[n - 1], x[::2], x[::-1], x[1:], x[:-1], x[-1]


@program(lambda n: (t(n + 20, 4),))
def windows(x):
    n, size = x.shape[0], 8
    return x[max(0, n - size) :], x[: min(n, 16)]


@program(rows)
def shifted(x):
    return x[1:] - x[:-1], hy.concat([x[1:], x[:1]])


@program(rows)
def minimum_of_sizes(x):
    k = min(x.shape[0], 3)
    return x[:k].sum(axis=0)


@program(rows)
def parity(x):
    return x.sum() if x.shape[0] % 2 == 0 else x.sum() * 2


@program(rows)
def arithmetic(x):
    n = x.shape[0]
    q, r = divmod(n, 3)
    return x * n + q - r * abs(-n) + n**2 // 7, x.sum() * (n * n) + max(n, 1)


@program(rows)
def comparisons(x):
    n, d = x.shape
    if n == 0 or not n:
        return x
    return x * 2 if 1 < n < 10000 and n != 1 and d == 4 else x


@program(lambda n: (t(n), t(2 * n)))
def compare_two_sizes(x, y):
    return x.sum() if x.shape[0] == y.shape[0] else x.sum() + y.sum()


@program(rows)
def in_containers(x):
    sizes = {"rows": x.shape[0], "columns": x.shape[1]}
    shape = [sizes["rows"], sizes["columns"]]
    return hy.ones(tuple(shape)) + hy.zeros(shape) + x.reshape(*shape)


# Floats of sizes --------------------------------------------------------------------------------


@program(rows)
def mean_by_hand(x):
    return x.sum(axis=0) / x.shape[0], x.sum() / len(x), x.sum() * (1 / x.shape[0])


@program(rows)
def half(x):
    n = x.shape[0]
    return x * (n / 2), x - (n - 1) / 2


@program(rows)
def roots(x):
    n = x.shape[0]
    return x * n**0.5, x / n**-0.5, x * math.sqrt(n), x / math.log(n + 1), x * float(n)


@program(lambda n: (t(2, n), t(3, n)))
def scaled_scores(q, k):
    return hy.softmax(q @ k.T * (1 / math.sqrt(q.shape[-1])), axis=-1)


@program(rows)
def variance_by_hand(x):
    n = x.shape[0]
    mean = x.sum(axis=0) / n
    return ((x - mean) ** 2).sum(axis=0) / (n - 1)


@program(rows)
def ratio_cut(x):
    n = x.shape[0]
    keep = int(n * 0.75)
    return x[:keep]


@program(rows)
def ceil_blocks(x):
    n = x.shape[0]
    blocks = math.ceil(n / 4)
    return hy.zeros((blocks, 2)) + x.sum(), x.sum() * blocks


@program(rows)
def weights_by_place(x):
    n = x.shape[0]
    return (x * (hy.arange(n) / n)[:, None]).sum(axis=0), hy.full((2,), 1 / n), hy.asarray(n)


@program(rows)
def float_condition(x):
    return x * 2 if x.shape[0] / 2 > 0.5 else x


@program(rows)
def filled(x):
    return hy.full((3,), x.shape[0]), hy.asarray(x.shape[0]), hy.asarray([1, x.shape[0]])


# Sizes that are returned ------------------------------------------------------------------------


@program(rows)
def returns_a_size(x):
    return x.sum(), x.shape[0]


@program(rows)
def returns_shape(x):
    return x * 2, x.shape, {"rows": len(x), "size": x.size, "half": x.shape[0] // 2}


@program(rows)
def returns_float(x):
    return x * 2, x.shape[0] / 3, 1 / x.shape[0]


@program(rows)
def lengths(x):
    return x * len(x), x.size + x.ndim, x.sum() * x.numel()


# Ops --------------------------------------------------------------------------------------------


@program(images)
def max_pool(x):
    return F.max_pool2d(x, 2), F.max_pool2d(x, 3, stride=2, padding=1)


@program(images)
def avg_pool(x):
    return F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, stride=2, padding=1)


@program(lambda n: (t(n, 3, 8, 8),))
def pool_open_batch(x):
    return F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)


@program(images)
def adaptive_pool(x):
    return F.adaptive_avg_pool2d(x, 1), x.mean(axis=(2, 3))


@program(images)
def interpolate(x):
    return F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear")


@program(images)
def interpolate_to_size(x):
    return F.interpolate(F.max_pool2d(x, 2), size=x.shape[2:])


CONVOLUTION = nn.Conv2d(3, 4, 3, stride=2, padding=1)
CONVOLUTION_1D = nn.Conv1d(4, 6, 3)


@program(images)
def convolution(x):
    return CONVOLUTION(x)


@program(lambda n: (t(2, 4, n + 2),))
def convolution_1d(x):
    return CONVOLUTION_1D(x)


@program(batch)
def attention(x):
    return F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention(
        x, x, x, is_causal=True
    )


@program(lambda n: (integers(5, n),))
def one_hot(x):
    return F.one_hot(x, 5), F.one_hot(x, num_classes=5).sum(axis=0)


@program(rows)
def scans_and_orders(x):
    return hy.cumsum(x, axis=0), hy.sort(x, axis=0), hy.argsort(x, axis=0), hy.cumprod(x, axis=0)


@program(lambda n: (t(n + 4),))
def topk(x):
    return hy.topk(x, 3)


@program(lambda n: (t(n, 4), integers(2, n, 1)))
def gathers(x, i):
    return hy.take_along_axis(x, i, axis=1), hy.take(x, i[:, 0], axis=0)


@program(batch)
def einsum(x):
    return hy.einsum("bnd,bmd->bnm", x, x), hy.einsum("bnd->bd", x)


@program(two)
def joins(x, y):
    return hy.concat([x, y]), hy.stack([x, y]), hy.concat([x, hy.ones((1, 4))])


@program(rows)
def moves(x):
    return hy.roll(x, 1, axis=0), hy.flip(x, axis=0), hy.tile(x, (2, 1)), hy.repeat(x, 2, axis=0)


@program(batch)
def normalisations(x):
    return F.layer_norm(x, (4,)), F.normalize(x, dim=-1), F.softmax(x, dim=1)


@program(lambda n: (t(n, 3, 4),))
def batch_norm(x):
    mean, var = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    return F.batch_norm(x, mean, var), F.group_norm(x, 3)


@program(lambda n: (t(n, 5), integers(5, n)))
def losses(x, y):
    return F.cross_entropy(x, y), F.mse_loss(x, x * 2), F.nll_loss(F.log_softmax(x, dim=-1), y)


@program(rows)
def statistics(x):
    return x.mean(), x.var(), x.std(axis=0), x.max(), x.argmin(axis=0)


@program(lambda n: (t(2 * n, 4),))
def einops_like(x):
    n = x.shape[0] // 2
    return x.reshape(2, n, 4).permute(1, 0, 2).reshape(n, 8)


@program(batch)
def positions(x):
    _, n, d = x.shape
    places = hy.arange(n, dtype=hy.float32)[:, None]
    rate = hy.exp(hy.arange(0, d, 2) * (-math.log(10000.0) / d))
    table = hy.concat([hy.sin(places * rate), hy.cos(places * rate)], axis=1)
    return x + table[:n]


@program(batch)
def gradient_of_loss(x):
    def loss(x):
        n = x.shape[1]
        mask = hy.tril(hy.ones((n, n), dtype=hy.bool))
        scores = hy.where(mask, x @ x.mT / math.sqrt(n), -math.inf)
        return (hy.softmax(scores, axis=-1) @ x).sum() / n

    return hy.grad(loss)(x)
