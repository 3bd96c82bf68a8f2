"""Whole training steps, from zero_grad to the update, as one function: tiny_train, mlp_train.

Their network is that of other workloads, too.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import Case, workload


class TrainingStep:
    """A network, its loss and its optimizer; ``step`` is the whole of one training step."""

    def __init__(
        self,
        network: hy.nn.Module,
        loss: Callable[[hy.Tensor, hy.Tensor], hy.Tensor],
        optimizer: hy.optim.Optimizer,
        *,
        hybridized: bool,
    ) -> None:
        self.network, self.optimizer = network, optimizer

        def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
            optimizer.zero_grad()
            value = loss(network(x), y)
            value.backward()
            optimizer.step()
            return value

        self.step = hy.hybridize(step) if hybridized else step

    def state(self) -> dict[str, Any]:
        """Everything that training changes."""
        return {
            "parameters": dict(self.network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
        }


def compare(
    label: str,
    make: Callable[[bool], TrainingStep],
    x: np.ndarray,
    y: np.ndarray,
) -> Case:
    """A training step eagerly and hybridized, from the same start on the same batch."""
    inputs, targets = hy.asarray(x), hy.asarray(y)
    eager, hybridized = make(False), make(True)

    def check() -> dict[str, str]:
        for _ in range(3):
            losses = eager.step(inputs, targets), hybridized.step(inputs, targets)
            require_same_bits(f"{label}: the loss", *losses)
        count = require_same_bits(label, eager.state(), hybridized.state())
        return {"identical bits": f"{count} values of parameters and optimizer state"}

    ways = {
        "eager": lambda: eager.step(inputs, targets),
        "hybridized": lambda: hybridized.step(inputs, targets),
    }
    return Case(label=label, ways=ways, check=check)


@workload(
    "tiny_train",
    "a whole training step: 16-32-1, ReLU, batch 32, MSE, SGD",
    first_look=("batch 32",),
)
def tiny_train() -> list[Case]:
    draw = np.random.RandomState(0)

    def make(hybridized: bool) -> TrainingStep:
        network = perceptron((16, 32, 1), seed=0)
        optimizer = hy.optim.SGD(network.parameters(), lr=1e-3)
        return TrainingStep(network, hy.nn.MSELoss(), optimizer, hybridized=hybridized)

    x, y = draw.randn(32, 16).astype(np.float32), draw.randn(32, 1).astype(np.float32)
    return [compare("batch 32", make, x, y)]


@workload(
    "mlp_train",
    "a whole training step: 784-512-256-10, batch 128, cross-entropy, Adam",
    first_look=("batch 128",),
)
def mlp_train() -> list[Case]:
    draw = np.random.RandomState(0)

    def make(hybridized: bool) -> TrainingStep:
        network = perceptron((784, 512, 256, 10), seed=0)
        optimizer = hy.optim.Adam(network.parameters(), lr=1e-3)
        return TrainingStep(network, hy.nn.CrossEntropyLoss(), optimizer, hybridized=hybridized)

    x, y = draw.randn(128, 784).astype(np.float32), draw.randint(0, 10, 128)
    return [compare("batch 128", make, x, y)]


def perceptron(sizes: Sequence[int], seed: int) -> hy.nn.Module:
    """Linear layers of ``sizes`` with ReLU between them, initialised from ``seed``."""
    hy.random.seed(seed)
    layers: list[hy.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [hy.nn.Linear(inputs, outputs), hy.nn.ReLU()]
    return hy.nn.Sequential(*layers[:-1])
