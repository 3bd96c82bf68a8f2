"""Run as each rank of a job: training steps, as many as the process that measures asks for.

::

    hybrid launch -n 2 rank_steps.py mlp ranks 40123
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import hybrid as hy
import hybrid.distributed as dist
from hybrid.bench.rank_problems import RATE, answer, batch, network


def step_of(kind: str, shards: str) -> Callable[[], hy.Tensor]:
    """A training step on this rank's rows; without shards "alone", for a process by itself."""
    model, (x, y) = network(kind), batch(kind)
    optimizer = hy.optim.AdamW(model.parameters(), lr=RATE)
    if shards != "alone":
        cut = shards if shards == "ranks" else int(shards)
        dist.data_parallel(model, optimizer, cut)
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


def main(kind: str, shards: str, port: str) -> None:
    """Do steps until nobody asks for any."""
    dist.init(timeout=120)
    answer(int(port), dist.rank(), step_of(kind, shards), dist.barrier)


if __name__ == "__main__":
    main(*sys.argv[1:])
