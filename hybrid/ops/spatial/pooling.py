"""Pooling: the greatest element, or the mean, of the windows of planes [N, C, *spatial].

Along each spatial axis window p has the places ``p * stride - padding + k * dilation`` for
``k < kernel`` that there are.  If ``adaptive``, the windows are those between ``p * n / size``,
rounded down, and ``(p + 1) * n / size``, rounded up, for an axis of n places and ``size`` windows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybrid.core.open_numbers import any_open
from hybrid.core.types import Shape, TensorType, int64, tensor_type
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir import op
from hybrid.ops.index.indexing import scatter_along_add, take_along
from hybrid.ops.shapes.creation import zeros
from hybrid.ops.spatial.windows import (
    is_trivial,
    per_axis,
    require_spatial,
    require_within,
    unlifted,
    widened_attrs,
    window_counts,
)
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.derivatives import linear, reshaped
from hybrid.ops.support.operand_checks import require_choice, require_floating, type_of

COUNTS = ("padded", "present", "one")  # what a sum is divided by; the order is the kernel's

# Windows -----------------------------------------------------------------------------------------


def _members(n: int, count: int, k: int, s: int, p: int, d: int, adaptive: bool) -> list[range]:
    """The places of each window along an axis of ``n`` places."""
    if adaptive:
        return [range(j * n // count, -(-(j + 1) * n // count)) for j in range(count)]
    found = []
    for j in range(count):
        start = j * s - p
        skipped = max(0, -(start // d)) if start < 0 else 0
        found.append(range(start + skipped * d, min(start + (k - 1) * d + 1, n), d))
    return found


def windows_of_axes(sizes: Shape, counts: Shape, geometry: dict[str, Any]) -> list[list[range]]:
    """For each spatial axis the places of each of its windows."""
    parts = [geometry[name] for name in ("kernel", "stride", "padding", "dilation")]
    rest = [geometry["adaptive"]] * len(sizes)
    return [_members(*axis) for axis in zip(sizes, counts, *parts, rest, strict=True)]


def divisors_of(sizes: Shape, counts: Shape, geometry: dict[str, Any], how: str) -> np.ndarray:
    """What the sum of each window is divided by."""
    found = np.ones(counts)
    axes = zip(sizes, counts, geometry["kernel"], geometry["stride"], geometry["padding"],
               windows_of_axes(sizes, counts, geometry), strict=True)  # fmt: skip
    for axis, (n, count, k, s, p, members) in enumerate(axes):
        along = [len(places) for places in members]
        if how == "padded" and not geometry["adaptive"]:
            along = [min(k, n + p - (j * s - p)) for j in range(count)]
        if how != "one":
            shape = [count if a == axis else 1 for a in range(len(sizes))]
            found = found * np.maximum(along, 1).reshape(shape)
    return found


def _each(x: Any, size: Shape, geometry: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where each window stands, and its places as an index of the spatial axes."""
    windows = windows_of_axes(x.shape[2:], size, geometry)
    for place in itertools.product(*map(range, size)):
        yield place, np.ix_(*[w[j] for w, j in zip(windows, place, strict=True)])


