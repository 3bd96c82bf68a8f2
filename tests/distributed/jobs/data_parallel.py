"""Run as each rank: training with a batch shared out, against training with all of it in one."""

import os
import pickle
import sys

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.nn import functional

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
BATCHES = (12, 12, 7, 1, 12)  # rows of all ranks: some of them get fewer, or none


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.out = nn.Dropout(0.3), nn.Linear(64, 3)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x.reshape(-1, 2, 4, 4))))
        return self.out(self.drop(functional.dropout(x.reshape(-1, 64), 0.2, self.training)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        x = x.reshape(-1, 4, 8)
        return self.out(self.mix(x, x, x, need_weights=False)[0].mean(axis=1))


def plain():
    return nn.Sequential(nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 3))


def normed():
    return nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.Dropout(0.4), nn.Linear(16, 3))


def tensors_of(net, optimizer):
    found = [*net.parameters(), *net.buffers()]
    for state in optimizer.state.values():
        found += state.values()
    return [t.detach().numpy().copy() for t in found]


def train(make, loss, mode="eager", shared=True, shards="ranks", accumulate=1, clip=None):
    """What there is after a few steps, and the losses."""
    hy.random.seed(3 if RANK == 0 or not shared else 100 + RANK)  # rank 0 has the say
    net = make()
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    rates = hy.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    if shared:
        net, optimizer = dist.data_parallel(net, optimizer, shards=shards, bucket_bytes=1000)
    draw = np.random.default_rng(0)

    def part(x, y):
        values = functional.cross_entropy(net(x), y, reduction="none")
        return dist.mean(values) if loss == "common" and shared else values.mean()

    def step(x, y):
        optimizer.zero_grad()
        for _ in range(accumulate):
            value = part(x, y) / accumulate
            value.backward()
        if clip is not None:
            hy.optim.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        rates.step()
        return value

    if mode == "hybridized":
        step = hy.hybridize(step)
    elif mode == "module":
        net.hybridize()
    losses = []
    for n in BATCHES:
        x, y = draw.standard_normal((n, 32)), draw.integers(0, 3, n)
        if n == 1 and list(net.buffers()):
            continue
        mine = dist.rows(n, shards) if shared else slice(0, n)
        losses.append(step(hy.asarray(x[mine].astype("f4")), hy.asarray(y[mine])).item())
    return tensors_of(net, optimizer), losses


def near(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=3e-5)


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


def on_all_ranks(arrays):
    for a in arrays:
        rows = dist.all_gather(hy.asarray(a.reshape(1, -1))).numpy()
        assert (rows.view(np.uint8) == rows[:1].view(np.uint8)).all()


# The whole batch in one process, and its parts ---------------------------------------------------

for make in (plain, normed, Images, Attention):
    want, losses = train(make, "own", shared=False)
    for loss in ("common", "own"):
        got, found = train(make, loss)
        near(got, want)
        on_all_ranks(got)
        if loss == "common":
            np.testing.assert_allclose(found, losses, rtol=1e-4)
        for mode in ("hybridized", "module"):
            if make in (plain, Images) and (mode == "hybridized" or make is plain):
                same(train(make, loss, mode)[0], got)
how = {"accumulate": 2, "clip": 0.5}
want = train(plain, "own", shared=False, **how)[0]
near(train(plain, "own", **how)[0], want)
near(train(plain, "common", "hybridized", **how)[0], want)


# Parameters that no loss needs, and uses of parameters beside calls of the model -----------------


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x, which=0):
        return self.used(x) if which == 0 else self.unused(x)


net, optimizer = dist.data_parallel(two := Two(), hy.optim.SGD(two.parameters(), lr=0.1))
assert net is two
x = hy.ones((2, 3)) * (RANK + 1.0)
values = net(x).sum(axis=1)
(dist.mean(values) + 0.5 * (net.used.bias * net.used.bias).sum()).backward()
bias = net.used.bias.detach().numpy()
np.testing.assert_allclose(net.used.bias.grad.numpy(), 1 + bias, rtol=1e-6)
assert net.unused.weight.grad is None
optimizer.zero_grad()
(net(x).sum(axis=1).mean() + 0.5 * (net.used.bias * net.used.bias).sum()).backward()
np.testing.assert_allclose(net.used.bias.grad.numpy(), 1 + bias, rtol=1e-6)
np.testing.assert_allclose(net.used.weight.grad.numpy(), (SIZE + 1) / 2, rtol=1e-6)
if SIZE > 1:
    values = net(x).sum(axis=1)
    try:
        (dist.mean(values) + values.mean()).backward()
        raise AssertionError("mixed losses")
    except hy.errors.ArgumentError as error:
        assert "this rank's own" in str(error), error

