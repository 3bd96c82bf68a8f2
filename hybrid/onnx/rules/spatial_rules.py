"""Convolutions, pooling and interpolation: padding and counts as the sizes of results say them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import is_same
from hybrid.core.size_functions import SizeValue
from hybrid.core.types import Shape, float32, float64, int8, int32, int64
from hybrid.ir import Node
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.layer_rules import sign_turned, with_sign_turned
from hybrid.onnx.rules.shape_rules import pad, reshaped, sliced
from hybrid.onnx.size_terms import resampled_places
from hybrid.ops.spatial.interpolation import linear_weights
from hybrid.ops.spatial.pooling import divisors_of, windows_of_axes

# Convolutions -------------------------------------------------------------------------------------


def _ends(
    g: GraphWriter, sizes: Shape, counts: Shape, kernel: Shape, stride: Shape, padding: Shape,
    dilation: Shape,
) -> list[int]:  # fmt: skip
    """What is added behind each axis for as many windows; below 0: what is cut off."""
    found = []
    axes = zip(sizes, counts, kernel, stride, padding, dilation, strict=True)
    for n, count, k, s, p, d in axes:
        reach = (k - 1) * d + 1
        if not isinstance(n, SizeValue) and not isinstance(count, SizeValue):
            least = (count - 1) * s + reach - p - n  # the last window ends with the axis
            plain = count > 0 and least < 0 and n + p >= reach and (n + p - reach) // s + 1 == count
            found.append(0 if plain else least)
            continue
        tried = [p, *range(reach + s)]
        fits = [e for e in tried if is_same((n + p + e - reach) // s + 1, count)]
        if not fits:
            raise g.refusal(
                f"windows of {k} over an axis of {n} elements, {count} of them",
                why="what is added behind the axis depends on its size",
                fix="leave the axis out of dynamic_axes",
            )
        found.append(fits[0])
    return found


def _cut(g: GraphWriter, x: Wire, ends: list[int]) -> tuple[Wire, list[int]]:
    """``x`` without what is cut off behind its spatial axes, and what is added there."""
    assert x.shape is not None
    axes = [2 + a for a, end in enumerate(ends) if end < 0]
    sizes = [x.shape[a] + ends[a - 2] for a in axes]
    kept = sliced(g, x, axes, [0] * len(axes), sizes, [1] * len(axes))
    return kept, [max(end, 0) for end in ends]


@writes("conv")
def conv(
    g: GraphWriter, x: Wire, w: Wire, *, stride: Shape, padding: Shape, dilation: Shape,
    groups: int, size: Shape, bias: Wire | None = None,
) -> Wire:  # fmt: skip
    assert x.shape is not None and w.shape is not None
    ends = _ends(g, x.shape[2:], size, w.shape[2:], stride, padding, dilation)
    x, ends = _cut(g, x, ends)
    return g("Conv", x, w, bias, kernel_shape=w.shape[2:], strides=stride, dilations=dilation,
             pads=[*padding, *ends], group=groups)  # fmt: skip


@writes("conv_integer", node=True)
def conv_integer(
    g: GraphWriter, x: Wire, w: Wire, zero: Wire, *, stride: Shape, padding: Shape,
    dilation: Shape, groups: int, size: Shape, node: Node,
) -> Wire:  # fmt: skip
    """ConvInteger of uint8: older versions of onnxruntime have no other kernel of it."""
    assert x.shape is not None and w.shape is not None
    if any(type(n) is int and n == 0 for n in (*x.shape[1:], *w.shape)):  # it leaves these undone
        return g("Expand", g.zero(int32), g.sizes(node.results[0].type.shape))
    ends = _ends(g, x.shape[2:], size, w.shape[2:], stride, padding, dilation)
    x, ends = _cut(g, x, ends)
    if x.dtype is int8:
        x, zero = sign_turned(g, x), sign_turned(g, zero)
    kernel, (w, _, middle) = w.shape[2:], with_sign_turned(g, w)
    return g("ConvInteger", x, w, zero, middle, dtype=int32, kernel_shape=kernel,
             strides=stride, dilations=dilation, pads=[*padding, *ends], group=groups)  # fmt: skip


@writes("conv_transpose")
def conv_transpose(
    g: GraphWriter, y: Wire, w: Wire, *, stride: Shape, padding: Shape, dilation: Shape,
    groups: int, size: Shape, bias: Wire | None = None,
) -> Wire:  # fmt: skip
    assert y.shape is not None and w.shape is not None
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    axes = zip(y.shape[2:], stride, reach, padding, size, strict=True)
    ends = [(count - 1) * s + r - p - n for count, s, r, p, n in axes]
    if any(isinstance(end, SizeValue) for end in ends):
        raise g.refusal(
            "a transposed convolution to a size that does not follow from its operand",
            fix="leave the axis out of dynamic_axes",
        )
    missing = [max(-end, 0) for end in ends]
    added = [m if m < max(s, d) else 0 for m, s, d in zip(missing, stride, dilation, strict=True)]
    found = g("ConvTranspose", y, w, bias, kernel_shape=w.shape[2:], strides=stride,
              dilations=dilation, pads=[*padding, *[max(end, 0) for end in ends]], group=groups,
              output_padding=added if any(added) else None)  # fmt: skip
    rest = [m - a for m, a in zip(missing, added, strict=True)]
    if not any(rest):
        return found
    if bias is not None:  # what is added behind has it, too
        column = g("Unsqueeze", bias, g.ints(*range(1, 1 + len(size))))
        plain = conv_transpose(g, y, w, stride=stride, padding=padding, dilation=dilation,
                               groups=groups, size=size)  # fmt: skip
        return g("Add", plain, column)
    return pad(g, found, widths=((0, 0), (0, 0), *[(0, r) for r in rest]), value=0)


@writes("conv_weight")
def conv_weight(
    g: GraphWriter, x: Wire, y: Wire, *, stride: Shape, padding: Shape, dilation: Shape,
    groups: int, size: Shape,
) -> Wire:  # fmt: skip
    """A convolution of x with y: batch and channels change places, stride and dilation, too."""
    assert x.shape is not None and y.shape is not None
    batch, channels, *spatial = x.shape
    rest = range(2, 2 + len(size))
    if groups > 1:
        own = (batch, groups, channels // groups, *spatial)
        order = [2, 1, 0, *[a + 1 for a in rest]]
        x = g("Transpose", reshaped(g, x, own), perm=order)
        x = reshaped(g, x, (channels // groups, groups * batch, *spatial))
    else:
        x = g("Transpose", x, perm=[1, 0, *rest], shape=(channels, batch, *spatial))
    shape = (y.shape[1], y.shape[0], *y.shape[2:])
    kernel = g("Transpose", y, perm=[1, 0, *rest], shape=shape)
    found = conv(g, x, kernel, stride=dilation, padding=padding, dilation=stride, groups=groups,
                 size=size)  # fmt: skip
    return g("Transpose", found, perm=[1, 0, *rest])


# Pooling ------------------------------------------------------------------------------------------


def _regular(g: GraphWriter, x: Wire, geometry: Any, size: Shape) -> Any:
    """Kernel, stride, padding, ends and dilation as pooling of ONNX has them; None if it has not.

    Windows that adapt are like others where they divide the axes evenly.
    """
    assert x.shape is not None
    kernel, stride, padding, dilation = (
        geometry[name] for name in ("kernel", "stride", "padding", "dilation")
    )
    if geometry["adaptive"]:
        pairs = list(zip(x.shape[2:], size, strict=True))
        if any(isinstance(n, SizeValue) or c == 0 or n % c for n, c in pairs):
            return None
        kernel = stride = tuple([n // c for n, c in pairs])
        padding, dilation = (0,) * len(kernel), (1,) * len(kernel)
    ends = _ends(g, x.shape[2:], size, kernel, stride, padding, dilation)
    if any(p >= k or e >= k for p, e, k in zip(padding, ends, kernel, strict=True)):
        return None
    return kernel, stride, padding, ends, dilation


def _require_known(g: GraphWriter, x: Wire, size: Shape) -> None:
    assert x.shape is not None
    if any(isinstance(n, SizeValue) for n in (*x.shape[2:], *size)):
        raise g.refusal(
            "pooling whose windows depend on open sizes", fix="leave the axis out of dynamic_axes"
        )


def _gathered(g: GraphWriter, x: Wire, size: Shape, geometry: Any) -> tuple[Wire, np.ndarray]:
    """The elements of each window, [N, C, *size, elements], and their places in the plane.

    Of windows with fewer elements the last one is there more often.
    """
    _require_known(g, x, size)
    assert x.shape is not None
    rank = len(size)
    plane = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    found, widths = x, []
    for axis, windows in enumerate(windows_of_axes(x.shape[2:], size, geometry)):
        width = max(map(len, windows))
        table = np.array([[*w, *[w[-1]] * (width - len(w))] for w in windows]).reshape(-1, width)
        found = g("Gather", found, g.constant(table, int64), axis=2 + 2 * axis)
        plane = np.take(plane, table, 2 * axis)
        widths.append(width)
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    found = g("Transpose", found, perm=[0, 1, *[2 + a for a in order]])
    places = plane.transpose(order).reshape(*size, math.prod(widths))
    return reshaped(g, found, (*x.shape[:2], *size, math.prod(widths))), places


@writes("max_pool")
def max_pool(g: GraphWriter, x: Wire, *, size: Shape, **geometry: Any) -> Wire:
    regular = _regular(g, x, geometry, size)
    if regular is None:
        found, _ = _gathered(g, x, size, geometry)
        axes = g.ints(-1) if g.opset >= 18 else None
        return g("ReduceMax", found, axes, axes=None if axes else [-1], keepdims=0)
    return _max_pool(g, x, regular, 1)[0]


def _max_pool(g: GraphWriter, x: Wire, regular: Any, outputs: int) -> tuple[Wire, ...]:
    kernel, stride, padding, ends, dilation = regular
    x, ends = _cut(g, x, ends)
    found = g("MaxPool", x, outputs=outputs, dtype=(x.dtype, int64)[:outputs], kernel_shape=kernel,
              strides=stride, pads=[*padding, *ends], dilations=dilation)  # fmt: skip
    return found if outputs > 1 else (found,)


@writes("max_pool_places")
def max_pool_places(g: GraphWriter, x: Wire, *, size: Shape, **geometry: Any) -> Wire:
    assert x.shape is not None
    regular = _regular(g, x, geometry, size)
    if regular is not None and all(end >= 0 for end in regular[3]):
        _, places = _max_pool(g, x, regular, 2)  # in the whole tensor
        return g("Mod", places, g.scalar(math.prod(x.shape[2:])))
    found, table = _gathered(g, x, size, geometry)
    chosen = g("ArgMax", found, axis=-1, keepdims=1, dtype=int64)
    shape = (*x.shape[:2], *table.shape)
    places = g("Expand", g.constant(table, int64), g.sizes(shape))
    return g("Squeeze", g("GatherElements", places, chosen, axis=-1), g.ints(-1))


@writes("avg_pool")
def avg_pool(g: GraphWriter, x: Wire, *, size: Shape, counts: str, **geometry: Any) -> Wire:
    assert x.shape is not None
    regular = _regular(g, x, geometry, size) if x.dtype is float32 else None
    if regular is not None and g.opset < 19 and any(d > 1 for d in regular[4]):
        regular = None  # AveragePool has dilations since opset 19
    if regular is None:
        summed = _summed(g, x, size, geometry)
        return _divided(g, summed, x.shape[2:], size, geometry, counts)
    kernel, stride, padding, ends, dilation = regular
    kept, ends = _cut(g, x, ends)
    whole = counts != "present"
    spread = dilation if max(dilation) > 1 else None
    found = g("AveragePool", kept, kernel_shape=kernel, strides=stride, pads=[*padding, *ends],
              count_include_pad=int(whole), dilations=spread)  # fmt: skip
    elements = math.prod(kernel)
    if counts == "one":
        return g("Mul", found, g.constant(elements, x.dtype))
    if not whole or geometry["adaptive"] or padding == tuple(ends):
        return found
    if any(isinstance(n, SizeValue) for n in x.shape[2:]):
        return found  # then the ends are what is declared as padding
    divisors = divisors_of(x.shape[2:], size, geometry, counts)
    if (divisors == elements).all():
        return found
    return g("Mul", found, g.constant(elements / divisors, x.dtype))


def _membership(n: int, windows: Sequence[range]) -> np.ndarray:
    """Which of ``n`` places are in which window: [n, windows]."""
    found = np.zeros((n, len(windows)))
    for j, places in enumerate(windows):
        found[list(places), j] = 1
    return found


def _summed(g: GraphWriter, x: Wire, size: Shape, geometry: Any) -> Wire:
    """The sum of each window: a product along each axis."""
    _require_known(g, x, size)
    assert x.shape is not None
    found, shape = x, x.shape
    for axis, windows in enumerate(windows_of_axes(x.shape[2:], size, geometry)):
        matrix = _membership(x.shape[2 + axis], windows)
        found, shape = along(g, found, shape, 2 + axis, matrix)
    return found


def along(
    g: GraphWriter, x: Wire, shape: Shape, axis: int, matrix: np.ndarray
) -> tuple[Wire, Shape]:
    """The product of an axis of ``x``, which is of ``shape``, with ``matrix`` [n, m]."""
    made = (*shape[:axis], matrix.shape[1], *shape[axis + 1 :])
    if axis == len(shape) - 2:
        return g("MatMul", g.constant(matrix.T, x.dtype), x), made
    return _with_axis_last(g, x, len(shape), axis, g.constant(matrix, x.dtype)), made


def _with_axis_last(g: GraphWriter, x: Wire, rank: int, axis: int, matrix: Wire) -> Wire:
    """The product of an axis of ``x`` with ``matrix`` [n, m]."""
    if axis == rank - 1:
        return g("MatMul", x, matrix)
    order = [a for a in range(rank) if a != axis] + [axis]
    moved = g("MatMul", g("Transpose", x, perm=order), matrix)
    return g("Transpose", moved, perm=[order.index(a) for a in range(rank)])


def _divided(g: GraphWriter, x: Wire, sizes: Shape, counts: Shape, geometry: Any, how: str) -> Wire:
    if how == "one":
        return x
    return g("Div", x, g.constant(divisors_of(sizes, counts, geometry, how), x.dtype))


@writes("avg_pool_spread")
def avg_pool_spread(g: GraphWriter, y: Wire, *, size: Shape, counts: str, **geometry: Any) -> Wire:
    _require_known(g, y, size)
    assert y.shape is not None
    found = _divided(g, y, size, y.shape[2:], geometry, counts)
    shape = y.shape
    for axis, windows in enumerate(windows_of_axes(size, y.shape[2:], geometry)):
        matrix = _membership(size[axis], windows).T
        found, shape = along(g, found, shape, 2 + axis, matrix)
    return found


# Interpolation ------------------------------------------------------------------------------------


@writes("resample")
def resample(g: GraphWriter, x: Wire, *, axis: int, size: Any, scale: Any, align: bool) -> Wire:
    assert x.shape is not None
    n = x.shape[axis]
    if _resizes(n, size, scale, align) and x.dtype is float32:
        return _resized(g, x, axis, size, align)
    if any(isinstance(number, SizeValue) for number in (n, size, scale)):
        weights = g.cast(_open_weights(g, n, size, scale, align), x.dtype)
        return _with_axis_last(g, x, len(x.shape), axis, g("Transpose", weights, perm=[1, 0]))
    return along(g, x, x.shape, axis, linear_weights(n, size, scale, align).T)[0]


def _open_weights(g: GraphWriter, n: Any, size: Any, scale: Any, align: bool) -> Wire:
    """What ``linear_weights`` are, of open sizes: a triangle round each place, [size, n]."""
    last, zero = g.cast(g.size(n - 1), float64), g.zero(float64)
    places = g("Min", g("Max", resampled_places(g, size, scale, align), zero), last)
    elements = g.cast(g("Range", *[g.scalar(i) for i in (0, n, 1)]), float64)
    distance = g("Abs", g("Sub", g("Unsqueeze", places, g.ints(1)), elements))
    return g("Max", g("Sub", g.constant(1, float64), distance), zero)


def _resizes(n: Any, size: Any, scale: Any, align: bool) -> bool:
    """Whether Resize to ``size`` has this scale."""
    if isinstance(n, SizeValue) or isinstance(size, SizeValue):
        if align and (is_same(n, 1) or is_same(size, 1)):
            return False
        if align:
            n, size = n - 1, size - 1
        ratio = n / size
        known = isinstance(ratio, SizeValue) and isinstance(scale, SizeValue)
        return (known and ratio == scale) or (not align and _is_multiple(n, size, scale))
    if 0 in (n, size):
        return False
    if align:
        return size > 1 and scale == (n - 1) / (size - 1)
    return scale == n / size


def _is_multiple(n: Any, size: Any, scale: Any) -> bool:
    """Whether ``size`` is ``n`` by what ``scale``, a plain number, is one over."""
    if isinstance(scale, SizeValue) or not scale or (1 / scale) % 1:
        return False
    return is_same(n * int(1 / scale), size)


def _resized(g: GraphWriter, x: Wire, axis: int, size: Any, align: bool) -> Wire:
    """As the third axis of four, which is how kernels know an interpolation along one axis."""
    assert x.shape is not None
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    direct = len(x.shape) == 4 and axis >= 2
    inner = math.prod(x.shape[axis + 1 :])
    flat = x if direct else reshaped(g, x, (math.prod(x.shape[:axis]), 1, x.shape[axis], inner))
    wanted = shape if direct else (math.prod(x.shape[:axis]), 1, size, inner)
    found = g(
        "Resize", flat, None, None, g.sizes(wanted), mode="linear",
        coordinate_transformation_mode="align_corners" if align else "half_pixel",
    )  # fmt: skip
    return found if direct else reshaped(g, found, shape)


@writes("resample_spread")
def resample_spread(
    g: GraphWriter, y: Wire, *, axis: int, size: Any, scale: Any, align: bool
) -> Wire:
    assert y.shape is not None
    if any(isinstance(number, SizeValue) for number in (y.shape[axis], size, scale)):
        weights = g.cast(_open_weights(g, size, y.shape[axis], scale, align), y.dtype)
        return _with_axis_last(g, y, len(y.shape), axis, weights)
    return along(g, y, y.shape, axis, linear_weights(size, y.shape[axis], scale, align))[0]
