"""Run as each rank: training by a parameter server, against data_parallel and by its clocks."""

import copy
import pickle
import sys
import time

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed import server_windows
from hybrid.nn import functional

dist.init(timeout=20)
RANK, SIZE = dist.rank(), dist.size()
ROWS = 24  # of a batch: those of 2 and 4 ranks are equally many


def made(kind, dtype=hy.float32):
    hy.random.seed(3 + RANK)  # rank 0 has the say
    net = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).to(dtype)
    optimizers = {
        "sgd": lambda ps: hy.optim.SGD(ps, lr=0.1, momentum=0.9),
        "adam": lambda ps: hy.optim.AdamW(ps, lr=0.01, amsgrad=True),
    }
    groups = [{"params": net[0].parameters(), "lr": 0.05}, {"params": net[2].parameters()}]
    return net, optimizers[kind](groups)


def batches(count, rows=ROWS):
    draw = np.random.default_rng(0)
    for _ in range(count):
        x, y = draw.standard_normal((rows, 5)).astype("f4"), draw.integers(0, 3, rows)
        mine = dist.rows(rows)
        yield hy.asarray(x[mine]), hy.asarray(y[mine])


def stepper(net, optimizer, mode, slow=0.0):
    rates = hy.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x, y):
        loss = functional.cross_entropy(net(x.astype(net[0].weight.dtype)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
        return loss

    if mode == "module":
        net.hybridize()
    return hy.hybridize(step) if mode == "hybridized" else step


def tensors_of(net, optimizer):
    state = optimizer.state_dict()["state"]
    found = [*net.parameters(), *[t for cells in state.values() for t in cells.values()]]
    return [t.detach().astype(hy.float64).numpy().copy() for t in found]


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes(), abs(a - b).max()


def on_all_ranks(arrays):
    for a in arrays:
        rows = dist.all_gather(hy.asarray(a.reshape(1, -1))).numpy()
        assert (rows == rows[:1]).all()


# Without staleness it is data_parallel -----------------------------------------------------------

for kind, dtype, rows in (
    ("sgd", hy.float32, ROWS),
    ("adam", hy.float32, ROWS),
    ("adam", hy.bfloat16, ROWS),
    ("sgd", hy.float64, SIZE + 1),
):
    found = {}
    for how in ("data_parallel", "eager", "hybridized", *["module"] * (kind == "sgd")):
        net, optimizer = made(kind, dtype)
        if how == "data_parallel":
            dist.data_parallel(net, optimizer)
        else:
            assert dist.parameter_server(net, optimizer, staleness=0) == (net, optimizer)
        step = stepper(net, optimizer, how)
        for x, y in batches(6, rows):
            step(x, y)
        if how != "data_parallel":
            server = optimizer.server
            assert (server.clock, server.version, server.clocks()) == (6, 6, (6,) * SIZE)
            before = [p.astype(hy.float64).numpy().copy() for p in net.parameters()]
            optimizer.synchronize()
            same(before, [p.astype(hy.float64).numpy() for p in net.parameters()])
        found[how] = tensors_of(net, optimizer)
        on_all_ranks(found[how])
    for how in found:
        if how != "data_parallel":
            same(found["eager"], found[how])
    if rows == ROWS and SIZE in (1, 2, 4):
        same(found["eager"], found["data_parallel"])
    for a, b in zip(found["eager"], found["data_parallel"], strict=True):
        if dtype is hy.bfloat16:  # 8 bits: a thing of rounding
            break
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)

# With staleness ranks are ahead of the slowest one, and never by more -----------------------------

for staleness in (1, 3):
    for mode in ("eager", "hybridized"):
        net, optimizer = made("sgd")
        dist.parameter_server(net, optimizer, staleness)
        step, server = stepper(net, optimizer, mode), optimizer.server
        leads, lags = [], []
        for x, y in batches(2 * staleness + 3):
            if RANK == SIZE - 1:
                time.sleep(0.03)
            step(x, y)
            leads.append(server.clock - min(server.clocks()))
            lags.append(server.clock - server.version)
        assert max(leads) <= staleness and max(lags) <= staleness, (leads, lags)
        if RANK == 0 and SIZE > 1:
            assert max(leads) > 0 and max(lags) == staleness, (leads, lags)
        if RANK == SIZE - 1 and SIZE > 1:
            assert max(lags) < staleness or staleness == 1, lags
        model_says = net.synchronize if mode == "eager" else optimizer.synchronize
        model_says()
        assert server.version == server.clock == 2 * staleness + 3
        on_all_ranks(tensors_of(net, optimizer))

# The weights are those after all steps, also where ranks make unlike numbers of them --------------

for steps in (range(1, SIZE + 1), [4 * (r == 0) for r in range(SIZE)]):
    net = nn.Linear(3, 1, bias=False)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.5)
    dist.parameter_server(net, optimizer, staleness=2)
    begun = net.weight.numpy().copy()
    for _ in range(2):  # servers go on after it
        for number in range(steps[RANK]):
            optimizer.zero_grad()
            net(hy.full((2, 3), RANK + 1.0 + number)).mean().backward()  # a constant gradient
            optimizer.step()
        optimizer.synchronize()
    want = begun.astype(np.float64)
    for number in range(max(steps)):
        came = [r + 1.0 + number for r in range(SIZE) if steps[r] > number]
        want -= 2 * 0.5 * np.mean(came)
    np.testing.assert_allclose(net.weight.numpy(), want, rtol=1e-5)
    on_all_ranks([net.weight.numpy()])

