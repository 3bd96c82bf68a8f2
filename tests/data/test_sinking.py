"""Sunk steps at length: memory, idle threads, forks, interrupts."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, Normalize, TensorDataset
from hybrid.errors import DatasetError
from tests.test_memory_growth import TOLERANCE, resident
from tests.threads import thread_count, thread_count_within

SMALL, LARGE = 4, 20_000  # floats in a row: batches of the second kind are made ahead of time


def walk_over(width, rows=96, batch=4):
    x = np.random.default_rng(0).integers(0, 256, (rows, width)).astype(np.uint8)
    data = TensorDataset(x, np.arange(rows), transforms=(Normalize(0.5, 0.5, scale=255), None))
    return DataLoader(data, batch, shuffle=True, drop_last=True).repeat()


def training(walk, width):
    """Steps of a linear model, as one call."""
    weight = hy.nn.Parameter(hy.zeros((width, 1)))
    optimizer = hy.optim.SGD([weight], lr=1e-6)
    done = hy.zeros((), dtype="int64")

    @hy.hybridize
    def steps(count):
        for x, y in walk.take(count):
            loss = ((x @ weight - y.astype(hy.float32).reshape(-1, 1)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done.assign(done + 1)

    return steps, done


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="sizes are read from /proc")
@pytest.mark.parametrize(
    ("width", "calls", "count"),
    [
        (SMALL, 10, 30_000),
        (LARGE, 10, 1_000),
        pytest.param(SMALL, 10, 100_000, marks=pytest.mark.nightly),
        pytest.param(LARGE, 10, 100_000, marks=pytest.mark.nightly),
    ],
)
def test_memory_stays_flat_over_sunk_steps(width, calls, count):
    steps, done = training(walk_over(width), width)
    for _ in range(2):
        steps(count)
    before = resident()
    for _ in range(calls - 2):
        steps(count)
    assert resident() - before < TOLERANCE
    assert done.item() == calls * count


def test_queues_that_nobody_asks_take_no_time():
    walks = [walk_over(LARGE) for _ in range(8)]
    for walk in walks:
        next(walk)
    time.sleep(0.2)  # for what is made ahead
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.02
    assert all(walk.given == 1 for walk in walks)


@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_children_of_a_fork_begin_anew(width):
    walk = walk_over(width)
    steps, done = training(walk, width)
    steps(10)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python, of forks beside threads
        child = os.fork()
    if child == 0:
        told = b"?"
        try:
            signal.alarm(60)
            try:
                steps(10)
            except DatasetError as error:
                told = str(error).encode()
            again, count = training(walk_over(width), width)
            again(30)
            told += b" %d" % count.item()
        finally:
            os.write(write, told)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told.startswith("the queue of this pass has stayed behind in a fork")
    assert told.endswith(" 30")
    steps(10)
    assert done.item() == walk.given == 20


@pytest.mark.alone
@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_an_interrupted_walk_goes_on_where_it_was(width, heeded_interrupt):
    walk = walk_over(width)
    steps, done = training(walk, width)
    steps(1)
    for _ in range(10):  # wherever in a pass, or between two
        begun, lost = walk.given, walk.given - done.item()

        def interrupt(begun=begun):
            while walk.given < begun + 50:  # well within the call
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        other = threading.Thread(target=interrupt, daemon=True)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            steps(10**9)
        other.join()
        assert walk.given > begun + 40
        assert lost <= walk.given - done.item() <= lost + 1  # that of the step that was not begun
    passes, batches = divmod(walk.given, 24)
    state = walk.loader.state_dict()
    assert (state["passes"] - 1) * 24 + state["batches"] == passes * 24 + batches


def test_nothing_runs_on_after_the_last_walk():
    gc.collect()
    before = thread_count()
    walk = walk_over(LARGE)
    steps, _ = training(walk, LARGE)
    steps(5)
    del walk, steps
    gc.collect()
    assert thread_count_within(before + 1) <= before + 1  # a worker of the pool, perhaps
