"""A loader over arrays in memory: what a shuffled batch of 128 x 784 float32 costs."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import Case, workload

SAMPLES, FEATURES, BATCH = 12_800, 784, 128
PASSES = 7


@workload(
    "loader",
    "batches of 128 x 784 float32 and their labels, shuffled, by a DataLoader",
    first_look=("a batch",),
)
def loader() -> list[Case]:
    x = np.random.RandomState(0).rand(SAMPLES, FEATURES).astype(np.float32)
    y = np.arange(SAMPLES)
    data = hy.data.TensorDataset(x, y)

    def made(**options: Any) -> hy.data.DataLoader:
        return hy.data.DataLoader(data, BATCH, shuffle=True, generator=0, **options)

    def numpys() -> Iterator[Any]:
        order = np.random.permutation(SAMPLES)
        for start in range(0, SAMPLES, BATCH):
            rows = order[start : start + BATCH]
            yield x[rows], y[rows]

    helped = made(workers=1, persistent_workers=True)
    alone = made()

    def check() -> Mapping[str, str]:
        for options in ({}, {"workers": 1}, {"workers": 2}):
            for (a, b), (c, d) in zip(made(), made(**options), strict=True):
                require_same_bits("a batch", [a, b], [c, d])
        return {"one worker thread": _speed(helped)}

    ways: dict[str, Callable[[], None]] = {
        "eager": lambda: _use_up(alone),
        "1 worker thread": lambda: _use_up(helped),
        "numpy": lambda: _use_up(numpys()),
    }
    return [Case(label="a batch", ways=ways, check=check, parts=SAMPLES // BATCH)]


def _use_up(batches: Any) -> None:
    for _ in batches:
        pass


def _speed(batches: Any) -> str:
    """GB/s of some passes: the median and the range."""
    speeds = []
    for _ in range(PASSES):
        start = time.perf_counter()
        _use_up(batches)
        speeds.append(SAMPLES * FEATURES * 4 / (time.perf_counter() - start) / 1e9)
    low, high = min(speeds), max(speeds)
    return f"{statistics.median(speeds):.1f} GB/s ({low:.1f} to {high:.1f})"
