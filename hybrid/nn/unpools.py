"""Power-average pooling, and max pooling undone, as functions."""

from __future__ import annotations

import functools
import math
from typing import Any

from hybrid import ops
from hybrid.errors import ShapeError
from hybrid.ops.checks import as_tensor, require_floating
from hybrid.ops.indexing import as_indices
from hybrid.ops.losses import require_parameter
from hybrid.ops.windows import lifted, per_axis, unlifted
from hybrid.tensor import Tensor

_AVERAGE = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def _lp_pool(
    rank: int,
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """``(sum of x ** norm_type) ** (1 / norm_type)`` over each window of ``input``.

    Windows are placed as by ``max_pool1d``.  Roots of negative sums, which odd powers may have, are
    NaN.
    """
    name = f"lp_pool{rank}d"
    x = as_tensor(input)
    require_floating(name, input=x.type)
    require_parameter(name, "norm_type", norm_type)
    count = math.prod(per_axis(name, "kernel_size", kernel_size, rank, least=1))
    means = _AVERAGE[rank](x**norm_type, kernel_size, stride, 0, ceil_mode)
    return (means * count) ** (1 / norm_type)


def _max_unpool(
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """``input`` at the places ``indices`` that ``max_pool`` gave, and zeros elsewhere.

    The spatial sizes are ``(n - 1) * stride - 2 * padding + kernel_size``, or ``output_size``.
    """
    name = f"max_unpool{rank}d"
    x, single = lifted(name, input, rank)
    places, _ = lifted(name, as_indices(name, indices), rank)
    if places.shape != x.shape:
        raise ShapeError(
            f"{name} cannot take {x.type} with indices {places.type}",
            why="There is a place for each element.",
            fix="give the indices that max pooling returned",
        )
    kernel = per_axis(name, "kernel_size", kernel_size, rank, least=1)
    stride = kernel if stride is None else per_axis(name, "stride", stride, rank, least=1)
    padding = per_axis(name, "padding", padding, rank, least=0)
    axes = zip(x.shape[2:], stride, padding, kernel, strict=True)
    size = tuple([(n - 1) * s - 2 * p + k for n, s, p, k in axes])
    if output_size is not None:
        given = tuple(output_size)
        size = per_axis(name, "output_size", given[len(given) - rank :], rank, least=1)
    rows = x.shape[0] * x.shape[1]
    cells = ops.zeros((rows, math.prod(size)), dtype=x.dtype)
    flat = (rows, math.prod(x.shape[2:]))
    found = ops.scatter(cells, ops.reshape(places, flat), ops.reshape(x, flat), 1)
    return unlifted(ops.reshape(found, (*x.shape[:2], *size)), single)


def _of_rank(function: Any, name: str, rank: int) -> Any:
    """``function`` for ``rank`` spatial axes, under the name that people call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        return function(rank, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


lp_pool1d = _of_rank(_lp_pool, "lp_pool1d", 1)
lp_pool2d = _of_rank(_lp_pool, "lp_pool2d", 2)
lp_pool3d = _of_rank(_lp_pool, "lp_pool3d", 3)
max_unpool1d = _of_rank(_max_unpool, "max_unpool1d", 1)
max_unpool2d = _of_rank(_max_unpool, "max_unpool2d", 2)
max_unpool3d = _of_rank(_max_unpool, "max_unpool3d", 3)
