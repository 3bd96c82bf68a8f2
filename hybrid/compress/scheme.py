"""How layers are quantized: the method, and what it says of weights and of what goes in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.types import float32, int8
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.ops.shapes.creation import zeros
from hybrid.ops.support.operand_checks import require_choice

METHODS = ("dynamic", "static", "weight_only")
SCHEMES = ("symmetric", "asymmetric", "nf4")
HALF = 4  # bits, two of which lie in a byte
LEAST = 1e-8  # of a step that is learnt: it stays positive, whatever an optimizer makes of it
LONGEST = 65_793  # terms of a product whose sum of int8 times uint8 fits into int32


@dataclass(frozen=True)
class Scheme:
    """What `quantize` was asked for, checked."""

    method: str
    bits: int = 8
    group_size: int | None = None
    scheme: str = "symmetric"
    per_channel: bool = True
    activation_bits: int = 8  # of static layers

    @classmethod
    def checked(
        cls, method: Any, bits: Any, group_size: Any, scheme: Any, per_channel: Any
    ) -> Scheme:
        """The record; ArgumentError if no layer can be made so."""
        require_choice("method", method, METHODS)
        require_choice("scheme", scheme, SCHEMES)
        if bits is None:
            bits = HALF if scheme == "nf4" else 8
        require_bits("bits", bits)
        if scheme == "nf4" and bits != HALF:
            raise ArgumentError(
                f"bits is {bits} and scheme is 'nf4'",
                why="NormalFloat has 16 values, which are told by 4 bits.",
                fix="leave bits out, or give 4",
            )
        if scheme != "symmetric" and method != "weight_only":
            raise ArgumentError(
                f"scheme is {scheme!r}, and the weights of method {method!r} are symmetric",
                why="Their products are of integers: a zero point would cost one of its own.",
                fix='leave scheme out, or choose method="weight_only"',
            )
        if group_size is not None:
            _require_groups(group_size, method, per_channel)
        if method == "weight_only" and not per_channel:
            raise ArgumentError(
                "per_channel is False and method is 'weight_only'",
                why="Each output has a scale of its own there, or one for each group of inputs.",
                fix="leave per_channel out",
            )
        return cls(method, bits, group_size, scheme, bool(per_channel))

    @property
    def high(self) -> int:
        """The largest weight: 127 of 8 bits, 7 of 4."""
        return 2 ** (self.bits - 1) - 1

    @property
    def highest(self) -> int:
        """What the largest weight of a group is divided by to get its scale."""
        return 1 if self.scheme == "nf4" else self.high

    @property
    def activation_high(self) -> int:
        """The largest static activation, whose least one is 0: 255 of 8 bits."""
        return 2**self.activation_bits - 1


def _require_groups(group_size: Any, method: str, per_channel: Any) -> None:
    """Raise ArgumentError unless weights can have groups of this size."""
    if type(group_size) is not int or group_size < 1:
        raise ArgumentError(
            f"group_size is {group_size!r}", fix="give a whole number from 1 on, such as 32"
        )
    if method == "static" or not per_channel:
        said = "method is 'static'" if method == "static" else "per_channel is False"
        raise ArgumentError(
            f"group_size is {group_size} and {said}",
            why="Groups have scales of their own; there weights have one for each output, or all.",
            fix="leave group_size out" + (', or choose method="dynamic"' if per_channel else ""),
        )


def require_bits(name: str, bits: Any) -> None:
    """Raise ArgumentError unless integers can have so many bits."""
    if type(bits) is not int or not 2 <= bits <= 8:
        raise ArgumentError(f"{name} is {bits!r}", fix="give a whole number from 2 to 8")


def quantized_weight(weight: Tensor, high: int, axis: int | None) -> tuple[Tensor, Tensor]:
    """``weight`` as int8 within ±high, and its scale: max|w| / high, of each place along ``axis``.

    A scale of what is all zeros is 1.  NumPy's float32, so that any machine makes the same.
    """
    numbers = np.asarray(weight.detach().numpy(), np.float32)
    axes = None if axis is None else tuple([i for i in range(numbers.ndim) if i != axis])
    most = np.abs(numbers).max(axis=axes, initial=0)
    scale = np.asarray(most / np.float32(high), np.float32)
    scale = np.where((scale == 0) | ~np.isfinite(scale), np.float32(1), scale)
    wide = (
        scale
        if axis is None
        else scale.reshape([-1 if i == axis else 1 for i in range(numbers.ndim)])
    )
    steps = numbers / wide
    np.clip(np.rint(steps, out=steps), -high, high, out=steps)
    steps[np.isnan(steps)] = 0
    # Copies, whose memory is the library's own: plans keep what they make of such.
    return asarray(steps.astype(np.int8), copy=True), asarray(scale, copy=True)


def blank_weight(weight: Tensor, axis: int | None) -> tuple[Tensor, Tensor]:
    """The same of a weight whose numbers are to come: zeros, and scales of 0."""
    shape = () if axis is None else (weight.shape[axis],)
    return zeros(weight.shape, dtype=int8), zeros(shape, dtype=float32)


def first_steps(weight: Tensor, scheme: Scheme) -> Any:
    """2 mean|w| / sqrt(high) of each output (Esser et al. 2020)."""
    numbers = np.abs(weight.detach().numpy().astype(np.float32))
    mean = numbers.mean(axis=tuple(range(1, numbers.ndim)))
    step = 2 * mean / np.float32(math.sqrt(scheme.high))
    return np.maximum(step, np.float32(LEAST))


def greatest_steps(weight: Tensor, scheme: Scheme) -> Tensor:
    """max|w| / high of each output."""
    weight = weight.detach()
    most = ops.max(ops.abs(weight), axis=tuple(range(1, weight.ndim)))
    return ops.maximum(ops.divide(most, float(scheme.high)), LEAST)
