"""Run as a rank, real or simulated: a few steps of training, of the kind that is asked for."""

import sys

import hybrid as hy
import hybrid.distributed as dist


def layers(width: int) -> hy.nn.Module:
    hy.random.seed(0)
    linear = hy.nn.Linear
    return hy.nn.Sequential(linear(width, width), hy.nn.GELU(), linear(width, width))


def main(kind: str = "data", width: int = 64, steps: int = 8) -> None:
    """Train; plans are gone before the process ends."""
    dist.init(timeout=60)
    model = layers(width)
    optimizer = hy.optim.AdamW(model.parameters())
    x, size = hy.ones((16, width)), dist.size()
    if kind in ("data", "eager"):
        model, optimizer = dist.data_parallel(model, optimizer)
    elif kind == "zero":
        model, optimizer = dist.data_parallel(model, optimizer, zero=2)
    elif kind == "tensor":
        mesh = dist.mesh((1, size), ("dp", "tp"))
        dist.shard(model[0].weight, mesh, ("tp", None))
        dist.shard(model[2].weight, mesh, (None, "tp"))
        optimizer = hy.optim.AdamW(model.parameters())
    elif kind == "server":
        dist.parameter_server(model, optimizer, staleness=1)
    elif kind == "pipeline":
        model = dist.pipeline(model, stages=size, microbatches=4)

    def step(x):
        values = (model(x) ** 2).mean(axis=1)
        loss = values.mean() if kind in ("tensor", "pipeline", "alone") else dist.mean(values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = step if kind == "eager" else hy.hybridize(step)
    for _ in range(steps):
        run(x)
    if kind == "fails":
        raise ValueError("bad luck")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
