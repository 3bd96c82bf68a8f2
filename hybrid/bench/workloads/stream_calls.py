"""Queued work: how soon Python goes on, and how soon all is done, beside running it at once."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import Case, workload

SIZE, CALLS = 1000, 10
THREADS = (1, 2)
MOST = 3  # runs in one sample of how soon Python goes on: each is waited for


class Return:
    """Times queueing alone; the work that was queued is waited for between two runs."""

    def __init__(self, stream: Any, work: Callable[[], Any]) -> None:
        self.stream, self.work = stream, work

    def sample(self, count: int) -> float:
        """The seconds that ``count`` runs take, of which a few are done."""
        took, runs = 0.0, min(count, MOST)
        for _ in range(runs):
            start = time.perf_counter()
            with self.stream:
                self.work()
            took += time.perf_counter() - start
            self.stream.wait()
        return took * count / runs


def case(label: str, work: Callable[[], list[hy.Tensor]], threads: int) -> Case:
    """``work``, which is so many CALLS alike, at once and in a stream; times are of one call."""
    stream = hy.stream()

    def finish() -> None:
        with stream:
            work()
        stream.wait()

    def check() -> dict[str, str]:
        with stream:
            found = work()
        require_same_bits(label, work(), found)
        return {}

    ways = {
        "eager": work, "stream, to the end": finish, "stream, to the return": Return(stream, work)
    }  # fmt: skip
    name = f"{label}, {threads} thread{'s' if threads > 1 else ''}"
    return Case(label=name, ways=ways, check=check, threads=threads, parts=CALLS)


@workload("async", "10 products of 1000x1000, and 10 training steps: queued against run at once")
def asynchronous() -> list[Case]:
    draw = np.random.RandomState(0).standard_normal
    a, b = (hy.asarray(draw((SIZE, SIZE)).astype(np.float32), copy=True) for _ in range(2))

    def products() -> list[hy.Tensor]:
        return [a @ b for _ in range(CALLS)]

    return [
        *[case(f"{CALLS} products of {SIZE}x{SIZE}", products, n) for n in THREADS],
        *[case(f"{CALLS} training steps", training(), n) for n in THREADS],
    ]


def training() -> Callable[[], list[hy.Tensor]]:
    """Steps of a hybridized perceptron, each of which starts where the last has ended."""
    draw = np.random.RandomState(1).standard_normal
    x, y = (hy.asarray(draw((256, n)).astype(np.float32), copy=True) for n in (256, 10))
    model = hy.nn.Sequential(hy.nn.Linear(256, 512), hy.nn.ReLU(), hy.nn.Linear(512, 10))
    optimizer = hy.optim.SGD(model.parameters(), lr=1e-3)
    first = {name: value.detach() for name, value in model.state_dict().items()}

    @hy.hybridize
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = hy.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def steps() -> list[hy.Tensor]:
        model.load_state_dict(first)
        return [step(x, y) for _ in range(CALLS)]

    return steps
