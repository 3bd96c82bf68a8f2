"""Run as each rank: eager backward sends gradients while it goes on, to the same bits."""

import sys
import time

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed import gradients
from hybrid.memory.channels import reach, transfers_begun
from hybrid.nn import functional

dist.init(timeout=30)
RANK, SIZE = dist.rank(), dist.size()
NAME = "world gradients"
CHANCES = gradients.may_be_early
BATCHES = (12, 7, 1)  # rows of all ranks: some of them get fewer, or none


def pausing(run):
    """An identity whose gradient calls ``run`` on its way."""

    @hy.custom_vjp
    def pause(x):
        return x * 1.0

    def backward(_, ct):
        run()
        return (ct,)

    pause.defvjp(lambda x: (x * 1.0, None), backward)
    return pause


def begun():
    return transfers_begun(reach(NAME, SIZE).number)


# Transfers begin before the way back is over ------------------------------------------------------


def waits(calls):
    """What waits, the last of ``calls`` times, until gradients of later layers are on their way."""
    state = {"left": calls, "before": begun(), "seen": 0}

    def run():
        state["left"] -= 1
        end = time.monotonic() + 20
        while not state["left"] and begun() == state["before"]:
            assert time.monotonic() < end, "nothing was sent before the way back was over"
            time.sleep(0.001)
        state["seen"] = begun()

    return run, state


for how, calls in (({}, 1), ({"shards": 2 * SIZE}, 2), ({"zero": 2}, 1)):
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4), nn.Linear(4, 3))
    dist.data_parallel(model, hy.optim.SGD(model.parameters(), lr=0.1), bucket_bytes=1, **how)
    run, state = waits(calls)  # shards go back one after the other
    pause = pausing(run)
    model[0].register_forward_hook(lambda _module, _args, y, pause=pause: pause(y))
    with hy.profile() as p:
        dist.mean(model(hy.ones((4, 8))).sum(axis=1)).backward()
    assert not state["left"] and state["before"] < state["seen"] < begun()
    found = {row.name for row in p.communication if row.channel == NAME}
    assert found == {"all_to_all" if "zero" in how else "parts_total"}, found


# The same bits as at the end ----------------------------------------------------------------------


class Images(nn.Module):
    """Batch norms, whose gradients communicate in between; parameters that are not used."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.unused, self.out = nn.Linear(3, 5), nn.Linear(64, 3)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x.reshape(-1, 2, 4, 4))))
        return self.out(x.reshape(-1, 64))


def plain():
    return nn.Sequential(nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))


def half():
    return plain().to(hy.bfloat16)


def net_dtype(net):
    return next(iter(net.parameters())).dtype


def parts():
    """One part runs as a plan, of which nothing is known before it is over."""
    net = plain()
    net[2].hybridize()
    return net


def trained(make, early, common=True, shards="ranks", zero=0, twice=False, retain=False, own=False):
    """The gradients and the parameters after a few steps."""
    gradients.may_be_early = CHANCES if early else (lambda: False)
    hy.random.seed(3)
    net = make()
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    dist.data_parallel(net, optimizer, shards, zero, bucket_bytes=300)
    draw, found = np.random.default_rng(0), []
    for n in BATCHES:
        if n == 1 and make is Images:
            continue
        x, y = draw.standard_normal((n, 32)).astype("f4"), draw.integers(0, 3, n)
        mine = dist.rows(n, shards)
        optimizer.zero_grad()
        for _ in range(1 + twice):
            given = hy.asarray(x[mine]).astype(net_dtype(net))
            scores = net(given) + net(given * 0.5) if own else net(given)
            values = functional.cross_entropy(
                scores.astype(hy.float32), hy.asarray(y[mine]), reduction="none"
            )
            loss = dist.mean(values) if common else values.mean()
            if own and zero != 3:
                loss = loss + 0.01 * sum((p * p).sum() for p in net.parameters())
            loss.backward(retain_graph=retain)
            if retain:
                loss.backward()
        grads = [p.grad for p in net.parameters() if p.grad is not None]
        found += [grad.astype(hy.float32).numpy().copy() for grad in grads]
        optimizer.step()
    gradients.may_be_early = CHANCES
    return found + [p.detach().astype(hy.float32).numpy().copy() for p in net.parameters()]


CASES = [
    {},
    {"common": False},
    {"shards": 4},
    {"shards": 3, "common": False, "twice": True},
    {"zero": 1},
    {"zero": 2, "shards": 5},
    {"zero": 3, "twice": True},
    {"own": True},
    {"own": True, "common": False, "twice": True},
    {"retain": True, "zero": 3, "shards": 4},
]
for make in (plain, Images, half, parts):
    for case in CASES if make is plain else CASES[:: 1 if make is Images else 3]:
        if make is Images and case.get("own"):
            continue
        before = begun()
        wanted = trained(make, False, **case)
        assert begun() == before
        got = trained(make, True, **case)
        assert begun() > before
        for a, b in zip(got, wanted, strict=True):
            assert a.tobytes() == b.tobytes(), (make, case)

# A parameter whose gradient nobody asks for any more ----------------------------------------------

net = nn.Linear(3, 2)
dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1))
loss = dist.mean(net(hy.ones((2, 3))).sum(axis=1))
net.weight.requires_grad = False
loss.backward()
assert net.weight.grad is None and net.bias.grad.tolist() == [1.0, 1.0]

# What is not sent early: within streams, and gradients of two models at once ----------------------

one, two = nn.Linear(3, 2), nn.Linear(3, 2)
for model in (one, two):
    dist.data_parallel(model, hy.optim.SGD(model.parameters(), lr=0.1))
before = begun()
dist.mean((one(hy.ones((2, 3))) + two(hy.ones((2, 3)))).sum(axis=1)).backward()
with hy.stream() as stream:
    dist.mean(one(hy.ones((2, 3))).sum(axis=1)).backward()
stream.wait()
assert begun() == before
print(f"rank {RANK} of {SIZE}: all is well")
sys.exit(0)