# Rows that no rank has, batches put together, files -----------------------------------------------

net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
optimizer = hy.optim.Adam(net.parameters(), lr=0.01)
dist.parameter_server(net, optimizer, staleness=1)
for rows in (ROWS, ROWS, 2 * SIZE + 1):
    optimizer.zero_grad()
    for x, y in batches(2, rows):
        (functional.cross_entropy(net(x), y) / 2).backward()
    hy.optim.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
if SIZE > 1:
    try:
        optimizer.state_dict()
        raise AssertionError("a state between steps")
    except hy.errors.ArgumentError as error:
        assert "call optimizer.synchronize() first" in str(error), error
optimizer.synchronize()
on_all_ranks(tensors_of(net, optimizer))
on_all_ranks([b.astype(hy.float64).numpy() for b in net.buffers()])
file = f"{sys.argv[1]}/served.safetensors"
dist.save(file, net=net, optimizer=optimizer)
want = tensors_of(net, optimizer)


def go_on(net, optimizer):
    for x, y in batches(2):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    optimizer.synchronize()
    return tensors_of(net, optimizer)


net.eval()  # batch norms of data_parallel go by all rows
after = go_on(net, optimizer)
dist.load(file, net=net, optimizer=optimizer)
same(tensors_of(net, optimizer), want)
optimizer.server.staleness = 0  # with it a run is the same each time
again = go_on(net, optimizer)
dist.load(file, net=net, optimizer=optimizer)
same(go_on(net, optimizer), again)
np.testing.assert_allclose(after[0], again[0], atol=0.05)
other = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
others = hy.optim.Adam(other.parameters(), lr=0.01)
dist.parameter_server(other, others, staleness=0)
dist.load(file, net=other, optimizer=others)
same(go_on(other, others), again)

# What is refused ----------------------------------------------------------------------------------


def refused(call, kind, *said):
    try:
        call()
    except kind as error:
        assert all(words in str(error) for words in said), error
        return
    raise AssertionError(said)


refused(lambda: dist.parameter_server(net, optimizer, 0), hy.errors.ArgumentError, "has a param")
refused(lambda: dist.data_parallel(net, optimizer), hy.errors.ArgumentError, "parameter server")
refused(lambda: pickle.dumps(optimizer), hy.errors.ArgumentError, "pickle optimizer.state_dict()")
refused(hy.hybridize(lambda: optimizer.synchronize()), hy.errors.CaptureError, "call it outside")
refused(lambda: optimizer.step(), hy.errors.ArgumentError, "without a call of its model")
values = other(hy.ones((2, 5)))
refused(lambda: dist.mean(values), hy.errors.ArgumentError, "values.mean()", "served.py")
assert dist.mean(values.detach()).shape == ()
for copied in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
    refused(copied.synchronize, hy.errors.ArgumentError, "of a copy")
if SIZE > 1:
    like = nn.Linear(3, 2 + (RANK == 1))
    sgd = hy.optim.SGD(like.parameters(), lr=0.1)
    refused(lambda: dist.parameter_server(like, sgd, 0), dist.CollectiveMismatchError, "[3,3]")
    server_windows.SHARED = "/proc" if RANK == 0 else "/dev/shm"  # which has no room
    like = nn.Linear(3, 2)
    sgd = hy.optim.SGD(like.parameters(), lr=0.1)
    said = "and /proc has 0" if RANK == 0 else "rank 0 could not have a window: OutOfMemoryError: "
    refused(lambda: dist.parameter_server(like, sgd, 0), hy.errors.OutOfMemoryError, said)
    server_windows.SHARED = "/dev/shm"
    like = nn.Linear(3, 2)
    sgd = hy.optim.SGD(like.parameters(), lr=0.1)
    refused(
        lambda: dist.parameter_server(like, sgd, RANK), dist.CollectiveMismatchError,
        "staleness=0", "staleness=1", "served.py",
    )  # fmt: skip
    groups = [{"params": [p]} for p in like.parameters()] if RANK else like.parameters()
    sgd = hy.optim.SGD(groups, lr=0.1)
    refused(
        lambda: dist.parameter_server(like, sgd, 0), dist.CollectiveMismatchError,
        "bias of group 0", "bias of group 1",
    )  # fmt: skip

# Along one axis of a mesh, with parameters of no elements -----------------------------------------


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.none, self.one = nn.Parameter(hy.zeros((0, 3))), nn.Parameter(hy.ones(1))
        self.unused = nn.Parameter(hy.ones((2, 2)))

    def forward(self, x):
        return x.sum(axis=1) * self.one + self.none.sum()


if SIZE % 2 == 0:
    mesh = dist.mesh((2, SIZE // 2), ("dp", "other"))
    hy.random.seed(RANK)
    net = Odd()
    optimizer = hy.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
    dist.parameter_server(net, optimizer, 0, mesh=mesh, axis="dp")
    for _ in range(3):
        optimizer.zero_grad()
        net(hy.ones((2, 3)) * (1.0 + mesh.coordinate("other"))).mean().backward()
        optimizer.step()
    optimizer.synchronize()
    np.testing.assert_allclose(net.unused.numpy(), 0.95**3, rtol=1e-6)
    rows = dist.all_gather(net.one.detach(), "dp").numpy()
    assert rows[0] == rows[1] and net.none.shape == (0, 3)
print(f"rank {RANK} of {SIZE}: all is well")