def _require(name: str, label: str, type: TensorType, size: Shape, geometry: Any) -> None:
    require_floating(name, **{label: type})
    require_spatial(name, label, type, len(size))
    if not 1 <= len(size) <= 3:
        raise ArgumentError(f"{name} got size {size}", why="There are one to three spatial axes.")
    for what, least in [("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)]:
        if len(geometry[what]) != len(size):
            raise ArgumentError(
                f"{name} got {what} {geometry[what]} and size {size}",
                why="Each has an int for every spatial axis.",
            )
        require_within(name, what, geometry[what], least=least)
    require_within(name, "size", size, least=0)


def _require_places(name: str, x: TensorType, size: Shape, geometry: Any) -> None:
    """Raise if some window has no place: nothing is the greatest of it."""
    axes = zip(x.shape[2:], size, *(geometry[k] for k in ("kernel", "stride", "padding",
               "dilation")), strict=True)  # fmt: skip
    for axis, (n, count, k, s, p, d) in enumerate(axes):
        if geometry["adaptive"]:
            empty = n == 0 < count
        elif any_open(n, count) and n >= d:  # the first window is the leftmost, the last the other
            left, right = (k - 1) * d < p, (count - 1) * s - p > n - 1
            empty = count > 0 and (left or right)
        else:
            # Those that begin in the padding, and the last: others have the place they begin at.
            start, last = -p, (count - 1) * s - p
            empty = count > 0 and last > n - 1
            while start < 0 and start <= last:
                first = start % d
                empty = empty or first > start + (k - 1) * d or first > n - 1
                start = start + s
        if empty:
            raise ShapeError(
                f"{name} cannot take {x}",
                why=f"Along spatial axis {axis}, of {n}, a window of {k} has no element.",
                fix="give less padding, or an input that is not empty",
            )


def _lower(kernel: str) -> Callable[..., None]:
    def lowering(emit, x, result, *, size, counts=None, **geometry):
        if is_trivial(emit, x, result):
            return
        parts = [geometry[k] for k in ("kernel", "stride", "padding", "dilation")]
        attrs = widened_attrs(*parts, fill=(1, 1, 0, 1))
        attrs += [int(geometry["adaptive"]), COUNTS.index(counts) if counts else 0]
        emit.kernel(kernel, [_planes(emit.dense(x))], [_planes(result)], attrs)

    return lowering


def _planes(view: Any) -> Any:
    """A dense view [N, C, *spatial] as [N * C, three axes]."""
    sizes = view.shape[2:]
    return view.reshape((view.shape[0] * view.shape[1], *(1,) * (3 - len(sizes)), *sizes))


# The greatest ------------------------------------------------------------------------------------


@op
def max_pool(
    x: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    adaptive: bool,
    size: Shape,
) -> TensorType:
    """The greatest element of each window; NaN where there is one."""
    geometry = _geometry(kernel, stride, padding, dilation, adaptive)
    _require("max_pool", "x", x, size, geometry)
    _require_places("max_pool", x, size, geometry)
    return x.with_shape((*x.shape[:2], *size))


@op(differentiable=False)
def max_pool_places(
    x: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    adaptive: bool,
    size: Shape,
) -> TensorType:
    """The place of the first greatest element (the first NaN) of each window in its plane."""
    return tensor_type(int64, max_pool.rule(
        x, kernel=kernel, stride=stride, padding=padding, dilation=dilation, adaptive=adaptive,
        size=size,
    ).shape)  # fmt: skip


def _geometry(kernel, stride, padding, dilation, adaptive):
    return {
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "adaptive": adaptive,
    }


max_pool.couples(axis_ties.all_but(lambda rank, **_: range(2, rank)))
max_pool.shares(shared_work.tied(axis_ties.all_but(lambda rank, **_: range(2, rank))))


@max_pool.reference
def max_pool_reference(x, *, size, **geometry):
    y = np.empty((*x.shape[:2], *size), x.dtype)
    for place, at in _each(x, size, geometry):
        window = x[(slice(None), slice(None), *at)]
        y[(slice(None), slice(None), *place)] = window.max(tuple(range(2, x.ndim)))
    return y


@max_pool_places.reference
def max_pool_places_reference(x, *, size, **geometry):
    y = np.empty((*x.shape[:2], *size), np.int64)
    plane = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for place, at in _each(x, size, geometry):
        window = x[(slice(None), slice(None), *at)].reshape(*x.shape[:2], plane[at].size)
        y[(slice(None), slice(None), *place)] = plane[at].reshape(-1)[window.argmax(-1)]
    return y


def _lower_greatest(name: str, whole: str) -> Callable[..., None]:
    """The kernel ``name``; of one window that is all of the input, the reduction ``whole``."""
    of_windows = _lower(name)

    def lowering(emit: Any, x: Any, result: Any, **attrs: Any) -> None:
        rows, elements = math.prod(x.shape[:2]), math.prod(x.shape[2:])
        if attrs["kernel"] == x.shape[2:] and not any(attrs["padding"]) and result.size == rows > 0:
            view = emit.dense(x).reshape((rows, elements, 1))
            emit.kernel(whole, [view], [result.reshape((rows, 1))])
        else:
            of_windows(emit, x, result, **attrs)

    return lowering


max_pool.lowering(_lower_greatest("max_pool", "max"))
max_pool_places.lowering(_lower_greatest("max_pool_places", "argmax"))


def _flat(x: Any) -> Any:
    """[N, C, *spatial] with one spatial axis."""
    return reshaped(x, (*x.shape[:2], math.prod(x.shape[2:])))


@max_pool.vjp
def max_pool_vjp(ct, _y, x, **attrs):
    """The cotangent of a window goes to its first greatest element."""
    places = _flat(max_pool_places(x, **attrs))
    nothing = zeros(_flat_shape(x), dtype=ct.dtype)
    return (reshaped(scatter_along_add(nothing, places, _flat(ct)), x.shape),)


def _flat_shape(x: Any) -> Shape:
    return (*x.shape[:2], math.prod(x.shape[2:]))


@max_pool.jvp
def max_pool_jvp(tangents, y, x, **attrs):
    places = _flat(max_pool_places(x, **attrs))
    return reshaped(take_along(_flat(tangents[0]), places), y.shape)


# The mean ----------------------------------------------------------------------------------------


@op
def avg_pool(
    x: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    adaptive: bool,
    counts: str,
    size: Shape,
) -> TensorType:
    """The sum of each window, divided by its count.

    ``counts`` says which: "padded" is the places in the plane or its padding, "present" those in
    the plane, "one" leaves the sum as it is.
    """
    require_choice("avg_pool: counts", counts, COUNTS)
    _require("avg_pool", "x", x, size, _geometry(kernel, stride, padding, dilation, adaptive))
    return x.with_shape((*x.shape[:2], *size))


@op
def avg_pool_spread(
    y: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    adaptive: bool,
    counts: str,
    size: Shape,
) -> TensorType:
    """The transpose of ``avg_pool``: each element of ``y`` is shared among its window's places."""
    require_choice("avg_pool_spread: counts", counts, COUNTS)
    geometry = _geometry(kernel, stride, padding, dilation, adaptive)
    _require("avg_pool_spread", "y", y, size, geometry)
    return y.with_shape((*y.shape[:2], *size))


avg_pool.couples(axis_ties.all_but(lambda rank, **_: range(2, rank)))
avg_pool.shares(shared_work.tied(axis_ties.all_but(lambda rank, **_: range(2, rank))))


@avg_pool.reference
def avg_pool_reference(x, *, size, counts, **geometry):
    y = np.empty((*x.shape[:2], *size), x.dtype)
    divisors = divisors_of(x.shape[2:], size, geometry, counts)
    for place, at in _each(x, size, geometry):
        total = x[(slice(None), slice(None), *at)].sum(tuple(range(2, x.ndim)))
        y[(slice(None), slice(None), *place)] = total / divisors[place]
    return y


@avg_pool_spread.reference
def avg_pool_spread_reference(y, *, size, counts, **geometry):
    x = np.zeros((*y.shape[:2], *size), y.dtype)
    divisors = divisors_of(size, y.shape[2:], geometry, counts)
    for place, at in _each(x, y.shape[2:], geometry):
        share = y[(slice(None), slice(None), *place)] / divisors[place]
        x[(slice(None), slice(None), *at)] += share.reshape(*share.shape, *(1,) * len(size))
    return x


avg_pool.lowering(_lower("avg_pool"))
avg_pool_spread.lowering(_lower("avg_pool_spread"))


@linear(avg_pool)
def avg_pool_vjp(ct, _y, _x, *, size, **attrs):
    return (avg_pool_spread(ct, size=_x.shape[2:], **attrs),)


@linear(avg_pool_spread)
def avg_pool_spread_vjp(ct, _x, _y, *, size, **attrs):
    return (avg_pool(ct, size=_y.shape[2:], **attrs),)


_SAMPLES = [  # planes, sizes, kernel, stride, padding, dilation
    ((2, 3), (4,), (2,), (1,), (1,), (1,)),
    ((1, 2), (17,), (3,), (2,), (1,), (2,)),
    ((2, 2), (40,), (3,), (1,), (1,), (1,)),
    ((1, 2), (3, 3), (2, 2), (1, 1), (1, 0), (1, 1)),
    ((2, 3), (8, 9), (3, 2), (2, 3), (1, 1), (1, 2)),
    ((1, 2), (7, 70), (3, 2), (3, 2), (0, 0), (2, 1)),
    ((1, 2), (4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 0, 1), (1, 1, 1)),
    ((0, 3), (4, 4), (2, 2), (2, 2), (0, 0), (1, 1)),
]
_ADAPTIVE = [((2, 2), (7,), (3,)), ((1, 3), (5, 9), (2, 4)), ((1, 1), (3, 4, 5), (2, 5, 1))]


def _samples(draw, *, dilated: bool, extra: tuple[dict[str, Any], ...] = ({},)) -> Iterator[Any]:
    for dtype, rest in itertools.product(draw.floats, extra):
        for planes, sizes, kernel, stride, padding, dilation in _SAMPLES:
            dilation = dilation if dilated else (1,) * len(sizes)
            pairs = [(p, p) for p in padding]
            size = window_counts("pool", "kernel", sizes, kernel, stride, pairs, dilation)
            geometry = _geometry(kernel, stride, padding, dilation, False)
            yield (draw(dtype, *planes, *sizes),), {**geometry, **rest, "size": size}
        for planes, sizes, size in _ADAPTIVE:
            ones = (1,) * len(sizes)
            geometry = _geometry(ones, ones, (0,) * len(sizes), ones, True)
            yield (draw(dtype, *planes, *sizes),), {**geometry, **rest, "size": size}


def _spread_samples(draw):
    for (x,), attrs in _samples(draw, dilated=False, extra=tuple({"counts": c} for c in COUNTS)):
        y = draw(x.dtype.name, *x.shape[:2], *attrs["size"])
        yield (y,), {**attrs, "size": x.shape[2:]}


max_pool.samples(lambda draw: _samples(draw, dilated=True))
max_pool_places.samples(lambda draw: _samples(draw, dilated=True))
avg_pool.samples(
    lambda draw: _samples(draw, dilated=False, extra=tuple({"counts": c} for c in COUNTS))
)
avg_pool_spread.samples(_spread_samples)

# What the functions of pools.py are made of ------------------------------------------------------


def require_flag(name: str, what: str, value: Any) -> bool:
    """``value``, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} got {what} {value!r}", fix="give True or False")
    return bool(value)


def arranged(
    name: str, x: Any, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any
) -> dict[str, Any]:
    """The attributes of an op for windows that are given by numbers."""
    require_floating(name, input=type_of(x))
    kernel = per_axis(name, "kernel_size", kernel, rank, least=1)
    stride = kernel if stride is None else per_axis(name, "stride", stride, rank, least=1)
    padding = per_axis(name, "padding", padding, rank, least=0)
    dilation = per_axis(name, "dilation", dilation, rank, least=1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(2 * p > span for p, span in zip(padding, spans, strict=True)):
        raise ArgumentError(
            f"{name} got padding {padding} for windows of {tuple(spans)}",
            why="Padding may be half of a window at most.",
            fix="pad the input with pad",
        )
    sizes, pairs = x.shape[2:], [(p, p) for p in padding]
    if require_flag(name, "ceil_mode", ceil):
        # The last window may begin anywhere in the input or the padding before it.
        pairs = [(p, p + s - 1) for p, s in zip(padding, stride, strict=True)]
    size = window_counts(name, "windows", sizes, kernel, stride, pairs, dilation)
    size = tuple(
        count - (count > 1 and (count - 1) * s >= n + p)
        for count, s, n, p in zip(size, stride, sizes, padding, strict=True)
    )
    return {**_geometry(kernel, stride, padding, dilation, False), "size": size}


def adapted(name: str, x: Any, rank: int, output_size: Any) -> dict[str, Any]:
    """The attributes of an op for windows that are given by how many there are."""
    require_floating(name, input=type_of(x))
    sizes = x.shape[2:]
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(given) == rank:
        given = [n if size is None else size for size, n in zip(given, sizes, strict=True)]
    size = per_axis(name, "output_size", given, rank, least=0)
    ones = (1,) * rank
    if 0 in sizes:
        raise ShapeError(
            f"{name} cannot take {type_of(x)} as input",
            why="Its spatial axes must not be empty.",
            fix="give an input with elements",
        )
    if any(n % s for n, s in zip(sizes, size, strict=True) if s) or 0 in size:
        return {**_geometry(ones, ones, (0,) * rank, ones, True), "size": size}
    kernel = tuple(n // s for n, s in zip(sizes, size, strict=True))  # windows side by side
    return {**_geometry(kernel, kernel, (0,) * rank, ones, False), "size": size}


def greatest(x: Any, single: bool, attrs: dict[str, Any], places: bool) -> Any:
    """The greatest elements of the windows, and their places if asked for."""
    y = unlifted(max_pool(x, **attrs), single)
    return (y, unlifted(max_pool_places(x, **attrs), single)) if places else y
