"""Training on real data to a stated accuracy, both ways to the same bits: digits."""

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.digits import load
from hybrid.bench.networks import perceptron
from hybrid.bench.registry import BenchError, Case, workload
from hybrid.bench.workloads.training import Training

SIZES = (64, 128, 10)
BATCH = 32
EPOCHS = 25
REQUIRED_ACCURACY = 0.95


class DigitsTraining:
    """Adam on an MLP; epochs see the batches in an order drawn from the same seed."""

    def __init__(self, *, hybridized: bool, seed: int = 0) -> None:
        self.data = load()
        network = perceptron(SIZES, seed)
        optimizer = hy.optim.Adam(network.parameters(), lr=2e-3)
        self.training = Training(
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


@workload("digits", f"an MLP on real handwritten digits to over {REQUIRED_ACCURACY:.0%} accuracy")
def digits() -> list[Case]:
    timed = {
        "eager": DigitsTraining(hybridized=False),
        "hybridized": DigitsTraining(hybridized=True),
    }

    def check() -> dict[str, str]:
        eager, hybridized = DigitsTraining(hybridized=False), DigitsTraining(hybridized=True)
        for _ in range(EPOCHS):
            eager.epoch()
            hybridized.epoch()
        count = require_same_bits(
            f"digits after {EPOCHS} epochs", eager.training.state(), hybridized.training.state()
        )
        reached = eager.accuracy(), hybridized.accuracy()
        if min(reached) <= REQUIRED_ACCURACY:
            raise BenchError(
                f"digits: {min(reached):.1%} of the test images are recognised",
                why=f"More than {REQUIRED_ACCURACY:.0%} are expected after {EPOCHS} epochs.",
            )
        return {
            "test accuracy": f"{reached[0]:.1%} eager, {reached[1]:.1%} hybridized"
            f" after {EPOCHS} epochs",
            "identical bits": f"{count} values of parameters and optimizer state",
        }

    return [Case("one epoch", {name: run.epoch for name, run in timed.items()}, check)]
