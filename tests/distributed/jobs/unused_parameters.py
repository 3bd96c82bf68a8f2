"""Parameters that no rank uses in a step have no gradient and do not move; used by one, all have.

Of the parts of the model ``here`` is used by the first rank alone, ``never`` by nobody, ``once`` in
the first step, and ``used`` in all.  Whether it is the first step is told to the captured step by a
number of Python, or by a tensor: then each run finds out anew, and where ranks may differ, it is
the first step for the first rank alone.
"""

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.here = nn.Linear(6, 5), nn.Linear(6, 5)
        self.once, self.never = nn.Linear(6, 5), nn.Linear(7, 3)
        self.rate = nn.Parameter(hy.ones((2,)))

    def forward(self, x, first, alike):
        y = self.used(x)
        if RANK == 0 or alike:
            y = y + self.here(x)
        return y + self.once(x) if first else y


def trained(how, hybridized, dtype=hy.float32, keeps=False, by_value=False):
    """Which gradients there were after each step, these, and the parameters at the end."""
    hy.random.seed(0)
    net = Parts().to(dtype)
    optimizer = hy.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1)
    first = {name: p.astype(hy.float32).numpy() for name, p in net.named_parameters()}
    how = dict(how)
    if "compress" in how:
        how["compress"] = dist.PowerSGD(rank=how["compress"])
    dist.data_parallel(net, optimizer, bucket_bytes=200, **how)

    def step(x, first):
        if not keeps:
            optimizer.zero_grad()
        loss = (net(x, first, how.get("zero") == 3) ** 2).mean()  # ranks gather the same there
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    call = hy.hybridize(step) if hybridized else step
    draw, found = np.random.default_rng(RANK), []
    for number in range(4):
        first_one = number == 0
        if by_value:
            first_one = hy.asarray(first_one and (RANK == 0 or how.get("zero") == 3))
        call(hy.asarray(draw.standard_normal((4, 6)).astype("f4")).astype(dtype), first_one)
        grads = {name: p.grad for name, p in net.named_parameters()}
        found.append(
            {n: None if g is None else g.astype(hy.float32).numpy() for n, g in grads.items()}
        )
    state = {name: p.astype(hy.float32).numpy() for name, p in net.state_dict().items()}
    return found, state, first


def same(a, b):
    return a is b is None or (a is not None and b is not None and np.array_equal(a, b))


WAYS = [{}, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"shards": 4}, {"shards": 4, "zero": 2}]
WAYS += [{"compress": 2}] if SIZE > 1 else []
for how in WAYS:
    for dtype in (hy.float32, hy.bfloat16) if how == {"zero": 2} else (hy.float32,):
        cases = [(keeps, by) for keeps in (False, True) for by in (False, True)]
        for keeps, by_value in cases if how == {} else cases[:2]:
            grads, state, first = trained(how, False, dtype, keeps, by_value)
            for number, step in enumerate(grads):
                there = {name.split(".")[0] for name, g in step.items() if g is not None}
                once = {"once"} if number == 0 or keeps else set()
                assert there == {"used", "here"} | once, (how, keeps, number, there)
            for name in ("never.weight", "never.bias", "rate"):
                moved = state[name] - first[name]
                assert not moved.any(), (how, name)
            assert (state["here.weight"] != first["here.weight"]).any()
            again, state_again, _ = trained(how, True, dtype, keeps, by_value)
            for step, other in zip(grads, again, strict=True):
                for name in step:
                    assert same(step[name], other[name]), (how, dtype, keeps, name)
            for name in state:
                assert np.array_equal(state[name], state_again[name]), (how, dtype, keeps, name)
print(f"rank {RANK} of {SIZE}: all is well")
