"""Captured loops over streams that do not know how long they are."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, IterableDataset, batch_generator, get_worker_info
from hybrid.errors import CaptureError, DatasetError
from tests.data.captured import assert_same, outcome, summed
from tests.data.test_captured_loops import broken, counted, nested, returning


class Stream(IterableDataset):
    """Pairs with draws of the default generator, or of the batch's own."""

    def __init__(self, length=20, *, bad=None, own=False, wide=None):
        self.length, self.bad, self.own, self.wide = length, bad, own, wide

    def __iter__(self):
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(first, self.length, step):
            if index == self.bad:
                raise KeyError(f"sample {index}")
            draws = batch_generator() if self.own else hy.random.default_generator()
            noise = draws.uniform(size=(5 if index == self.wide else 3,)).numpy()
            yield np.float32(index) + noise, index


def listed(loader, state):
    def body():
        sums = []
        for x, _ in loader:
            sums.append(x.sum())
        state.assign(sums[-1])
        return sums

    return body


BODIES = [summed, broken, returning, nested, listed, counted]


@pytest.mark.parametrize("length", [20, 4, 3])
@pytest.mark.parametrize("body", BODIES)
def test_loops_give_what_eager_ones_give(body, length):
    if body in (listed, counted) and length == 3:
        pytest.skip("it uses what the loop has left")
    assert_same(lambda: DataLoader(Stream(length), 4, drop_last=True), body)


@pytest.mark.parametrize("kind", ["thread", "process"])
@pytest.mark.parametrize("body", BODIES)
def test_workers_make_batches_ahead(body, kind):
    def loader():
        how = {"workers": 2, "worker_kind": kind}
        return DataLoader(Stream(24, own=True), 4, drop_last=True, **how)

    assert_same(loader, body)
    gc.collect()
    assert threading.active_count() == 1


def test_one_plan_goes_over_streams_of_any_length():
    dataset, state = Stream(), hy.zeros(())
    loader = DataLoader(dataset, 4, drop_last=True)
    call = hy.hybridize(summed(loader, state))
    for length in (20, 400, 4, 0, 33):
        dataset.length = length
        hy.random.seed(3)
        expected = call.__wrapped__().tolist()
        hy.random.seed(3)
        assert call().tolist() == expected
    assert len(call.plans) == 1


@pytest.mark.parametrize("bad", [0, 13])
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("body", [summed, nested])
def test_streams_that_raise_leave_what_finished_steps_have_written(body, bad, workers):
    found = []
    for hybridizes in (False, True):
        hy.random.seed(5)
        made = DataLoader(Stream(bad=bad, own=True), 4, drop_last=True, workers=workers)
        state = hy.zeros(())
        call = body(made, state)
        found.append(outcome(hy.hybridize(call) if hybridizes else call, state, made))
    assert found[0] == found[1]


def test_training_over_a_stream():
    def trained(hybridizes):
        hy.random.seed(3)
        network = hy.nn.Sequential(hy.nn.Linear(3, 4), hy.nn.Dropout(0.2), hy.nn.Linear(4, 1))
        optimizer = hy.optim.Adam(network.parameters(), lr=1e-2)
        loader = DataLoader(Stream(40), 4, drop_last=True)

        def epoch():
            steps = 0
            for x, y in loader:
                loss = ((network(x)[:, 0] - y.astype(hy.float32)) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps = steps + 1
            return steps

        call = hy.hybridize(epoch) if hybridizes else epoch
        assert [call() for _ in range(3)] == [10] * 3
        return [p.tolist() for p in network.parameters()]

    assert trained(False) == trained(True)


@pytest.mark.parametrize(("options", "size"), [({"length": 22}, 4), ({"wide": 9}, 1)])
def test_batches_of_another_shape_are_taken(options, size):
    assert_same(lambda: DataLoader(Stream(own=True, **options), size), summed)
    assert_same(lambda: DataLoader(Stream(**options), size), summed)


def test_streams_without_a_batch_run_no_iteration():
    dataset, state = Stream(0), hy.zeros(())
    call = hy.hybridize(summed(DataLoader(dataset, 4), state))
    assert call().item() == 0 == state.item()
    dataset.length = 4
    with pytest.raises(DatasetError, match="gave batches, and none when the loop was captured"):
        call()


def test_zip_of_a_stream_is_refused():
    @hy.hybridize
    def total():
        found = hy.zeros(())
        for (x, _), number in zip(DataLoader(Stream(), 4), range(3), strict=False):
            found = found + x.sum() * number
        return found

    with pytest.raises(CaptureError, match="zip\\(\\) of a loader that does not know how many"):
        total()
