"""Many processes: one batch shared out among ranks to the same bits, and layers shared out, too."""

# %% `hybrid launch -n 4 train.py` runs a script as four ranks, which compute together by MPI.
# Without it a script is a job of one rank, and all of this works, too. So this tutorial runs as one
# rank first, and then starts itself as two.
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.data import DataLoader, TensorDataset
from hybrid.data.digits import load
from hybrid.train import Model

if find_spec("mpi4py") is None:
    print('not run: it needs mpi4py, which pip install "hybrid[mpi]" brings')
    sys.exit()

import hybrid.distributed as dist

dist.init(timeout=60)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

# %% **Data parallel.** Each rank has the model and calls it with its rows of a batch; gradients are
# summed up over all ranks when `backward()` returns. Two lines are new: `data_parallel`, and the
# sampler, which shares out the batches of 64 that the loader asks for. Whole epochs still run in C.
digits = load()
training = TensorDataset(digits.train_images, digits.train_labels)
hy.random.seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
optimizer = hy.optim.Adam(model.parameters(), lr=3e-3)
model, optimizer = dist.data_parallel(model, optimizer, shards=4)
sampler = dist.DistributedSampler(training, shards=4)
loader = DataLoader(training, batch_size=64, sampler=sampler)
history = Model(model, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"]).train(2, loader)

# %% **The same bits.** With `shards=4` a batch is always cut into four, whoever has them, and what
# is summed up goes by one tree. So a job of two ranks, with dropout and all, ends with the
# parameters of a job of one: not nearly, but bit by bit. Files hold whole tensors, whatever ranks
# have of them.
file = folder / f"{dist.size()}.safetensors"
dist.save(file, model=model)

# %% **Tensor parallel.** Where a layer is too large for one, ranks hold it together: each has some
# of the outputs of the first layer, and the inputs of the second that these are. Programs are
# written for the whole; what has to be moved is found when the function is captured.
mesh = dist.mesh((dist.size(),), ("tp",))
hy.random.seed(1)
wide = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).requires_grad_(False)
x = hy.asarray(digits.test_images[:8])
plain = wide(x)
dist.shard(wide[0].weight, mesh, ("tp", None))
dist.shard(wide[0].bias, mesh, ("tp",))
dist.shard(wide[2].weight, mesh, (None, "tp"))
step = hy.hybridize(wide)
together = dist.whole(step(x))
np.testing.assert_allclose(together.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)

# %% **At a pace of their own.** With a parameter server nobody waits for the slowest rank, as long
# as none is more than `staleness` steps ahead of it. `synchronize()` brings all together again.
hy.random.seed(2)
small = nn.Linear(64, 10)
small, descent = dist.parameter_server(small, hy.optim.SGD(small.parameters(), lr=0.1), staleness=2)


@hy.hybridize
def train(x, y):
    values = nn.functional.cross_entropy(small(x), y)
    descent.zero_grad()
    values.backward()
    descent.step()
    return values


mine = dist.rows(64)
for start in range(0, 640, 64):
    images, labels = training[start : start + 64]
    train(images[mine], labels[mine])
descent.synchronize()
print(f"rank {dist.rank()}: weights of {descent.server.version} steps")
loss = history["loss"][-1]
if dist.rank() == 0:
    print(f"{dist.size()} rank(s): loss {loss:.6f}, {wide[0].weight.nbytes} bytes")
    print(step.plans[0].layout())

# %% Now as two ranks. Errors would come from both, with the line of each: a rank that dies, hangs
# or does something else than the others ends the job, and nobody waits for ever.
if dist.size() == 1 and len(sys.argv) == 1:
    launch = [sys.executable, "-m", "hybrid", "launch", "-n", "2", __file__, str(folder)]
    done = subprocess.run(launch, cwd=folder, capture_output=True, text=True, check=True)
    print(done.stdout)
    one, two = (folder / f"{ranks}.safetensors" for ranks in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    print("one rank and two ranks have trained the same bits")
