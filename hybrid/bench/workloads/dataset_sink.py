"""mlp_train as loops of the graph: over a batch that is in place, and over batches of a queue."""

from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import Case, workload
from hybrid.bench.workloads.training_steps import TrainingStep, perceptron

SAMPLES, FEATURES, BATCH, STEPS = 12_800, 784, 128, 100


def trained(*, hybridized: bool = False) -> TrainingStep:
    """The network and optimizer of mlp_train."""
    network = perceptron((FEATURES, 512, 256, 10), seed=0)
    # Rates at which nothing is learnt by heart: gradients that vanish are subnormal, and slow.
    optimizer = hy.optim.Adam(network.parameters(), lr=1e-7)
    return TrainingStep(network, hy.nn.CrossEntropyLoss(), optimizer, hybridized=hybridized)


def over_batch(training: TrainingStep, x: hy.Tensor, y: hy.Tensor) -> Callable[[], hy.Tensor]:
    """Steps on one batch, as one call."""

    @hy.hybridize
    def sunk() -> hy.Tensor:
        total = hy.zeros(())
        for _ in range(STEPS):
            total = total + training.step(x, y).detach()
        return total

    return sunk


def over_queue(training: TrainingStep, loader: hy.data.DataLoader) -> Callable[[], hy.Tensor]:
    """Steps on batches of the loader, pass after pass, as one call."""
    walk = loader.repeat()

    @hy.hybridize
    def sunk() -> hy.Tensor:
        total = hy.zeros(())
        for x, y in walk.take(STEPS):
            total = total + training.step(x, y).detach()
        return total

    return sunk


@workload(
    "sink",
    "steps of mlp_train in one call: a batch in place, or batches of a queue in C",
    first_look=("batch 128",),
)
def sink() -> list[Case]:
    draw = np.random.RandomState(0)
    pixels = draw.randint(0, 256, (SAMPLES, FEATURES)).astype(np.uint8)
    floats, labels = pixels.astype(np.float32) / 255, draw.randint(0, 10, SAMPLES)
    scaled = hy.data.Normalize(0.0, 1.0, scale=255)

    def loader(*columns: Any, **options: Any) -> hy.data.DataLoader:
        data = hy.data.TensorDataset(*columns, **options)
        return hy.data.DataLoader(data, BATCH, shuffle=True, generator=0)

    def check() -> dict[str, str]:
        one, other = trained(hybridized=True), trained()
        for x, y in loader(floats, labels):
            one.step(x, y)
        over_queue(other, loader(pixels, labels, transforms=[scaled, None]))()
        count = require_same_bits("a pass", one.state(), other.state())
        return {"identical bits": f"{count} values, of a call for each step and of one for all"}

    x, y = hy.asarray(floats[:BATCH]), hy.asarray(labels[:BATCH])
    ways = {
        "batch in place": over_batch(trained(), x, y),
        "queue": over_queue(trained(), loader(floats, labels)),
        "queue of bytes": over_queue(trained(), loader(pixels, labels, transforms=[scaled, None])),
    }
    return [Case(label=f"batch {BATCH}", ways=ways, check=check, parts=STEPS)]
