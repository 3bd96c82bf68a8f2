"""What convolutions, pooling and resizing share: arguments given per spatial axis, and batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.types import Shape, TensorType, float32, shape_of
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.support.derivatives import reshaped
from hybrid.ops.support.operand_checks import as_tensor, type_of

LARGEST = 2**31 - 1  # what kernels take as a stride, a padding or the size of a spatial axis
AXES = 3  # that kernels work on


def per_axis(name: str, what: str, value: Any, rank: int, *, least: int) -> tuple[int, ...]:
    """``value``, an int or a sequence of one or ``rank`` of them, for each of ``rank`` axes."""
    sizes = shape_of(value, what)
    if len(sizes) == 1:
        sizes *= rank
    if len(sizes) != rank:
        raise ArgumentError(
            f"{name} got {what} {value!r}",
            why="There must be one for each spatial axis, or one for all.",
            fix=f"give an int, or a tuple of {rank}",
        )
    require_within(name, what, sizes, least=least)
    return sizes


def require_within(name: str, what: str, sizes: Sequence[int], *, least: int) -> None:
    """Raise unless every size is an int from ``least`` to what a kernel takes."""
    if not all(least <= n <= LARGEST for n in sizes):
        raise ArgumentError(
            f"{name} got {what} {tuple(sizes)}",
            why=f"Each must be from {least} to {LARGEST}.",
            fix="give sizes in that range",
        )


def require_spatial(name: str, label: str, type: TensorType, rank: int) -> None:
    """``type`` is [N, C, *spatial] with ``rank`` spatial axes that a kernel can take."""
    if type.rank != rank + 2:
        raise ShapeError(
            f"{name} cannot take {type} as {label}",
            why=f"It must have {rank + 2} dimensions: [N, C] and {rank} more.",
            fix="change its shape with reshape or expand_dims",
        )
    if any(n > LARGEST for n in type.shape[2:]):
        raise ShapeError(
            f"{name} cannot take {type} as {label}",
            why=f"A spatial axis has at most {LARGEST} elements.",
            fix="cut it in parts",
        )


def lifted(name: str, x: Any, rank: int) -> tuple[Any, bool]:
    """``x`` as a tensor [N, C, *spatial], and whether it came without N."""
    x = as_tensor(x)
    if len(x.shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name} cannot take {type_of(x)} as input",
            why=f"It must have {rank + 2} dimensions, or {rank + 1} without a batch.",
            fix="change its shape with reshape or expand_dims",
        )
    if len(x.shape) == rank + 2:
        return x, False
    return reshaped(x, (1, *x.shape)), True


def unlifted(y: Any, single: bool) -> Any:
    """``y`` without N again."""
    return reshaped(y, y.shape[1:]) if single else y


def is_trivial(emit: Any, x: Any, result: Any) -> bool:
    """Whether there is nothing to compute: no result, or zeros, which are written, from nothing."""
    if result.size and not x.size:
        emit.kernel("copy", [emit.constant(result.dtype, 0).broadcast(result.shape)], [result])
    return not (result.size and x.size)


def wide(view: Any) -> Any:
    """A view [A, B, *spatial] with leading spatial axes of size 1, three in all."""
    while view.rank < 2 + AXES:
        view = view.expand(2)
    return view


def widened_attrs(*groups: Sequence[int], fill: Sequence[int]) -> list[int]:
    """Each group of an attribute per axis, filled in front with what an axis of size 1 has."""
    attrs: list[int] = []
    for group, value in zip(groups, fill, strict=True):
        attrs += [value] * (AXES - len(group)) + list(group)
    return attrs


def is_transformed(w: TensorType, stride: Shape, dilation: Shape, result: Shape) -> bool:
    """Whether there is room for transformed weights: of 3x3 kernels in float32 at stride 1.

    There must be channels and results enough: see csrc/kernels/convolution/winograd.inc.c.
    """
    _, channels, *sizes = w.shape
    plain = stride[-2:] == dilation[-2:] == (1, 1) and w.dtype is float32
    many = channels >= 8 and result[0] * math.prod(result[2:]) >= 64
    return plain and many and sizes in ([3, 3], [1, 3, 3])


def items_of_room(w: TensorType, stride: Shape, dilation: Shape, groups: int, result: Shape) -> int:
    """How many items weights take in the order in which kernels read them."""
    if is_transformed(w, stride, dilation, result):
        return 16 * (w.size // 9 + 16 * groups)
    return w.size


def meetings(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> Any:
    """Whether place i is what window p has at item k: float64 zeros and ones [i, p, k]."""
    p, k = np.arange(count)[:, None], np.arange(kernel)
    return 1.0 * (np.arange(size)[:, None, None] == p * stride - padding + k * dilation)


def window_counts(
    name: str,
    what: str,
    sizes: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Sequence[tuple[int, int]],
    dilation: Shape,
) -> Shape:
    """How many windows fit along each axis, ``padding`` before and after included."""
    counts = []
    axes = zip(sizes, kernel, stride, padding, dilation, strict=True)
    for axis, (n, k, s, (before, after), d) in enumerate(axes):
        reach, room = (k - 1) * d + 1, n + before + after
        if reach > room:
            raise ShapeError(
                f"{name} cannot take shape {list(sizes)} with {what} {list(kernel)}",
                why=f"Along spatial axis {axis} a window spans {reach} elements, and there are "
                f"{room} with the padding.",
                fix="give a smaller one, or more padding",
            )
        counts.append((room - reach) // s + 1)
    return tuple(counts)


def padding_pairs(
    name: str, padding: Any, kernel: Shape, stride: Shape, dilation: Shape
) -> list[tuple[int, int]]:
    """Pairs (before, after) for each axis, of numbers, "same" or "valid"."""
    rank = len(kernel)
    if not isinstance(padding, str):
        return [(n, n) for n in per_axis(name, "padding", padding, rank, least=0)]
    if padding not in ("same", "valid"):
        raise ArgumentError(
            f"{name} got padding {padding!r}", fix='use "same", "valid", an int or a tuple of ints'
        )
    if padding == "valid":
        return [(0, 0)] * rank
    if any(s != 1 for s in stride):
        raise ArgumentError(
            f'{name} got padding "same" and stride {stride}',
            why="A result as large as the input needs stride 1.",
            fix="give the padding as numbers",
        )
    spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]
