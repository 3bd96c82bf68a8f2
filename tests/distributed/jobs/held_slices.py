"""What a rank holds and needs in a step: with zero=3 less than with 2, with 2 less than with 1."""

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.models.gpt import GPT, Config
from hybrid.nn import functional

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
DRAW = np.random.default_rng(0)


def perceptron():
    """Of which activations take most."""
    return nn.Sequential(*[part for _ in range(10) for part in (nn.Linear(96, 96), nn.ReLU())])


def squares(net, x):
    return (net(x) ** 2).mean()


def gpt():
    return GPT(Config(tokens=256, block=16, width=48, heads=4, depth=4))


def large_vocabulary():
    """Of which one parameter has most, which is read first and last."""
    return GPT(Config(tokens=4096, block=16, width=48, heads=4, depth=2))


def next_tokens(net, tokens):
    logits = net(tokens[:, :-1])
    return functional.cross_entropy(
        logits.reshape((-1, logits.shape[-1])), tokens[:, 1:].reshape(-1)
    )


def nbytes(make, loss, x, zero):
    """The bytes of parameters, moments and gradients, and of what a plan computes with."""
    hy.random.seed(0)
    net = make()
    optimizer = hy.optim.AdamW(net.parameters(), lr=0.01)
    dist.data_parallel(net, optimizer, zero=zero)

    def step(x):
        optimizer.zero_grad()
        value = loss(net, x)
        value.backward()
        optimizer.step()
        return value

    run = hy.hybridize(step)
    run(x)
    held = dist.local_nbytes(net) + dist.local_nbytes(optimizer)
    grads = sum([p.grad.nbytes for p in net.parameters()])
    return held + grads + run.plans[0].arena_nbytes


TOKENS = hy.asarray(DRAW.integers(0, 256, (2, 17)))
for make, loss, x in (
    (perceptron, squares, hy.asarray(DRAW.standard_normal((1024, 96)).astype("f4"))),
    (perceptron, squares, hy.asarray(DRAW.standard_normal((4, 96)).astype("f4"))),
    (gpt, next_tokens, TOKENS),
    (large_vocabulary, next_tokens, TOKENS),
):
    first, second, third = [nbytes(make, loss, x, zero) for zero in (1, 2, 3)]
    assert third < second < first, (make.__name__, first, second, third)
print(f"rank {RANK} of {SIZE}: all is well")
