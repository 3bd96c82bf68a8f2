"""Run as each rank: a training that is saved on the way, ends badly, and is begun again.

The arguments are a folder and what goes wrong; what is written at the end is the same in any case.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.nn import functional

dist.init(timeout=30)
FOLDER, WHAT = Path(sys.argv[1]), sys.argv[2]
TRY, RANK = int(os.environ.get("HYBRID_RESTARTS", "0")), dist.rank()
STEPS, EACH, SHARDS = 11, 2, 4
last = FOLDER / "last.safetensors"

hy.random.seed(TRY)  # what the file says counts
draw = np.random.default_rng(0)
if TRY == 0:
    hy.random.seed(3)
net = nn.Sequential(nn.Linear(5, 9), nn.Dropout(0.2), nn.GELU(), nn.Linear(9, 3))
optimizer = hy.optim.AdamW(net.parameters(), lr=0.01)
dist.data_parallel(net, optimizer, shards=SHARDS, zero=1)
x, y = draw.standard_normal((33, 5)).astype("f4"), draw.integers(0, 3, 33)
data = hy.data.TensorDataset(hy.asarray(x), hy.asarray(y))
sampler = dist.DistributedSampler(data, seed=2, shards=SHARDS)
loader = hy.data.DataLoader(data, batch_size=8, sampler=sampler)
things = {"net": net, "optimizer": optimizer, "loader": loader}
done = dist.load(last, **things)["done"] if last.exists() else 0
begun = done


@hy.hybridize
def step(x, y):
    loss = dist.mean(functional.cross_entropy(net(x), y, reduction="none"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def goes_wrong():
    """What happens in the try, after so many steps."""
    if (WHAT, TRY, RANK, done) == ("ranks", 0, 1, 3):
        os.kill(os.getpid(), signal.SIGKILL)
    if (WHAT, TRY, RANK, done) == ("ranks", 1, 0, 6):  # while it writes
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if (WHAT, TRY, RANK, done) == ("place", 0, 2, 5):  # as if its host were gone
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


def full_disk():
    """A file that cannot grow: all ranks raise, and the one that was there is as it was."""
    before, rank_0 = last.read_bytes(), RANK == 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank_0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        dist.save(last, **things, done=done)
        raise AssertionError("a full disk")
    except (OSError, hy.errors.CheckpointError) as error:
        said = f"rank 0 could not write {last}: OSError: [Errno 27] File too large"
        assert rank_0 == isinstance(error, OSError) and (rank_0 or said in str(error)), error
        print(f"rank {RANK}: {type(error).__name__}\n", end="", flush=True)
    if rank_0:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    dist.barrier()
    assert last.read_bytes() == before and os.listdir(FOLDER) == [last.name], os.listdir(FOLDER)


while done < STEPS:
    for batch in loader:
        step(*batch)
        done += 1
        goes_wrong()
        if done % EACH == 0:
            dist.save(last, **things, done=done)
        if (WHAT, done) == ("disk", 7):
            full_disk()
        if done == STEPS:
            break
dist.save(FOLDER / "end.safetensors", **things)
if RANK == 0:
    left = sorted(os.listdir(FOLDER))
    print(f"try {TRY}: {dist.size()} ranks, {begun} to {done}, {' '.join(left)}\n", end="")
