"""Initial values for parameters: each function writes to a tensor and returns it."""

from __future__ import annotations

import math
from typing import Any

from hybrid import ops, random
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.checks import require_choice
from hybrid.tensor import Tensor

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def constant_(tensor: Tensor, value: float) -> Tensor:
    """``value`` everywhere."""
    return tensor.assign(ops.full(tensor.shape, value, dtype=tensor.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1)


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers spread evenly over [low, high)."""
    source = generator or random.default_generator()
    return tensor.assign(source.uniform(low, high, tensor.shape, dtype=tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normally distributed numbers."""
    source = generator or random.default_generator()
    return tensor.assign(source.normal(mean, std, tensor.shape, dtype=tensor.dtype))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Even over ±gain * sqrt(3 / fan), which keeps variances through rectifiers (He et al. 2015).

    ``a`` is the slope below zero of the leaky ReLU that follows; ``mode`` chooses the fan.
    """
    require_choice("mode", mode, ("fan_in", "fan_out"))
    fan = fans(tensor)[mode == "fan_out"]
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / fan) if fan else 0.0
    return uniform_(tensor, -bound, bound, generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Even over ±gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    total = sum(fans(tensor))
    bound = gain * math.sqrt(6 / total) if total else 0.0
    return uniform_(tensor, -bound, bound, generator)


def calculate_gain(nonlinearity: str, a: float = 0.01) -> float:
    """The factor by which ``nonlinearity`` shrinks a standard deviation, inverted."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + a * a))
    if nonlinearity not in _GAINS:
        known = ", ".join(["leaky_relu", *_GAINS])
        raise ArgumentError(f"no gain for {nonlinearity!r}", fix=f"use one of {known}")
    return _GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input, of a weight [out, in, ...]."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"{tensor.type} has no fans",
            why="They are counted for weights of shape [out, in, ...].",
            fix="use uniform_ or normal_ with limits of your own",
        )
    outputs, inputs, *field = tensor.shape
    return inputs * math.prod(field), outputs * math.prod(field)