# Scaled losses: an infinite gradient is seen by all ranks, whatever slice of it they have ---------


def scaled(zero, hybridized):
    hy.random.seed(1)
    net = nn.Linear(5, 3)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    net, optimizer = dist.data_parallel(net, optimizer, zero=zero)
    scaler = hy.optim.GradScaler(init_scale=4.0)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        for i in range(2):  # two batches of one step
            loss = (net(x) * (i + 1.0)).sum(axis=1).mean()
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    run = hy.hybridize(step) if hybridized else step
    for number in range(3):
        x = np.random.default_rng(number).standard_normal((8, 5)).astype("f4")
        if number == 1:
            x[0, 0] = np.inf
        run(hy.asarray(x[dist.rows(8)]))
    assert scaler.get_scale() == 2.0
    return [*(t.numpy() for t in net.state_dict().values())]


want = scaled(0, False)
on_all_ranks(want)
for zero in range(4):
    for hybridized in (False, True):
        same(scaled(zero, hybridized), want)

# Whole parameters are there only while they are read ---------------------------------------------

LAYERS, WIDTH = 48, 64
MATRIX = 4 * WIDTH * WIDTH  # bytes


def deep(zero, rows, times=1):
    """The weights after two calls of so many steps, the scratch of the last plan, its gathers."""
    hy.random.seed(1)
    net = nn.Sequential(*[p for _ in range(LAYERS) for p in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1)
    dist.data_parallel(net, optimizer, zero=zero, bucket_bytes=2 * MATRIX + 1024)

    @hy.hybridize
    def step(x):
        for _ in range(times):
            optimizer.zero_grad()
            dist.mean(net(x) ** 2).backward()
            optimizer.step()

    draw = np.random.default_rng(5)
    for count in rows:
        x = draw.standard_normal((count, WIDTH)).astype("f4")
        step(hy.asarray(x[dist.rows(count)]))
    plan = step.plans[-1].plan
    gathers = sum(node.op.name == "gather_parameters" for node in plan.graph.walk())
    return [t.numpy() for t in net.state_dict().values()], plan.arena_nbytes, gathers


if SIZE > 1:
    want, most, none = deep(2, (8, 8))
    got, arena, gathers = deep(3, (8, 8))
    same(got, want)
    slices = LAYERS * MATRIX // SIZE  # of gradients, and of what is sent
    assert none == 0 and gathers == 2 * LAYERS // 2 - 1
    assert arena < 2 * slices + 16 * MATRIX < most, (arena, most)
    for rows in ((SIZE, SIZE), (1, 1), (8, 2 * SIZE + 1)):  # one each, none on some, uneven
        same(deep(3, rows)[0], deep(2, rows)[0])
    same(deep(3, (8, 8), times=2)[0], deep(2, (8, 8), times=2)[0])

# What ranks have slices of, as a whole ------------------------------------------------------------

for zero in (2, 3):
    hy.random.seed(1)
    net = nn.Linear(5, 3)
    weight = net.weight.detach().numpy().copy()
    dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1), zero=zero)
    assert dist.whole(net.weight).numpy().tobytes() == weight.tobytes()
    dist.mean(net(hy.ones((SIZE, 5))[dist.rows(SIZE)]).sum(axis=1)).backward()
    assert (dist.whole(net.weight.grad).numpy() == 1).all()
    assert dist.whole(net.bias.grad).tolist() == [1.0] * 3
    assert dist.whole(hy.ones(2)).tolist() == [1.0, 1.0]

# Copies: averages of weights, and what is pickled ------------------------------------------------

for zero, shards in ((0, "ranks"), (3, 4)):
    hy.random.seed(1)
    net = normed()
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1)
    dist.data_parallel(net, optimizer, shards, zero)
    average = hy.optim.ExponentialMovingAverage(net, 0.5)
    x, y = hy.asarray(np.ones((9, 32), "f4").cumsum(0)), hy.asarray(np.arange(9) % 3)
    mine = dist.rows(9, shards)
    before = [p.numpy() for p in net.state_dict().values()]
    for _ in range(2):
        values = functional.cross_entropy(net(x[mine]), y[mine], reduction="none")
        optimizer.zero_grad()
        dist.mean(values).backward()
        optimizer.step()
        average.update_parameters(net)
    average.eval()
    net.eval()
    with hy.no_grad():
        on_all_ranks([average(x).numpy(), pickle.loads(pickle.dumps(net))(x).numpy()])
        same([pickle.loads(pickle.dumps(net))(x).numpy()], [net(x).numpy()])
        assert (average(x).numpy() != net(x).numpy()).any()

# One axis of a mesh: the others have models of their own ------------------------------------------

