"""Loops over loaders in hybridized functions: the bits, state and errors of eager ones."""

from __future__ import annotations

import gc
import threading
import time
import types

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import BatchSampler, DataLoader, TensorDataset
from tests.data.captured import SAMPLES, Noisy, assert_same, outcome, summed
from tests.helpers import leaf


def broken(loader, state):
    def body():
        total, count = hy.zeros(()), 0
        for x, _ in loader:
            total = total + x.sum()
            state.assign(total)
            if total > 60:
                break
            count += 1
        else:
            count = -1
        return total, count

    return body


def returning(loader, state):
    def body():
        for x, _ in loader:
            state.assign(state + x.sum())
            if state > 100:
                return x.sum()
        return state * 1

    return body


def counted(loader, state):
    def body():
        total = hy.zeros(())
        for number, (x, _) in enumerate(loader, 3):
            total = total + x.sum() * number
            state.assign(total)
        return total, x

    return body


def zipped(loader, state):
    def body():
        total = hy.zeros(())
        for (x, _), number in zip(loader, range(3), strict=False):
            total = total + x.sum() * number
        for number, (x, _) in zip(range(2), loader, strict=False):
            total = total + x.sum() * number
            state.assign(total)
        return total

    return body


def nested(loader, state):
    def body():
        total = hy.zeros(())
        for epoch in range(3):
            for x, _ in loader:
                total = total + x.sum() * epoch + hy.random.uniform(size=())
            state.assign(total)
        return total

    return body


def listed(loader, state):
    def body():
        sums = []
        for x, _ in loader:
            sums.append(x.sum())
        state.assign(sums[-1])
        return hy.stack(sums)

    return body


BODIES = [summed, broken, returning, counted, zipped, nested, listed]
OPTIONS = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "own generator": {"shuffle": True, "generator": 7},
    "whole batches": {"drop_last": True},
    "one batch": {"batch_size": SAMPLES},
    "one small batch": {"batch_size": 50},
    "one by one": {"batch_size": 1},
    "lists of numbers": {"batch_size": 1, "batch_sampler": BatchSampler(range(SAMPLES), 4)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("body", BODIES)
def test_loops_give_what_eager_ones_give(body, options):
    def loader():
        return DataLoader(Noisy(), **{"batch_size": 5, **options})

    assert_same(loader, body)


@pytest.mark.parametrize("kind", ["thread", "process"])
@pytest.mark.parametrize("body", BODIES)
def test_workers_make_batches_ahead(body, kind):
    def loader():
        dataset = Noisy(own=True)
        return DataLoader(dataset, 5, shuffle=True, workers=2, worker_kind=kind)

    assert_same(loader, body)
    gc.collect()
    assert threading.active_count() == 1


@pytest.mark.parametrize("body", BODIES)
def test_tensors_are_read_whole(body):
    x, y = hy.random.Generator(1).normal(size=(SAMPLES, 3)), hy.arange(SAMPLES)
    assert_same(lambda: DataLoader(TensorDataset(x, y), 4, shuffle=True), body)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("bad", [0, 17])
@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_that_raise_leave_what_finished_steps_have_written(body, bad, workers):
    def loader():
        return DataLoader(Noisy(bad=bad, own=True), 5, workers=workers)

    found = []
    for hybridizes in (False, True):
        hy.random.seed(5)
        state, made = hy.zeros(()), loader()
        call = body(made, state)
        found.append(outcome(hy.hybridize(call) if hybridizes else call, state, made))
    assert found[0] == found[1]
    gc.collect()
    assert threading.active_count() == 1


def test_errors_of_datasets_tell_the_line_of_the_loop():
    loader, state = DataLoader(Noisy(bad=12), 5), hy.zeros(())
    body = summed(loader, state)
    line = body.__code__.co_firstlineno + 2
    with pytest.raises(KeyError, match="sample 12") as caught:
        hy.hybridize(body)()
    assert any(f"{body.__code__.co_filename}:{line}" in note for note in caught.value.__notes__)


def test_training_steps_in_captured_epochs():
    x = np.random.RandomState(0).rand(103, 4).astype(np.float32)
    y = np.random.RandomState(1).rand(103, 1).astype(np.float32)

    def trained(hybridizes):
        hy.random.seed(3)
        nn = hy.nn
        network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        optimizer = hy.optim.Adam(network.parameters(), lr=1e-2)
        loader = DataLoader(TensorDataset(x, y), 10, shuffle=True)

        def epoch():
            total, steps = hy.zeros(()), 0
            for a, b in loader:
                loss = ((network(a) - b) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, steps = total + loss.detach(), steps + 1
            return total, steps

        call = hy.hybridize(epoch) if hybridizes else epoch
        losses = [[v if type(v) is int else v.item() for v in call()] for _ in range(3)]
        return losses, [p.tolist() for p in network.parameters()]

    assert trained(False) == trained(True)


def test_gradients_flow_back_through_captured_loops():
    x = hy.random.Generator(1).normal(size=(10, 3))

    loader = DataLoader(TensorDataset(x), 4)

    def loss_of(weights):
        total = hy.zeros(())
        for (a,) in loader:
            total = total + (a @ weights).sin().sum()
        return total

    found = []
    for call in (loss_of, hy.hybridize(loss_of)):
        weights = leaf(3)
        call(weights).backward()
        found.append(weights.grad.tolist())
    assert found[0] == found[1]


@hy.hybridize
def doubled(x):
    return x * 2


class Doubled(hy.data.Dataset):
    """Whose samples a plan computes, in whatever thread asks for them."""

    def __len__(self):
        return 24

    def __getitem__(self, at):
        time.sleep(0.001)  # so that the loop waits
        return doubled(hy.ones(3) * at)


def test_workers_run_plans_while_the_loop_that_waits_for_them_writes() -> None:
    loader = DataLoader(Doubled(), 4, workers=2, worker_kind="thread")
    calls, state = hy.zeros(()), types.SimpleNamespace(last=hy.zeros(()))

    @hy.hybridize
    def total(x):
        for batch in loader:
            x = x + batch.sum()
        calls.assign(calls + 1)
        state.last = state.last + x
        return x

    found = []

    def run() -> None:
        found.extend([total(hy.zeros(())).item() for _ in range(3)])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert found == [2.0 * 3 * sum(range(24))] * 3
    assert calls.item() == 3 and state.last.item() == sum(found)
