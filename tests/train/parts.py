"""Models, data and callbacks of the tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.data import DataLoader, Dataset, TensorDataset, batch_generator
from hybrid.train import Callback, Model

SAMPLES, BATCH = 44, 8  # five whole batches and one of 4


def network() -> hy.nn.Module:
    return hy.nn.Sequential(
        hy.nn.Linear(4, 8),
        hy.nn.BatchNorm1d(8),
        hy.nn.ReLU(),
        hy.nn.Dropout(0.2),
        hy.nn.Linear(8, 3),
    )


def model(metrics: Any = ("accuracy",), *, seed: int = 0, **options: Any) -> Model:
    hy.random.seed(seed)
    net = network()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.02)
    return Model(net, hy.nn.CrossEntropyLoss(), optimizer, list(metrics), **options)


def samples(count: int = SAMPLES) -> tuple[hy.Tensor, hy.Tensor]:
    x = hy.random.Generator(1).normal(size=(count, 4))
    return x, hy.argmax(x[:, :3], axis=1)


def loader(count: int = SAMPLES, **options: Any) -> DataLoader:
    """Rows of tensors, which a queue makes batches of."""
    return DataLoader(
        TensorDataset(*samples(count)), **{"batch_size": BATCH, "shuffle": True, **options}
    )


class Samples(Dataset):
    """The same, asked for one by one, with noise; ``bad`` raises."""

    def __init__(self, count: int, *, bad: int | None, own: bool) -> None:
        self.x, self.y = (t.numpy() for t in samples(count))
        self.bad, self.own = bad, own

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise KeyError(f"sample {index}")
        draws = batch_generator() if self.own else hy.random.default_generator()
        noise = draws.normal(size=(4,)).numpy() * 0.01
        return (self.x[index] + noise).astype(np.float32), self.y[index]


def slow_loader(count: int = SAMPLES, *, bad: int | None = None, **options: Any) -> DataLoader:
    options = {"batch_size": BATCH, "shuffle": True, **options}
    return DataLoader(Samples(count, bad=bad, own="workers" in options), **options)


class Seen(Callback):
    """Notes what it is told."""

    def __init__(
        self, every: int = 1, scalars: tuple[str, ...] = (), between: bool = False
    ) -> None:
        self.every, self.scalars, self.between_steps = every, scalars, between
        self.told: list[Any] = []

    def on_train_begin(self, run):
        self.told.append("train begins")

    def on_epoch_begin(self, run):
        self.told.append(f"epoch {run.epoch} begins")

    def on_step_end(self, run):
        self.told.append((run.epoch, run.step, dict(run.values)))

    def on_epoch_end(self, run):
        self.told.append((f"epoch {run.epoch} ends", dict(run.values)))

    def on_train_end(self, run):
        self.told.append("train ends")

    def close(self):
        self.told.append("closed")

    @property
    def steps(self) -> list[Any]:
        return [told for told in self.told if isinstance(told, tuple) and len(told) == 3]


def state_of(trained: Model, data: DataLoader) -> Any:
    """All that training has left behind, as plain numbers."""
    state = trained.state_dict()
    return (
        [p.tolist() for p in state["network"].values()],
        flatten(state["optimizer"])[1:],
        [t.tolist() for t in flatten(state["optimizer"])[0] if isinstance(t, hy.Tensor)],
        state["random"].tolist(),
        data.state_dict(),
    )
