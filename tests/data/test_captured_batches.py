"""What batches of captured loops may be, which plans serve them, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.data import DataLoader, Dataset, TensorDataset
from hybrid.errors import CaptureError, DatasetError
from tests.data.captured import Counted, Noisy, assert_same, summed
from tests.data.samples import Rows


class Pair(NamedTuple):
    x: Any
    y: Any


def test_batches_keep_their_structure():
    class Dicts(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            second = np.asarray(2 * index, np.int16)
            return {"pair": Pair(np.float32(index), second), "rest": [np.asarray(index > 2)]}

    @hy.hybridize
    def last(loader):
        for batch in loader:
            found = batch
        return found

    for options in ({"batch_size": 2}, {"batch_size": 5}, {"batch_size": None}):
        loader = DataLoader(Dicts(), **options)
        eagerly = list(loader)[-1]
        found = last(loader)
        assert flatten(found)[1] == flatten(eagerly)[1]
        for a, b in zip(flatten(found)[0], flatten(eagerly)[0], strict=True):
            assert a.type is b.type and a.tolist() == b.tolist()


def test_plans_serve_as_long_as_batches_look_alike():
    loader = DataLoader(Rows(23), 5)
    call = hy.hybridize(summed(loader, hy.zeros(())))

    def check(plans):
        assert call().tolist() == call.__wrapped__().tolist()
        assert len(call.plans) == plans

    check(1)
    loader.dataset.x = loader.dataset.x[:20]  # no smaller batch any more
    check(2)
    loader.dataset = Rows(20)
    check(3)
    loader.dataset.x *= 2
    check(3)
    loader.dataset = Rows(20, width=7)
    check(4)
    loader.collate_fn = lambda samples: [x[:, :2] for x in hy.data.default_collate(samples)[:1] * 2]
    check(5)


def test_passes_are_resumed_in_captured_loops():
    def loader():
        tensors = TensorDataset(hy.arange(23), hy.arange(23.0))
        return DataLoader(tensors, 5, shuffle=True, generator=3)

    expected = loader()
    batches = [x.tolist() for x, _ in expected] + [x.tolist() for x, _ in expected]
    for given in range(6):
        first = loader()
        begun = iter(first)
        for _ in range(given):
            next(begun)
        resumed = loader()
        resumed.load_state_dict(first.state_dict())

        @hy.hybridize
        def rest(resumed=resumed):
            found = []
            for x, _ in resumed:
                found.append(x)
            return found

        got = [x.tolist() for x in rest()] + [x.tolist() for x in rest()]
        assert got == batches[given:]


def test_loaders_as_arguments_and_attributes():
    @hy.hybridize
    def total(loader):
        found = hy.zeros(())
        for (x,) in hy.progress(loader):
            found = found + x.sum()
        return found

    first, second = (DataLoader(TensorDataset(hy.arange(float(n))), 3) for n in (7, 8))
    assert [total(first).item(), total(second).item(), total(first).item()] == [21, 28, 21]
    assert len(total.plans) == 2

    class Trainer:
        def __init__(self):
            self.loader = first

        @hy.hybridize
        def total(self):
            found = hy.zeros(())
            for (x,) in self.loader:
                found = found + x.sum()
            return found

    trainer = Trainer()
    assert trainer.total().item() == 21
    trainer.loader = second
    assert trainer.total().item() == 28


def test_streams_of_known_length():
    def loader(workers=0, **how):
        return lambda: DataLoader(Counted(**how), 5, workers=workers)

    def body(loader, state):
        def total():
            found = hy.zeros(())
            for x in loader:
                found = found + x.sum()
                state.assign(found)
            return found

        return total

    assert_same(loader(), body)
    assert_same(loader(length=20), body)
    state = hy.zeros(())
    short = DataLoader(Counted(gives=12), 5)
    with pytest.raises(DatasetError) as caught:
        hy.hybridize(body(short, state))()
    assert (
        str(caught.value)
        .splitlines()[0]
        .startswith(
            "batch 2 of a pass over a Counted is f32[2,2] in *; the captured loop was made for "
            "f32[5,2] in *"
        )
    )
    assert state.item() == 2 * sum(range(10))
    shorter = DataLoader(Counted(gives=10), 5)
    with pytest.raises(
        DatasetError, match="gave no more than 2 batches in a pass; its length is 5"
    ):
        hy.hybridize(body(shorter, state))()
    longer = DataLoader(Counted(gives=30, length=20), 5)
    with (
        pytest.warns(UserWarning, match="gives more than the 4 batches"),
        pytest.raises(DatasetError, match="gave more batches in a pass; its length is 4"),
    ):
        hy.hybridize(body(longer, state))()
    assert state.item() == 2 * sum(range(20))


def test_batches_of_another_shape_are_refused():
    loader, state = DataLoader(Noisy(own=True), 1), hy.zeros(())
    loader.dataset.wide = (7,)
    with pytest.raises(DatasetError) as caught:
        hy.hybridize(summed(loader, state))()
    assert str(caught.value).split(" (/")[0] == (
        "batch 7 of a pass over a Noisy is f32[1,5], i64[1] in (*, *); the captured loop was made "
        "for f32[1,3], i64[1] in (*, *)"
    )
    assert "collate_fn can pad them" in str(caught.value)


def test_empty_loaders_run_no_iteration():
    assert_same(lambda: DataLoader(Noisy(0), 5), summed)
    assert_same(lambda: DataLoader(Noisy(3), 5, drop_last=True), summed)


def test_loaders_of_values_of_the_run_are_refused():
    @hy.hybridize
    def total(x):
        found = hy.zeros(())
        for (a,) in DataLoader(TensorDataset(x * 2), 4):
            found = found + a.sum()
        return found

    with pytest.raises(CaptureError, match="a loader of values that the hybridized function"):
        total(hy.ones(8))


def texts():
    return DataLoader([(np.float32(1), "a"), (np.float32(2), "b")], 1)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (texts(), "batches of a list hold a str"),
    ],
)
def test_what_no_graph_can_go_over_is_refused(loader, message):
    @hy.hybridize
    def total():
        found = hy.zeros(())
        for batch in loader:
            found = found + batch[0].sum()
        return found

    with pytest.raises(CaptureError) as caught:
        total()
    assert str(caught.value).startswith(f"{message} ({__file__}:")
    assert "go over the loader outside" in str(caught.value)


def test_interrupts_end_the_pass(heeded_interrupt):
    class Interrupting(Noisy):
        def __getitem__(self, index):
            if index == 12:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    state = hy.zeros(())
    loader = DataLoader(Interrupting(own=True), 5)
    with pytest.raises(KeyboardInterrupt):
        hy.hybridize(summed(loader, state))()
    assert state.item() > 0  # of the two steps that were finished
    assert loader.state_dict()["batches"] == 2


def test_functions_captured_by_workers_do_not_wait_for_the_loop():
    twice = hy.hybridize(lambda x: x * 2)  # captured by a worker, while the loop runs

    class Doubled(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return twice(hy.asarray(np.float32(index)))

    @hy.hybridize
    def total(loader):
        found = hy.zeros(())
        for x in loader:
            found = found + x.sum()
        return found

    assert total(DataLoader(Doubled(), 2, workers=2)).item() == 56
