"""Run as each rank: training with compressed gradients, against training with whole ones."""

import os
import sys

os.environ["HYBRID_MPI"] = "python"  # bytes are counted where Python moves them

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed.meshes import world_channel
from hybrid.nn import functional

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
ROWS = 6  # of all ranks: gradients of matrices have no higher rank


def deep():
    layers = (nn.Conv2d(2, 24, 3), nn.Flatten(), nn.GELU(), nn.Linear(96, 40), nn.Linear(40, 3))
    return nn.Sequential(*layers)


def batches(count, rows=ROWS):
    draw = np.random.default_rng(0)
    for _ in range(count):
        x, y = draw.standard_normal((rows, 2, 4, 4)).astype("f4"), draw.integers(0, 3, rows)
        mine = dist.rows(rows)
        yield hy.asarray(x[mine]), hy.asarray(y[mine])


def trained(compress, mode="eager", loss="own", count=5, dtype=hy.float32):
    """What there is after some steps, and the optimizer."""
    hy.random.seed(3)
    net = deep().to(dtype)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    dist.data_parallel(net, optimizer, compress=compress)

    def step(x, y):
        values = functional.cross_entropy(net(x.astype(dtype)), y, reduction="none")
        value = dist.mean(values) if loss == "common" else values.mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    run = hy.hybridize(step) if mode == "hybridized" else step
    for x, y in batches(count):
        run(x, y)
    found = [p.astype(hy.float64).numpy().copy() for p in net.parameters()]
    for a in found:
        rows = dist.all_gather(hy.asarray(a.reshape(1, -1))).numpy()
        assert (rows == rows[:1]).all()
    return found, net, optimizer


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


# A rank that is high enough leaves nothing out ----------------------------------------------------

whole = trained(None)[0]
for loss in ("own", "common"):
    full = trained(power := dist.PowerSGD(rank=16), loss=loss)[0]
    assert [*power.names.values()] == (["3.weight"] if SIZE > 1 else []), power.names
    for a, b in zip(full, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * abs(b).max())
    same(trained(dist.PowerSGD(rank=16), "hybridized", loss)[0], full)
low, _, optimizer = trained(power := dist.PowerSGD(rank=1))
if SIZE > 1:
    assert [*power.names.values()] == ["0.weight", "3.weight", "4.weight"], power.names
    assert abs(low[2] - whole[2]).max() > 1e-4
    same(trained(dist.PowerSGD(rank=1, seed=0), "hybridized")[0], low)
    assert trained(dist.PowerSGD(rank=1, seed=1))[0][2].tobytes() != low[2].tobytes()
    trained(dist.PowerSGD(rank=2), dtype=hy.bfloat16)
    trained(dist.PowerSGD(rank=2), "hybridized", dtype=hy.float64)

    # What is sent -------------------------------------------------------------------------------

    channel, given = world_channel(), []
    gather = channel.all_gather
    channel.all_gather = lambda array: (given.append(array.nbytes), gather(array))[1]
    for compress in (None, dist.PowerSGD(rank=2)):
        _, net, optimizer = trained(compress, count=1)
        [(x, y)] = batches(1)
        value = functional.cross_entropy(net(x), y)
        given.clear()
        value.backward()
        sizes = [p.size for p in net.parameters()]
        told = 4 * (sum(sizes) + len(sizes)) if compress is None else compress.nbytes
        assert sum(given) == told, (given, told)
    thin = 2 * (24 + 18) + 24 + 2 * (40 + 96) + 40 + 2 * (3 + 40) + 3
    used = len(sizes)  # whether each is
    assert compress.nbytes == 4 * (thin + used)
    assert compress.whole_nbytes == 4 * (sum(sizes) + used)
    del channel.all_gather

# Errors that are fed back make up for what is left out --------------------------------------------

draw = np.random.default_rng(1)
goal = draw.standard_normal((24, 20)).astype("f4")
xs = draw.standard_normal((16, 20)).astype("f4")


def fitted(**how):
    hy.random.seed(5)
    net = nn.Linear(20, 24, bias=False)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.3)
    dist.data_parallel(net, optimizer, compress=dist.PowerSGD(**how) if how else None)
    mine = dist.rows(16)
    x, y = hy.asarray(xs[mine]), hy.asarray(xs[mine] @ goal.T)
    for _ in range(60):
        loss = dist.mean((net(x) - y) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if SIZE > 1:
    without, with_it = fitted(rank=1, error_feedback=False), fitted(rank=1)
    if RANK == 0:
        print(f"losses: {fitted.__name__} {without:.4g} without, {with_it:.4g} with")
    assert with_it < 0.5 * without, (with_it, without)

# Files --------------------------------------------------------------------------------------------

if SIZE > 1:
    file = f"{sys.argv[1]}/compressed.safetensors"
    _, net, optimizer = trained(power := dist.PowerSGD(rank=1))
    total = {name: e.numpy() for name, e in power.state_dict()["errors"].items()}
    assert all(abs(e).max() > 0 for e in total.values())
    dist.save(file, net=net, optimizer=optimizer)
    _, other, others = trained(again := dist.PowerSGD(rank=1), count=1)
    dist.load(file, net=other, optimizer=others)
    state = again.state_dict()
    for name, e in state["errors"].items():
        np.testing.assert_allclose(e.numpy(), total[name], rtol=1e-6, atol=1e-9)
    for at, name in again.names.items():
        assert again.thin[at].numpy().tobytes() == power.thin[at].numpy().tobytes()
        assert state["thin"][name].shape == power.thin[at].shape
    for x, y in batches(2):
        for n, o in ((net, optimizer), (other, others)):
            o.zero_grad()
            functional.cross_entropy(n(x), y).backward()
            o.step()
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    plain = nn.Linear(4, 4)
    sgd = hy.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    try:
        dist.data_parallel(plain, sgd, compress=power)
        raise AssertionError("one for two models")
    except hy.errors.ArgumentError as error:
        assert "another model already" in str(error), error
    try:
        dist.data_parallel(plain, sgd, compress=dist.PowerSGD(rank=1 + RANK))
        raise AssertionError("ranks with other ranks")
    except dist.CollectiveMismatchError as error:
        assert "PowerSGD(rank=1, seed=0)" in str(error) and "rank=2" in str(error), error
    wide = nn.Linear(100, 40)
    sgd = hy.optim.SGD(wide.parameters(), lr=0.1, momentum=0.9)
    dist.data_parallel(wide, sgd, compress=dist.PowerSGD(rank=1))
    dist.save(file, optimizer=sgd)
    sgd.compress.errors[0] = hy.zeros((2, 2))  # as one of another model
    try:
        dist.load(file, optimizer=sgd)
        raise AssertionError("another model")
    except hy.errors.CheckpointError as error:
        assert "the error of weight is f32[40,100] in the file and f32[2,2] here" in str(error)
print(f"rank {RANK} of {SIZE}: all is well")
