"""Workers that are threads: what they compute with."""

import subprocess
import sys
import textwrap
import threading

import pytest

import hybrid as hy
from hybrid.data import DataLoader, TensorDataset
from hybrid.data.workers import worker
from hybrid.errors import HybridError


def test_the_kernels_of_a_worker_use_one_thread(tmp_path):
    """Those of the thread that goes over the batches use all that there are, as ever."""
    program = """
        import os, time
        import hybrid as hy
        from hybrid.data import DataLoader, Dataset

        def thread_count():
            return len(os.listdir("/proc/self/task"))

        class Products(Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, number):
                return (hy.ones((512, 512)) @ hy.ones((512, 512))).sum()

        hy.set_num_threads(3)
        before = thread_count()
        batches = list(DataLoader(Products(), 1, workers=1))
        assert [batch.item() for batch in batches] == [512.0**3] * 3
        until = time.monotonic() + 5  # the system lists one for a moment after it has ended
        while thread_count() > before and time.monotonic() < until:
            time.sleep(0.001)
        assert thread_count() == before
        Products()[0].item()
        assert thread_count() == before + 2
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_who_waits_makes_a_batch(monkeypatch):
    """Where batches are rows of tensors: the same ones, in order, whoever makes them."""
    made, read, held = [], worker.Reader.read, threading.Event()

    def slowed(self, job):
        made.append((threading.current_thread().name, job.number))
        if threading.current_thread() is not threading.main_thread() and job.number:
            held.wait(5)
        return read(self, job)

    monkeypatch.setattr(worker.Reader, "read", slowed)
    batches = DataLoader(TensorDataset(hy.arange(12)), 2, workers=1, prefetch=6)
    threading.Timer(1.0, held.set).start()
    assert [x.tolist() for (x,) in batches] == [[i, i + 1] for i in range(0, 12, 2)]
    assert sorted(number for _, number in made) == list(range(6))
    assert [name for name, _ in made].count("hybrid-loader-0") <= 2, made


def test_what_is_raised_meanwhile_comes_in_its_turn():
    loader = DataLoader(TensorDataset(hy.arange(4)), sampler=[0, 1, 9, 2], workers=1, prefetch=4)
    for _ in range(20):  # whoever reads number 9
        batches = iter(loader)
        assert [next(batches)[0].item() for _ in range(2)] == [0, 1]
        with pytest.raises(HybridError, match="9"):
            next(batches)


def test_own_initialisation_is_for_workers_alone():
    names = set()
    data = TensorDataset(hy.arange(64), transforms=[lambda x: names.add(thread_name()) or x])
    for arguments in ({}, {"worker_init_fn": lambda number: None}):
        assert len(list(DataLoader(data, 2, workers=1, **arguments))) == 32
    assert names == {"hybrid-loader-0"}


def thread_name():
    return threading.current_thread().name