if SIZE % 2 == 0:
    mesh = dist.mesh((2, SIZE // 2), ("dp", "other"))
    along = {"mesh": mesh, "axis": "dp"}
    hy.random.seed(RANK)
    net = normed()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.01)
    dist.data_parallel(net, optimizer, 4, 3, **along)
    x, y = hy.asarray(np.ones((9, 32), "f4").cumsum(0)), hy.asarray(np.arange(9) % 3)
    mine = dist.rows(9, 4, **along)
    for _ in range(2):
        values = functional.cross_entropy(net(x[mine]), y[mine], reduction="none")
        optimizer.zero_grad()
        dist.mean(values, axis="dp").backward()
        optimizer.step()
    for value in net.state_dict().values():
        rows = dist.all_gather(value.reshape((1, -1)), "dp").numpy()
        assert rows[0].tobytes() == rows[1].tobytes()

# A loss is differentiated once --------------------------------------------------------------------

x = hy.asarray(np.arange(3.0) + RANK)
x.requires_grad = True
total = dist.mean(x * x)
total.backward()
np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() / (3 * SIZE))
np.testing.assert_allclose(
    total.item(), np.mean([(np.arange(3.0) + r) ** 2 for r in range(SIZE)]), rtol=1e-12
)

# Loaders, and what trains by them -----------------------------------------------------------------

draw = np.random.default_rng(1)
xs, ys = draw.standard_normal((50, 32)).astype("f4"), draw.integers(0, 3, 50)
data = hy.data.TensorDataset(hy.asarray(xs), hy.asarray(ys))
listed = [(x, y) for x, y in zip(xs, ys, strict=True)]
for dataset in (data, listed):
    sampler = dist.DistributedSampler(dataset, seed=5)
    loader = hy.data.DataLoader(dataset, batch_size=12, sampler=sampler)
    for number in range(2):
        order = hy.random.Generator(5)
        for _ in range(number + 1):
            wanted = order.permutation(50).numpy()
        batches = list(loader)
        assert len(batches) == len(loader) == 5
        for at, (x, y) in enumerate(batches):
            numbers = wanted[12 * at : 12 * at + 12]
            mine = numbers[dist.rows(len(numbers))]
            assert x.numpy().tobytes() == xs[mine].tobytes() and y.tolist() == ys[mine].tolist()
    sampler.set_epoch(1)
    again = list(loader)
    same([x.numpy() for x, _ in again], [x.numpy() for x, _ in batches])


def fitted(sinks, loss, shared=True, dataset=data, size=12):
    hy.random.seed(3)
    net = plain()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.01)
    sampler = None
    if shared:
        net, optimizer = dist.data_parallel(net, optimizer)
        sampler = dist.DistributedSampler(dataset, shuffle=False)
    loader = hy.data.DataLoader(dataset, batch_size=size, sampler=sampler)
    model = hy.train.Model(net, loss, optimizer, metrics=["accuracy"], clip_norm=1.0)
    stops = hy.train.EarlyStopping(patience=9, per="step")
    history = model.train(3, loader, [stops], dataset_sink_mode=sinks, valid_dataset=loader)
    return tensors_of(net, optimizer), [history[n] for n in ("loss", "accuracy", "val_loss")]


def common(output, target):
    return dist.mean(functional.cross_entropy(output, target, reduction="none"))


for dataset, size in ((data, 12), (listed, 49)):
    want = fitted(True, nn.CrossEntropyLoss(), False, dataset, size)
    for loss in (nn.CrossEntropyLoss(), common):
        got = fitted(True, loss, True, dataset, size)
        near(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
        stepped = fitted(False, loss, True, dataset, size)
        same(stepped[0], got[0])
        assert stepped[1] == got[1]

# Training that goes on from a file, of those that one rank writes ---------------------------------

folder = sys.argv[1]


def resumed(path=None, epochs=2):
    hy.random.seed(3 if path is None else 99)
    net = plain()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.01)
    net, optimizer = dist.data_parallel(net, optimizer)
    sampler = dist.DistributedSampler(data, seed=4)
    loader = hy.data.DataLoader(data, batch_size=12, sampler=sampler)
    model = hy.train.Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])
    keeps = hy.train.Checkpoint(folder, every=3, per="step", keep=2)
    history = model.train(epochs, loader, [keeps], resume=path)
    model.save(f"{folder}/end.safetensors")
    return tensors_of(net, optimizer), [history["loss"], history["accuracy"]]


want = resumed()
dist.barrier()
kept = sorted(name for name in os.listdir(folder) if name.startswith("checkpoint"))
assert kept == ["checkpoint-00000006.safetensors", "checkpoint-00000009.safetensors"], kept
got = resumed(f"{folder}/{kept[0]}")
same(got[0], want[0])
assert got[1] == want[1]

if RANK == 0:
    print(f"{SIZE} ranks: all is well")
