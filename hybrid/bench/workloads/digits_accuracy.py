"""Training on real data to a stated accuracy, both ways to the same bits: digits, rnn_digits."""

from collections.abc import Callable

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import BenchError, Case, workload
from hybrid.bench.workloads.training_steps import TrainingStep, perceptron
from hybrid.data.digits import load

SIZES = (64, 128, 10)
BATCH = 32
EPOCHS = 25
ROW_EPOCHS = 12
REQUIRED_ACCURACY = 0.95


class DigitsTraining:
    """Adam on the digits; epochs see the batches in an order drawn from the same seed."""

    def __init__(
        self, make: Callable[[], hy.nn.Module], *, hybridized: bool, seed: int = 0
    ) -> None:
        self.data = load()
        hy.random.seed(seed)
        network = make()
        optimizer = hy.optim.Adam(network.parameters(), lr=2e-3)
        self.training = TrainingStep(
            network, hy.nn.CrossEntropyLoss(), optimizer, hybridized=hybridized
        )
        self.order = np.random.RandomState(seed)

    def epoch(self) -> None:
        """Every full batch once."""
        order = self.order.permutation(len(self.data.train_labels))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            self.training.step(
                hy.asarray(self.data.train_images[rows]), hy.asarray(self.data.train_labels[rows])
            )

    def accuracy(self) -> float:
        """The share of test images that are recognised."""
        with hy.no_grad():
            scores = self.training.network(hy.asarray(self.data.test_images))
        found = hy.argmax(scores, axis=1).numpy()
        return float(np.mean(found == self.data.test_labels))


def compare(what: str, make: Callable[[], hy.nn.Module], epochs: int) -> Case:
    """Training the network that ``make`` makes, eagerly and hybridized."""

    def pair() -> dict[str, DigitsTraining]:
        return {
            "eager": DigitsTraining(make, hybridized=False),
            "hybridized": DigitsTraining(make, hybridized=True),
        }

    def check() -> dict[str, str]:
        eager, hybridized = pair().values()
        for _ in range(epochs):
            eager.epoch()
            hybridized.epoch()
        count = require_same_bits(
            f"{what} after {epochs} epochs", eager.training.state(), hybridized.training.state()
        )
        reached = eager.accuracy(), hybridized.accuracy()
        if min(reached) <= REQUIRED_ACCURACY:
            raise BenchError(
                f"{what}: {min(reached):.1%} of the test images are recognised",
                why=f"More than {REQUIRED_ACCURACY:.0%} are expected after {epochs} epochs.",
            )
        plans = len(hybridized.training.step.plans)
        if plans != 1:
            raise BenchError(f"{what}: {plans} plans were made for steps that are all alike")
        return {
            "test accuracy": f"{reached[0]:.1%} eager, {reached[1]:.1%} hybridized"
            f" after {epochs} epochs",
            "identical bits": f"{count} values of parameters and optimizer state",
        }

    return Case(
        label="one epoch", ways={name: run.epoch for name, run in pair().items()}, check=check
    )


@workload(
    "digits",
    f"an MLP on real handwritten digits to over {REQUIRED_ACCURACY:.0%} accuracy",
    first_look=("one epoch",),
)
def digits() -> list[Case]:
    return [compare("digits", lambda: perceptron(SIZES, seed=0), EPOCHS)]


class DigitReader(hy.nn.Module):
    """Reads an image row by row, and then says which digit it was."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.row = hy.nn.Linear(8, hidden)
        self.memory = hy.nn.Linear(hidden, hidden, bias=False)
        self.output = hy.nn.Linear(hidden, 10)

    def forward(self, images: hy.Tensor) -> hy.Tensor:
        rows = images.reshape((-1, 8, 8))
        h = hy.zeros((rows.shape[0], self.memory.in_features))
        for i in range(rows.shape[1]):
            h = hy.tanh(self.row(rows[:, i]) + self.memory(h))
        return self.output(h)


@workload(
    "rnn_digits",
    "a recurrent network reads the digits row by row, to the same accuracy",
    first_look=("one epoch",),
)
def rnn_digits() -> list[Case]:
    return [compare("rnn_digits", lambda: DigitReader(64), ROW_EPOCHS)]
