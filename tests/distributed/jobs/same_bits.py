"""Run as each rank: training by shards; what it prints is the same on any number of ranks."""

import hashlib
import sys

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.nn import functional

dist.init(timeout=60)
SHARDS = int(sys.argv[1])
WHICH = sys.argv[2:]


class Images(nn.Module):
    """Batch norms, and draws on both sides of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.out = nn.Dropout(0.3), nn.Linear(64, 3)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x)))
        return self.out(self.drop(functional.dropout(x.reshape(-1, 64), 0.2, self.training)))


class Loss(nn.Module):
    """A model that gives its loss, of a tied weight; the attention drops, too."""

    def __init__(self, common: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 8)
        self.mix = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.common = common

    def forward(self, x):
        seen = self.words(x[:, :-1])
        mixed = self.mix(seen, seen, seen, need_weights=False)[0] @ self.words.weight.T
        scores, wanted = mixed.reshape(-1, 7), x[:, 1:].reshape(-1)
        if not self.common:
            return functional.cross_entropy(scores, wanted)
        values = functional.cross_entropy(scores, wanted, reduction="none")
        return dist.mean(values.reshape(-1, 4))


def digest(net, optimizer) -> str:
    found = hashlib.sha256()
    for state in (net.state_dict(), *optimizer.state_dict()["state"].values()):
        for t in state.values():
            found.update(t.numpy().tobytes())
    return found.hexdigest()[:12]


def say(*words) -> None:
    """The same on all ranks, so only one prints it."""
    text = repr(words).encode()
    heard = dist.all_gather(hy.asarray(np.frombuffer(text.ljust(2048), np.uint8)[None])).numpy()
    assert (heard == heard[:1]).all(), [row.tobytes().decode().strip() for row in heard]
    if dist.rank() == 0:
        print(*words)


def made(kind, zero=0):
    hy.random.seed(3)
    net = {
        "plain": lambda: nn.Sequential(nn.Linear(32, 300), nn.GELU(), nn.Linear(300, 3)),
        "norm": lambda: nn.Sequential(
            nn.Linear(32, 16), nn.BatchNorm1d(16), nn.Dropout(0.4), nn.Linear(16, 3)
        ),
        "images": Images,
        "loss": lambda: Loss(False),
        "common": lambda: Loss(True),
    }[kind]()
    optimizer = hy.optim.AdamW(net.parameters(), lr=0.01)
    before = dist.local_nbytes(net), dist.local_nbytes(optimizer)
    dist.data_parallel(net, optimizer, shards=SHARDS, zero=zero, bucket_bytes=16000)
    after = dist.local_nbytes(net), dist.local_nbytes(optimizer)
    shares = [now / whole * dist.size() for now, whole in zip(after, before, strict=True)]
    for share, sliced in zip(shares, (zero == 3, zero > 0), strict=True):
        assert share < 1.2 if sliced and kind == "plain" else share <= dist.size() + 0.2
    return net, optimizer


def stepped(kind, hybridized, zero=0):
    net, optimizer = made(kind, zero)
    draw = np.random.default_rng(0)

    def step(x, y):
        found = net(x)
        if kind not in ("loss", "common"):
            found = dist.mean(functional.cross_entropy(found, y, reduction="none"))
        optimizer.zero_grad()
        found.backward()
        hy.optim.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return found

    run = hy.hybridize(step) if hybridized else step
    losses = []
    for n in (16, 16, 11, 3, 16):
        x, y = draw.standard_normal((n, 2, 4, 4)).astype("f4"), draw.integers(0, 3, n)
        x = x if kind == "images" else x.reshape(n, 32)
        x = draw.integers(0, 7, (n, 5)) if kind in ("loss", "common") else x
        mine = dist.rows(n, SHARDS)
        losses.append(run(hy.asarray(x[mine]), hy.asarray(y[mine])).item())
    return digest(net, optimizer), losses


def fitted(kind, sinks, loss, zero=0):
    net, optimizer = made(kind, zero)
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((44, 32)).astype("f4"), draw.integers(0, 3, 44)
    data = hy.data.TensorDataset(hy.asarray(x), hy.asarray(y))
    sampler = dist.DistributedSampler(data, seed=2, shards=SHARDS)
    loader = hy.data.DataLoader(data, batch_size=14, sampler=sampler)
    model = hy.train.Model(net, loss, optimizer, metrics=["accuracy"])
    history = model.train(2, loader, dataset_sink_mode=sinks, valid_dataset=loader)
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    return digest(net, optimizer), [history[name] for name in names]


def common(output, target):
    return dist.mean(functional.cross_entropy(output, target, reduction="none"))


if "steps" in WHICH:
    for kind in ("plain", "norm", "images", "loss", "common"):
        eager = stepped(kind, False)
        assert stepped(kind, True) == eager, kind
        say(kind, *eager)
if "model" in WHICH:
    for loss in (nn.CrossEntropyLoss(), common):
        found = fitted("norm", False, loss)
        assert fitted("norm", True, loss) == found
        say("model", *found)
if "zero" in WHICH:
    for kind in ("plain", "images"):
        want = stepped(kind, False)
        for zero in (1, 2, 3):
            for hybridized in (False, True):
                assert stepped(kind, hybridized, zero) == want, (kind, zero, hybridized)
        say(kind, *want)
    assert fitted("norm", True, common, 3) == fitted("norm", True, common)
