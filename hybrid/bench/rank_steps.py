"""Run as each rank of a job: training steps, as many as the process that measures asks for.

::

    hybrid launch -n 2 rank_steps.py mlp ranks 0 40123

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
from hybrid.bench.compare.problems import GPTSizes
from hybrid.bench.workloads.training_steps import perceptron
from hybrid.distributed.world import MPI
from hybrid.models.gpt import GPT, Config

ROWS = {"mlp": 256, "gpt": 16}  # of a batch, in all ranks together
SIZES = (1024, 1024, 1024, 10)  # two million weights: 8 MB of gradients
SMALL = GPTSizes(tokens=65, length=64, width=128, heads=4, depth=4)
RATE = 1e-4  # of AdamW


def network(kind: str) -> hy.nn.Module:
    """The network that is trained, the same on every rank."""
    hy.random.seed(0)
    if kind == "mlp":
        return perceptron(SIZES, seed=0)
    s = SMALL
    return GPT(Config(tokens=s.tokens, block=s.length, width=s.width, heads=s.heads, depth=s.depth))


def batch(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and targets of all ranks together."""
    draw, rows = np.random.RandomState(0), ROWS[kind]
    if kind == "mlp":
        x = draw.randn(rows, SIZES[0]).astype(np.float32)
        return x, draw.randint(0, SIZES[-1], rows)
    shape = rows, SMALL.length
    return draw.randint(0, SMALL.tokens, shape), draw.randint(0, SMALL.tokens, shape)


def answer(
    port: int,
    rank: int,
    step: Callable[[], Any],
    barrier: Callable[[], Any],
    of_all: Callable[[float], float] = float,
) -> None:
    """Do as many steps as the process at ``port`` asks for, until it asks for none.

    ``of_all`` gives the loss of the whole batch from a rank's own, and is no part of a step.
    """
    with Client(("127.0.0.1", port)) as asker:
        asker.send(rank)
        while count := asker.recv():
            barrier()
            start, loss = time.perf_counter(), None
            for _ in range(count):
                loss = step()
            assert loss is not None
            value = loss.item()
            seconds = time.perf_counter() - start
            asker.send((seconds, of_all(value)))


def step_of(kind: str, shards: str, zero: int) -> Callable[[], hy.Tensor]:
    """A training step on this rank's rows; without shards "alone", for a process by itself."""
    model, (x, y) = network(kind), batch(kind)
    optimizer = hy.optim.AdamW(model.parameters(), lr=RATE)
    if shards != "alone":
        cut = shards if shards == "ranks" else int(shards)
        dist.data_parallel(model, optimizer, cut, zero)
        mine = dist.rows(len(x), cut)
        x, y = x[mine], y[mine]
    inputs, targets = hy.asarray(x), hy.asarray(y)

    @hy.hybridize
    def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        scores = model(x)
        values = hy.nn.functional.cross_entropy(
            scores.reshape((-1, scores.shape[-1])), y.reshape((-1,)), reduction="none"
        )
        loss = values.mean() if shards == "alone" else dist.mean(values.reshape((x.shape[0], -1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(inputs, targets)


def gathers_by_mpi(count: int) -> Callable[[], np.floating]:
    """So many gatherings of eight numbers by mpi4py alone, one after the other."""
    comm = MPI.COMM_WORLD
    given, made = np.ones(8, np.float32), np.empty((comm.size, 8), np.float32)

    def run() -> np.floating:
        for _ in range(count):
            comm.Allgather(given, made)
        return made.sum()

    return run


def gathers_by_plan(count: int) -> Callable[[], hy.Tensor]:
    """The same in one plan, a step each."""

    @hy.hybridize
    def run(x: hy.Tensor) -> hy.Tensor:
        for _ in range(count):
            made = dist.all_gather(x)
        return made.sum()

    given = hy.ones(8)
    return lambda: run(given)


GATHER = {"mpi4py": gathers_by_mpi, "plan": gathers_by_plan}


def main(kind: str, shards: str, zero: str, port: str) -> None:
    """Do steps until nobody asks for any."""
    dist.init(timeout=120)
    step = GATHER[kind](int(shards)) if kind in GATHER else step_of(kind, shards, int(zero))
    answer(int(port), dist.rank(), step, dist.barrier)


if __name__ == "__main__":
    main(*sys.argv[1:])
