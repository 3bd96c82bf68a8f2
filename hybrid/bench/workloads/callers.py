"""Python threads that run one plan at a time each and share the pool: callers."""

import threading
import time
from collections.abc import Callable
from typing import Any

import hybrid as hy
from hybrid import nn
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.problems import vectors
from hybrid.bench.registry import Case, Way, workload

POOL = 2  # threads


class Callers:
    """``threads`` Python threads that share the calls of ``run`` among them."""

    def __init__(self, threads: int, run: Callable[[], Any]) -> None:
        self.threads, self.run = threads, run

    def sample(self, count: int) -> float:
        """Seconds until ``count`` calls are done; each thread makes its equal part of them."""
        start = threading.Barrier(self.threads + 1)

        def work(calls: int) -> None:
            start.wait()
            for _ in range(calls):
                self.run()

        parts = [(count + i) // self.threads for i in range(self.threads)]
        workers = [threading.Thread(target=work, args=(calls,)) for calls in parts]
        for worker in workers:
            worker.start()
        start.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.join()
        return time.perf_counter() - began


def network(width: int) -> nn.Module:
    """Three dense layers of ``width``."""
    layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers).eval()


def chain(x: hy.Tensor) -> hy.Tensor:
    """One map over a million elements."""
    return hy.tanh(x * 2.0 + 1.0) * hy.sigmoid(x)


@workload("callers", "calls in one, two and four Python threads at once, sharing a pool of two")
def callers() -> list[Case]:
    (row,), (million,) = vectors(64 * 512).inputs, vectors(1_000_000).inputs
    rows = hy.asarray(row).reshape(64, 512)
    return [
        case("dense 64x512", network(512), rows),
        case("map 1e6", chain, hy.asarray(million)),
    ]


def case(label: str, function: Callable[[hy.Tensor], hy.Tensor], x: hy.Tensor) -> Case:
    captured = hy.hybridize(lambda x: function(x))  # which leaves a module as it is

    def check() -> dict[str, str]:
        require_same_bits(label, function(x), captured(x))
        return {}

    ways: dict[str, Way] = {"eager": lambda: function(x)}
    for threads in (1, 2, 4):
        ways[f"hybridized, {threads}"] = Callers(threads, lambda: captured(x))
    return Case(label=label, ways=ways, check=check, threads=POOL)
