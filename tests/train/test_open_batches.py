"""Batches that are unlike each other: sunk and stepwise training have the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, Dataset, IterableDataset, batch_generator
from hybrid.train import Checkpoint, Model
from tests.train.parts import Seen, model, state_of

SIZES = (8, 8, 5, 8, 1, 3, 8, 8, 8, 2)  # of batches


class Texts(Dataset):
    """Sequences of many lengths; their noise comes from the default generator unless ``own``."""

    def __init__(self, count: int = 40, *, own: bool = False) -> None:
        draws = np.random.default_rng(3)
        self.rows = [draws.standard_normal((n, 4)) for n in draws.integers(2, 20, count)]
        self.own = own

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        draws = batch_generator() if self.own else hy.random.default_generator()
        noise = draws.normal(size=(4,)).numpy() * 0.1
        return (self.rows[index] + noise).astype(np.float32), index % 3


class TextStream(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        texts = Texts(22)
        return (texts[i] for i in range(22))


def padded(samples: list[Any]) -> tuple[hy.Tensor, hy.Tensor]:
    longest = max(len(rows) for rows, _ in samples)
    rows = [np.pad(rows, ((0, longest - len(rows)), (0, 0))) for rows, _ in samples]
    return hy.asarray(np.stack(rows)), hy.asarray(np.array([label for _, label in samples]))


def summed(samples: list[Any]) -> tuple[hy.Tensor, hy.Tensor]:
    """Batches that differ in the number of samples alone."""
    rows = np.stack([rows.sum(axis=0) for rows, _ in samples])
    return hy.asarray(rows), hy.asarray(np.array([label for _, label in samples]))


class Uneven:
    """Batches of these sizes."""

    def __len__(self) -> int:
        return len(SIZES)

    def __iter__(self) -> Iterator[list[int]]:
        at = 0
        for size in SIZES:
            yield [(at + i) % 40 for i in range(size)]
            at += size


class Network(hy.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = (
            hy.nn.Linear(4, 6), hy.nn.Dropout(0.2), hy.nn.Linear(6, 3),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        h = hy.tanh(self.first(x))
        return self.last(self.drop(h.mean(axis=1) if x.ndim == 3 else h))


LOADERS: dict[str, Callable[[], DataLoader]] = {
    "lengths": lambda: DataLoader(Texts(), 8, shuffle=True, collate_fn=padded),
    "a smaller last one": lambda: DataLoader(Texts(39), 8, shuffle=True, collate_fn=padded),
    "texts": lambda: DataLoader([(Texts()[i][0][None], hy.ones(1, dtype=hy.int64))
                                 for i in range(12)], None),
    "sizes": lambda: DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed),
    "both": lambda: DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=padded),
    "stream": lambda: DataLoader(TextStream(), 8, collate_fn=summed),
    "stream of lengths": lambda: DataLoader(TextStream(), 4, collate_fn=padded),
    "workers": lambda: DataLoader(
        Texts(own=True), batch_sampler=Uneven(), collate_fn=padded, workers=2),
}  # fmt: skip


def made() -> Model:
    hy.random.seed(0)
    network = Network()
    optimizer = hy.optim.Adam(network.parameters(), lr=0.02)
    return Model(network, hy.nn.CrossEntropyLoss(), optimizer, ["accuracy"])


def trained(make: Callable[[], DataLoader], epochs: int = 3, **options: Any) -> list[Any]:
    """What training leaves behind and tells, with and without sinking."""
    found = []
    for sinks in (True, False):
        model, data, seen, rare = made(), make(), Seen(), Seen(every=3, between=True)
        history = model.train(epochs, data, [seen, rare], dataset_sink_mode=sinks, **options)
        score = model.eval(data, dataset_sink_mode=sinks)
        found.append((state_of(model, data), seen.told, rare.told, history.state_dict(), score))
    return found


@pytest.mark.parametrize("name", LOADERS)
def test_sinking_never_changes_a_bit(name: str) -> None:
    sunk, stepwise = trained(LOADERS[name])
    for one, other in zip(sunk, stepwise, strict=True):
        assert one == other


def test_validation_goes_over_them_too() -> None:
    sunk, stepwise = trained(LOADERS["both"], valid_dataset=LOADERS["lengths"]())
    assert sunk == stepwise


@pytest.mark.parametrize("name", ["lengths", "sizes", "stream"])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_sink_size_goes_on_where_it_left_off(name: str, size: int) -> None:
    whole, seen = made(), Seen()
    whole.train(4, LOADERS[name](), seen)
    expected = [values for _, _, values in seen.steps]
    parts, seen = made(), Seen()
    parts.train(len(expected) // size, LOADERS[name](), seen, sink_size=size)
    assert [values for _, _, values in seen.steps] == expected[: len(expected) // size * size]


def test_a_training_is_resumed_between_unlike_batches(tmp_path: Any) -> None:
    def make() -> DataLoader:
        return DataLoader(Texts(own=True), batch_sampler=Uneven(), collate_fn=padded)

    whole, files = made(), Checkpoint(tmp_path / "run", every=7, per="step", keep=2)
    whole.train(2, make(), files)
    for path in files.paths:
        again = made()
        again.train(2, make(), resume=path)
        for one, other in zip(whole.network.parameters(), again.network.parameters(), strict=True):
            assert one.tolist() == other.tolist()


def test_few_captures_serve_them_all() -> None:
    model = made()
    data = DataLoader(Texts(400), 8, shuffle=True, collate_fn=padded)
    model.train(1, data)
    [(_, loop)] = model._loops
    lengths = {padded([data.dataset[i] for i in range(j, j + 8)])[0].shape[1] for j in (0, 8, 16)}
    assert len(lengths) > 1
    families = list(loop._one._table.open_families.values())
    assert sum(len(family.captures) for family in families) == 1


def test_like_batches_stay_in_one_call() -> None:
    """One unlike batch among many: the others are not steps by themselves."""
    data = DataLoader(TextStream(), 4, collate_fn=summed)  # five of 4 samples, and one of 2
    model = made()
    model.train(2, data)
    [(_, loop)] = model._loops
    assert [plan.calls for plan in loop._one.plans] == [2]


def test_what_the_network_cannot_take_raises_as_eagerly() -> None:
    class Wide(Dataset):
        def __len__(self) -> int:
            return 24

        def __getitem__(self, index: int) -> Any:
            return np.zeros(4 + (index > 15), np.float32), index % 3

    outcomes = []
    for sinks in (True, False):
        wrong, seen = model(), Seen()
        with pytest.raises(hy.errors.ShapeError, match=r"f32\[8,5\]") as caught:
            wrong.train(1, DataLoader(Wide(), 8), seen, dataset_sink_mode=sinks)
        outcomes.append((str(caught.value), [step for _, step, _ in seen.steps]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == [1, 2]
