"""Weights of few bits in groups along the input: how they are rounded, kept, and multiplied.

A weight is a matrix here, of the first axis and all others.  Along these, each group of
``group_size`` weights (or the whole row) has a scale, and a zero if they are not symmetric::

    symmetric    q * scale              scale = max|w| / (2^(bits-1) - 1)
    asymmetric   q * scale + zero       scale = (max w - min w) / (2^bits - 1)
    nf4          NORMAL_FLOAT[q] * scale    scale = max|w|

Up to 4 bits lie two to a byte (``hybrid.ops.matrix.grouped_products``), more are int8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hybrid import ops
from hybrid.compress.integer_products import dynamic_linear, rows_quantized
from hybrid.compress.scheme import HALF, Scheme
from hybrid.core.types import Shape, float32, int8, uint8
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.layers.conv import _Conv
from hybrid.nn.modules.module import Module
from hybrid.ops.matrix.grouped_products import (
    NORMAL_FLOAT,
    OFFSET,
    grouped_weights,
    matmul_grouped,
    matmul_grouped_integer,
)
from hybrid.ops.shapes.creation import zeros
from hybrid.ops.support.dtypes import made_of_integers

_MIDDLES = (NORMAL_FLOAT[1:] + NORMAL_FLOAT[:-1]) / np.float32(2)

Linear = Callable[[Tensor, Any, Any], Tensor]


def is_grouped(layer: Module, scheme: Scheme) -> bool:
    """Whether the weights that ``scheme`` makes of those of ``layer`` are in groups."""
    if scheme.method == "weight_only":
        return True
    return scheme.group_size is not None and not isinstance(layer, _Conv)


# Rounding ----------------------------------------------------------------------------------------


class GroupSteps(NamedTuple):
    """The scale of each row of a group of weights, and its zero, if any: [rows, 1]."""

    scale: np.ndarray
    zero: np.ndarray | None

    @classmethod
    def of(cls, group: np.ndarray, scheme: Scheme) -> GroupSteps:
        """Those for the weights [rows, n]."""
        if scheme.scheme != "asymmetric":
            most = np.abs(group).max(axis=1, keepdims=True, initial=0)
            return cls(_positive(most / group.dtype.type(scheme.highest)), None)
        low = group.min(axis=1, keepdims=True, initial=math.inf)
        high = group.max(axis=1, keepdims=True, initial=-math.inf)
        steps = (high - low) / group.dtype.type(2**scheme.bits - 1)
        # Where all are the same, that is the zero.
        return cls(_positive(steps), low + steps * group.dtype.type(2 ** (scheme.bits - 1)))

    def integers(self, group: np.ndarray, scheme: Scheme) -> np.ndarray:
        """The weights as integers: those whose values are nearest."""
        if scheme.scheme == "nf4":
            return np.searchsorted(_MIDDLES, np.nan_to_num(group / self.scale)).astype(np.int16)
        low, high = -scheme.high, scheme.high
        if self.zero is not None:
            low, group = low - 1, group - self.zero
        return np.clip(np.rint(np.nan_to_num(group / self.scale)), low, high).astype(np.int16)

    def values(self, integers: np.ndarray, scheme: Scheme) -> np.ndarray:
        """What the integers stand for."""
        if scheme.scheme == "nf4":
            return NORMAL_FLOAT[integers] * self.scale
        found = integers * self.scale
        return found if self.zero is None else found + self.zero


def _positive(scale: np.ndarray) -> np.ndarray:
    return np.where((scale > 0) & np.isfinite(scale), scale, scale.dtype.type(1))


def matrix_of(weight: Tensor) -> np.ndarray:
    """A weight as a matrix of float32: its first axis, and all others."""
    numbers = np.asarray(weight.detach().numpy(), np.float32)
    return numbers.reshape(len(numbers), math.prod(numbers.shape[1:]))


def grouped(weight: np.ndarray, scheme: Scheme) -> dict[str, Tensor]:
    """The state of a matrix, by the ends of its names: "q", "scale", and perhaps "zero"."""
    rows, size = weight.shape
    group_size = scheme.group_size or max(size, 1)
    integers, steps = np.zeros((rows, size), np.int16), []
    for first in range(0, size, group_size):
        group = weight[:, first : first + group_size]
        steps.append(GroupSteps.of(group, scheme))
        integers[:, first : first + group_size] = steps[-1].integers(group, scheme)
    return kept(integers, steps, scheme)


def kept(integers: np.ndarray, steps: Sequence[GroupSteps], scheme: Scheme) -> dict[str, Tensor]:
    """The state of rounded weights [rows, size], with the steps of each group."""
    rows = len(integers)
    scales = [step.scale for step in steps]
    state = {"q": _packed(integers, scheme), "scale": _joined(scales, rows)}
    if scheme.scheme == "asymmetric":
        state["zero"] = _joined([step.zero for step in steps], rows)
    return {end: asarray(numbers, copy=True) for end, numbers in state.items()}


def blank_groups(shape: Shape, scheme: Scheme) -> dict[str, Tensor]:
    """The state of a weight whose numbers are to come: zeros."""
    rows, size = shape[0], math.prod(shape[1:])
    groups = -(-size // (scheme.group_size or max(size, 1)))
    packed = scheme.bits <= HALF
    state = {
        "q": zeros((rows, (size + 1) // 2 if packed else size), dtype=uint8 if packed else int8),
        "scale": zeros((rows, groups), dtype=float32),
    }
    if scheme.scheme == "asymmetric":
        state["zero"] = zeros((rows, groups), dtype=float32)
    return state


def _joined(parts: Sequence[Any], rows: int) -> np.ndarray:
    whole = np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0))
    return np.ascontiguousarray(whole, np.float32)


def _packed(integers: np.ndarray, scheme: Scheme) -> np.ndarray:
    if scheme.bits > HALF:
        return integers.astype(np.int8)
    halves = (integers if scheme.scheme == "nf4" else integers + OFFSET).astype(np.uint8)
    halves = np.pad(halves, ((0, 0), (0, halves.shape[1] % 2)))
    return np.ascontiguousarray(halves[:, ::2] | halves[:, 1::2] << 4)


# Products ----------------------------------------------------------------------------------------


def linear_of(scheme: Scheme) -> Linear:
    """``x @ weight.T + bias`` by a weight as ``scheme`` makes it: (q, scale), (q, scale, zero)."""
    if scheme.method != "weight_only" and scheme.group_size is None:
        return dynamic_linear
    return _linear_in_groups(
        scheme.method == "weight_only", scheme.group_size, scheme.scheme == "nf4"
    )


@functools.cache  # what is captured knows the functions again
def _linear_in_groups(floats: bool, group_size: int | None, table: bool) -> Linear:
    def linear_of_floats(x: Tensor, weight: tuple[Tensor, ...], bias: Tensor | None) -> Tensor:
        x = x if x.dtype is float32 else ops.astype(x, float32)
        size = group_size or _whole(weight[0])
        y = matmul_grouped(x, *weight, group_size=size, table=table)
        return y if bias is None else ops.add(y, bias)

    def linear_of_integers(x: Tensor, weight: tuple[Tensor, ...], bias: Tensor | None) -> Tensor:
        steps, s_x = rows_quantized(x, (-1,))
        size = group_size or _whole(weight[0])
        y = ops.multiply(matmul_grouped_integer(steps, *weight, group_size=size), s_x)
        return made_of_integers(y if bias is None else ops.add(y, bias), x)

    return linear_of_floats if floats else linear_of_integers


def _whole(q: Tensor) -> int:
    """A group that is as long as any row of ``q``."""
    return max(q.shape[-1] * (1 if q.dtype is int8 else 2), 1)


def dequantized(weight: tuple[Tensor, ...], shape: Shape, scheme: Scheme) -> Tensor:
    """What the bytes stand for, in ``shape``: rows of a weight, which may be some of them."""
    q, scale, *zero = weight
    size = math.prod(shape[1:])
    found = grouped_weights(
        q,
        scale,
        zero[0] if zero else None,
        size,
        group_size=scheme.group_size or _whole(q),
        table=scheme.scheme == "nf4",
    )
    return ops.reshape(found, shape)
