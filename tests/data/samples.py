"""Datasets of the tests: at the top of a module, as worker processes import them."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from hybrid.data import Dataset, IterableDataset, batch_generator, get_worker_info


class Rows(Dataset):
    """Rows that tell their numbers."""

    def __init__(self, count=20, width=3):
        self.x = np.arange(count * width, dtype=np.float32).reshape(count, width)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], index


class Faulty(Rows):
    """Something happens at one sample."""

    def __init__(self, at, what, count=20):
        super().__init__(count)
        self.at, self.what = at, what

    def __getitem__(self, index):
        if index == self.at:
            FAULTS[self.what]()
        return super().__getitem__(index)


class Odd(Exception):
    """What does not survive pickling."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def _raise(error):
    raise error


FAULTS = {
    "value": lambda: _raise(ValueError("sample is broken")),
    "key": lambda: _raise(KeyError("colour")),
    "odd": lambda: _raise(Odd(1, 2)),
    "stop": lambda: _raise(StopIteration),
    "system exit": lambda: _raise(SystemExit(3)),
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(60),
}


class Slow(Rows):
    """The even batches of two take longer, so that workers finish out of order."""

    def __getitem__(self, index):
        time.sleep(0.01 if index // 2 % 2 == 0 else 0)
        return super().__getitem__(index)


class Stream(IterableDataset):
    """The numbers below ``count``, dealt out to the workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(start, self.count, step)


class Uneven(IterableDataset):
    """Worker 0 has twelve numbers, worker 1 three, any other none."""

    def __iter__(self):
        info = get_worker_info()
        number = 0 if info is None else info.id
        yield from range(100 * number, 100 * number + {0: 12, 1: 3}.get(number, 0))


class SaysTooFew(Stream):
    """A stream of four numbers that says it has two."""

    def __init__(self):
        super().__init__(4)

    def __len__(self):
        return 2


class Whoami(Dataset):
    """Samples tell what they know of the worker."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        info = get_worker_info()
        assert info is not None and type(info.dataset) is type(self)
        return info.id, info.num_workers, info.seed, os.getpid()


class Noisy(Rows):
    """Samples with random numbers."""

    def __getitem__(self, index):
        return index, batch_generator().uniform()


class NoisyStream(Stream):
    """The same one by one."""

    def __iter__(self):
        for number in super().__iter__():
            yield number, batch_generator().uniform()


class Shapes(Dataset):
    """Samples of growing size, of all kinds of content."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return {"a": np.full(10 ** (index // 3), index), "s": "x" * index, "e": np.empty(0)}


class Steady(Rows):
    """Each sample takes a while."""

    def __getitem__(self, index):
        time.sleep(0.05)
        return super().__getitem__(index)


def collate_to_function(samples):
    return lambda: samples


def fail_to_start(worker):
    raise ValueError(f"no licence for worker {worker}")


def ours():
    """The workers of loaders that run now."""
    threads = [t.name for t in threading.enumerate() if t.name.startswith("hybrid-loader")]
    return threads + [p.name for p in multiprocessing.active_children()]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def environment():
    """For programs that import these tests, after whatever holds the package."""
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).resolve().parents[2])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def labels(loader):
    return [y.tolist() for _, y in loader]
