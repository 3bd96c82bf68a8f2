"""Steps of optimizers: ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.node_table import TRAINING, handles


def _each(step: Callable[..., Any], tensors: tuple[Any, ...], kinds: int, outputs: int) -> Any:
    """``step`` of each parameter: ``tensors`` are all parameters, then all gradients ..."""
    if len(tensors) % kinds:
        raise OnnxError(f"{len(tensors)} tensors for parameters of {kinds} each")
    count = len(tensors) // kinds
    found = [step(*tensors[at::count]) for at in range(count)]
    flat = tuple(part for kind in zip(*found, strict=True) for part in kind)
    return flat[0] if outputs == 1 else flat[:outputs]


@handles("Adagrad", 1, domain=TRAINING)
def adagrad(r, t, *tensors, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0, outputs=1):
    """Adagrad: new parameters, then new sums of squares."""
    rate = r / (1 + ops.astype(t, r.dtype) * decay_factor)

    def step(x, g, h):
        g = norm_coefficient * x + g
        h = h + g * g
        return x - rate * g / (ops.sqrt(h) + epsilon), h

    return _each(step, tensors, 3, outputs)


@handles("Adam", 1, domain=TRAINING)
def adam(
    r, t, *tensors, alpha=0.9, beta=0.999, epsilon=1e-6, norm_coefficient=0.0,
    norm_coefficient_post=0.0, outputs=1,
):  # fmt: skip
    """Adam: new parameters, then the two moments."""
    steps = ops.astype(t, types.float64)
    corrected = ops.sqrt(1 - beta**steps) / (1 - alpha**steps)
    rate = r * ops.astype(ops.where(ops.greater(t, 0), corrected, 1.0), r.dtype)

    def step(x, g, v, h):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * (g * g)
        new = x - rate * (v / (ops.sqrt(h) + epsilon))
        return (1 - norm_coefficient_post) * new, v, h

    return _each(step, tensors, 4, outputs)


@handles("Momentum", 1, domain=TRAINING)
def momentum(r, t, *tensors, alpha, beta, mode, norm_coefficient, outputs=1):
    """Momentum, standard or Nesterov's: new parameters, then velocities."""
    if mode not in ("standard", "nesterov"):
        raise OnnxError(f"Momentum got mode {mode!r}", why="It is standard or nesterov.")
    share = ops.astype(ops.where(ops.greater(t, 0), beta, 1.0), r.dtype)

    def step(x, g, v):
        g = norm_coefficient * x + g
        v = alpha * v + share * g
        return x - r * (g + alpha * v if mode == "nesterov" else v), v

    return _each(step, tensors, 3, outputs)
