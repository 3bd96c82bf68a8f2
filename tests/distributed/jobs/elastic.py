"""Run as each rank: a part of a training, from a file to a file; or what save and load refuse."""

import sys

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed import job_files

dist.init(timeout=60)
folder, begin, end, zero = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
SHARDS = 8
hy.random.seed(7 if begin == 0 else 1000)  # what a file says counts
net = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.3), nn.GELU(), nn.Linear(40, 3))
optimizer = hy.optim.AdamW(net.parameters(), lr=0.01, amsgrad=True)
rates = hy.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
net, optimizer = dist.data_parallel(net, optimizer, shards=SHARDS, zero=zero, bucket_bytes=500)
draw = np.random.default_rng(0)
x, y = draw.standard_normal((70, 6)).astype("f4"), draw.integers(0, 3, 70)
data = hy.data.TensorDataset(hy.asarray(x), hy.asarray(y))
sampler = dist.DistributedSampler(data, seed=2, shards=SHARDS)
loader = hy.data.DataLoader(data, batch_size=16, sampler=sampler)
total = hy.zeros(())
things = {"net": net, "optimizer": optimizer, "rates": rates, "loader": loader, "total": total}
if begin:
    done = dist.load(f"{folder}/{begin}.safetensors", **things)
    assert done == {"step": begin, "note": "hello"}, done


@hy.hybridize
def step(x, y):
    loss = dist.mean(nn.functional.cross_entropy(net(x), y, reduction="none"))
    optimizer.zero_grad()
    loss.backward()
    hy.optim.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    rates.step()
    total.assign(total + loss.detach())


count = begin
while count < end:
    for batch in loader:
        step(*batch)
        count += 1
        if count == end:
            break
dist.save(f"{folder}/{end}.safetensors", **things, step=end, note="hello")
if dist.size() > 1 and begin:
    before = net[0].weight.detach().numpy().copy()
    wrong = dict(things, net=nn.Linear(2, 2))
    other = {"net": net, "total": hy.zeros((2,))}
    for given, said in ((wrong, "does not fit"), (other, "total is"), ({"no": net}, "has no no")):
        try:
            dist.load(f"{folder}/{end}.safetensors", **given)
            raise AssertionError(said)
        except hy.errors.HybridError as error:
            assert said in str(error), error
    assert (net[0].weight.detach().numpy() == before).all()
    for path in (f"{folder}/none.safetensors", f"{folder}/no/file.safetensors"):
        try:
            (dist.load if "none" in path else dist.save)(path, net=net)
            raise AssertionError(path)
        except (OSError, hy.errors.CheckpointError) as error:
            assert "none.safetensors" in str(error) or f"{folder}/no" in str(error), error

    def full() -> None:
        raise OSError(28, "No space left on device")

    keep, job_files.write = job_files.write, lambda *_: full()
    try:
        dist.save(f"{folder}/{end}.safetensors", net=net)
        raise AssertionError("a full disk")
    except (OSError, hy.errors.CheckpointError) as error:
        assert "No space left" in str(error), error
    job_files.write = keep
if dist.rank() == 0:
    print(f"{dist.size()} ranks: {begin} to {end}, {dist.local_nbytes(net)}")
