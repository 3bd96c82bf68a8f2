"""What workloads and the peers beside them compute with: the same numbers, as NumPy arrays."""

from dataclasses import dataclass

import numpy as np

SMALL = 1e-36  # float32 keeps its precision down to 1e-38: this takes the most iterations
STEP = 0.1


def newton_start() -> np.ndarray:
    """64 float32 that some 800 steps ``x - 0.1 sin(x)`` make smaller than ``SMALL``."""
    draw = np.random.RandomState(0)
    return (draw.uniform(1, 3, 64) * draw.choice([-1, 1], 64)).astype(np.float32)


@dataclass(frozen=True)
class LstmProblem:
    """A sequence, and the parameters of an LSTM cell with PyTorch's layout: gates i, f, g, o."""

    inputs: np.ndarray  # [steps, batch, features]
    input_weight: np.ndarray  # [4 hidden, features]
    hidden_weight: np.ndarray  # [4 hidden, hidden]
    bias: np.ndarray  # [4 hidden]

    @property
    def hidden(self) -> int:
        return self.hidden_weight.shape[1]

    @property
    def parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.input_weight, self.hidden_weight, self.bias


def lstm_problem(
    steps: int = 50, batch: int = 32, features: int = 64, hidden: int = 128
) -> LstmProblem:
    """Normal inputs and uniform parameters, drawn from a fixed seed."""
    draw = np.random.RandomState(0)
    bound = hidden**-0.5

    def uniform(*shape: int) -> np.ndarray:
        return draw.uniform(-bound, bound, shape).astype(np.float32)

    return LstmProblem(
        draw.randn(steps, batch, features).astype(np.float32),
        uniform(4 * hidden, features),
        uniform(4 * hidden, hidden),
        uniform(4 * hidden),
    )
