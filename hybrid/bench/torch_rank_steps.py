"""Run as each rank of a job of PyTorch: the same training steps by its DistributedDataParallel.

::

    torch_rank_steps.py mlp 2 0 /a/new/file 40123
    torch_rank_steps.py mlp 2 1 /a/new/file 40123

Ranks find one another through that file, and exchange gradients through gloo, in buckets that are
the gradients' memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import distributed, nn
from torch.nn import functional

from hybrid.bench.compare.adapters.torch_ import SmallGPT, perceptron
from hybrid.bench.rank_steps import RATE, SIZES, SMALL, answer, batch, network


def model_of(kind: str) -> nn.Module:
    """The network with the weights of ours."""
    model = perceptron(SIZES) if kind == "mlp" else SmallGPT(SMALL)
    state = {name: torch.tensor(t.numpy()) for name, t in network(kind).state_dict().items()}
    state.pop("lm_head.weight", None)  # which is that of the tokens
    model.load_state_dict(state)
    return model


def step_of(kind: str, ranks: int, rank: int) -> Callable[[], torch.Tensor]:
    """A training step on this rank's rows."""
    model = nn.parallel.DistributedDataParallel(model_of(kind), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    x, y = (torch.from_numpy(part).tensor_split(ranks)[rank] for part in batch(kind))

    def step() -> torch.Tensor:
        scores = model(x)
        loss = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def mean_of_ranks(value: float) -> float:
    """The loss of the whole batch: ranks have as many rows each."""
    found = torch.tensor(value, dtype=torch.float64)
    distributed.all_reduce(found)
    return found.item() / distributed.get_world_size()


def main(kind: str, ranks: str, rank: str, file: str, port: str) -> None:
    """Do steps until nobody asks for any."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=int(rank), world_size=int(ranks)
    )
    step = step_of(kind, int(ranks), int(rank))
    answer(int(port), int(rank), step, distributed.barrier, mean_of_ranks)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
