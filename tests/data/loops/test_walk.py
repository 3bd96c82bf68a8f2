"""Walks: pass after pass over a loader, some batches at a time, eagerly and in captured loops."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, IterableDataset, TensorDataset
from hybrid.errors import ArgumentError, CaptureError, DatasetError
from tests.data.captured import Counted, Noisy
from tests.threads import thread_count, thread_count_within

ROWS = 23
OPTIONS = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "own generator": {"shuffle": True, "generator": 7},
}


def tensors(width=3):
    return TensorDataset(hy.random.Generator(1).normal(size=(ROWS, width)), hy.arange(ROWS))


DATASETS = {
    "small tensors": tensors,
    "large tensors": lambda: tensors(5000),
    "noisy": Noisy,
}


def batches(loader):
    """Those of eager passes, one after the other; a draw beside each."""
    while True:
        for x, y in loader:
            yield x.sum().item(), y.tolist(), hy.random.uniform(size=()).item()


def taken(walk, counts, hybridizes):
    """The same, of calls that take so many each, and where the loader is after each."""

    def some(count):
        found = []
        for x, y in walk.take(count):
            found.append((x.sum(), y, hy.random.uniform(size=())))
        return found

    call = hy.hybridize(some) if hybridizes else some
    found, states = [], []
    for count in counts:
        found += [(x.item(), y.tolist(), z.item()) for x, y, z in call(count)]
        states.append(walk.loader.state_dict())
    return found, states


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
@pytest.mark.parametrize("size", [5, 23, 40])
def test_a_walk_is_pass_after_pass(dataset, options, size, hybridizes):
    counts = [3, 1, 2, 7, 0, 9] if size == 5 else [2, 1, 3]

    def loader():
        hy.random.seed(5)
        return DataLoader(dataset(), size, drop_last=size == 5, **options)

    eager = batches(loader())
    expected = [next(eager) for _ in range(sum(counts))]
    found, states = taken(loader().repeat(), counts, hybridizes)
    assert found == expected
    per_pass = 4 if size == 5 else 1
    for count, state in zip(np.cumsum(counts), states, strict=True):
        at = state["passes"] - 1, state["batches"]
        assert at[0] * per_pass + at[1] == count


@pytest.mark.parametrize("worker_kind", ["thread", "process"])
@pytest.mark.parametrize("hybridizes", [False, True])
def test_workers_make_the_batches_of_walks(worker_kind, hybridizes):
    def loader(workers):
        hy.random.seed(5)
        options = {"workers": 2, "worker_kind": worker_kind} if workers else {}
        return DataLoader(Noisy(own=True), 5, shuffle=True, drop_last=True, **options)

    expected, _ = taken(loader(False).repeat(), [3, 6], False)
    assert taken(loader(True).repeat(), [3, 6], hybridizes)[0] == expected
    gc.collect()
    assert threading.active_count() == 1


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize("width", [3, 5000])
def test_another_walk_goes_on_where_a_state_was_taken(width, hybridizes):
    def loader():
        return DataLoader(tensors(width), 5, shuffle=True, drop_last=True, generator=3)

    def numbers(walk, counts):
        return [y for _, y, _ in taken(walk, counts, hybridizes)[0]]

    expected = numbers(loader().repeat(), [14])
    for count in range(10):
        first = loader()
        walk = first.repeat()
        begun = numbers(walk, [count])
        resumed = loader()
        resumed.load_state_dict(first.state_dict())
        assert begun + numbers(resumed.repeat(), [2, 2]) == expected[: count + 4]
        assert begun + numbers(walk, [4]) == expected[: count + 4]


def test_batches_do_not_go_through_python_but_where_a_pass_begins(monkeypatch):
    from hybrid.memory import batch_queue as queues

    made, take = [], queues.take
    monkeypatch.setattr("hybrid.memory.batch_queue.take", lambda *a: made.append(1) or take(*a))
    for width in (3, 5000):
        walk = DataLoader(tensors(width), 5, shuffle=True, drop_last=True).repeat()

        @hy.hybridize
        def total(walk=walk):
            found = hy.zeros(())
            for x, _ in walk.take(40):
                found = found + x.sum() * hy.random.uniform(size=())
            return found

        made.clear()
        for _ in range(3):
            total()
        assert len(made) == 29  # 30 passes, the first of which begins before the loop
        number = walk.queue
        assert number > 0
        total()
        assert walk.queue == number


def test_a_walk_ends_with_its_queue():
    gc.collect()
    walk = DataLoader(tensors(5000), 5, drop_last=True).repeat()
    for _ in walk.take(6):
        pass
    before = thread_count()
    del walk, _
    gc.collect()
    assert thread_count_within(before - 1) == before - 1


def test_breaks_leave_the_rest_for_later():
    walk = DataLoader(TensorDataset(hy.arange(20)), 2).repeat()

    @hy.hybridize
    def until(limit):
        found = hy.zeros((), dtype="int64")
        for (x,) in walk.take(8):
            found = found + x.sum()
            if found > limit:
                break
        return found

    eager = DataLoader(TensorDataset(hy.arange(20)), 2).repeat()
    for limit in (5, 60, 100, 3, 4, 1000):
        total = 0
        for (x,) in eager.take(8):
            total += x.sum().item()
            if total > limit:
                break
        assert until(hy.asarray(limit)).item() == total
        assert walk.given == eager.given


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize("width", [3, 5000])
def test_two_loops_over_one_walk_are_refused(width, hybridizes):
    walk = DataLoader(tensors(width), 5, drop_last=True).repeat()

    def total():
        found = hy.zeros(())
        for x, _ in walk.take(3):
            for a, _ in walk.take(4):
                found = found + a.sum()
            found = found + x.sum()
        return found

    with pytest.raises(DatasetError, match="of a walk were taken during a loop over 3 of them"):
        (hy.hybridize(total) if hybridizes else total)()


def test_errors_leave_what_finished_steps_have_written():
    found = []
    for hybridizes in (False, True):
        state, walk = hy.zeros(()), DataLoader(Noisy(bad=7, own=True), 4, drop_last=True).repeat()

        def some(state=state, walk=walk):
            for x, _ in walk.take(4):
                state.assign(state + x.sum())

        call = hy.hybridize(some) if hybridizes else some
        for _ in range(3):
            with pytest.raises(KeyError, match="sample 7"):
                call()
            found.append((state.item(), walk.given, walk.loader.state_dict()))
    assert found[:3] == found[3:]


def test_streams_are_walked_too():
    class Endless(IterableDataset):
        def __iter__(self):
            return (np.full(2, i, np.float32) for i in range(9))

    for dataset in (Endless(), Counted(9)):
        expected = [0.0, 8.0, 16.0, 24.0] * 3
        walk = DataLoader(dataset, 2, drop_last=True).repeat()

        @hy.hybridize
        def some(walk=walk):
            found = []
            for x in walk.take(6):
                found.append(x[0].sum() * 2)
            return found

        assert [x.item() for _ in range(2) for x in some()] == expected


@pytest.mark.parametrize("hybridizes", [False, True])
def test_what_gives_nothing_is_refused(hybridizes):
    for loader in (DataLoader(Noisy(0), 4), DataLoader(Noisy(3), 4, drop_last=True)):
        walk = loader.repeat()

        def total(walk=walk):
            found = hy.zeros(())
            for x, _ in walk.take(2):
                found = found + x.sum()
            return found

        with pytest.raises(DatasetError, match="a pass over a Noisy gave no batch"):
            (hy.hybridize(total) if hybridizes else total)()


def test_what_no_captured_walk_can_go_over_is_refused():
    walk = DataLoader(Noisy(23), 5).repeat()

    @hy.hybridize
    def total(count):
        found = hy.zeros(())
        for x, _ in walk.take(count):
            found = found + x.sum()
        return found

    with pytest.raises(CaptureError) as caught:
        total(3)
    assert "a walk over a loader whose last batch has 3 samples and not 5" in str(caught.value)
    assert "drop_last=True" in str(caught.value)
    for count in (-1, 2.0, True):
        with pytest.raises(ArgumentError, match="count is"):
            walk.take(count)


def test_a_walk_of_the_call_itself_is_refused():
    """Each call begins with a pass; the plan would go on with the walk of its capture."""
    loader = DataLoader(TensorDataset(hy.arange(12)), 4)

    def total():
        found = hy.zeros((), dtype=hy.int64)
        for (x,) in loader.repeat().take(2):
            found = found + x.sum()
        return found

    assert total().item() == total().item() == 28
    with pytest.raises(CaptureError, match=r"walk that .* makes itself") as caught:
        hy.hybridize(total)()
    assert caught.value.at.text == "for (x,) in loader.repeat().take(2):"


@pytest.mark.parametrize("hybridizes", [False, True])
def test_values_that_are_assigned_meanwhile(hybridizes):
    """A pass has the values of when it began; the next one, those of then."""
    dataset = TensorDataset(hy.arange(12))
    (x,) = dataset.tensors
    walk = DataLoader(dataset, 4).repeat()

    def run():
        found = hy.zeros((), dtype=hy.int64)
        for (batch,) in walk.take(3):
            found += batch.sum()
        return found

    call = hy.hybridize(run) if hybridizes else run
    assert call().item() == 66
    for number in range(5):
        x.assign(x * 0 + number)
        gc.collect()
        assert call().item() == 12 * number
