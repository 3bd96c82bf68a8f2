"""How layers are quantized: the method, and what it says of weights and of what goes in."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.ops.support.operand_checks import require_choice

METHODS = ("dynamic", "static")
SCHEMES = ("symmetric", "asymmetric")
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
        require_bits("bits", bits)
        if group_size is not None:
            raise ArgumentError(
                f"group_size is {group_size!r}",
                why="Weights have a scale for each output; groups of inputs are not there yet.",
                fix="leave it out",
            )
        if scheme != "symmetric":
            raise ArgumentError(
                f"the weights of method {method!r} are symmetric",
                why="Their zero point would cost a product of its own.",
                fix="leave scheme out",
            )
        return cls(method, bits, group_size, scheme, bool(per_channel))

    @property
    def high(self) -> int:
        """The largest weight: 127 of 8 bits, 7 of 4."""
        return 2 ** (self.bits - 1) - 1

    @property
    def activation_high(self) -> int:
        """The largest static activation, whose least one is 0: 255 of 8 bits."""
        return 2**self.activation_bits - 1


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
    steps = np.clip(np.nan_to_num(np.rint(numbers / wide)), -high, high)
    # Copies, whose memory is the library's own: plans keep what they make of such.
    return asarray(steps.astype(np.int8), copy=True), asarray(scale, copy=True)
