"""Initial values for parameters: each function writes to a tensor and returns it."""

from __future__ import annotations

import math
from typing import Any

from hybrid import linalg, ops, random
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.support.operand_checks import as_int, require_choice

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


def constant_(tensor: Tensor, val: float) -> Tensor:
    """``val`` everywhere."""
    return tensor.assign(ops.full(tensor.shape, val, dtype=tensor.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers spread evenly over [a, b)."""
    source = generator or random.default_generator()
    return tensor.assign(source.uniform(a, b, tensor.shape, dtype=tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normally distributed numbers."""
    source = generator or random.default_generator()
    return tensor.assign(source.normal(mean, std, tensor.shape, dtype=tensor.dtype))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normally distributed numbers, of which only those in [a, b] are drawn."""
    source = generator or random.default_generator()
    draw = source.truncated_normal(a, b, tensor.shape, mean=mean, std=std, dtype=tensor.dtype)
    return tensor.assign(draw)


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
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with deviation gain / sqrt(fan); as ``kaiming_uniform_`` else."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    require_choice("mode", mode, ("fan_in", "fan_out"))
    gain = calculate_gain(nonlinearity, a)
    fan = fans(tensor)[mode == "fan_out"]
    return gain / math.sqrt(fan) if fan else 0.0


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Even over ±gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = math.sqrt(3) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    total = sum(fans(tensor))
    return gain * math.sqrt(2 / total) if total else 0.0


def uniform_by_fan(tensor: Tensor | None, fan_in: int) -> Tensor | None:
    """Even over ±1 / sqrt(fan_in), where biases start; None stays None."""
    if tensor is None:
        return None
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return uniform_(tensor, -bound, bound)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    _require_axes("eye_", tensor, (2,))
    return tensor.assign(ops.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight [out, in, ...] of a convolution that keeps its input: in each group, output i is
    input i; further ones are zero.
    """
    _require_axes("dirac_", tensor, (3, 4, 5))
    groups = as_int("dirac_", "groups", groups, 1)
    outputs, inputs, *field = tensor.shape
    if outputs % groups:
        raise ArgumentError(
            f"dirac_ cannot make {groups} groups of {outputs} outputs", fix="give a divisor"
        )
    each = outputs // groups
    codes = ops.tile(ops.eye(each, inputs, dtype=tensor.dtype), (groups, 1))
    size = math.prod(field)
    center = 0
    for n in field:
        center = center * n + n // 2
    place = ops.astype(ops.arange(size) == center, tensor.dtype)
    return tensor.assign(ops.reshape(ops.expand_dims(codes, -1) * place, tensor.shape))


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """A matrix (axes behind the first are one) with orthonormal rows or columns, times ``gain``.

    It is the Q of a normal matrix, with the signs that make it evenly distributed (Saxe et al.
    2013).
    """
    if tensor.ndim < 2:
        _require_axes("orthogonal_", tensor, (2,))
    if tensor.size == 0:
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    source = generator or random.default_generator()
    tall = (max(rows, columns), min(rows, columns))
    q, r = linalg.qr(source.normal(0.0, 1.0, tall, dtype=tensor.dtype))
    q = q * ops.sign(linalg.diagonal(r))
    q = ops.matrix_transpose(q) if rows < columns else q
    return tensor.assign(ops.reshape(gain * q, tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """A matrix whose columns have the share ``sparsity`` of zeros, and normal numbers besides
    (Martens 2010).
    """
    _require_axes("sparse_", tensor, (2,))
    if isinstance(sparsity, bool) or not 0 <= sparsity <= 1:
        raise ArgumentError(f"sparse_ got sparsity {sparsity!r}", fix="give a number from 0 to 1")
    source = generator or random.default_generator()
    zeros = math.ceil(sparsity * tensor.shape[0])
    order = ops.argsort(source.uniform(size=tensor.shape), axis=0)
    rank = ops.argsort(order, axis=0)  # each column has its zeros where the draws are least
    values = source.normal(0.0, std, tensor.shape, dtype=tensor.dtype)
    return tensor.assign(ops.where(rank < zeros, 0.0, values))


def _require_axes(name: str, tensor: Tensor, ranks: tuple[int, ...]) -> None:
    if tensor.ndim not in ranks:
        wanted = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        raise ShapeError(
            f"{name} cannot fill {tensor.type}",
            why=f"It takes tensors of {wanted} dimensions.",
            fix="use uniform_ or normal_",
        )


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which ``nonlinearity`` shrinks a standard deviation, inverted.

    ``param`` is the slope of ``"leaky_relu"`` below zero, 0.01 unless given.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ArgumentError(f"the slope {slope!r} is not a number", fix="give a number")
        return math.sqrt(2 / (1 + slope * slope))
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


_calculate_fan_in_and_fan_out = fans  # the name by which models written for PyTorch call it
