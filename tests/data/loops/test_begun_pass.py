"""The first batch of a captured loop is asked for as often as by eager code, with its draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.data import DataLoader, Dataset, IterableDataset
from hybrid.train import Model

SAMPLES = 10
asked: list[Any] = []


def _sample(index: int) -> tuple[np.ndarray, np.ndarray]:
    asked.append(index)
    noise = np.random.rand(2) + random.random() + hy.data.batch_generator().uniform(size=()).item()
    return noise.astype(np.float32), np.float32([index])


class Drawn(Dataset):
    """Samples that draw from the random numbers of Python, NumPy and the loader."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return _sample(index)


class Once(IterableDataset):
    """A stream that goes on where it was left: nobody may ask for a sample to look at it."""

    def __init__(self, length: int | None = None) -> None:
        self.items: Iterator[Any] = map(_sample, range(SAMPLES * 3))
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        return (next(self.items) for _ in range(SAMPLES))


class Known(Once):
    def __len__(self) -> int:
        return SAMPLES


class Resumable:
    """A sampler with a state, which moves as it is asked."""

    def __init__(self) -> None:
        self.at = 0

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        for _ in range(SAMPLES):
            asked.append(f"number {self.at}")
            self.at += 3
            yield self.at % SAMPLES

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Groups:
    """A batch sampler of one's own."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[list[int]]:
        for first in np.random.permutation(4):
            asked.append("group")
            yield [int(first), int(first) + 4]


def noisy(samples: Any) -> Any:
    """Collate, with draws of its own."""
    asked.append(f"collate {len(samples)}")
    x = np.stack([x for x, _ in samples])
    return hy.asarray(x + random.random()), hy.asarray(np.stack([y for _, y in samples]))


LOADERS: dict[str, Callable[[], DataLoader]] = {
    "in order": lambda: DataLoader(Drawn(), batch_size=5),
    "a smaller last batch": lambda: DataLoader(Drawn(), batch_size=4),
    "whole batches": lambda: DataLoader(Drawn(), batch_size=4, drop_last=True),
    "shuffled": lambda: DataLoader(Drawn(), batch_size=4, shuffle=True),
    "by a generator": lambda: DataLoader(Drawn(), batch_size=5, shuffle=True, generator=3),
    "one by one": lambda: DataLoader(Drawn(), batch_size=1),
    "a sampler": lambda: DataLoader(Drawn(), batch_size=5, sampler=Resumable()),
    "a batch sampler": lambda: DataLoader(Drawn(), batch_sampler=Groups()),
    "a stream": lambda: DataLoader(Once(), batch_size=5, drop_last=True),
    "a stream of known length": lambda: DataLoader(Known(), batch_size=4),
    "workers": lambda: DataLoader(Drawn(), batch_size=5, workers=1),
}
COLLATED = {
    "collated": lambda: DataLoader(Drawn(), batch_size=5, collate_fn=noisy),
    "collated, all alike": lambda: DataLoader(
        Drawn(), batch_size=5, drop_last=True, collate_fn=noisy, shuffle=True
    ),
}


def _states() -> tuple[Any, ...]:
    return (
        random.getstate(),
        np.random.get_state()[1].tobytes(),
        hy.random.default_generator().state.tolist(),
    )


def _seed() -> None:
    asked.clear()
    random.seed(1)
    np.random.seed(2)
    hy.random.seed(3)


def whole(loader: DataLoader) -> Any:
    total = hy.zeros(())
    for x, y in loader:
        total = total + x.sum() * y.sum()
    return total


def broken(loader: DataLoader) -> Any:
    total = hy.zeros(())
    for x, y in loader:
        total = total + x.sum() * y.sum()
        if total > 0:
            break
    return total


def epochs(loader: DataLoader) -> Any:
    total = hy.zeros(())
    for _ in range(2):
        for x, _ in loader:
            total = total + x.sum() * hy.random.uniform(size=())
    return total


@pytest.mark.parametrize("body", [whole, broken, epochs])
@pytest.mark.parametrize("loader", LOADERS | COLLATED)
def test_a_captured_loop_asks_as_eager_code_does(loader: str, body: Any) -> None:
    found = []
    for hybridizes in (False, True):
        _seed()
        made = (LOADERS | COLLATED)[loader]()
        call = hy.hybridize(body) if hybridizes else body
        # Workers read ahead: how far they are when a loop breaks, and so what they have drawn by
        # then, is nobody's promise.
        once = (loader.startswith("a stream") and body is epochs) or (
            loader == "workers" and body is broken
        )
        results = [call(made).tolist() for _ in range(1 if once else 2)]
        seen = [] if loader == "workers" else [list(asked), _states()]
        found.append((results, seen, made.state_dict()))
    assert found[0] == found[1]


@pytest.mark.parametrize("loader", LOADERS)
def test_sunk_training_asks_as_steps_do(loader: str) -> None:
    found = []
    for sinks in (False, True):
        _seed()
        network, made = nn.Linear(2, 1), LOADERS[loader]()
        model = Model(network, nn.MSELoss(), hy.optim.SGD(network.parameters(), lr=0.1))
        model.train(2, made, dataset_sink_mode=sinks)
        seen = [] if loader == "workers" else [list(asked), _states()]
        found.append((network.weight.tolist(), seen))
    assert found[0] == found[1]


def test_a_loop_that_cannot_be_captured_leaves_the_batch_to_the_next_one() -> None:
    @hy.hybridize
    def refused(loader: DataLoader) -> Any:
        total = hy.zeros(())
        for x, _ in loader:
            total = total + x.sum() + float(x.numpy().sum())
        return total

    _seed()
    loader = DataLoader(Drawn(), batch_size=5, shuffle=True, generator=4)
    state = loader.state_dict()
    with pytest.raises(hy.errors.CaptureError):
        refused(loader)
    assert loader.state_dict() == state and len(asked) == 5
    found = [x.tolist() for x, _ in loader], list(asked), _states()
    _seed()
    loader = DataLoader(Drawn(), batch_size=5, shuffle=True, generator=4)
    assert found == ([x.tolist() for x, _ in loader], list(asked), _states())


def test_a_pass_begun_for_another_order_is_not_gone_on_with() -> None:
    @hy.hybridize
    def refused(loader: DataLoader) -> Any:
        for x, _ in loader:
            raise ValueError(x.numpy())

    loader = DataLoader(Drawn(), batch_size=5, shuffle=True, generator=4)
    with pytest.raises(hy.errors.CaptureError):
        refused(loader)
    loader.generator.seed(9)
    got = [y.tolist() for _, y in loader]
    other = DataLoader(Drawn(), batch_size=5, shuffle=True, generator=9)
    assert got == [y.tolist() for _, y in other]


@pytest.mark.parametrize("workers", [0, 1])
def test_draws_before_the_loop_come_first(workers: int) -> None:
    def body(loader: DataLoader) -> Any:
        total = hy.random.uniform(size=())
        for x, y in loader:
            total = total + x.sum() * y.sum()
        return total

    found = []
    for hybridizes in (False, True):
        _seed()
        loader = DataLoader(Fixed(), batch_size=5, shuffle=True, workers=workers)
        found.append((hy.hybridize(body) if hybridizes else body)(loader).tolist())
    assert found[0] == found[1]


class Fixed(Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        noise = hy.data.batch_generator().uniform(size=()).item()
        return np.float32([index + noise, 1]), np.float32([index])
