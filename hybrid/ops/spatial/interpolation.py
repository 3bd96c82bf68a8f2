"""Interpolation: spatial axes stretched to other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import any_open, open_array
from hybrid.core.size_functions import size_function
from hybrid.core.types import Shape, TensorType
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.index.indexing import take_slices
from hybrid.ops.spatial.pools import adaptive_average
from hybrid.ops.spatial.weighted_taps import antialiased, cubic
from hybrid.ops.spatial.windows import is_trivial, per_axis, require_within
from hybrid.ops.support import axis_ties
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import linear
from hybrid.ops.support.dtypes import identity
from hybrid.ops.support.operand_checks import (
    as_tensor,
    require_axis,
    require_choice,
    require_floating,
    type_of,
)

# Linear interpolation along an axis --------------------------------------------------------------


def linear_weights(n: int, size: int, scale: float, align: bool) -> np.ndarray:
    """What each of ``n`` elements is worth to each of ``size`` results: [size, n]."""
    places = np.arange(size) * scale if align else (np.arange(size) + 0.5) * scale - 0.5
    places = np.clip(places, 0, n - 1)
    low = np.floor(places).astype(np.int64)
    found = np.zeros((size, n))
    found[np.arange(size), low] = 1 - (places - low)
    found[np.arange(size), np.minimum(low + 1, n - 1)] += places - low
    return found


def _require(name: str, label: str, type: TensorType, axis: int, size: int, scale: float) -> None:
    require_floating(name, **{label: type})
    require_axis(name, axis, type.rank)
    require_within(name, "size", (size,), least=0)
    if not 0 <= scale < math.inf:
        raise ArgumentError(f"{name} got scale {scale}", fix="give a finite number >= 0")


@op
def resample(x: TensorType, *, axis: int, size: int, scale: float, align: bool) -> TensorType:
    """``size`` elements between those of ``x`` along ``axis``, by linear interpolation.

    Result i lies at ``i * scale`` if ``align``, else at ``(i + 0.5) * scale - 0.5``; outside of
    ``x`` its first or last element counts.
    """
    _require("resample", "x", x, axis, size, scale)
    if x.shape[axis] == 0 < size:
        raise ShapeError(
            f"resample cannot take {x}",
            why=f"Axis {axis} is empty.",
            fix="give an input with elements",
        )
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


@op
def resample_spread(
    y: TensorType, *, axis: int, size: int, scale: float, align: bool
) -> TensorType:
    """The transpose of ``resample``, from its result ``y`` to an operand of ``size`` elements."""
    _require("resample_spread", "y", y, axis, size, scale)
    if size == 0 < y.shape[axis]:
        raise ShapeError(f"resample_spread cannot put {y} in an empty axis {axis}")
    return y.with_shape((*y.shape[:axis], size, *y.shape[axis + 1 :]))


resample.couples(axis_ties.along_axis)


@resample.reference
def resample_reference(x, *, axis, size, scale, align):
    weights = linear_weights(x.shape[axis], size, scale, align)
    found = np.tensordot(np.moveaxis(x.astype(np.float64), axis, -1), weights, ((-1,), (1,)))
    return np.moveaxis(found, -1, axis).astype(x.dtype)


@resample_spread.reference
def resample_spread_reference(y, *, axis, size, scale, align):
    weights = linear_weights(size, y.shape[axis], scale, align)
    found = np.tensordot(np.moveaxis(y.astype(np.float64), axis, -1), weights, ((-1,), (0,)))
    return np.moveaxis(found, -1, axis).astype(y.dtype)


def _lower(kernel: str) -> Callable[..., None]:
    def lowering(emit, x, result, *, axis, size, scale, align):
        if is_trivial(emit, x, result):
            return
        views = [_stacks(emit.dense(x), axis), _stacks(result, axis)]
        emit.kernel(kernel, views[:1], views[1:], [int(align), float(scale)])

    return lowering


def _stacks(view: Any, axis: int) -> Any:
    shape = view.shape
    return view.reshape((math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))


resample.lowering(_lower("resample"))
resample_spread.lowering(_lower("resample_spread"))


@linear(resample)
def resample_vjp(ct, _y, _x, *, axis, size, scale, align):
    return (resample_spread(ct, axis=axis, size=_x.shape[axis], scale=scale, align=align),)


@linear(resample_spread)
def resample_spread_vjp(ct, _x, _y, *, axis, size, scale, align):
    return (resample(ct, axis=axis, size=_y.shape[axis], scale=scale, align=align),)


_RESAMPLED = [  # shape, axis, size, scale, align
    ((4,), 0, 7, 0.5, True),
    ((1,), 0, 3, 1 / 3, False),
    ((2, 5), 1, 9, 5 / 9, False),
    ((3, 9), 1, 4, 9 / 4, False),
    ((2, 6, 3), 1, 11, 0.5, True),
    ((2, 3, 17), 1, 4, 0.75, False),
    ((2, 40), 1, 61, 40 / 61, False),
    ((0, 3), 1, 2, 1.5, False),
]


@resample.samples
def resample_samples(draw):
    for dtype in draw.floats:
        for shape, axis, size, scale, align in _RESAMPLED:
            attrs = {"axis": axis, "size": size, "scale": scale, "align": align}
            yield (draw(dtype, *shape),), attrs


@resample_spread.samples
def resample_spread_samples(draw):
    for (x,), attrs in resample_samples(draw):
        axis = attrs["axis"]
        shape = (*x.shape[:axis], attrs["size"], *x.shape[axis + 1 :])
        yield (draw(x.dtype.name, *shape),), {**attrs, "size": x.shape[axis]}


# Functions ---------------------------------------------------------------------------------------

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
CUBIC = "bicubic"
MODES = ("nearest", "nearest-exact", "area", *LINEAR.values(), CUBIC)


@remembered_of_any
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """[N, C, *spatial] with its spatial axes stretched to ``size``, or by ``scale_factor``.

    With s the old size by the new one (or 1 / ``scale_factor``), element i of the result is that at
    ``i * s``, rounded down ("nearest"), the one round ``(i + 0.5) * s`` ("nearest-exact"), or lies
    between those round ``(i + 0.5) * s - 0.5`` ("linear", "bilinear" and "trilinear", for one to
    three axes; "bicubic" for two, by Keys' filter of 1981 with a = -0.75).  "area" is
    ``adaptive_avg_pool`` of the new sizes: the means of the elements that each covers, in whole or
    in part.  With ``align_corners`` linear modes and "bicubic" keep the first and last elements
    where they are; ``recompute_scale_factor`` takes s from the sizes, also with ``scale_factor``.
    ``antialias`` lets the filters of "bilinear" and "bicubic" be as wide as an element of the
    result, as Pillow does.  Nearest places are computed in float32, as PyTorch does.
    """
    given = x = as_tensor(input)
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"interpolate cannot take {type_of(x)} as input",
            why="It must have 3 to 5 dimensions: [N, C] and one to three more.",
            fix="change its shape with reshape or expand_dims",
        )
    require_choice("mode", mode, MODES)
    near, area = mode.startswith("nearest"), mode == "area"
    if not (near or area or mode == LINEAR[rank] or (mode == CUBIC and rank == 2)):
        raise ArgumentError(
            f'interpolate got mode "{mode}" for {type_of(x)}',
            why="That mode is for two spatial axes."
            if mode == CUBIC
            else f'With as many spatial axes it is called "{LINEAR[rank]}".',
            fix=f'give "{LINEAR[rank]}"' if mode == CUBIC else "give that mode",
        )
    if antialias and (rank != 2 or near or area):
        raise ArgumentError(
            f'interpolate got antialias=True and mode "{mode}"',
            why='Filters of "bilinear" and "bicubic" can be wider, others cannot.',
            fix="leave antialias out, or give one of these modes",
        )
    if (near or area) and align_corners:
        raise ArgumentError(
            f'interpolate got align_corners=True and mode "{mode}"',
            why="Only linear modes and bicubic align corners.",
            fix="leave align_corners out",
        )
    if not near:
        require_floating("interpolate", input=type_of(x))
    sizes, scales = _stretched(x, rank, size, scale_factor)
    if area:
        return adaptive_average("interpolate", rank, x, sizes)
    if recompute_scale_factor:
        scales = [n / count for n, count in zip(x.shape[2:], sizes, strict=True)]
    # What shrinks comes first: the others have less to do.
    order = sorted(range(rank), key=scales.__getitem__, reverse=True)
    for axis in order:
        n, count, scale = x.shape[2 + axis], sizes[axis], scales[axis]
        if align_corners:
            scale = (n - 1) / (count - 1) if count > 1 else 0.0
        if (any_open(scale) or scale == 1) and n == count and scale == 1:
            continue
        along = {"axis": 2 + axis, "count": count, "scale": scale, "align": bool(align_corners)}
        if near:
            given = n, count, scale, mode == "nearest-exact"
            places = (
                open_array("nearest", (count,), *given) if any_open(*given) else _nearest(*given)
            )
            x = take_slices(x, as_tensor(places), axis=2 + axis)
        elif antialias:
            x = antialiased(x, **along, kind="cubic" if mode == CUBIC else "linear")
        elif mode == CUBIC:
            x = cubic(x, **along)
        else:
            align = bool(align_corners)
            scale = scale if isinstance(scale, float) else float(scale)
            x = resample(x, axis=2 + axis, size=count, scale=scale, align=align)
    return identity(x) if x is given else x


def _stretched(x: Any, rank: int, size: Any, factor: Any) -> tuple[Shape, list[float]]:
    """The new spatial sizes, and old places for each new one."""
    if (size is None) == (factor is None):
        raise ArgumentError(
            f"interpolate got size {size!r} and scale_factor {factor!r}",
            fix="give one of the two",
        )
    old = x.shape[2:]
    if 0 in old:
        raise ShapeError(
            f"interpolate cannot take {type_of(x)} as input",
            why="Its spatial axes must not be empty.",
            fix="give an input with elements",
        )
    if factor is None:
        sizes = per_axis("interpolate", "size", size, rank, least=1)
        return sizes, [n / count for n, count in zip(old, sizes, strict=True)]
    factors = tuple(factor) if isinstance(factor, Sequence) else (factor,) * rank
    for f in factors:
        if isinstance(f, bool) or not isinstance(f, (int, float)):
            raise ArgumentTypeError(
                f"interpolate got scale_factor {factor!r}", fix="give a number, or a tuple of them"
            )
    if len(factors) != rank or not all(0 < f < math.inf for f in factors):
        raise ArgumentError(
            f"interpolate got scale_factor {factor!r}",
            why=f"It must be finite and above 0, for all axes or each of {rank}.",
            fix="give such a number",
        )
    # Of an open axis what needs no float says more: 2 * n is even.
    sizes = tuple(
        n * int(f) if f % 1 == 0 else math.floor(n * f) for n, f in zip(old, factors, strict=True)
    )
    require_within("interpolate", "size", sizes, least=1)
    return sizes, [1 / f for f in factors]


def _nearest(n: int, count: int, scale: float, exact: bool) -> np.ndarray:
    """The element of ``n`` that each of ``count`` results is."""
    places = np.arange(count, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.minimum(np.floor(places * np.float32(scale)).astype(np.int64), n - 1)


size_function("nearest", _nearest, raises=False)
