"""Steps of weights that train with their rounding: where they begin, and what they follow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.compress.scheme import Scheme
from hybrid.eager.tensor import Tensor

LEAST = 1e-8  # of a step: it stays positive, whatever an optimizer makes of it


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
