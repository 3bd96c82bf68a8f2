"""Networks that several workloads use."""

from collections.abc import Sequence
from itertools import pairwise

import hybrid as hy


def perceptron(sizes: Sequence[int], seed: int) -> hy.nn.Module:
    """Linear layers of ``sizes`` with ReLU between them, initialised from ``seed``."""
    hy.random.seed(seed)
    layers: list[hy.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [hy.nn.Linear(inputs, outputs), hy.nn.ReLU()]
    return hy.nn.Sequential(*layers[:-1])
