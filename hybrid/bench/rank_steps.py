"""Run as each rank of a job: training steps, as many as the process that measures asks for.

::

    hybrid launch -n 2 rank_steps.py mlp ranks 40123

Each rank is asked through a connection of its own, so nobody waits in a collective meanwhile.  The
answers are the seconds of the steps and the loss of the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Client
from typing import Any

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.bench.workloads.training_steps import perceptron
from hybrid.models.gpt import GPT, Config

ROWS = {"mlp": 256, "gpt": 16}  # of a batch, in all ranks together


def step_of(kind: str, shards: str) -> Callable[[], hy.Tensor]:
    """A training step on this rank's rows; without shards "alone", for a process by itself."""
    draw, rows = np.random.RandomState(0), ROWS[kind]
    hy.random.seed(0)
    x: np.ndarray
    if kind == "mlp":  # two million weights: 8 MB of gradients
        network: Any = perceptron((1024, 1024, 1024, 10), seed=0)
        x, y = draw.randn(rows, 1024).astype(np.float32), draw.randint(0, 10, rows)
    else:
        network = GPT(Config(tokens=65, block=64, width=128, heads=4, depth=4))
        x, y = draw.randint(0, 65, (rows, 64)), draw.randint(0, 65, (rows, 64))
    optimizer = hy.optim.AdamW(network.parameters(), lr=1e-4)
    if shards != "alone":
        cut = shards if shards == "ranks" else int(shards)
        dist.data_parallel(network, optimizer, cut)
        mine = dist.rows(rows, cut)
        x, y = x[mine], y[mine]
    inputs, targets = hy.asarray(x), hy.asarray(y)

    @hy.hybridize
    def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        scores = network(x)
        values = hy.nn.functional.cross_entropy(
            scores.reshape((-1, scores.shape[-1])), y.reshape((-1,)), reduction="none"
        )
        loss = values.mean() if shards == "alone" else dist.mean(values.reshape((x.shape[0], -1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(inputs, targets)


def main(kind: str, shards: str, port: str) -> None:
    """Do steps until nobody asks for any."""
    dist.init(timeout=120)
    step = step_of(kind, shards)
    with Client(("127.0.0.1", int(port))) as asker:
        asker.send(dist.rank())
        while count := asker.recv():
            dist.barrier()
            start, loss = time.perf_counter(), None
            for _ in range(count):
                loss = step()
            assert loss is not None
            value = loss.item()
            asker.send((time.perf_counter() - start, value))


if __name__ == "__main__":
    main(*sys.argv[1:])
