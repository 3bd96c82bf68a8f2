"""Power-average pooling, and max pooling undone, as functions."""

from __future__ import annotations

import math
from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.axes.statistics import root
from hybrid.ops.index.indexing import as_indices
from hybrid.ops.layers.losses import require_parameter
from hybrid.ops.spatial.windows import lifted, per_axis, unlifted
from hybrid.ops.support.operand_checks import as_tensor, require_floating

_AVERAGE = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}
_GREATEST = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}


def _lp_pool(
    rank: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    name = f"lp_pool{rank}d"
    x = as_tensor(input)
    require_floating(name, input=x.type)
    require_parameter(name, "norm_type", norm_type)
    if norm_type == math.inf:
        return _GREATEST[rank](ops.abs(x), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == 0:
        raise ArgumentError(f"{name} got norm_type 0", fix="give a number other than 0, or inf")
    count = math.prod(per_axis(name, "kernel_size", kernel_size, rank, least=1))
    totals = _AVERAGE[rank](x**norm_type, kernel_size, stride, 0, ceil_mode) * count
    return root(totals, lambda t: t ** (1 / norm_type), 0.0 if norm_type > 0 else math.inf)


def _max_unpool(
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
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


def lp_pool1d(
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """``(sum of x ** norm_type) ** (1 / norm_type)`` over each window of [N, C, L] or [C, L].

    Windows are placed as by ``max_pool1d``.  ``inf`` gives the largest ``abs(x)``.  Roots of
    negative sums, which odd powers may have, are NaN.  The gradient of a window of zeros is zero.
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """``lp_pool1d`` over two axes: [N, C, H, W]."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """``lp_pool1d`` over three axes: [N, C, D, H, W]."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """``input`` at the places ``indices`` that ``max_pool1d`` gave, and zeros elsewhere.

    The spatial size is ``(L - 1) * stride - 2 * padding + kernel_size``, or ``output_size``.
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """``max_unpool1d`` over two axes: [N, C, H, W]; places are counted row by row."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """``max_unpool1d`` over three axes: [N, C, D, H, W]; places are counted row by row."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
