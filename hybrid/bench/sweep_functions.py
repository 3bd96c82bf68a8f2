"""Functions of deep learning, each with what it is called with in the sweep, and what one would
write for it with NumPy.  A row is a name, its arguments, and the NumPy side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Row = tuple[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]], Callable[..., Any]]


def _signs(draw: Any, *shape: int) -> np.ndarray:
    return np.where(draw.floats(*shape) > 0.5, 1, -1).astype(draw.dtype)


def _classes(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = max(draw.size // 10, 1)
    return draw.floats(rows, 10), draw.integers(10, rows)


def _planes(draw: Any, *, channels: int = 4) -> np.ndarray:
    side = math.isqrt(draw.size // channels) // 2 * 2
    return draw.floats(1, channels, side, side)


def _volume(draw: Any) -> np.ndarray:
    side = max(round((draw.size / 2) ** (1 / 3)) // 2 * 2, 2)
    return draw.floats(1, 2, side, side, side)


def _blocks(axes: int, take: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A pool of 2 along the last ``axes``."""

    def pool(x: np.ndarray, _kernel: int) -> np.ndarray:
        lead, sizes = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
        apart = x.reshape(*lead, *[n for size in sizes for n in (size // 2, 2)])
        return take(apart, axis=tuple(range(len(lead) + 1, apart.ndim, 2)))

    return pool


def _windows(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A convolution: windows times the kernel, as one matrix product."""
    axes = tuple(range(2, x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=axes)
    inner = (1, *range(x.ndim, seen.ndim))
    return np.moveaxis(np.tensordot(seen, w, (inner, tuple(range(1, w.ndim)))), -1, 1)


def _transposed(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    edges = [(0, 0), (0, 0), *[(n - 1, n - 1) for n in w.shape[2:]]]
    flipped = np.flip(w, tuple(range(2, w.ndim))).swapaxes(0, 1)
    return _windows(np.pad(x, edges), flipped)


def _whole(take: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, _size: take(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _log_softmax(x: np.ndarray) -> np.ndarray:
    apart = x - x.max(-1, keepdims=True)
    return apart - np.log(np.exp(apart).sum(-1, keepdims=True))


def _cross_entropy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.mean(_log_softmax(x)[np.arange(len(y)), y])


def _standard(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    apart = x - x.mean(axes, keepdims=True)
    return apart / np.sqrt((apart * apart).mean(axes, keepdims=True) + eps)


def _group_norm(x: np.ndarray, groups: int) -> np.ndarray:
    return _standard(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)


def _batch_norm(x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)


def _added(x: np.ndarray, at: np.ndarray, updates: np.ndarray) -> np.ndarray:
    found = x.copy()
    np.add.at(found, at, updates)
    return found


def _put(x: np.ndarray, at: np.ndarray, updates: np.ndarray, **_: Any) -> np.ndarray:
    found = x.copy()
    np.put_along_axis(found, at, updates, axis=0)
    return found


def _length(x: np.ndarray, **kwargs: Any) -> np.ndarray:
    return np.sqrt(np.sum(x * x, **kwargs))


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (_length(a, axis=1) * _length(b, axis=1))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def _huber(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    apart = np.abs(x - y)
    return np.mean(np.where(apart < 1, 0.5 * apart * apart, apart - 0.5))


def _pairs(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    return draw.matrix(), draw.matrix()


def _both(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    return draw.floats(), draw.floats()


def _shuffled(x: np.ndarray, r: int) -> np.ndarray:
    n, c, h, w = x.shape
    apart = x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, c // r**2, h * r, w * r)


def _unshuffled(x: np.ndarray, r: int) -> np.ndarray:
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return apart.reshape(n, c * r**2, h // r, w // r)


def _columns(x: np.ndarray, kernel: int) -> np.ndarray:
    seen = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    n, c = x.shape[:2]
    return np.moveaxis(seen, (4, 5), (2, 3)).reshape(n, c * kernel**2, -1)


def _multi_margin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows = np.arange(len(y))
    over = np.maximum(0, 1 - x[rows, y][:, None] + x)
    over[rows, y] = 0
    return np.mean(over.sum(1) / x.shape[1])


def _triplet(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    near, far = _length(a - b + 1e-6, axis=-1), _length(a - c + 1e-6, axis=-1)
    return np.mean(np.maximum(near - far + 1, 0))


ROWS: list[Row] = [
    ("astype", lambda d: ((d.floats(), "int64"), {}), lambda x, dtype: x.astype(dtype)),
    ("chunk", lambda d: ((d.floats(), 2), {}), lambda x, n: [p.copy() for p in np.split(x, n)]),
    (
        "split",
        lambda d: ((d.floats(), d.size // 2), {}),
        lambda x, size: [p.copy() for p in np.split(x, [size])],
    ),
    ("unstack", lambda d: ((d.floats(4, d.size // 4),), {}), lambda x: tuple(r.copy() for r in x)),
    ("meshgrid", lambda d: ((d.floats(d.side), d.floats(d.side)), {}), np.meshgrid),
    ("cross", lambda d: ((d.floats(d.size // 3, 3), d.floats(d.size // 3, 3)), {}), np.cross),
    ("matrix_power", lambda d: ((d.floats(d.side, d.side) / d.side, 3), {}),
     np.linalg.matrix_power),
    ("one_hot", lambda d: ((d.integers(10, max(d.size // 10, 1)), 10), {}),
     lambda x, n: np.eye(n, dtype=np.int64)[x]),
    ("getitem", lambda d: ((d.floats(), d.bools()), {}), lambda x, key: x[key]),
    ("setitem", lambda d: ((d.floats(), slice(1, None, 2), 0.5), {}),
     lambda x, key, value: _set(x, key, value)),
    ("masked_fill", lambda d: ((d.floats(), d.bools(), 0.5), {}),
     lambda x, mask, value: np.where(mask, value, x).astype(x.dtype)),
    ("gather", lambda d: ((d.floats(), d.integers(d.size)), {"axis": 0}), np.take_along_axis),
    ("index_select", lambda d: ((d.floats(), d.integers(d.size)), {"axis": 0}), np.take),
    ("scatter", lambda d: ((d.floats(), d.random.permutation(d.size), d.floats()), {"axis": 0}),
     _put),
    ("scatter_add", lambda d: ((d.floats(), d.integers(d.size), d.floats()), {}), _added),
    ("index_add", lambda d: ((d.floats(), d.integers(d.size), d.floats()), {}), _added),
    ("embedding", lambda d: ((d.integers(30, max(d.size // 8, 1)), d.floats(30, 8)), {}),
     lambda at, rows: rows[at]),
    ("norm", lambda d: ((d.floats(),), {}), np.linalg.norm),
    ("cdist", lambda d: ((d.floats(d.side, 8), d.floats(d.side, 8)), {}),
     lambda a, b: _length(a[:, None] - b, axis=-1)),
    ("cosine_similarity", lambda d: (_pairs(d), {}), _cosine),
    ("pairwise_distance", lambda d: (_pairs(d), {}), lambda a, b: _length(a - b + 1e-6, axis=-1)),
    ("threshold", lambda d: ((d.floats(), 0.5, 0.0), {}),
     lambda x, low, value: np.where(x > low, x, value).astype(x.dtype)),
    ("prelu", lambda d: ((d.floats() - 0.5, d.floats(1)), {}),
     lambda x, w: np.where(x > 0, x, w * x)),
    ("glu", lambda d: ((d.floats(2 * d.size),), {}),
     lambda x: x[: len(x) // 2] / (1 + np.exp(-x[len(x) // 2 :]))),
    ("l1_loss", lambda d: (_both(d), {}), lambda x, y: np.mean(np.abs(x - y))),
    ("mse_loss", lambda d: (_both(d), {}), lambda x, y: np.mean((x - y) ** 2)),
    ("smooth_l1_loss", lambda d: (_both(d), {}), _huber),
    ("huber_loss", lambda d: (_both(d), {}), _huber),
    ("binary_cross_entropy", lambda d: (_both(d), {}),
     lambda x, y: -np.mean(y * np.log(x) + (1 - y) * np.log1p(-x))),
    ("binary_cross_entropy_with_logits", lambda d: (_both(d), {}),
     lambda x, y: np.mean(x - x * y + _softplus(-x))),
    ("kl_div", lambda d: (_both(d), {}), lambda x, y: np.mean(y * (np.log(y) - x))),
    ("poisson_nll_loss", lambda d: (_both(d), {}), lambda x, y: np.mean(np.exp(x) - y * x)),
    ("gaussian_nll_loss", lambda d: ((*_both(d), d.floats()), {}),
     lambda x, y, v: 0.5 * np.mean(np.log(v) + (x - y) ** 2 / v)),
    ("soft_margin_loss", lambda d: ((d.floats(), _signs(d)), {}),
     lambda x, y: np.mean(_softplus(-y * x))),
    ("hinge_embedding_loss", lambda d: ((d.floats(), _signs(d)), {}),
     lambda x, y: np.mean(np.where(y > 0, x, np.maximum(0, 1 - x)))),
    ("margin_ranking_loss", lambda d: ((*_both(d), _signs(d)), {}),
     lambda a, b, y: np.mean(np.maximum(0, -y * (a - b)))),
    ("cosine_embedding_loss", lambda d: ((*_pairs(d), _signs(d, d.side)), {}),
     lambda a, b, y: np.mean(np.where(y > 0, 1 - _cosine(a, b), np.maximum(0, _cosine(a, b))))),
    ("triplet_margin_loss", lambda d: ((*_pairs(d), d.matrix()), {}), _triplet),
    ("cross_entropy", lambda d: (_classes(d), {}), _cross_entropy),
    ("nll_loss", lambda d: (_classes(d), {}), lambda x, y: -np.mean(x[np.arange(len(y)), y])),
    ("multi_margin_loss", lambda d: (_classes(d), {}), _multi_margin),
    ("multilabel_soft_margin_loss", lambda d: ((d.matrix(), (d.matrix() > 0.5) * 1.0), {}),
     lambda x, y: np.mean(y * _softplus(-x) + (1 - y) * _softplus(x))),
    ("batch_norm", lambda d: ((_planes(d), d.floats(4), d.floats(4)), {}), _batch_norm),
    ("instance_norm", lambda d: ((_planes(d),), {}), lambda x: _standard(x, (2, 3))),
    ("group_norm", lambda d: ((_planes(d), 2), {}), _group_norm),
    ("avg_pool1d", lambda d: ((d.floats(1, 4, d.size // 8 * 2), 2), {}), _blocks(1, np.mean)),
    ("avg_pool2d", lambda d: ((_planes(d), 2), {}), _blocks(2, np.mean)),
    ("avg_pool3d", lambda d: ((_volume(d), 2), {}), _blocks(3, np.mean)),
    ("max_pool1d", lambda d: ((d.floats(1, 4, d.size // 8 * 2), 2), {}), _blocks(1, np.max)),
    ("max_pool2d", lambda d: ((_planes(d), 2), {}), _blocks(2, np.max)),
    ("max_pool3d", lambda d: ((_volume(d), 2), {}), _blocks(3, np.max)),
    ("adaptive_avg_pool1d", lambda d: ((d.floats(1, 4, d.size // 4), 1), {}), _whole(np.mean)),
    ("adaptive_avg_pool2d", lambda d: ((_planes(d), 1), {}), _whole(np.mean)),
    ("adaptive_avg_pool3d", lambda d: ((_volume(d), 1), {}), _whole(np.mean)),
    ("adaptive_max_pool1d", lambda d: ((d.floats(1, 4, d.size // 4), 1), {}), _whole(np.max)),
    ("adaptive_max_pool2d", lambda d: ((_planes(d), 1), {}), _whole(np.max)),
    ("adaptive_max_pool3d", lambda d: ((_volume(d), 1), {}), _whole(np.max)),
    ("conv1d", lambda d: ((d.floats(1, 8, d.size // 8), d.floats(8, 8, 3)), {}), _windows),
    ("conv2d", lambda d: ((_planes(d), d.floats(8, 4, 3, 3)), {}), _windows),
    ("conv3d", lambda d: ((_volume(d), d.floats(4, 2, 2, 2, 2)), {}), _windows),
    ("conv_transpose1d", lambda d: ((d.floats(1, 8, d.size // 8), d.floats(8, 8, 3)), {}),
     _transposed),
    ("conv_transpose2d", lambda d: ((_planes(d), d.floats(4, 8, 3, 3)), {}), _transposed),
    ("conv_transpose3d", lambda d: ((_volume(d), d.floats(2, 4, 2, 2, 2)), {}), _transposed),
    ("unfold", lambda d: ((_planes(d), 2), {}), _columns),
    ("pixel_shuffle", lambda d: ((_planes(d), 2), {}), _shuffled),
    ("pixel_unshuffle", lambda d: ((_planes(d), 2), {}), _unshuffled),
    ("interpolate", lambda d: ((_planes(d),), {"scale_factor": 2}),
     lambda x, scale_factor: x.repeat(scale_factor, 2).repeat(scale_factor, 3)),
]  # fmt: skip


def _set(x: np.ndarray, key: Any, value: float) -> np.ndarray:
    found = x.copy()
    found[key] = value
    return found
