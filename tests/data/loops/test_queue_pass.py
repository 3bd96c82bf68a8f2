"""Loops over tensors: the plan takes batches from a queue, without Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hybrid._native import lib

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.data import DataLoader, NpyDataset, Sampler, Subset, TensorDataset
from hybrid.data.sampler import OrderSampler
from hybrid.memory import native
from tests.data.captured import assert_same, outcome, summed
from tests.threads import thread_count, thread_count_within

ROWS = 103


def tensors(width=3, rows=ROWS):
    return hy.random.Generator(1).normal(size=(rows, width)), hy.arange(rows)


@pytest.fixture
def no_python(monkeypatch):
    """Batches must not be made by Python."""

    def refuse(*_):
        raise AssertionError("a batch was made by Python")

    monkeypatch.setattr("hybrid.memory.batch_queue.take", refuse)


@pytest.mark.parametrize("width", [3, 5000])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"drop_last": True}])
def test_batches_do_not_go_through_python(width, options, no_python):
    data = tensors(width)
    expected = [DataLoader(TensorDataset(*data), 10, generator=2, **options) for _ in range(2)]
    call, eagerly = (summed(loader, hy.zeros(())) for loader in expected)
    found = hy.hybridize(call)
    for _ in range(6):
        assert found().tolist() == eagerly().tolist()


@pytest.mark.parametrize("dtype", [hy.float64, hy.float16, hy.bfloat16, hy.uint8, hy.bool])
def test_rows_of_every_dtype(dtype):
    data = hy.asarray(np.arange(ROWS * 4).reshape(ROWS, 2, 2) % 7).astype(dtype)
    loader = DataLoader(TensorDataset(data, data[:, 0, 0]), 10, shuffle=True, generator=4)

    @hy.hybridize
    def rows():
        found = []
        for x, y in loader:
            found.append(x.astype(hy.float32).sum((1, 2)) + y.astype(hy.float32))
        return found

    captured = [x.tolist() for x in rows()]
    loader = DataLoader(TensorDataset(data, data[:, 0, 0]), 10, shuffle=True, generator=4)
    assert captured == [
        (x.astype(hy.float32).sum((1, 2)) + y.astype(hy.float32)).tolist() for x, y in loader
    ]


def test_mapped_files_are_queued(tmp_path, no_python):
    x, y = np.random.default_rng(0).random((ROWS, 4000), np.float32), np.arange(ROWS)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    loader = DataLoader(NpyDataset(tmp_path / "x.npy", tmp_path / "y.npy"), 10, shuffle=True)

    @hy.hybridize
    def order():
        found = []
        for a, b in loader:
            found.append((a[:, 7], b))
        return found

    for _ in range(2):
        rows = order()
        numbers = np.concatenate([b.numpy() for _, b in rows])
        assert sorted(numbers) == list(range(ROWS))
        np.testing.assert_array_equal(np.concatenate([a.numpy() for a, _ in rows]), x[numbers, 7])


def test_other_kinds_of_samples_take_the_general_way():
    class Negated(TensorDataset):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return -x, y

    assert_same(lambda: DataLoader(Negated(*tensors()), 10), summed)
    many = [hy.arange(20)] * 70
    loader = DataLoader(TensorDataset(*many), 5)

    @hy.hybridize
    def total():
        found = hy.zeros(())
        for batch in loader:
            found = found + sum(x.sum() for x in batch)
        return found

    assert total().item() == 70 * 190


def test_numbers_outside_the_data_raise_at_their_batch():
    class Far(OrderSampler):
        def __len__(self):
            return 20

        def order(self, generator=None):
            return np.r_[0:15, 200, 16:20]

    found = []
    for hybridizes in (False, True):
        hy.random.seed(5)
        state, loader = hy.zeros(()), DataLoader(TensorDataset(*tensors()), 4, sampler=Far())
        call = summed(loader, state)
        found.append(outcome(hy.hybridize(call) if hybridizes else call, state, loader))
    assert found[0] == found[1]
    assert found[0][0][0] is not None and issubclass(found[0][0][0], IndexError)


def test_samplers_of_the_authors_own():
    class Twice(Sampler):
        def __iter__(self):
            return iter([i // 2 for i in range(40)])

        def __len__(self):
            return 40

    assert_same(lambda: DataLoader(TensorDataset(*tensors()), 7, sampler=Twice()), summed)


class Trainee:
    """A network with dropout, its optimizer and data."""

    def __init__(self):
        hy.random.seed(3)
        nn = hy.nn
        x, y = hy.random.Generator(1).normal(size=(200_000, 64)), hy.ones((200_000, 1))
        self.network = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 1))
        self.optimizer = hy.optim.Adam(self.network.parameters())
        self.loader = DataLoader(TensorDataset(x, y), 8, shuffle=True, generator=7)

    def step(self, a, b):
        loss = ((self.network(a) - b) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def state(self):
        draws = hy.random.default_generator().state.tolist()
        return [p.tolist() for p in self.network.parameters()], draws, self.loader.state_dict()


@pytest.mark.parametrize("after", [0.02, 0.08])
def test_an_interrupt_leaves_what_finished_steps_have_written(after, heeded_interrupt):
    one, other = Trainee(), Trainee()
    generator = hy.random.default_generator()
    before = generator.state.detach()

    @hy.hybridize
    def epoch(limit):
        for count, (a, b) in enumerate(one.loader, 1):
            one.step(a, b)
            if count == limit:
                break

    def interrupt():
        while one.loader._passes < 3:  # the third pass has not begun
            time.sleep(0.001)
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)

    epoch(1)
    epoch(3)
    other_thread = threading.Thread(target=interrupt, daemon=True)
    other_thread.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            epoch(10**9)
    other_thread.join()
    found = one.state()
    passes, batches = found[2]["passes"], found[2]["batches"]
    assert passes >= 3

    step = hy.hybridize(other.step)
    generator.state.assign(before)
    for limit in (1, 3, *[10**9] * (passes - 3), batches):
        for count, (a, b) in enumerate(other.loader if limit else (), 1):
            step(a, b)
            if count == limit:
                break
    assert other.state() == found


def test_an_interrupt_of_another_run_is_not_raised():
    native._raised.error = KeyboardInterrupt("of another run")
    assert_same(lambda: DataLoader(TensorDataset(*tensors()), 10), summed)
    native._raised.error = KeyboardInterrupt("of another run")
    assert_same(lambda: DataLoader([(np.float32(1), 2)] * 7, 2), summed)


def test_queues_end_with_their_passes():
    loader = DataLoader(TensorDataset(*tensors(5000)), 10)

    @hy.hybridize
    def first(limit):
        found = hy.zeros(())
        for x, _ in loader:
            found = found + x.sum()
            if found * 0 + limit > 0:
                break
        return found

    first(1.0)
    before = thread_count()
    for _ in range(50):
        first(1.0)
    assert thread_count_within(before) <= before


def batches(call):
    [info] = call.plans
    return len(info.plan.placement.batches)


@pytest.mark.parametrize("width", [3, 5000])
def test_a_process_ends_quietly_with_a_walk_under_way(width, tmp_path):
    """Also where a module holds it whose variables go after those of the library."""
    program = (
        "import numpy, hybrid as hy\n"
        "from hybrid.data import DataLoader, TensorDataset\n"
        f"numpy.walk = DataLoader(TensorDataset(hy.zeros((64, {width}))), 2).repeat()\n"
        "print(next(numpy.walk)[0].shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(native.__file__).parents[2])},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"(2, {width})\n", "")


def test_large_batches_stay_where_the_queue_has_made_them():
    loader = DataLoader(TensorDataset(*tensors(5000)), 10, shuffle=True)

    def totals(loader):
        found = hy.zeros(())
        for x, y in loader:
            x = x * 2  # which must not be written over the batch
            found = found + (x * x).sum() * y.sum()
        return found

    call = hy.hybridize(totals)
    for _ in range(3):
        hy.random.seed(3)
        expected = totals(loader)
        hy.random.seed(3)
        assert call(loader).tolist() == expected.tolist()
    assert batches(call) == 2


def test_batches_that_are_joined_to_others_stay_where_the_queue_has_made_them():
    """What is copied is their part of the whole, as they would have to be out of the queue."""
    loader = DataLoader(TensorDataset(*tensors(5000)), 10, shuffle=True, drop_last=True)

    def totals(loader):
        found = hy.zeros(())
        for x, y in loader:
            both = hy.concat([x, hy.softmax(x, axis=1)])
            found = found + (both * both).sum() * y.sum()
        return found

    call = hy.hybridize(totals)
    hy.random.seed(3)
    expected = totals(loader)
    hy.random.seed(3)
    assert call(loader).tolist() == expected.tolist()
    assert batches(call) == 2


def kept_for_the_next(walk):
    before = hy.zeros((10, 5000))
    total = hy.zeros(())
    for x, _ in walk.take(7):
        total = total + (x * before).sum()
        before = x
    return total, before


def written_over(walk):
    total = hy.zeros(())
    for x, y in walk.take(5):
        x[3] = y.sum()
        total = total + x.sum()
    return total


@pytest.mark.parametrize("function", [kept_for_the_next, written_over])
def test_what_outlives_its_batch_is_a_copy(function):
    def walk():
        data = TensorDataset(*tensors(5000))
        return DataLoader(data, 10, shuffle=True, drop_last=True, generator=5).repeat()

    eager, captured = walk(), walk()
    call = hy.hybridize(function)
    for _ in range(3):
        expected, found = (flatten(f)[0] for f in (function(eager), call(captured)))
        assert [x.tolist() for x in found] == [x.tolist() for x in expected]


def test_memory_does_not_grow_with_epochs(learned_at_once):
    loader = DataLoader(TensorDataset(*tensors(50, rows=2000)), 4, shuffle=True)
    call = hy.hybridize(summed(loader, hy.zeros(())))
    for _ in range(3):
        call()
    before = lib.hyb_memory().live_bytes
    for _ in range(30):
        call()
    assert lib.hyb_memory().live_bytes == before


@pytest.mark.parametrize("indices", [[5, 1, 1, 9, 0, 3, 7], range(3, 13), np.arange(12, 0, -1)])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"drop_last": True}])
def test_some_of_the_rows(indices, options):
    """Also some of some; what is no number from 0 on is read as eager code reads it."""
    x = hy.arange(20) * 10
    for dataset in (
        Subset(TensorDataset(x), indices),
        Subset(Subset(TensorDataset(x), np.arange(19, -1, -1)), indices),
        Subset(TensorDataset(x), [-number - 1 for number in indices]),
    ):
        found = []
        for hybridizes in (False, True):
            hy.random.seed(0)
            loader = DataLoader(dataset, 3, **options)

            def run(loader=loader):
                total, count = hy.zeros((), dtype=hy.int64), 0
                for (batch,) in loader:
                    count = count + 1
                    total = total * 3 + (batch * (hy.arange(len(batch)) + 1)).sum()
                return total, count

            call = hy.hybridize(run) if hybridizes else run
            found.append([[int(t) for t in call()] for _ in range(2)])
        assert found[0] == found[1]


def test_a_number_that_there_is_not_is_refused_as_eagerly():
    dataset = Subset(TensorDataset(hy.arange(5)), [0, 7])

    @hy.hybridize
    def run():
        total = hy.zeros((), dtype=hy.int64)
        for (batch,) in DataLoader(dataset, 2):
            total = total + batch.sum()
        return total

    with pytest.raises(IndexError):
        run()
