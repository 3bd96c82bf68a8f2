"""Pictures read at places between their elements: grid_sample, and the grids of affine maps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.core.types import int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.support.operand_checks import as_tensor, require_choice, require_floating

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
_A = -0.75  # of the cubic convolution of Keys (1981), as PyTorch and ONNX have it

Taps = list[tuple[Any, Any]]  # along an axis: elements, and what each is worth (None: 1)


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` [N, C, H, W] read at the places ``grid`` [N, H', W', 2]: [N, C, H', W'].

    A place is (x, y), from -1, the first element of the last axis and of the one before, to 1, the
    last: their centers with ``align_corners``, else their outer edges.  Between elements the value
    is theirs by distance ("bilinear"), that of the nearest, half to even, or of the cubic
    convolution of the 16 around ("bicubic").  Outside of ``input`` are "zeros", the elements of its
    "border", or its "reflection" at the borders.  Of volumes: [N, C, D, H, W] at
    [N, D', H', W', 3], by "bilinear" (of three axes) and "nearest".

    >>> F.grid_sample(hy.asarray([[[[1.0, 3.0]]]]), hy.zeros((1, 1, 1, 2)), align_corners=True)
    tensor([[[[2.]]]], dtype=float32)
    """
    x, places = as_tensor(input), as_tensor(grid)
    require_floating("grid_sample", input=x.type, grid=places.type)
    rank = x.ndim - 2
    fits = rank in (2, 3) and places.ndim == x.ndim and places.shape[-1] == rank
    if not fits or places.shape[0] != x.shape[0] or 0 in x.shape[2:]:
        raise ShapeError(
            f"grid_sample cannot take {x.type} and {places.type}",
            why="It takes [N, C, H, W] and [N, H', W', 2], or [N, C, D, H, W] and "
            "[N, D', H', W', 3], and no empty pictures.",
            fix="change a shape",
        )
    if mode == "bicubic" and rank == 3:
        raise ArgumentError(
            f'grid_sample got mode "bicubic" for {x.type}',
            why="That mode is for pictures.",
            fix='give "bilinear"',
        )
    return sampled_grid(x, places, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of ``grid_sample`` that maps each place by ``theta`` [N, 2, 3]: [N, H, W, 2].

    ``size`` is that of the result of ``grid_sample``, (N, C, H, W).  Of volumes: ``theta``
    [N, 3, 4] and (N, C, D, H, W) give [N, D, H, W, 3].

    >>> F.affine_grid(hy.asarray([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    tensor([[[[0. , 0. ],
              [1. , 0. ]]]], dtype=float32)
    """
    theta = as_tensor(theta)
    require_floating("affine_grid", theta=theta.type)
    size = tuple(size)
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1):
        raise ShapeError(
            f"affine_grid cannot take {theta.type} and size {list(size)}",
            why="It takes [N, 2, 3] and (N, C, H, W), or [N, 3, 4] and (N, C, D, H, W).",
            fix="change the shape or the size",
        )
    spatial = size[2:]
    columns = []
    for axis in reversed(range(rank)):
        count = spatial[axis]
        if align_corners and count > 1:
            steps = (ops.arange(count, dtype=theta.dtype) * 2 - (count - 1)) / (count - 1)
        else:
            steps = (ops.arange(count, dtype=theta.dtype) * 2 - (count - 1)) / count
        along = ops.reshape(steps, (count, *(1,) * (rank - 1 - axis)))
        columns.append(ops.broadcast_to(along, spatial))
    places = ops.stack([*columns, ops.ones(spatial, dtype=theta.dtype)], axis=-1)
    flat = ops.reshape(places, (1, -1, rank + 1))
    found = ops.matmul(flat, ops.permute_dims(theta, (0, 2, 1)))
    return ops.reshape(found, (size[0], *spatial, rank))


def sampled_grid(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    """``grid_sample`` of any number of spatial axes, in the words of PyTorch."""
    require_choice("padding_mode", padding, PADDINGS)
    require_choice("mode", mode, MODES)
    rank, spatial = x.ndim - 2, x.shape[2:]
    batch, channels = x.shape[:2]
    targets = grid.shape[1:-1]
    flat = ops.reshape(x, (batch, channels, -1))
    borders = [(0.0, n - 1.0) if align else (-0.5, n - 0.5) for n in spatial]
    axes = [
        _taps(grid[..., rank - 1 - axis], spatial[axis], borders[axis], mode, padding, align)
        for axis in range(rank)
    ]
    total = None
    for corner in itertools.product(*axes):
        place, inside, weight = None, None, None
        for (element, share), length, (low, high) in zip(corner, spatial, borders, strict=True):
            within = ops.logical_and(element >= 0, element < length)
            if padding == "reflection":
                beyond = ops.logical_or(element < low, element > high)
                element = ops.where(beyond, ops.trunc(_reflected(element, low, high)), element)
            index = ops.astype(ops.clip(element, 0, length - 1), int64)
            place = index if place is None else place * length + index
            inside = within if inside is None else ops.logical_and(inside, within)
            if share is not None:
                weight = share if weight is None else weight * share
        places = ops.reshape(place, (batch, 1, -1))
        places = ops.broadcast_to(places, (batch, channels, places.shape[2]))
        part = ops.reshape(ops.gather(flat, places, axis=2), (batch, channels, *targets))
        if padding == "zeros":
            part = ops.where(ops.expand_dims(inside, axis=1), part, ops.zeros_like(part))
        if weight is not None:
            part = part * ops.astype(ops.expand_dims(weight, axis=1), part.dtype)
        total = part if total is None else total + part
    return total


def _taps(
    places: Any, length: int, border: tuple[float, float], mode: str, padding: str, align: bool
) -> Taps:
    """The elements of an axis around ``places``, from -1 to 1, and what they are worth there."""
    at = (places + 1) / 2.0 * (length - 1) if align else ((places + 1) * length - 1) / 2.0
    if mode == "nearest":
        at = ops.round(at)
    if padding == "border" and mode != "bicubic":  # of that each element is clipped by itself
        at = ops.clip(at, 0, length - 1)
    elif padding == "reflection":
        beyond = ops.logical_or(at < border[0], at > border[1])
        at = ops.where(beyond, _reflected(at, *border), at)
    if mode == "nearest":
        return [(at, None)]
    floor = ops.floor(at)
    t = at - floor
    if mode == "bilinear":
        return [(floor, 1 - t), (floor + 1, t)]
    return [
        (floor + step, share) for step, share in zip(range(-1, 3), _cubic_shares(t), strict=True)
    ]


def _reflected(at: Any, low: float, high: float) -> Any:
    """``at`` mirrored at both borders until it is between them."""
    span = high - low
    if span == 0:
        return ops.zeros_like(at) + low
    away = ops.abs(at - low)
    rest = ops.remainder(away, 2 * span)
    return ops.where(rest > span, 2 * span - rest, rest) + low


def _cubic_shares(t: Any) -> list[Any]:
    def far(d: Any) -> Any:
        return ((_A * d - 5 * _A) * d + 8 * _A) * d - 4 * _A

    def near(d: Any) -> Any:
        return ((_A + 2) * d - (_A + 3)) * d * d + 1

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
